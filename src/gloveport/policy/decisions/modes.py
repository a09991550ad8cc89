"""What each mode does at each gate, as data. The sandbox is the same in all modes."""

from collections.abc import Mapping
from typing import Final

from gloveport.model.workspace import GATES, Gate, Mode, Stance, WorkspacePolicy

STANCES: Final[Mapping[Mode, Mapping[Gate, Stance]]] = {
    "safe": {
        "network": "ask",
        "destructive_command": "ask",
        "long_timeout": "ask",
        "sensitive_env": "ask",
        "shell_expansion": "allow",  # the sandbox is the boundary, whatever a text expands to or a script does
        "inline_script": "allow",
        "privileged_executable": "deny",  # no approval could help: no program becomes root in a sandbox
        "write_generated_or_ignored": "ask",
    },
    "trusted": {
        "network": "allow",
        "destructive_command": "ask",
        "long_timeout": "allow",
        "sensitive_env": "ask",
        "shell_expansion": "allow",
        "inline_script": "allow",
        "privileged_executable": "deny",
        "write_generated_or_ignored": "allow",
    },
    "dangerous": dict.fromkeys(GATES, "allow"),
}


def stance(policy: WorkspacePolicy, gate: Gate) -> Stance:
    """What happens at a gate: the operator's setting, else the mode's."""
    return policy.gates.get(gate, STANCES[policy.mode][gate])
