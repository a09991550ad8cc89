"""Values of skills: programs under names, and their rights when a person has approved them."""

from typing import Annotated, Final, Literal, TypeAlias

from gloveport.model.constraints import Constraints
from gloveport.model.egress import Method, UrlPath
from gloveport.model.json_value import JsonValue
from gloveport.model.value import Value

DEEPEST: Final = 3
"""How many skills of one run may wait for one another, each in a sandbox."""

SkillName: TypeAlias = Annotated[str, Constraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=64)]
"""A name in the Agent Skills format, in ASCII: also the name of the skill's directory."""

SkillState: TypeAlias = Literal["candidate", "approved", "stale"]
"""``candidate``: nobody has approved its present version. ``stale``: an example of that version has failed."""

Place: TypeAlias = Annotated[str, Constraints(pattern=r"^[!-~]{1,300}$")]
"""Scheme, host and port, as ``policy.hosts.Authority`` writes them."""

ParameterType: TypeAlias = Literal["string", "integer", "number", "boolean", "array", "object"]


class SkillParameter(Value):
    """One parameter of a skill."""

    name: str
    """The parameter's name: that of the constant, in lower case."""
    type: ParameterType
    default: JsonValue = None
    """The constant's value in the program."""
    description: str = ""


class GrantedRequests(Value):
    """Requests to one destination that a skill may send."""

    place: Place
    methods: tuple[Method, ...]
    paths: Annotated[tuple[UrlPath, ...], Constraints(min_length=1)]
    """Patterns as in the rules of an API."""


class SkillGrant(Value):
    """The rights that a skill needs, and gets at most. ``SkillGrant()`` needs none."""

    requests: tuple[GrantedRequests, ...] = ()
    connections: tuple[Place, ...] = ()
    """TCP and database connections: ``scheme://host:port``, for PostgreSQL with ``/database``."""
    tools: tuple[Annotated[str, Constraints(pattern=r"^[A-Za-z0-9._-]{1,64}/[A-Za-z0-9_./-]{1,128}$")], ...] = ()
    """``server/tool``."""
    mounts: tuple[Annotated[str, Constraints(pattern=r"^/[^\x00-\x1f\x7f]*$", max_length=4096)], ...] = ()
    """Directories of the owner, including the workspace, by their paths in the sandbox."""
    sampling: bool = False
    """Whether the skill asks a language model."""
    skills: tuple[SkillName, ...] = ()
    """Other skills that the skill calls, which have to be approved too."""
    environment: Annotated[str, Constraints(pattern=r"^(?:[a-z0-9][a-z0-9_-]{0,63})?$")] = ""
    """The operator's environment whose packages the skill uses; empty for none."""


class SkillRights(Value):
    """The rights of an approved skill: ``grant`` ∩ the operator's policy."""

    name: SkillName
    sha256: str
    """Digest of the approved files; only these run."""
    grant: SkillGrant
    without_asking: bool = False
    """Whether the approver has also approved, for good, all that a rule would ask about each time."""
