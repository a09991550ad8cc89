"""Reads which npm packages a program imports (``npm:…``), and normalizes their requirements. Pure.

JSR packages come from JSR's registry for npm, under their names there: ``jsr:@std/path`` is ``npm:@jsr/std__path``.

The program is neither executed nor parsed as a whole: comments and strings are skipped, and the names in imports are
taken. An import that is hidden from this finds no package, since none was requested.
"""

import re
from typing import Final

from gloveport.late_pattern import late_pattern

NPM: Final = "npm:"
"""Prefix of each npm name, which tells it from the name of a Python package."""

OF_JSR: Final = f"{NPM}@jsr/"
"""Prefix of the npm name of each JSR package."""

MOST_REQUIREMENTS: Final = 64
SPECIFIER: Final = late_pattern(
    r"(?P<package>npm:(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)"
    r"(?:@(?P<range>[0-9A-Za-z.*^~<>=| +-]{1,100}))?"
)
"""A requirement in our spelling: ``npm:zod``, ``npm:@scope/name@^1.2``."""

_JSR: Final = late_pattern(r"jsr:/?@(?P<scope>[a-z0-9-]{1,40})/(?P<name>[a-z0-9-]{1,60})(?=[@/]|$)")
_MOST_CHARACTERS: Final = 200
_TOKEN: Final = late_pattern(
    r"""//[^\n]*+|/\*(?:.*?\*/|.*)"""
    r"""|\b(?:from|import)\s*+(?:\(\s*+)?(?P<quote>["'])(?P<specifier>(?:npm|jsr):[^"'\\\n]*+)(?P=quote)"""
    r"""|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'?|`[^`\\]*+(?:\\.[^`\\]*+)*`?""",
    re.DOTALL,
)
"""Comments and strings, in which an import does not count, and imports. A comment or string without an end extends to
the end of the text, or a program of many beginnings would be read once for each."""

_OF_NODE: Final = frozenset(
    {
        *("assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants"),
        *("crypto", "dgram", "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https"),
        *("inspector", "module", "net", "node", "os", "path", "perf_hooks", "process", "punycode", "querystring"),
        *("readline", "repl", "sea", "sqlite", "stream", "string_decoder", "sys", "test", "timers", "tls"),
        *("trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib"),
    }
)
"""The names of Node's own modules."""


class MetadataError(ValueError):
    """A program's request for packages can't be read; the text says why."""


def read_imports(source: str) -> tuple[str, ...]:
    """The requirements of a program's imports from ``npm:``, sorted, without duplicates.

    Raises:
        MetadataError: An import is no requirement, or there are too many.
    """
    if "npm:" not in source and "jsr:" not in source:
        return ()
    requirements = {_read_import(found["specifier"]) for found in _TOKEN.finditer(source) if found["specifier"]}
    if len(requirements) > MOST_REQUIREMENTS:
        raise MetadataError(f"there are more than {MOST_REQUIREMENTS}")
    packages = [one.partition("@")[0] if one.count("@") < 2 else one.rpartition("@")[0] for one in requirements]
    if len({*packages}) < len(packages):
        raise MetadataError("one package is asked for in two versions")
    return tuple(sorted(requirements))


def _read_import(specifier: str) -> str:
    """The requirement of an import, which may name a file in the package."""
    specifier = _spell_in_npm(specifier)
    if not specifier.startswith(NPM):
        raise MetadataError(f"{specifier!a:.100} is no package of JSR, such as jsr:@std/path@1")
    parts = specifier.removeprefix(NPM).lstrip("/").split("/")
    return normalize_npm_requirement("/".join(parts[: 2 if parts[0].startswith("@") else 1]))


def _spell_in_npm(specifier: str) -> str:
    """A specifier's npm spelling, if it is of JSR; else the same."""
    found = _JSR.match(specifier)
    return specifier if found is None else f"{OF_JSR}{found['scope']}__{found['name']}{specifier[found.end() :]}"


def with_imports_of_npm(source: str) -> str:
    """The program, with its JSR imports replaced by those of the same packages in npm."""

    def respell(found: re.Match[str]) -> str:
        specifier = found["specifier"] or ""
        return found[0].replace(specifier, _spell_in_npm(specifier)) if specifier else found[0]

    return _TOKEN.sub(respell, source) if "jsr:" in source else source


def normalize_npm_requirement(text: str) -> str:
    """Normalize a requirement in npm's spelling, or with ``jsr:`` before it.

    Raises:
        MetadataError: It is none, or says where to get the package, or has the name of a module of Node.
    """
    plain = text.strip()
    specifier = _spell_in_npm(plain) if plain.startswith("jsr:") else f"{NPM}{plain}"
    found = SPECIFIER.fullmatch(specifier) if len(text) <= _MOST_CHARACTERS else None
    if found is None:
        raise MetadataError(
            f"{text[:100]!a} is no name of npm with versions, such as zod, csv-parse@5 or @scope/name@^1.2"
        )
    name = found["package"]
    if name.removeprefix(NPM) in _OF_NODE:
        raise MetadataError(f"{name.removeprefix(NPM)!a} is a module of Node, whose name no package can have")
    versions = " ".join((found["range"] or "").split())
    return name if versions in {"", "*", "latest"} else f"{name}@{versions}"
