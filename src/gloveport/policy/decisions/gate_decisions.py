"""Decides commands and writes of the workspace by the gates that they come to.

Gates explain, teach and ask; the sandbox is the boundary.
"""

from collections.abc import Iterable
from typing import Final

from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.json_value import JsonValue
from gloveport.model.workspace import GateHit, RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.decisions.modes import stance
from gloveport.policy.wording import FINAL, join_listed, quote_sent
from gloveport.untrusted_text import printable

_MOST_SHOWN: Final = 2000


def decide_command(policy: WorkspacePolicy, action: RunCommand) -> Decision:
    """Decide a command."""
    return _decide(policy, action.needs, f"Run {quote_sent(action.command)}?")


def decide_write(policy: WorkspacePolicy, action: WriteFiles) -> Decision:
    """Decide a write."""
    paths = join_listed(quote_sent(change.path) for change in action.changes)
    return _decide(policy, action.needs, f"Write {paths}?")


def open_needs(policy: WorkspacePolicy, needs: Iterable[GateHit]) -> tuple[GateHit, ...]:
    """The needs whose gates do not simply allow the action."""
    return tuple(need for need in needs if stance(policy, need.gate) != "allow")


def permission_details(policy: WorkspacePolicy, action: RunCommand | WriteFiles) -> dict[str, JsonValue]:
    """The details of ``PERMISSION_REQUIRED``: the first gate, all of them, and why."""
    needs = open_needs(policy, action.needs)
    gates = list(dict.fromkeys(need.gate for need in needs))
    variables = [need.piece for need in needs if need.gate == "sensitive_env"]
    return {
        "permission": gates[0] if gates else None,
        "permissions": [*gates],
        "reasons": [
            {"permission": need.gate, "piece": need.piece, "why": need.why, "instead": need.instead} for need in needs
        ],
        **({"command": printable(action.command[:_MOST_SHOWN])} if isinstance(action, RunCommand) else {}),
        **({"env_keys": [*variables]} if variables else {}),
    }


def _decide(policy: WorkspacePolicy, needs: tuple[GateHit, ...], question: str) -> Decision:
    waiting = open_needs(policy, needs)
    denied = [need for need in waiting if stance(policy, need.gate) == "deny"]
    if denied:
        return Deny(
            code="permission_required",
            reason=" ".join(dict.fromkeys(need.why for need in denied)),
            hint=f"{' '.join(dict.fromkeys(need.instead for need in denied))} {FINAL}",
        )
    if waiting:
        gates = join_listed(dict.fromkeys(need.gate for need in waiting))
        return Ask(rule=f"workspace gates: {gates}", question=f"{question} {' '.join(need.why for need in waiting)}")
    return Allow(rule=f"workspace mode: {policy.mode}")
