"""Modules that are imported when something of them is first used, so that nobody waits at the start for the others.

A third of a second of the start would go into libraries that most configurations need nothing of. Whoever uses one so
imports it under ``TYPE_CHECKING``, where the layers are proved from it, and has a ``late_module`` in its place when it
runs. What a configuration does need is imported at the start, beside the first answers: see ``import_now``.
"""

import importlib
from typing import TYPE_CHECKING


class _LateModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        value = getattr(importlib.import_module(self._name), attribute)
        self.__dict__[attribute] = value
        return value


if TYPE_CHECKING:
    from types import ModuleType

    def late_module(name: str) -> ModuleType:
        """The module of this name, imported when something of it is first used."""
        raise NotImplementedError
else:
    late_module = _LateModule


def import_now(*names: str) -> None:
    """Import what will be used, so that no program waits for it."""
    for name in names:
        importlib.import_module(name)
