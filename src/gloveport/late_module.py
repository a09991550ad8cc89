"""Lazy imports: modules that are imported when they are first used, so that the start does not wait for them.

What most configurations do not need would add a third of a second to the start. Libraries of others are imported from
``late_libraries``. A module that uses one of ours imports it under ``TYPE_CHECKING``, from which the architecture test
proves the layers, and binds a ``late_module`` at run time. Modules that a configuration does need are imported at the
start, beside the first answers: see ``import_now``.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING


class _LateModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        import_now(self._name)
        value = getattr(sys.modules[self._name], attribute)
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
    """Import modules that will be used, so that no program waits for them.

    Raises:
        OSError: No descriptor is left for it. Nothing was imported then: a library whose import breaks off half-way
            may go on without what it has not found.
    """
    for name in names:
        if name not in sys.modules:
            _require_descriptors()
        importlib.import_module(name)


def _require_descriptors() -> None:
    """Open and close as many files as an import has open at once, and one for another thread."""
    first = os.open("/", os.O_PATH)
    try:
        os.close(os.open("/", os.O_PATH))
    finally:
        os.close(first)
