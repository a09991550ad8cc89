"""Describes an action: as a subject, one line by which approvals are compared, and in detail for the approver.

Two actions have the same subject only if they are the same, apart from arguments and bodies (a command's input and a
write's content are included as digests). No program can forge a subject that a pattern takes for another one: all but
plain characters are escaped, including ``%`` and ``*``, and an ambiguous path, or one too long to be shown, is not
written as a path.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never
from urllib.parse import quote

from gloveport.errors import Denied
from gloveport.model import Action, Execute
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.json_value import JsonValue, is_longer
from gloveport.model.packages import Install
from gloveport.model.workspace import Gate, PathChange, RunCommand, WriteFiles
from gloveport.policy.hosts.authorities import DEFAULT_PORTS
from gloveport.policy.hosts.url_paths import ambiguous
from gloveport.policy.package_requests import find_likeness
from gloveport.policy.wildcards import matches
from gloveport.untrusted_text import printable

_PLAIN = "/:@+,="
_CUT = "!"
_LONGEST = 512
MOST_CHARACTERS = 16_384
"""How much of one action a person can be expected to read."""
MOST_LINES = 200


def subject_of(action: Action) -> str:  # noqa: PLR0911 - one for each kind
    """What would be done, in printable ASCII.

    ``call server/tool``, ``fetch METHOD scheme://host[:port]/path``, ``connect [scheme://]host:port[/database]``,
    ``command DIRECTORY …: TEXT`` with the digests of variables and input, ``write OPERATION:PATH,… DIGEST``,
    ``install NAME==VERSION,… DIGEST`` with the packages that were asked for and the digest of all.
    """
    match action:
        case CallTool():
            return f"call {_plain(action.server)}/{_plain(action.tool)}"
        case Fetch():
            port = "" if action.port == DEFAULT_PORTS[action.scheme] else f":{action.port}"
            place = f"{action.scheme}://{_host(action.host)}{port}"
            return f"fetch {_plain(action.method)} {place}{_path(action.path)}"
        case Connect():
            scheme = "" if action.scheme == "tcp" else f"{action.scheme}://"
            database = "" if action.database is None else f"/{_plain(action.database)}"
            return f"connect {scheme}{_host(action.host)}:{action.port}{database}"
        case Sample():
            return f"sample {_plain(action.model)}"
        case Execute():
            return f"execute {action.language}"
        case RunCommand():
            return f"command {' '.join(_how(action))}: {_plain(action.command)}"
        case WriteFiles():
            return f"write {_changes(action.changes)} {action.sha256}".rstrip()
        case Install():
            return f"install {_asked_text(action)} {action.lock_sha256}".rstrip()


def permission_subject(gate: Gate, action: RunCommand | WriteFiles) -> str:
    """The subject of a permission: ``permit GATE command …`` or ``permit GATE write …``. Printable ASCII.

    For ``long_timeout`` it includes the time: whoever permits an hour has not permitted a day.
    """
    pieces = [need.piece for need in action.needs if need.gate == gate == "long_timeout"]
    return " ".join(("permit", gate, *(piece.replace(" ", "") for piece in pieces), subject_of(action)))


def is_about(pattern: str, subject: str) -> bool:
    """Tell whether a pattern matches a subject. ``*`` stands for any characters, but not for the kind of action."""
    verb, space, _ = subject.partition(" ")
    return pattern.startswith(f"{verb}{space}") and matches(pattern, subject)


def detail_of(action: Action) -> str:
    """The arguments of a call, one a line, and a path that does not fit into the subject: printable ASCII, and whole.

    Nothing is cut, since a program could choose what is left out.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    match action:
        case CallTool():
            return _lines(action.arguments)
        case Fetch():
            return _lines({"path": action.path}) if _path(action.path).startswith(_CUT) else ""
        case Install():
            return "\n".join(_package_lines(action))
        case Execute() | Connect() | Sample() | RunCommand() | WriteFiles():
            return ""  # the subject is complete
        case _:
            assert_never(action)


def _asked_text(action: Install) -> str:
    every = ",".join(
        f"{_plain(one.name)}=={_plain(one.version)}" for one in action.packages if one.name in action.requested_names
    )
    return every if len(every) <= _LONGEST else _digest(every)


def _package_lines(action: Install) -> Iterator[str]:
    """Requested packages first, then their dependencies: the age of each, and a name that it could be mistaken for."""
    if len(action.packages) > MOST_LINES:
        raise _too_large(len(action.packages), "any number")
    for one in sorted(action.packages, key=lambda one: (one.name not in action.requested_names, one.name)):
        likeness = find_likeness(one.name)
        facts = (
            f"{one.name} {one.version}",
            f"uploaded {one.uploaded}" if one.uploaded else "nobody says when it was uploaded",
            "" if one.name in action.requested_names else "comes with the others",
            f"looks like {likeness}" if likeness else "",
        )
        yield printable(", ".join(filter(None, facts)))


def _plain(text: str) -> str:
    # Escaped text is not shorter. Escaping a megabyte in vain would block the event loop.
    escaped = quote(text, safe=_PLAIN, errors="surrogatepass") if len(text) <= _LONGEST else None
    return escaped if escaped is not None and len(escaped) <= _LONGEST else _digest(text)


def _how(action: RunCommand) -> Iterator[str]:
    """A command's directory, variables and input, each as a word of its own form."""
    yield _plain(action.workdir)
    if action.variables_sha256:
        yield action.variables_sha256
    if action.stdin_sha256:
        yield f"stdin={action.stdin_bytes},{action.stdin_sha256}"
    if action.environment:
        yield f"environment={_plain(action.environment)}"
    if action.tty:
        yield "tty"
    elif action.keeps_stdin:
        yield "stdin+"


def _changes(changes: Iterable[PathChange]) -> str:
    """The operation on each path. Commas in a path are escaped, so that it can neither hide nor forge a change."""
    every = ",".join(f"{change.operation}:{_plain(change.path).replace(',', '%2C')}" for change in changes)
    return every if len(every) <= _LONGEST else _digest(every)


def _path(path: str) -> str:
    # Else `/public/*` would match /public/../private as well.
    return _digest(path) if ambiguous(path) or not _plain(path).startswith("/") else _plain(path)


def _digest(text: str) -> str:
    return f"{_CUT}{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else quote(host, safe="")


def _lines(values: Mapping[str, JsonValue]) -> str:
    if len(values) > MOST_LINES or is_longer(values, MOST_CHARACTERS):  # before the work of rendering it
        raise _too_large(len(values), f"more than {MOST_CHARACTERS}")
    lines = [_line(name, value) for name, value in values.items()]
    characters = sum(map(len, lines))
    if characters > MOST_CHARACTERS:
        raise _too_large(len(values), str(characters))
    return "\n".join(lines)


def _too_large(arguments: int, characters: str) -> Denied:
    return Denied(
        "too_large_to_ask",
        f"A person has to allow this, and can't be shown {arguments} arguments of {characters} characters.",
        hint=f"Send {MOST_LINES} arguments of {MOST_CHARACTERS} characters at most, so in several calls; or the "
        "owner writes a rule that allows it.",
    )


def _line(name: str, value: JsonValue) -> str:
    """A name and a value, readable; if characters may look alike, with their code points, too."""
    exact = f"{_exact(name)}: {_exact(value)}"
    read = printable(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}")
    return exact if read.isascii() else f"{read}  = {exact}"


def _exact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
