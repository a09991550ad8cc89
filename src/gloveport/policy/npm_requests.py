"""Packages of npm that programs ask for: reads their imports from ``npm:…``, and spells requirements. Pure.

Those of JSR are had from its registry for npm, under the names that they have there: ``jsr:@std/path`` is
``npm:@jsr/std__path``.

Nothing of a program is executed for it, nor parsed as a whole: comments and texts are passed over, and what an import
names is taken. Whoever hides an import from this finds no package, for what is not asked for is not there.
"""

import re
from typing import Final

from gloveport.late_pattern import late_pattern

NPM: Final = "npm:"
"""Stands before each name of npm, so that it is no name of a package of Python."""

OF_JSR: Final = f"{NPM}@jsr/"
"""Begins the name in npm of each package of JSR."""

MOST_REQUIREMENTS: Final = 64
SPECIFIER: Final = late_pattern(
    r"(?P<package>npm:(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)"
    r"(?:@(?P<range>[0-9A-Za-z.*^~<>=| +-]{1,100}))?"
)
"""A requirement in the spelling that it has here: ``npm:zod``, ``npm:@scope/name@^1.2``."""

_JSR: Final = late_pattern(r"jsr:/?@(?P<scope>[a-z0-9-]{1,40})/(?P<name>[a-z0-9-]{1,60})(?=[@/]|$)")
_MOST_CHARACTERS: Final = 200
_TOKEN: Final = late_pattern(
    r"""//[^\n]*+|/\*(?:.*?\*/|.*)"""
    r"""|\b(?:from|import)\s*+(?:\(\s*+)?(?P<quote>["'])(?P<specifier>(?:npm|jsr):[^"'\\\n]*+)(?P=quote)"""
    r"""|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'?|`[^`\\]*+(?:\\.[^`\\]*+)*`?""",
    re.DOTALL,
)
"""What a program is read by: comments and texts, in which an import is none, and imports. What has no end goes to the
end, or a program without ends would be read once for each beginning."""

_OF_NODE: Final = frozenset(
    {
        *("assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants"),
        *("crypto", "dgram", "diagnostics_channel", "dns", "domain", "events", "fs", "http", "http2", "https"),
        *("inspector", "module", "net", "node", "os", "path", "perf_hooks", "process", "punycode", "querystring"),
        *("readline", "repl", "sea", "sqlite", "stream", "string_decoder", "sys", "test", "timers", "tls"),
        *("trace_events", "tty", "url", "util", "v8", "vm", "wasi", "worker_threads", "zlib"),
    }
)
"""Modules of Node, which are imported by these names."""


class MetadataError(ValueError):
    """What a program asks for can't be read; the text says why."""


def read_imports(source: str) -> tuple[str, ...]:
    """What a program imports from ``npm:``, as requirements, sorted and each once.

    Raises:
        MetadataError: One is no requirement, or there are too many.
    """
    if "npm:" not in source and "jsr:" not in source:
        return ()
    asked = {_read_import(found["specifier"]) for found in _TOKEN.finditer(source) if found["specifier"]}
    if len(asked) > MOST_REQUIREMENTS:
        raise MetadataError(f"there are more than {MOST_REQUIREMENTS}")
    packages = [one.partition("@")[0] if one.count("@") < 2 else one.rpartition("@")[0] for one in asked]
    if len({*packages}) < len(packages):
        raise MetadataError("one package is asked for in two versions")
    return tuple(sorted(asked))


def _read_import(specifier: str) -> str:
    """The requirement of an import, which may name a file in the package."""
    specifier = _spell_in_npm(specifier)
    if not specifier.startswith(NPM):
        raise MetadataError(f"{specifier!a:.100} is no package of JSR, such as jsr:@std/path@1")
    parts = specifier.removeprefix(NPM).lstrip("/").split("/")
    return normalize_npm_requirement("/".join(parts[: 2 if parts[0].startswith("@") else 1]))


def _spell_in_npm(specifier: str) -> str:
    """The same as npm has it, where it is of JSR."""
    found = _JSR.match(specifier)
    return specifier if found is None else f"{OF_JSR}{found['scope']}__{found['name']}{specifier[found.end() :]}"


def with_imports_of_npm(source: str) -> str:
    """The program, whose imports from JSR are those of the same packages in npm."""

    def respell(found: re.Match[str]) -> str:
        specifier = found["specifier"] or ""
        return found[0].replace(specifier, _spell_in_npm(specifier)) if specifier else found[0]

    return _TOKEN.sub(respell, source) if "jsr:" in source else source


def normalize_npm_requirement(text: str) -> str:
    """A requirement as npm writes it, or with ``jsr:`` before it, in the one spelling that it has here.

    Raises:
        MetadataError: It is none, or says where to get the package, or has the name of a module of Node.
    """
    plain = text.strip()
    spelled = _spell_in_npm(plain) if plain.startswith("jsr:") else f"{NPM}{plain}"
    found = SPECIFIER.fullmatch(spelled) if len(text) <= _MOST_CHARACTERS else None
    if found is None:
        raise MetadataError(
            f"{text[:100]!a} is no name of npm with versions, such as zod, csv-parse@5 or @scope/name@^1.2"
        )
    name = found["package"]
    if name.removeprefix(NPM) in _OF_NODE:
        raise MetadataError(f"{name.removeprefix(NPM)!a} is a module of Node, whose name no package can have")
    versions = " ".join((found["range"] or "").split())
    return name if versions in {"", "*", "latest"} else f"{name}@{versions}"
