"""Scrubs a program's output and its report once more: the program may have joined pieces of a secret."""

from typing import TYPE_CHECKING

from gloveport.late_libraries import pydantic_core
from gloveport.late_module import late_module
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Sink
from gloveport.secrets.vault import Vault

if TYPE_CHECKING:
    from gloveport.secrets import scrub
else:
    scrub = late_module("gloveport.secrets.scrub")


class ScrubbedSink:
    """A ``sandbox.base.Sink`` that scrubs secrets and passes the rest to another sink."""

    def __init__(self, sink: Sink, vault: Vault) -> None:
        self._sink = sink
        self._vault = vault
        self._scrubber = scrub.Scrubber(vault.needles)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._scrubber.renew(self._vault.needles)  # for secrets that were resolved since
        if scrubbed := self._scrubber.feed(data):
            self._sink.write(scrubbed)

    def full(self) -> bool:
        """See ``sandbox.base.Sink``."""
        return self._sink.full()

    def finish(self) -> None:
        """Note the end of the output, and pass on the held-back rest."""
        if rest := self._scrubber.finish():
            self._sink.write(rest)


def without_secrets(report: JsonValue, vault: Vault) -> JsonValue:
    """Scrub a program's report; None if the rest can't be parsed."""
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
