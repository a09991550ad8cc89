"""The values that all packages share: policy, grants, actions, programs, results.

All are frozen and reject unknown fields. The configuration file is validated straight into these types, so a field
here is a key there, and its docstring is that key's documentation.
"""

from gloveport.model.languages import GUEST, LANGUAGES, OUT, OUT_LINKS, PRIVATE, SCRATCH, Language
from gloveport.model.prepared_program import Program, SessionSetup, Symlink
from gloveport.model.run_policy import MIB, Grant, Limits, Mount, Narrowing, Policy, Seconds
from gloveport.model.run_request import Action, Allow, Ask, Decision, Deny, Execute, Request
from gloveport.model.run_result import Failure, LimitName, Output, Result, SessionState, Status, Stream, Usage, Variable
from gloveport.model.value import Value

__all__ = [
    "GUEST",
    "LANGUAGES",
    "MIB",
    "OUT",
    "OUT_LINKS",
    "PRIVATE",
    "SCRATCH",
    "Action",
    "Allow",
    "Ask",
    "Decision",
    "Deny",
    "Execute",
    "Failure",
    "Grant",
    "Language",
    "LimitName",
    "Limits",
    "Mount",
    "Narrowing",
    "Output",
    "Policy",
    "Program",
    "Request",
    "Result",
    "Seconds",
    "SessionSetup",
    "SessionState",
    "Status",
    "Stream",
    "Symlink",
    "Usage",
    "Value",
    "Variable",
]
