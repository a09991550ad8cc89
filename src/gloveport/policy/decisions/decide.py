"""Decides actions. An action that no branch allows is denied, and a new kind of action does not type-check until it
has a branch.

The model that wrote the program reads reasons and hints: they say what it may do instead.
"""

from typing import assert_never

from gloveport.model import LANGUAGES, Action, Allow, Ask, Decision, Deny, Execute, Grant
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.packages import Install
from gloveport.model.workspace import RunCommand, WriteFiles
from gloveport.policy.decisions.gate_decisions import decide_command, decide_write
from gloveport.policy.decisions.input_files import find_clash, find_path_fault
from gloveport.policy.decisions.outbound import decide_connect, decide_fetch
from gloveport.policy.decisions.sampling import decide_sample
from gloveport.policy.decisions.skill_grant import decide_for_skill
from gloveport.policy.decisions.tools import decide_call
from gloveport.policy.package_requests import decide_install

_BY_LANGUAGE = Allow(rule="policy.languages")
_NO_WORKSPACE = Deny(code="no_workspace", reason="There is no workspace here.", hint="Do without files of the owner.")


def decide(grant: Grant, action: Action) -> Decision:
    """Decide one action under one grant. Total and pure: the same arguments give the same answer."""
    if grant.skill is None:
        return _by_policy(grant, action)
    skills = (grant.skill, *grant.callers)
    refusal = next(filter(None, (decide_for_skill(rights, action) for rights in skills)), None)
    decision = refusal or _by_policy(grant, action)
    if isinstance(decision, Ask) and all(rights.without_asking for rights in skills):
        return Allow(rule=f"{decision.rule}, approved with the skill {grant.skill.name}")
    return decision


def _by_policy(grant: Grant, action: Action) -> Decision:  # noqa: PLR0911 - one for each kind
    match action:
        case Execute():
            return _execute(grant, action)
        case Fetch():
            return decide_fetch(grant.egress, action)
        case Connect():
            return decide_connect(grant.egress, action)
        case CallTool():
            return decide_call(grant.toolbox, action)
        case Sample():
            return decide_sample(grant.sampling, action)
        case RunCommand():
            return decide_command(grant.workspace, action) if grant.workspace else _NO_WORKSPACE
        case WriteFiles():
            return decide_write(grant.workspace, action) if grant.workspace else _NO_WORKSPACE
        case Install():
            return decide_install(grant.packages, action)
        case _:
            assert_never(action)


def _execute(grant: Grant, action: Execute) -> Decision:
    if action.language not in grant.languages:
        allowed = ", ".join(language for language in LANGUAGES if language in grant.languages)
        return Deny(
            code="language_not_allowed",
            reason=f"The operator's policy does not allow {action.language} programs.",
            hint=f"Write the program in one of these: {allowed}." if allowed else "No language may be run here.",
        )
    if action.code_bytes > grant.limits.code_bytes:
        return Deny(
            code="code_too_large",
            reason=f"The program is {action.code_bytes} bytes of UTF-8; at most {grant.limits.code_bytes} are allowed.",
            hint="Shorten it, or split it into several runs; compute data in the program instead of writing it out.",
        )
    if action.files_bytes > grant.limits.input_bytes:
        return Deny(
            code="files_too_large",
            reason=f"The files are {action.files_bytes} bytes; at most {grant.limits.input_bytes} are allowed.",
            hint="Send less, or let the program fetch or compute what it needs.",
        )
    if fault := next(filter(None, map(find_path_fault, action.files)), ""):
        return Deny(code="file_name_not_allowed", reason=fault, hint="Names are relative paths, such as data/a.csv.")
    if clash := find_clash(action.files):
        return Deny(code="file_name_not_allowed", reason=clash, hint="Give each file a path of its own.")
    return _BY_LANGUAGE
