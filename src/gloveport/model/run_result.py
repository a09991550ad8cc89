"""Values of a program's result."""

from typing import Annotated, Final, Literal, TypeAlias

from gloveport.model.artifact import Artifacts
from gloveport.model.constraints import Constraints
from gloveport.model.egress import Exchange
from gloveport.model.hub import ToolCall
from gloveport.model.json_value import JsonValue
from gloveport.model.languages import Language
from gloveport.model.run_policy import Grant
from gloveport.model.value import Value

Status: TypeAlias = Literal["ok", "error", "timeout", "cancelled", "killed", "denied", "running", "waiting"]
Stream: TypeAlias = Literal["stdout", "stderr"]
LimitName: TypeAlias = Literal[
    "wall_seconds",
    "cpu_seconds",
    "memory_bytes",
    "processes",
    "open_files",
    "file_bytes",
    "scratch_bytes",
    "out_bytes",
    "output_bytes",
    "stored_output_bytes",
    "code_bytes",
    "input_bytes",
    "requests",
    "tool_calls",
    "tool_bytes",
    "concurrent_runs",
    "queue_length",
    "queue_seconds",
]


class Output(Value):
    """One stream of a program as the answer shows it."""

    text: str = ""
    """Head and tail, with a line between them that says how much is missing."""

    total_bytes: int = 0
    """Bytes the program wrote."""

    truncated: bool = False
    """True when ``text`` is not all of it."""

    handle: str | None = None
    """Resource URI to read the rest from, when there is a rest."""


class Failure(Value):
    """How a program failed, in its own words: what the language's interpreter would have printed."""

    type: str
    """Class of the exception, or ``exit`` for a non-zero exit code, or ``signal``."""

    message: str
    traceback: str = ""
    """Frames of the caller's own lines only."""


class Usage(Value):
    """What a run used."""

    wall_ms: int = 0
    cpu_ms: int | None = None
    """Processor time of the whole sandbox; null where no cgroup counts it."""
    peak_memory_bytes: int | None = None
    """Most memory the whole sandbox held; null where no cgroup counts it."""


VARIABLE_CHARACTERS: Final = 200
"""The limit of each text about a variable."""


class Variable(Value):
    """What a session's interpreter says of one of its variables: text of the program's choice."""

    name: Annotated[str, Constraints(max_length=VARIABLE_CHARACTERS)]
    type: Annotated[str, Constraints(max_length=VARIABLE_CHARACTERS)] = ""
    shape: Annotated[str, Constraints(max_length=VARIABLE_CHARACTERS)] = ""
    bytes: Annotated[int, Constraints(ge=0, lt=1 << 63)] | None = None
    preview: Annotated[str, Constraints(max_length=VARIABLE_CHARACTERS)] = ""


class SessionState(Value):
    """How a session stands after a call. What the call changed is its interpreter's word."""

    id: str
    expires_at: str
    """When it ends for want of calls, or of age: ISO 8601, in UTC. Empty when it is over."""

    state: Literal["kept", "rewound", "lost"] = "kept"
    """Whether its variables are as the call left them, as they were before, or gone. Of a call in a language that can't
    be rewound, ``lost`` are the variables of that language alone."""

    why: str = ""
    """Why it is not kept, or what else there is to say."""

    generation: int = 1
    """Grows whenever its state is another than the one that the last call left."""

    undone: int = 0
    """How many calls were undone."""

    checkpoint: str = ""
    """Why the state after this call could not be kept for a rewind; empty where it is."""

    variables: tuple[Variable, ...] = ()
    """Those that the call has made or changed."""

    removed: tuple[str, ...] = ()

    narrowed: tuple[str, ...] = ()
    """What the configuration has taken back since the session began."""


class Result(Value):
    """What happened. A failing program is a result, not an exception."""

    run_id: str
    language: Language
    status: Status
    value: JsonValue = None
    """Value of the last expression or of ``return``; for shell, standard output where it is one JSON document."""

    value_type: str | None = None
    """Type name of a value that is no JSON, whose ``repr`` stands in ``value``; null for JSON."""

    stdout: Output = Output()
    stderr: Output = Output()
    error: Failure | None = None
    exit_code: int | None = None
    limits_hit: tuple[LimitName, ...] = ()
    """Limits the program ran into; with status ``killed``, ``timeout`` or ``denied`` the first is the cause."""

    hint: str = ""
    """What the caller can do about a status that is not ``ok``."""

    requests: tuple[Exchange, ...] = ()
    """The requests that it made, in the order in which they ended; the first of them where there are many."""

    requests_total: int = 0
    """How many there were."""

    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that it called, in the order in which the calls ended; the first of them where there are many."""

    tool_calls_total: int = 0
    """How many calls there were."""

    approvals: tuple[str, ...] = ()
    """With status ``waiting``: the ids of the approvals that it waits for."""

    artifacts: Artifacts = Artifacts()
    """Files that it has left."""

    session: SessionState | None = None
    usage: Usage = Usage()
    environment: str = ""
    """The environment that it ran in: its name, or `inline`, with the digest of its lock. Empty for none."""
    grant: Grant = Grant()
    """The effective grant: operator policy ∩ request."""
