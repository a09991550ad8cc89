"""Values of outbound HTTP: APIs of the operator, their rules and credentials, and the requests of programs."""

import base64
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Final, Literal, TypeAlias

from gloveport.model.constraints import Constraints, Parser
from gloveport.model.described import Described, PathText
from gloveport.model.json_value import JsonValue
from gloveport.model.value import Value, fields_of

ApiName: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$"),
    Described(expected="a name of at most 64 small letters, digits, - and _", hint="rename it, as in my-api_2"),
]

SECRET_PLACE: Final = Described(
    expected="where a secret is, never the secret itself",
    hint='write "env:NAME", "file:/path", "json:/path#/pointer", "command:PROGRAM ARGUMENT" or "keyring:SERVICE/USER"',
    may_hold_secret=True,
)

Secret: TypeAlias = Annotated[
    str,
    Constraints(
        pattern=r"^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00]+|json:/[^\x00#]+#/[^\x00]+|command:[^\x00]+"
        r"|keyring:[^/\x00]+/[^\x00]+)$"
    ),
    SECRET_PLACE,
]
"""Where a secret is, never the secret: ``env:NAME``, ``file:/path``, ``json:/path#/pointer`` (RFC 6901),
``command:argv``, ``keyring:service/user``. Resolved on the host when it is needed."""

HeaderName: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"),
    Described(expected="the name of a header", hint='write the name alone: "X-Api-Key"'),
]
Method: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Z][A-Z0-9_-]{0,31}$"),
    Described(expected="an HTTP method in capitals", hint='write it as "GET"'),
]
HttpsUrl: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^https://[^\s\x00-\x1f#]+$"),
    Described(expected="an https:// address", hint="secrets are sent to it: they never leave unencrypted"),
]
PlainText: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[^\x00-\x1f\x7f]*$"),
    Described(expected="text in one line", hint="leave out line ends and other control characters"),
]
AccountName: TypeAlias = Annotated[PlainText, Constraints(min_length=1, max_length=128)]
DatabaseName: TypeAlias = Annotated[PlainText, Constraints(min_length=1, max_length=63)]
UrlPath: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^/[^\s?#\x00]*$"),
    Described(expected="the path of a URL", hint='write it from "/" on, without host and query: "/v1/**"'),
]
PlaceholderName: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$"),
    Described(
        expected="the name of an environment variable, of at most 64 capitals, digits and _",
        hint='write it as "API_TOKEN"',
    ),
]
PlaceholderPlace: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^(?:header:[A-Za-z0-9-]+|(?:query|form|body):[^\s\x00]+)$"),
    Described(
        expected="one named place of a request",
        hint='write "header:NAME", "query:NAME", "form:FIELD" or "body:MEMBER.MEMBER"; '
        "a whole body or all headers can't be named",
    ),
]


def _require_text(value: object) -> str:
    # ``ipaddress`` takes numbers for addresses, too: 1 is 0.0.0.1, and so is true.
    if not isinstance(value, str):
        raise ValueError("not text")  # noqa: TRY004 - as of all that is read
    return value


Network: TypeAlias = Annotated[
    IPv4Network | IPv6Network,
    Parser(lambda text: ip_network(_require_text(text))),
    Described(
        expected="a network", hint='write its first address and the length of its prefix: "10.0.0.0/8", "fd00::/8"'
    ),
]
Address: TypeAlias = Annotated[
    IPv4Address | IPv6Address,
    Parser(lambda text: ip_address(_require_text(text))),
    Described(expected="an IP address", hint='write it in quotes: "10.0.0.5", "fd00::5"'),
]


class Bearer(Value):
    """``Authorization: Bearer SECRET``."""

    kind: Literal["bearer"]
    secret: Secret
    """Where the token is."""


class Basic(Value):
    """``Authorization: Basic``: the secret is the password, or, as with Stripe, the user name."""

    kind: Literal["basic"]
    secret: Secret
    """Where one half of the pair is."""
    username: PlainText = ""
    """The other half, which is no secret."""
    secret_is: Literal["password", "username"] = "password"  # noqa: S105 - which half of the pair
    """Which half the secret is."""

    def header(self, secret: str) -> str:
        """The value of the header with this secret."""
        halves = (secret, self.username) if self.secret_is == "username" else (self.username, secret)  # noqa: S105 - which half it is
        return f"Basic {base64.b64encode(':'.join(halves).encode()).decode()}"


class Header(Value):
    """A header of its own: ``NAME: PREFIXSECRET``."""

    kind: Literal["header"]
    name: HeaderName
    """Name of the header."""
    secret: Secret
    """Where the header's value is."""
    prefix: PlainText = ""
    """Text before the secret, such as `Token `."""


class Query(Value):
    """A parameter of the URL: ``?NAME=SECRET``."""

    kind: Literal["query"]
    name: Annotated[str, Constraints(min_length=1, max_length=128)]
    """Name of the parameter."""
    secret: Secret
    """Where the parameter's value is."""


class Placeholder(Value):
    """A random string stands for the secret in the program's environment, and is replaced in the named places alone."""

    kind: Literal["placeholder"]
    name: PlaceholderName
    """The environment variable in which a program finds the placeholder."""
    secret: Secret
    """Where the secret is."""
    places: Annotated[tuple[PlaceholderPlace, ...], Constraints(min_length=1)]
    """``header:NAME``, ``query:NAME``, ``form:FIELD``, ``body:path.to.member`` of a JSON body. Members of arrays are
    named by their index."""


class ClientCredentials(Value):
    """OAuth 2.0 client credentials (RFC 6749, 4.4): a bearer token, renewed before it expires."""

    kind: Literal["oauth2_client_credentials"]
    token_url: HttpsUrl
    """Token endpoint of the authorization server."""
    client_id: PlainText
    """The client's public name."""
    client_secret: Secret
    """Where the client's secret is."""
    scopes: tuple[PlainText, ...] = ()
    """Scopes to ask for."""
    audience: PlainText = ""
    """Audience to ask for; empty asks for none."""
    client_auth: Literal["basic", "body"] = "basic"
    """How the client names itself to the token endpoint."""


class RefreshToken(Value):
    """OAuth 2.0 refresh token (RFC 6749, 6): a bearer token, renewed before it expires."""

    kind: Literal["oauth2_refresh_token"]
    token_url: HttpsUrl
    """Token endpoint of the authorization server."""
    client_id: PlainText
    """The client's public name."""
    refresh_token: Secret
    """Where the refresh token is."""
    client_secret: Secret | None = None
    """Where the client's secret is. Default: a public client, which has none."""
    scopes: tuple[PlainText, ...] = ()
    """Scopes to ask for; none keeps the granted ones."""
    client_auth: Literal["basic", "body"] = "body"
    """How the client identifies itself to the token endpoint, if it has a secret."""


class SigV4(Value):
    """AWS Signature Version 4: each request is signed anew."""

    kind: Literal["sigv4"]
    access_key_id: Secret
    """Where the name of the key is."""
    secret_access_key: Secret
    """Where the key is."""
    session_token: Secret | None = None
    """Where the token of a temporary key is. Default: the key is permanent."""
    region: PlainText
    """Region to sign for, such as `eu-central-1`."""
    service: PlainText
    """Service to sign for, such as `s3`."""


class Postgres(Value):
    """An account of a PostgreSQL server: programs connect without a password, Gloveport logs in for them."""

    kind: Literal["postgres"]
    username: AccountName
    """The account, whichever user a program names."""
    secret: Secret
    """Where its password is."""
    databases: tuple[DatabaseName, ...] = ()
    """Databases that programs may open. A program that names none, or one with its user's name, gets the first. Empty:
    any."""
    tls: bool = True
    """Whether the server is reached by TLS, and proves its identity. `false` is for private `addresses`; the
    server must then ask for the password by SCRAM, which does not reveal it."""


class Redis(Value):
    """An account of a Redis server: programs connect without a password, Gloveport logs in for them.

    The account must not be allowed to read the password (`CONFIG GET requirepass`).
    """

    kind: Literal["redis"]
    username: PlainText = ""
    """The user of the access control list; empty for the password alone."""
    secret: Secret
    """Where the password is."""
    tls: bool = True
    """Whether the server is reached by TLS, and proves its identity. `false` is for private `addresses`: they
    get the password unencrypted."""


HttpAuth: TypeAlias = Bearer | Basic | Header | Query | Placeholder | ClientCredentials | RefreshToken | SigV4
DatabaseAuth: TypeAlias = Postgres | Redis
Auth: TypeAlias = HttpAuth | DatabaseAuth


def secrets_of(credential: Value) -> list[Secret]:
    """List the references to secrets in a credential: the values of those fields whose type is ``Secret``."""
    found = (getattr(credential, name) for name in _secret_fields(type(credential)))
    return [reference for reference in found if reference is not None]


@cache
def _secret_fields(kind: type[Value]) -> tuple[str, ...]:
    return tuple(name for name, field in fields_of(kind).items() if SECRET_PLACE in field.shape.constraints)


class Rule(Value):
    """What is done with some requests to an API. The first of an API's rules that matches decides."""

    action: Literal["allow", "deny", "ask"]
    """What is done with them. `ask` denies until a person can be asked."""
    methods: tuple[Method, ...] = ()
    """Methods that it matches; empty for all."""
    paths: tuple[UrlPath, ...] = ()
    """Paths that it matches, empty for all: `*` stands for anything within a segment, `**` for anything."""


class Api(Value):
    """An HTTP API, a database, or a TCP service, that programs may reach."""

    description: str = ""
    """What it is for, in a sentence for the agent."""

    hosts: Annotated[tuple[str, ...], Constraints(min_length=1)]
    """Its hosts: `host` and `host:port` are HTTPS, `http://host:port` is not encrypted. `*.host` stands for every
    name below it. `postgres://host:port` and `redis://host:port` are databases, `tcp://host:port` is passed through
    uninspected."""

    rules: tuple[Rule, ...] = ()
    """Which requests are allowed: the first rule that matches decides; a request that matches none is denied. Without
    rules, all are allowed."""

    auth: tuple[Auth, ...] = ()
    """Credentials that Gloveport adds to each request, or with which it logs in to a database. Programs never see
    them."""

    stand_ins: tuple[PlaceholderName, ...] = ()
    """Variables that its libraries require, such as `OPENAI_API_KEY`: programs get a harmless text in each, which is
    never sent where Gloveport adds the credential."""

    reference: str | None = None
    """Where its documentation is, for the agent. Default: none."""

    types: str = ""
    """TypeScript declarations, set before programs that name this API."""

    active: bool = True
    """Whether it may be reached. An inactive API is still checked."""

    networks: tuple[Network, ...] = ()
    """Networks that are not public, to which its names may still lead."""

    addresses: tuple[Address, ...] = ()
    """Addresses to dial instead of those in DNS; they may be private."""

    ca_file: PathText | None = None
    """PEM file of the certificate authorities to trust for it, instead of the system's. Default: the system's."""


class EgressSettings(Value):
    """Settings for all outbound requests, to any API."""

    yolo: bool = False
    """Every public host may be reached by HTTP and HTTPS, without credentials."""

    user_agent: PlainText = ""
    """User-Agent of every request; empty leaves each program its own."""

    redact: tuple[Annotated[str, Constraints(min_length=4)], ...] = ()
    """Strings that must not leave in any request: each is replaced by `REDACTED`."""


class Egress(EgressSettings):
    """The way out: what may be reached, and what is done to everything that goes out. ``Egress()`` leads nowhere."""

    apis: Mapping[ApiName, Api] = {}


def outline(egress: Egress) -> dict[str, JsonValue]:
    """The description of egress for a caller, without the places of the owner's secrets."""
    return {"apis": [*sorted(egress.apis)], "yolo": egress.yolo}


Scheme: TypeAlias = Literal["https", "http"]
ConnectionScheme: TypeAlias = Literal["tcp", "postgres", "redis"]


class Fetch(Value):
    """Action: send an HTTP request. Names are canonical (``policy.hosts``); a query is never part of an action."""

    kind: Literal["fetch"] = "fetch"
    method: str
    scheme: Scheme
    host: str
    port: int
    path: str


class Connect(Value):
    """Action: open a TCP connection whose bytes nobody looks at, in a database after the login."""

    kind: Literal["connect"] = "connect"
    scheme: ConnectionScheme = "tcp"
    host: str
    port: int
    database: str | None = None
    """Of PostgreSQL; null where none is opened."""


class Exchange(Value):
    """A request that a program made, as its answer lists it. Without query and bodies."""

    method: str
    """``CONNECT`` for a TCP connection."""
    url: str
    status: int | None = None
    """What was answered; null where nothing was, or the request was refused."""
    code: str | None = None
    """Why it was refused or failed."""
    reason: str | None = None
    """The same in words, and what to do about it."""
