"""Language runtimes: each finds its interpreter on the host and turns a source text into a ``Program``."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from gloveport.model import Grant, Language, Mount, Program
from gloveport.model.json_value import JsonValue
from gloveport.runtimes import shell, typescript


class Runtime(Protocol):
    """One language."""

    @property
    def packages(self) -> str:
        """The packages that programs can import, in words; empty for none."""

    @property
    def binds(self) -> tuple[Mount, ...]:
        """The host paths that the interpreter needs in the sandbox, besides the system's directories."""

    def prepare(self, source: str, grant: Grant, types: str = "") -> Program:
        """Prepare ``source`` to run under ``grant``, with the ``types`` of APIs if the language has types.

        Pure.
        """

    def setup_session(self, grant: Grant, types: str = "") -> Mapping[str, JsonValue]:
        """Return the settings with which a session's supervisor starts the interpreter: ``SessionSetup``. Pure."""


RUNTIMES: Mapping[Language, Callable[[str | None], Runtime]] = {
    "typescript": partial(typescript.find, language="typescript"),
    "javascript": partial(typescript.find, language="javascript"),
    "shell": shell.find,
}
"""Language → function that finds its runtime, given the configured path of the interpreter or None. Python is missing:
every sandbox needs it, so it is found first."""
