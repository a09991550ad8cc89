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
        """What its programs can import, in words; empty where there is nothing to say."""

    @property
    def binds(self) -> tuple[Mount, ...]:
        """What of the host its interpreter needs to be shown, besides the directories of the system."""

    def prepare(self, source: str, grant: Grant, types: str = "") -> Program:
        """The program that runs ``source`` under ``grant``; with the ``types`` of APIs, where its language has such.

        Pure.
        """

    def setup_session(self, grant: Grant, types: str = "") -> Mapping[str, JsonValue]:
        """What the supervisor of a session starts its interpreter from; see ``model.SessionSetup``. Pure."""


RUNTIMES: Mapping[Language, Callable[[str | None], Runtime]] = {
    "typescript": partial(typescript.find, language="typescript"),
    "javascript": partial(typescript.find, language="javascript"),
    "shell": shell.find,
}
"""Language → how to find its runtime, given the configured path of the interpreter or None. Python's is not among them:
every sandbox needs it, so it is found first."""
