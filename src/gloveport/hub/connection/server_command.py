"""Makes the working directory, the program's path and the environment of a server that is started as a process."""

import os
from collections.abc import Mapping
from pathlib import Path

from gloveport.errors import UpstreamError
from gloveport.executables import find_executable
from gloveport.model.hub import NESTED, Server
from gloveport.policy.wording import quote_sent

_PASSED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


def environment(server: Server, environ: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of the server's process: nine of our variables, and those of the configuration."""
    passed = {name: environ[name] for name in _PASSED if name in environ}
    return passed | dict(server.env) | dict(secrets) | {NESTED: "1"}


def directory(server: Server, env: Mapping[str, str]) -> str:
    """Give its working directory."""
    return server.directory or env.get("HOME", "/")


def program(name: str, server: Server, env: Mapping[str, str]) -> str:
    """Find its program along the PATH of its environment. Raises UpstreamError if there is no such program."""
    command = server.command[0]
    # A relative entry would find programs in the directory that we were started in.
    places = [place for place in env.get("PATH", os.defpath).split(os.pathsep) if place.startswith("/")]
    executable = str(Path(directory(server, env), command)) if "/" in command else command
    path = find_executable(executable, os.pathsep.join(places))
    if path is None:
        raise UpstreamError(
            "server_unavailable",
            f"The command {quote_sent(command)} of the server {quote_sent(name)} is not there, or can't be executed.",
            hint="Install it, or name it by its whole path; it is looked for along PATH.",
        )
    return path
