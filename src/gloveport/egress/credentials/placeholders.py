"""Replaces placeholders by secrets, only in the parts of a request that the operator named (places).

A placeholder may be part of a value (``Token gp_…``), also inside ``Basic``. Each place is filled once. A header or
parameter that is a place leaves only if it was filled: any other value would be a credential of the program's own.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import TypeAlias
from urllib.parse import quote, unquote_plus

from msgspec import Struct
from msgspec.structs import replace

from gloveport.egress.http.heads import Headers, Outbound
from gloveport.errors import Denied

Swaps: TypeAlias = Mapping[str, str]
"""Placeholder → secret."""

_MOST_JSON_BYTES = 1 << 20  # parsed, it takes up to thirty times as much memory
_MOST_FIELDS = 1 << 16
_ESCAPED_CHARACTERS = 12
"""Most characters for one escaped character of a name."""
_BASIC = re.compile(r"(basic[ \t]+)([A-Za-z0-9+/]+=*)", re.IGNORECASE)
_FORM = b"application/x-www-form-urlencoded"
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class DraftRequest(Struct, frozen=True, kw_only=True):
    """A request that is being filled: its head, and its body if that was read."""

    out: Outbound
    body: bytes | None


def parameter_name(parameter: str) -> str:
    """Decode the name of one parameter of a query or form as a server reads it."""
    return unquote_plus(parameter.partition("=")[0])


def find_placeholder(placeholder: str, draft: DraftRequest) -> list[str]:
    """List the parts of a request that a placeholder is in: ``header:NAME``, ``path``, ``query``, ``body``."""
    path, _, query = draft.out.target.partition("?")
    found = [
        f"header:{name.decode('latin-1')}" for name, value in draft.out.headers if placeholder in _decode_value(value)
    ]
    found += [part for part, text in (("path", path), ("query", query)) if placeholder in text]
    if draft.body is not None and placeholder.encode() in draft.body:
        found.append("body")
    return found


def fill_place(place: str, draft: DraftRequest, swaps: Swaps) -> tuple[DraftRequest, bool]:
    """Fill one place.

    Args:
        place: ``header:NAME``, ``query:NAME``, ``form:FIELD`` or ``body:path.to.member``.
        draft: The request.
        swaps: The secrets that may be filled in there, by their placeholders.

    Returns:
        The filled request, and whether a secret was filled in.

    Raises:
        Denied: A placeholder is in a body that is ambiguous, or too large to be parsed.

    For a large body, call it in a thread.
    """
    kind, _, name = place.partition(":")
    out, body = draft.out, draft.body
    match kind:
        case "header":
            headers, filled = _fill_headers(out.headers, name.lower().encode(), swaps)
            return replace(draft, out=out._replace(headers=headers)), filled
        case "query":
            path, mark, query = out.target.partition("?")
            query, filled = _fill_parameters(query, name, swaps)
            return replace(draft, out=out._replace(target=f"{path}{mark if query else ''}{query}")), filled
        case "form" if body is not None and _is_form(out.headers) and _has_any(body, swaps):
            if body.count(b"&") >= _MOST_FIELDS:
                raise _too_large(f"{_MOST_FIELDS} fields")
            text, filled = _fill_parameters(body.decode("latin-1"), name, swaps)
            return (replace(draft, body=text.encode("latin-1")) if filled else draft), filled
        case "body" if body is not None and _has_any(body, swaps):
            body, filled = _fill_json(body, name, swaps)
            return replace(draft, body=body), filled
        case _:
            return draft, False


def _has_any(body: bytes, swaps: Swaps) -> bool:
    return any(placeholder.encode() in body for placeholder in swaps)


def _too_large(most: str) -> Denied:
    return Denied(
        "body_too_large",
        f"A body with a placeholder in it can have {most} at most.",
        hint="Send less at a time.",
    )


def _fill_headers(headers: Headers, name: bytes, swaps: Swaps) -> tuple[Headers, bool]:
    new_headers: list[tuple[bytes, bytes]] = []
    filled = False
    for key, value in headers:
        if key != name:
            new_headers.append((key, value))
        elif not filled and (text := _fill_value(value.decode("latin-1"), swaps)) is not None:
            new_headers.append((key, text.encode("latin-1")))
            filled = True
    return tuple(new_headers), filled


def _fill_value(value: str, swaps: Swaps) -> str | None:
    basic = _BASIC.fullmatch(value)
    if basic is None:
        return _swap(value, swaps, lambda secret: secret.encode().decode("latin-1"))
    pair = _swap(_decode_base64(basic[2]), swaps, lambda secret: secret.encode().decode("latin-1"))
    return pair and f"{basic[1]}{base64.b64encode(pair.encode('latin-1')).decode()}"


def _fill_parameters(text: str, name: str, swaps: Swaps) -> tuple[str, bool]:
    new_parameters: list[str] = []
    filled = False
    longest = _ESCAPED_CHARACTERS * len(name)
    for parameter in text.split("&"):
        key, mark, value = parameter.partition("=")
        if len(key) > longest or parameter_name(key) != name:
            new_parameters.append(parameter)
            continue
        if not filled and (filled_in := _swap(value, swaps, lambda secret: quote(secret, safe=""))) is not None:
            new_parameters.append(f"{key}{mark}{filled_in}")
            filled = True
    return "&".join(new_parameters), filled


def _fill_json(body: bytes, path: str, swaps: Swaps) -> tuple[bytes, bool]:
    """Fill one string of a JSON text; every other byte stays unchanged.

    Each occurrence of a placeholder is replaced by a mark, and the parsed text shows which mark is at the path. Marks
    begin as placeholders do, so that a backslash before one has the same meaning.
    """
    if len(body) > _MOST_JSON_BYTES:
        raise _too_large(f"{_MOST_JSON_BYTES} bytes")
    try:
        pieces = re.split(f"({'|'.join(map(re.escape, swaps))})", body.decode())
    except UnicodeDecodeError:
        return body, False
    seal = f"gp_{token_hex(16)}_"
    marked = "".join(f"{seal}{at}_" if at % 2 else piece for at, piece in enumerate(pieces))
    found = _find_string(marked, path)
    if found is None or (mark := re.search(f"{seal}([0-9]+)_", found)) is None:
        return body, False
    at = int(mark[1])
    pieces[at] = json.dumps(swaps[pieces[at]])[1:-1]
    return "".join(pieces).encode(), True


def _find_string(text: str, path: str) -> str | None:
    """Find the string at a path of a JSON text; None if the text is no JSON, or has no string there."""
    try:
        value: object = json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        return None
    for name in path.split("."):
        match value:
            case dict() if name in value:
                value = value[name]
            case list() if _INDEX.fullmatch(name) and int(name) < len(value):
                value = value[int(name)]
            case _:
                return None
    return value if isinstance(value, str) else None


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Denied(
            "ambiguous_body",
            "The body has two members of one name, so servers may disagree on what it says.",
            hint="Send each member once.",
        )
    return members


def _swap(text: str, swaps: Swaps, spell: Callable[[str], str]) -> str | None:
    """Replace the first occurrence of each placeholder; None if there is none."""
    filled_in = text
    for placeholder, secret in swaps.items():
        filled_in = filled_in.replace(placeholder, spell(secret), 1)
    return None if filled_in == text else filled_in


def _decode_value(value: bytes) -> str:
    text = value.decode("latin-1")
    basic = _BASIC.fullmatch(text)
    return text if basic is None else _decode_base64(basic[2])


def _decode_base64(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode("latin-1")
    except ValueError:
        return ""


def _is_form(headers: Headers) -> bool:
    return [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"] == [_FORM]
