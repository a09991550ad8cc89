"""Values of an approval: what the owner is asked, and what they answer."""

from typing import Literal, TypeAlias

from gloveport.model import Value
from gloveport.model.constraints import AwareDatetime

Scope: TypeAlias = Literal["once", "run", "session", "pattern"]
"""For how long an approval holds: once; for the same subject in this run or session; or, for all subjects that a
pattern matches, until it is forgotten."""


class Question(Value):
    """A question that a run waits for."""

    id: str
    """``apr-`` and hex digits."""
    run: str
    caller: str
    session: str
    """Whose session it is; opaque."""
    subject: str
    """What would be done, in one line that patterns are matched against: ``call github/create_issue``,
    ``fetch POST https://api.example/items``."""
    text: str
    """The question, in words for a person. Printable: what a program has put in is escaped."""
    detail: str = ""
    """The arguments or other text that tells what exactly would be done; printable, bounded."""
    asked: AwareDatetime
    expires: AwareDatetime

    @property
    def is_permission(self) -> bool:
        """Whether it asks for a permission: for one exact call of a tool of the workspace."""
        return self.subject.startswith("permit ")


class Verdict(Value):
    """An answer."""

    allowed: bool
    by: str
    """Who says so: ``queue``, ``client``, ``remembered``, ``timeout``; with a name where there is one."""
    scope: Scope = "once"
    pattern: str = ""
    """With scope ``pattern``: what subjects it holds for, as ``approvals.patterns`` reads it."""
