"""A skill: a program that is kept under a name, and what it may do when a person has approved it."""

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
    """One argument that a skill takes."""

    name: str
    """As callers write it: that of the constant, in lower case."""
    type: ParameterType
    default: JsonValue = None
    """What the program has in that place by itself."""
    description: str = ""


class GrantedRequests(Value):
    """Requests to one place that a skill may send."""

    place: Place
    methods: tuple[Method, ...]
    paths: Annotated[tuple[UrlPath, ...], Constraints(min_length=1)]
    """Patterns as in the rules of an API."""


class SkillGrant(Value):
    """What a skill needs: of the policy this much at most. ``SkillGrant()`` needs nothing."""

    requests: tuple[GrantedRequests, ...] = ()
    connections: tuple[Place, ...] = ()
    """Of TCP and databases: ``scheme://host:port``, in PostgreSQL with ``/database``."""
    tools: tuple[Annotated[str, Constraints(pattern=r"^[A-Za-z0-9._-]{1,64}/[A-Za-z0-9_./-]{1,128}$")], ...] = ()
    """``server/tool``."""
    mounts: tuple[Annotated[str, Constraints(pattern=r"^/[^\x00-\x1f\x7f]*$", max_length=4096)], ...] = ()
    """Directories of the owner, the workspace among them, by their paths inside."""
    sampling: bool = False
    """Whether it asks a language model."""
    skills: tuple[SkillName, ...] = ()
    """Other skills that it calls, which have to be approved as well."""
    environment: Annotated[str, Constraints(pattern=r"^(?:[a-z0-9][a-z0-9_-]{0,63})?$")] = ""
    """The operator's environment that it runs in, for its packages; empty where it names none."""


class SkillRights(Value):
    """Under what an approved skill runs: ``grant`` ∩ the operator's policy."""

    name: SkillName
    sha256: str
    """Digest of what was approved, which is what runs."""
    grant: SkillGrant
    without_asking: bool = False
    """Whether the approver has also said yes, for good, to what a rule would ask about each time."""
