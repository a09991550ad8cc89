"""The HTTP proxy that this host has to use."""

from typing import Annotated, TypeAlias

from pydantic import Field

from gloveport.model.described import Described
from gloveport.model.egress import Secret
from gloveport.model.value import Value

ProxyUrl: TypeAlias = Annotated[
    str,
    Field(pattern=r"^http://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}/?$"),
    Described(
        expected="the address of a proxy, without a password",
        hint='write it as "http://proxy.example.com:3128"',
    ),
]
ProxyUser: TypeAlias = Annotated[
    str,
    Field(pattern=r"^[^\x00-\x1f\x7f:]*$"),
    Described(expected="a user in one line, without a colon", hint="the password is what secret leads to"),
]


class Proxy(Value):
    """The HTTP proxy that requests of programs, commands and builds go out through. It looks names up, so nobody here
    checks to which address one leads: it is asked for HTTPS alone, whose servers prove their names first.
    """

    url: ProxyUrl | None = None
    """Where it is: `http://proxy.example.com:3128`. What is reached directly all the same: `http://`, databases and
    `tcp://`, and an API that says where it lies (`networks`, `addresses`). Default: none. Variables such as
    `HTTPS_PROXY` are not looked at."""

    username: ProxyUser = ""
    """Who logs in to it, where `secret` is set."""

    secret: Secret | None = None
    """Where its password is. Default: it asks for none."""
