"""Lazy imports: modules that are imported when they are first used, so that the start does not wait for them.

What most configurations do not need would add a third of a second to the start. Libraries of others are imported from
``late_libraries``. A module that uses one of ours imports it under ``TYPE_CHECKING``, from which the architecture test
proves the layers, and binds a ``late_module`` at run time. Modules that a configuration does need are imported at the
start, beside the first answers: see ``import_now``.
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
        """The module of this name, imported when its first attribute is used."""
        raise NotImplementedError
else:
    late_module = _LateModule


def import_now(*names: str) -> None:
    """Import modules that will be used, so that no program waits for them."""
    for name in names:
        importlib.import_module(name)
