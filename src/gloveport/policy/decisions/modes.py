"""What each mode does at each gate: data. The sandbox is the same in all of them."""

from collections.abc import Mapping
from typing import Final

from gloveport.model.workspace import GATES, Gate, Mode, Stance, WorkspacePolicy

STANCES: Final[Mapping[Mode, Mapping[Gate, Stance]]] = {
    "safe": {
        "network": "ask",
        "destructive_command": "ask",
        "long_timeout": "ask",
        "sensitive_env": "ask",
        "shell_expansion": "allow",  # the sandbox holds whatever a text expands to, and whatever a script does
        "inline_script": "allow",
        "privileged_executable": "deny",  # nobody can say yes: no program becomes root inside
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
    """What happens at a gate: what the operator says of it, else what the mode says."""
    return policy.gates.get(gate, STANCES[policy.mode][gate])
