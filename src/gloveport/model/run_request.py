"""Values of a caller's request, the action of starting a program, and decisions."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gloveport.model import hub
from gloveport.model.egress import ApiName, Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.languages import Language
from gloveport.model.packages import Install
from gloveport.model.run_policy import Narrowing
from gloveport.model.value import Value
from gloveport.model.workspace import RunCommand, WriteFiles


class Request(Value):
    """What a caller asks for: one program, perhaps under narrower limits."""

    language: Language
    code: str
    limits: Narrowing = Narrowing()
    ansi: Literal["strip", "keep"] = "strip"
    """Whether terminal escape sequences in the output are removed."""
    apis: tuple[ApiName, ...] | None = None
    """The APIs it uses: no other can be reached then, and their types are known. Without it, all of the policy's."""
    files: Mapping[str, bytes] = {}
    """What is in its directory when it begins: contents by relative paths."""
    session: str | None = None
    """``new`` begins a session, the id of one goes on with it; without it, nothing is kept."""
    environment: str | None = None
    """The environment whose packages it can import. Without it, what its own block asks for, or the default."""
    tools: tuple[hub.ToolPattern, ...] | None = None
    """The tools it uses, as ``server/tool`` with ``*`` for any characters. Without it, all of the policy's."""


class Execute(Value):
    """Action: start a program. ``code_sha256`` is the hex digest of its UTF-8 bytes; ``files`` has theirs."""

    kind: Literal["execute"] = "execute"
    language: Language
    code_bytes: int
    code_sha256: str
    files: Mapping[str, str] = {}
    files_bytes: int = 0
    """Of all of them."""
    skill: str = ""
    """Name of the skill that it is; empty where it is none."""
    skill_sha256: str = ""
    """Digest of all of that skill's files."""
    approved: bool = False
    """Whether it runs under the rights of that skill."""
    parent: str = ""
    """The run whose program has called it; empty where nobody's has."""


Action: TypeAlias = Execute | Fetch | Connect | CallTool | Sample | RunCommand | WriteFiles | Install


class Allow(Value):
    """Decision: yes, by this rule."""

    rule: str


class Ask(Value):
    """Decision: a person has to say. ``question`` is written for them."""

    rule: str
    question: str


class Deny(Value):
    """Decision: no. ``reason`` and ``hint`` are written for the model that reads the answer."""

    code: str
    reason: str
    hint: str


Decision: TypeAlias = Allow | Ask | Deny
