"""The HTTP proxy that this host has to use."""

from typing import Annotated, TypeAlias

from gloveport.model.constraints import Constraints
from gloveport.model.described import Described
from gloveport.model.egress import Secret
from gloveport.model.value import Value

ProxyUrl: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^http://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}/?$"),
    Described(
        expected="the address of a proxy, without a password",
        hint='write it as "http://proxy.example.com:3128"',
    ),
]
ProxyUser: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[^\x00-\x1f\x7f:]*$"),
    Described(expected="a user in one line, without a colon", hint="the password is what secret leads to"),
]
DirectHost: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^(?:\*\.)?[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,126}$"),
    Described(
        expected="the name of a host in small letters, or all names below one",
        hint='write it as "git.example.com" or "*.example.com"',
    ),
]


class Proxy(Value):
    """The HTTP proxy for outbound requests: of programs, commands and builds, to MCP servers by URL, for logins to
    these, and to the model of `[sampling]`. It resolves names, so Gloveport can't check their addresses: it is only
    used for HTTPS, whose servers prove their names first.
    """

    url: ProxyUrl | None = None
    """Its URL: `http://proxy.example.com:3128`. Still reached directly: `http://`, databases and `tcp://`, hosts that
    are addresses or `localhost`, an API with `networks` or `addresses`, and `direct`. Default: none. Variables such as
    `HTTPS_PROXY` are ignored."""

    username: ProxyUser = ""
    """The user name for it, if `secret` is set."""

    secret: Secret | None = None
    """Where its password is. Default: it needs none."""

    direct: tuple[DirectHost, ...] = ()
    """Hosts that are reached without it, such as those of your own network: `["*.corp.example.com"]`."""
