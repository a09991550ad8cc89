"""Selects the server's own variables that commands inherit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gloveport.late_module import late_module
from gloveport.model.workspace import WorkspacePolicy
from gloveport.policy.wildcards import matches

if TYPE_CHECKING:
    from gloveport.policy.decisions import command_variables
else:
    command_variables = late_module("gloveport.policy.decisions.command_variables")  # most names need no rule


def inherit_variables(policy: WorkspacePolicy, own: Mapping[str, str]) -> dict[str, str]:
    """The server's own variables that commands inherit: a secret only if the policy has its full name."""
    return {name: value for name, value in sorted(own.items()) if _is_inherited(policy, name, value)}


def _is_inherited(policy: WorkspacePolicy, name: str, value: str) -> bool:
    if name in policy.inherit:
        return True
    return any(matches(pattern, name) for pattern in policy.inherit) and command_variables.is_plain(name, value)
