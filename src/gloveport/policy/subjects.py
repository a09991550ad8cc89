"""What an action would do, in one line that approvals are compared by, and in detail for the person who approves it.

Two actions have the same subject only if they are the same, arguments and bodies aside, and no program can write one
that a pattern takes for another: what is not plain is escaped, ``%`` and ``*`` among it, and a path that servers may
read in two ways, or too long to be shown, is not written as a path.
"""

import hashlib
import json
from collections.abc import Iterator
from urllib.parse import quote

from gloveport.model import Action, Execute
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.policy.hosts import DEFAULT_PORTS
from gloveport.policy.paths import ambiguous
from gloveport.policy.wildcards import matches

_PLAIN = "/:@+,="
_LONGEST = 512
_ARGUMENTS = 64
_NAME = 100
_DETAIL = 12_000
"""Characters that the arguments share."""
_LEAST = 200


def subject_of(action: Action) -> str:
    """``call server/tool``, ``fetch METHOD scheme://host[:port]/path``, ``connect host:port``. Printable ASCII."""
    match action:
        case CallTool():
            return f"call {_plain(action.server)}/{_plain(action.tool)}"
        case Fetch():
            port = "" if action.port == DEFAULT_PORTS[action.scheme] else f":{action.port}"
            place = f"{action.scheme}://{_host(action.host)}{port}"
            return f"fetch {_plain(action.method)} {place}{_path(action.path)}"
        case Connect():
            return f"connect {_host(action.host)}:{action.port}"
        case Sample():
            return f"sample {_plain(action.model)}"
        case Execute():
            return f"execute {action.language}"


def is_about(pattern: str, subject: str) -> bool:
    """Tell whether a pattern of subjects means one. ``*`` stands for any characters, but not for what is done."""
    verb, space, _ = subject.partition(" ")
    return pattern.startswith(f"{verb}{space}") and matches(pattern, subject)


def detail_of(action: Action) -> str:
    """The arguments of a call, one a line: printable ASCII, each of a bounded length. Empty where there are none.

    All have the same room, and each is cut on its own, in the middle: a long one can't hide those after it, nor its
    own end.
    """
    return "\n".join(_lines(action)) if isinstance(action, CallTool) else ""


def _plain(text: str) -> str:
    escaped = quote(text, safe=_PLAIN, errors="surrogatepass")
    return escaped if len(escaped) <= _LONGEST else _digest(text)


def _path(path: str) -> str:
    # Else `/public/*` would mean /public/../private as well.
    return _digest(path) if ambiguous(path) or not _plain(path).startswith("/") else _plain(path)


def _digest(text: str) -> str:
    return f"!{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else quote(host, safe="")


def _lines(action: CallTool) -> Iterator[str]:
    room = max(_LEAST, _DETAIL // max(1, len(action.arguments)))
    for number, (name, value) in enumerate(action.arguments.items()):
        if number == _ARGUMENTS:
            yield f"({len(action.arguments) - _ARGUMENTS} arguments more are not shown)"
            return
        yield f"{_cut(_json(name), _NAME)}: {_cut(_json(value), room)}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def _cut(text: str, room: int) -> str:
    more = len(text) - room
    if more <= 0:
        return text
    digest, tail = hashlib.sha256(text.encode()).hexdigest(), room // 4
    return f"{text[: room - tail]} (... {more} characters are not shown; SHA-256 of all: {digest} ...) {text[-tail:]}"
