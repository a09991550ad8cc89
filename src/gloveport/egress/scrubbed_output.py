"""Scrubs a program's output and its report once more: it may have put together what came in pieces."""

from typing import TYPE_CHECKING

from gloveport.late_module import late_module
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Sink
from gloveport.secrets.vault import Vault

if TYPE_CHECKING:
    import pydantic_core

    from gloveport.secrets import scrub
else:
    scrub = late_module("gloveport.secrets.scrub")
    pydantic_core = late_module("pydantic_core")


class ScrubbedSink:
    """A ``sandbox.base.Sink`` that takes the secrets out of what goes on to another."""

    def __init__(self, sink: Sink, vault: Vault) -> None:
        self._sink = sink
        self._vault = vault
        self._scrubber = scrub.Scrubber(vault.needles)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._scrubber.renew(self._vault.needles)  # a secret may have been resolved since
        if scrubbed := self._scrubber.feed(data):
            self._sink.write(scrubbed)

    def full(self) -> bool:
        """See ``sandbox.base.Sink``."""
        return self._sink.full()

    def finish(self) -> None:
        """Pass on what was held back: nothing more comes."""
        if rest := self._scrubber.finish():
            self._sink.write(rest)


def without_secrets(report: JsonValue, vault: Vault) -> JsonValue:
    """A program's report without secrets; None where nothing readable is left of it."""
    if vault.is_empty:
        return report
    data = pydantic_core.to_json(report)
    scrubbed = scrub.scrub(vault.needles, data)
    if scrubbed == data:
        return report
    try:
        clean: JsonValue = pydantic_core.from_json(scrubbed)
    except ValueError:
        return None
    return clean
