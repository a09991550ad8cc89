"""Values of the tool gateway: other MCP servers of the operator, rules for their tools, and calls of programs."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints
from gloveport.model.described import ABSOLUTE_PATH, Described, PathText
from gloveport.model.egress import Basic, Bearer, ClientCredentials, Header, HeaderName, PlainText, Query, Secret
from gloveport.model.json_value import JsonValue
from gloveport.model.value import Value

DOOR: Final = ("127.0.0.3", 3128)
"""The door to the tools: address and port on a sandbox's own loopback. The port is that of the HTTP proxy, at another
address, since no granted name has that port."""

NESTED: Final = "GLOVEPORT_NESTED"
"""Environment variable that tells a server that Gloveport has started it: Gloveport itself then refuses to run."""

ServerName: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
    Described(
        expected="a name of at most 64 letters, digits, ., _ and -, the first a letter or a digit",
        hint="rename it, as in my-server",
    ),
]
ToolPattern: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Za-z0-9_*./-]{1,128}$"),
    Described(
        expected="the name of a tool, in which * stands for any characters",
        hint='write it as "create_issue", "create_*" or "*"',
    ),
]
"""Name of a tool, in which ``*`` stands for any characters."""

VariableName: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"),
    Described(expected="the name of an environment variable", hint='write it as "API_URL"'),
]
ServerUrl: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^(?:https?://[^\s\x00-\x1f#@]+)?$"),
    Described(
        expected="an http:// or https:// address without a user or a fragment",
        hint='write it as "https://mcp.example.com/mcp"; credentials belong in auth',
        may_hold_secret=True,
    ),
]
"""Empty where there is none. A user and a password don't belong into it."""

EnvironmentText: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[^\x00]*$"),
    Described(expected="text without a null character", hint="write it in quotes", may_hold_secret=True),
]
HeaderText: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[\x20-\x7e]*$"),
    Described(
        expected="a header's value in printable ASCII",
        hint="write it in quotes, without line ends",
        may_hold_secret=True,
    ),
]
Command: TypeAlias = Annotated[tuple[EnvironmentText, ...], Constraints(max_length=256)]
Directory: TypeAlias = Annotated[str, Constraints(pattern=r"^(?:/[^\x00]*)?$"), ABSOLUTE_PATH]
"""Absolute path; empty where there is none."""


class Condition(Value):
    """What an argument of a call must be. Exactly one of these is set."""

    equals: JsonValue = None
    """Exactly this value. Default: any."""
    one_of: Annotated[tuple[JsonValue, ...], Constraints(max_length=256)] = ()
    """One of these values."""
    prefix: str = ""
    """Text with this prefix."""
    pattern: Annotated[str, Constraints(max_length=1024)] = ""
    """Text that a regular expression matches as a whole. Without look-around and back references."""
    beneath: Directory = ""
    """An absolute path of this directory, or in it. The server's symbolic links are unknown here."""
    url: Literal["", "public"] = ""
    """`public`: an http or https URL of a host all of whose addresses are public. They are looked up if a rule would
    allow the call, or when a person has allowed it; a rule that denies treats every name as public."""


class ToolRule(Value):
    """What is done with calls of some tools of a server, perhaps only with certain arguments."""

    action: Literal["allow", "ask", "deny"]
    """`ask` has a person decide each time, or once for longer if they say so."""
    tools: tuple[ToolPattern, ...] = ()
    """Names of tools, with `*` for any characters. Default: every tool."""
    read_only: bool | None = None
    """Only tools whose server says that they change nothing (`true`), or does not say so (`false`). Default: both."""
    destructive: bool | None = None
    """Only tools whose server does not say that they destroy nothing (`true`), or says so (`false`). Default: both."""
    arguments: Mapping[Annotated[str, Constraints(min_length=1, max_length=256)], Condition] = {}
    """Conditions on arguments, by name; `a.b` is a member of an object. All must hold. A list of values meets a
    condition when each of them does; in a rule that denies, when one of them does. Where a server may read a value in
    another way (a number for a text, an end of a line at a text's end, `..` in a path, a URL with a user in it), a rule
    that allows does not hold, one that denies does, and one that asks makes a person decide. An argument that is
    absent, null or an empty list meets no condition, so it is safer to allow what is known than to deny what is not
    wanted."""


class OAuthLogin(Value):
    """OAuth 2.1 authorization code with PKCE: a person logs in once, with `gloveport servers login NAME`."""

    kind: Literal["oauth"]
    scopes: tuple[PlainText, ...] = ()
    """Scopes to ask for. Default: those that the server names."""
    client_id: PlainText = ""
    """The client's name where it is registered already. Default: Gloveport registers itself."""
    client_secret: Secret | None = None
    """Where the client's secret is. Default: a public client, which has none."""
    issuer: ServerUrl = ""
    """The authorization server that the client is registered with, as its metadata name it. Required where there is a
    `client_secret`: the server names whichever it likes, and none but this one gets the secret. Default: any."""
    tokens: Literal["keyring", "file"] = "file"
    """Where the tokens are kept: in the keyring, or in a file of the state directory that only the owner can read."""


ServerAuth: TypeAlias = Bearer | Basic | Header | Query | ClientCredentials | OAuthLogin


class Server(Value):
    """Another MCP server. It is reached by ``command``, or by ``url``."""

    description: PlainText = ""
    """What it is for, in one line for the agent."""
    command: Command = ()
    """Command line of a server that speaks over its standard streams. There is no shell."""
    env: Mapping[VariableName, EnvironmentText] = {}
    """Its environment, besides `HOME`, `LANG`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ` and `USER`."""
    secret_env: Mapping[VariableName, Secret] = {}
    """Variables of its environment that hold a secret: where that is."""
    directory: Directory = ""
    """Its working directory. Default: the home directory."""
    url: ServerUrl = ""
    """URL of a server that speaks over HTTP."""
    transport: Literal["auto", "http", "sse"] = "auto"
    """How it speaks over HTTP: `http` (streamable), or `sse`, which is older. `auto` tries them in this order."""
    headers: Mapping[HeaderName, HeaderText] = {}
    """Headers of every request to it, which are no secrets."""
    auth: tuple[ServerAuth, ...] = ()
    """Credentials for its URL."""
    ca_file: PathText | None = None
    """PEM file of the authorities to trust for its URL, instead of the system's. Default: the system's."""
    rules: tuple[ToolRule, ...] = ()
    """Of the rules the first that speaks of a call decides. A call of which none speaks is allowed where the server
    says that the tool only reads, and no rule allows it, or asks about it, on conditions. It is else asked about."""
    startup_seconds: Annotated[float, Constraints(gt=0, le=600)] = 20
    """How long it may take to start and to list its tools."""
    call_seconds: Annotated[float, Constraints(gt=0, le=3600)] = 60
    """How long one call may take."""
    calls_per_minute: Annotated[int, Constraints(ge=1, le=1_000_000)] = 600
    """Calls of all programs in a minute, which may come all at once; further ones are refused until there is room
    again, or wait for a few seconds if their program has made few."""
    bytes_per_minute: Annotated[ByteSize, Constraints(ge=1024)] = ByteSize(256 << 20)
    """Bytes of arguments and results of all programs in a minute; once they are used up, calls are refused for a
    while."""
    concurrent_calls: Annotated[int, Constraints(ge=1, le=1000)] = 16
    """Calls that run at the same time; others wait."""
    answer_bytes: Annotated[ByteSize, Constraints(ge=1024, le=1 << 30)] = ByteSize(8 << 20)
    """Size of one message that it may send. A larger answer is an error of its call; any other such message ends the
    connection."""
    active: bool = True
    """Whether it is used; an inactive server is never started."""


class ServerPolicy(Value):
    """What a program may do with one server's tools."""

    rules: tuple[ToolRule, ...] = ()
    only: tuple[ToolPattern, ...] | None = None
    """Names of tools that the request asked for; ``None`` is all."""


class Toolbox(Value):
    """The way out to tools. ``Toolbox()`` has none."""

    servers: Mapping[ServerName, ServerPolicy] = {}


def outline(toolbox: Toolbox) -> dict[str, JsonValue]:
    """What a caller is told of it: the servers, and the patterns that it asked for."""
    return {name: "*" if server.only is None else [*server.only] for name, server in sorted(toolbox.servers.items())}


class CallTool(Value):
    """Action: call a tool of another MCP server."""

    kind: Literal["call"] = "call"
    server: str
    tool: str
    read_only: bool = False
    """Whether the server says that it changes nothing."""
    destructive: bool = True
    """Whether the server does not say that it destroys nothing."""
    arguments: Mapping[str, JsonValue]
    bytes: int = 0
    """Size of the arguments as JSON."""
    sha256: str = ""
    """Hex digest of that."""
    addresses: Mapping[str, tuple[str, ...]] = {}
    """The addresses that each host of the URLs in the arguments has just now; none for one that can't be looked up.
    Only of hosts that were looked up: where it made the difference whether a rule allows the call."""


class Sample(Value):
    """Action: ask a language model."""

    kind: Literal["sample"] = "sample"
    model: str
    prompt_bytes: int
    max_tokens: int


class Sampling(Value):
    """What programs may ask of a language model. ``Sampling()`` lets them ask nothing."""

    enabled: bool = False
    """Whether programs may use `llm.ask` and `llm.think`."""
    channel: Literal["client", "provider", "client_or_provider"] = "client_or_provider"
    """Who answers: the client's own model, where the client offers that, or the provider below."""
    rounds: Annotated[int, Constraints(ge=1, le=1000)] = 10
    """Questions of one run."""
    tokens: Annotated[int, Constraints(ge=1, le=10_000_000)] = 10_000
    """Tokens of all answers of one run; each question reserves its `max_tokens` until it is answered."""
    models: tuple[PlainText, ...] = ()
    """Models that programs may name. Default: the provider's `model` alone."""
    timeout_seconds: Annotated[float, Constraints(gt=0, le=3600)] = 60
    """How long an answer may take."""
    provider: Literal["", "openai", "anthropic"] = ""
    """The kind of API at the endpoint."""
    url: ServerUrl = ""
    """The API's base URL, such as `https://api.openai.com/v1`."""
    model: PlainText = ""
    """The model for programs that name none."""
    secret: Secret | None = None
    """Where the API's key is. Default: it needs none."""


def outline_of_sampling(sampling: Sampling) -> dict[str, JsonValue]:
    """What a caller is told of it."""
    return {"rounds": sampling.rounds, "tokens": sampling.tokens} if sampling.enabled else {}


class ToolCall(Value):
    """A call that a program made, as its answer lists it. Without arguments and result."""

    tool: str
    """``server/tool``."""
    duration_ms: int = 0
    code: str | None = None
    """Why it was refused or failed; null for one that succeeded."""
    reason: str | None = None
    """The same in words, and what to do about it."""
