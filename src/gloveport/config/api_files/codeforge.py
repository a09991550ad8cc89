"""Converts CodeForge's description of an API, ``NAME/config.json``, to an ``[api.NAME]`` of ours.

Such a file has credentials in plain text. Their type is checked, and then they are dropped: the result only has
references to their places. No message shows one.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec.structs import replace

from gloveport.config.sources.layers import Layer, Table, decode_text, rebase_layer, require_plain, walk
from gloveport.config.sources.owned_files import ANYTHING, list_own, read_own
from gloveport.config.toml_text import as_toml, printable
from gloveport.config.validation.faults import Fault, validate
from gloveport.errors import ConfigError
from gloveport.model import Value
from gloveport.model.constraints import Constraints, Parser
from gloveport.model.described import Described
from gloveport.model.egress import Method, PlaceholderName
from gloveport.policy.hosts.authorities import Authority, parse_pattern

FILES = ("config.json", "types.d.ts")

PLACES = tuple(
    f"header:{name}"
    for name in ("authorization", "x-api-key", "api-key", "private-token", "x-auth-token", "x-goog-api-key")
)
"""Where a placeholder is replaced. CodeForge replaces it anywhere, and so reveals the secret to any server that echoes
it."""


def _upper(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")  # noqa: TRY004 - as of all that is read
    return value.upper()


def _drop(secret: object) -> str:
    if not isinstance(secret, str) or not secret:
        raise ValueError("no text")
    return ""


Credential: TypeAlias = Annotated[
    str,
    Parser(_drop),
    Described(expected="text, not empty", hint="write it in quotes", may_hold_secret=True),
]
"""A credential in plain text, of which nothing is kept."""


class CodeForgeApi(Value):
    """The keys that CodeForge's file may have."""

    description: str = ""
    domains: Annotated[tuple[str, ...], Constraints(min_length=1)]
    credentials: Mapping[PlaceholderName, Credential] = {}
    reference: str | None = None
    restricted_methods: tuple[Annotated[Method, Parser(_upper)], ...] = ()
    active: bool = True


def read_codeforge(directory: Path) -> tuple[Layer, list[Fault]] | None:
    """Read one API in CodeForge's layout, whose name is the directory's, as the table of an ``[api.NAME]``, empty if
    there are faults; None where there is no such file.

    Raises:
        ConfigError: A file can't be trusted, others may read the credentials, or it is no JSON.
    """
    file, types = (directory / name for name in FILES)
    if file.name not in list_own(directory):
        return None
    # Whoever may put a link there could have programs shown any file of the operator's, as types.
    content = read_own(file, flags=os.O_NOFOLLOW, forbidden=ANYTHING)
    if content is None:
        return None
    base = ("api", directory.name)
    api, faults = validate(CodeForgeApi, _parse(file, content))
    faults += _domain_faults(api.domains if api else ())
    if api is None or faults:
        layer = Layer(path=file, data={}, lines={base: None})
        return layer, [replace(fault, keys=tuple((*base, *key) for key in fault.keys)) for fault in faults]
    data = _translate(api, file)
    if (declarations := read_own(types, flags=os.O_NOFOLLOW)) is not None:
        data["types"] = decode_text(types, declarations)
    return rebase_layer(Layer(path=file, data=data, lines={key: None for key, _ in walk(data)}), base), []


def _parse(file: Path, content: bytes) -> Table:
    name = printable(str(file))
    try:
        data = json.loads(decode_text(file, content), object_pairs_hook=_once)
        json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: not JSON: {error.msg}", hint="see https://www.json.org") from None
    except (ValueError, RecursionError):  # the text of the error may quote the file
        raise ConfigError(
            f"{name}: not plain JSON: a key twice, half a surrogate pair, an endless number or endless nesting",
            hint="write the file anew",
        ) from None
    require_plain(name, data)
    if not isinstance(data, dict):
        raise ConfigError(f"{name}: expected an object", hint='write it as {"domains": [...], ...}')
    return data


def _once(pairs: Sequence[tuple[str, object]]) -> Table:
    if len(data := dict(pairs)) < len(pairs):  # a reviewer might see one value, and a program use the other
        raise ValueError
    return data


def _domain_faults(domains: Sequence[str]) -> Iterator[Fault]:
    for index, domain in enumerate(domains):
        try:
            place = parse_pattern(domain)
            sound = place == Authority("https", place.host, 443) and not place.host.startswith("*.")
        except ValueError:
            sound = False
        if not sound:
            yield Fault(
                keys=(("domains", index),),
                problem="expected the name of a host and nothing else, found "
                + ("one with a user" if "@" in domain else as_toml(domain)),  # whose password may be in it
                hint="wildcards, ports and schemes are for a file NAME.toml",
            )


def _translate(api: CodeForgeApi, file: Path) -> Table:
    rules = [{"action": "deny", "methods": [*api.restricted_methods]}, {"action": "allow"}]
    return {
        "description": api.description,
        "hosts": [*api.domains],
        "auth": [
            {"kind": "placeholder", "name": name, "secret": f"json:{file}#/credentials/{name}", "places": [*PLACES]}
            for name in api.credentials
        ],
        "rules": rules if api.restricted_methods else [],
        "active": api.active,
    } | ({} if api.reference is None else {"reference": api.reference})
