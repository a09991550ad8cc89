"""Names servers and tools in programs, the same in every language.

1. Every character other than an ASCII letter, a digit and ``_`` becomes ``_``.
2. Of several underscores at the beginning one is kept: two have a meaning in Python, and ``__proto__`` has one in
   JavaScript.
3. A digit at the beginning gets ``_`` in front of it, a Python keyword gets ``_`` behind it.
4. Where several originals come to one name, the one that has it already keeps it; so what is both an original and an
   exposed name means the same. The others get ``_2``, ``_3`` and so on in place of underscores at the end, in the
   order of their originals.

Names are cut after 100 characters.
"""

import keyword
from collections.abc import Iterable
from typing import Final

from gloveport.late_pattern import late_pattern

_NAME_CHARACTERS = 100
_LEGACY_PREFIX: Final = "mcp__"
_LEGACY_CHARACTERS = 512

_OTHER = late_pattern(r"[^A-Za-z0-9_]")
_UNDERSCORES = late_pattern(r"^_+")


def exposed_names(originals: Iterable[str]) -> dict[str, str]:
    """Map unique names for programs to the originals, in the order of the originals."""
    every = sorted(set(originals))
    taken = {name for name in every if _expose_name(name) == name}
    exposed = {}
    last: dict[str, int] = {}
    for original in every:
        base = name = _expose_name(original)
        if base != original:
            while name in taken:
                last[base] = last.get(base, 1) + 1
                name = f"{base.rstrip('_')}_{last[base]}"
            taken.add(name)
        exposed[name] = original
    return exposed


def split_legacy(name: str) -> tuple[tuple[str, str], ...]:
    """Split ``mcp__server__tool``: (server, tool), the shortest server first; nothing for another name.

    Both names may hold ``__``, so there may be several splits; the known servers tell which is right.
    """
    if not name.startswith(_LEGACY_PREFIX) or len(name) > _LEGACY_CHARACTERS:
        return ()
    rest = name.removeprefix(_LEGACY_PREFIX)
    return tuple((rest[:at], rest[at + 2 :]) for at in range(1, len(rest) - 2) if rest.startswith("__", at))


def _expose_name(original: str) -> str:
    name = _UNDERSCORES.sub("_", _OTHER.sub("_", original[:_NAME_CHARACTERS])) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name
