"""The vault knows all secrets and their names: a secret must be known to be scrubbed from an answer.

A value is remembered before it is handed out, and stays known after it has been exchanged for another: nobody says when
the former value stops being valid.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gloveport.errors import ConfigError
from gloveport.late_module import late_module
from gloveport.model.egress import Secret
from gloveport.model.json_value import JsonValue
from gloveport.secrets.sources import LONGEST_SECRET, Sources

if TYPE_CHECKING:
    from gloveport.secrets import forms, scrub
else:
    forms = late_module("gloveport.secrets.forms")
    scrub = late_module("gloveport.secrets.scrub")

_MOST_VALUES = 65
"""How many values of one name are remembered, including the present one."""
_MOST_CHARS = 16 * 1024
"""Characters in all values of a name, of which two stay in any case: each is held in some hundred forms."""


class Vault:
    """The secrets of one server. A name has an API's name and the secret's purpose: ``github.bearer``."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._values: dict[str, OrderedDict[str, forms.Forms]] = {}
        self._needles: scrub.Needles | None = None

    async def get(self, name: str, ref: Secret) -> str:
        """The value that a reference leads to now; from here on it is scrubbed as ``name``.

        Raises:
            ConfigError: It can't be fetched, or is too short to be told from ordinary text.
        """
        return self._remember(name, ref, await self._sources.resolve(ref))

    async def get_text(self, name: str, ref: Secret) -> str:
        """As ``get``; it may have several lines."""
        return self._remember(name, ref, await self._sources.resolve_text(ref))

    def _remember(self, name: str, ref: Secret, value: str) -> str:
        try:
            self.remember(name, value)
        except ValueError as error:
            raise ConfigError(
                f"secret {ref!r} can't be kept out of answers: {error}", hint="replace it by one of random characters"
            ) from None
        return value

    def remember(self, name: str, value: str) -> None:
        """Scrub a value from elsewhere as ``name``, such as a token that a secret was exchanged for.

        Raises:
            ValueError: It is too short to be told from ordinary text, or so long that a search for all its forms would
                keep everybody waiting. The message does not hold it.
        """
        values = self._values.get(name)
        if values is not None and value in values:
            values.move_to_end(value)
            return
        if len(value.strip()) < scrub.MIN_SECRET_CHARS:  # then no needles can be made of it
            raise ValueError(f"it is shorter than {scrub.MIN_SECRET_CHARS} characters")
        if len(value) > LONGEST_SECRET:
            raise ValueError(f"it is longer than {LONGEST_SECRET} characters")
        values = self._values.setdefault(name, OrderedDict())
        values[value] = forms.Forms.of(value)
        while len(values) > _MOST_VALUES or (len(values) > 2 and sum(map(len, values)) > _MOST_CHARS):
            values.popitem(last=False)
        self._needles = None

    @property
    def is_empty(self) -> bool:
        """Whether no secret is known, so that no search is needed."""
        return not self._values

    @property
    def needles(self) -> "scrub.Needles":
        """All values known, former ones too: ``github.bearer``, ``github.bearer.former-1`` and so on."""
        if self._needles is None:
            self._needles = scrub.Needles.of_forms(dict(self._list_named()))
        return self._needles

    def clean(self, text: str, sent: bytes = b"") -> str:
        """The text without secrets, except those that its reader has sent himself.

        To replace one of those would tell the reader which of thousands of guesses is right. ``sent`` is only for a
        text into which no secret can have come from elsewhere.
        """
        if self.is_empty:
            return text
        needles = self.needles
        return scrub.scrub_text(needles, text, scrub.names_in(needles, sent) if sent else ())

    def clean_fields(self, fields: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """A record's fields without secrets; the same object if no secret is known, or in it."""
        if self.is_empty:
            return fields
        clean = scrub.scrub_value(dict(fields), self.clean)
        assert isinstance(clean, dict)  # noqa: S101 - one was given
        return clean

    async def require_room(self, ref: Secret, value: str) -> None:
        """Make sure that ``replace`` has room for a value like this one. Raises ConfigError if not."""
        await self._sources.require_room(ref, value)

    async def replace(self, name: str, ref: Secret, value: str) -> None:
        """Remember a value, and write it where the former one came from, if that is a ``file:``.

        Raises:
            ConfigError: The file can't be written.
            ValueError: As ``remember``.
        """
        self.remember(name, value)
        await self._sources.replace(ref, value)

    def forget(self, ref: Secret) -> None:
        """Fetch it again at the next request: an upstream has refused it. It is still scrubbed."""
        self._sources.forget(ref)

    def _list_named(self) -> "list[tuple[str, forms.Forms]]":
        return [
            (name if age == 0 else f"{name}.former-{age}", forms)
            for name, values in self._values.items()
            for age, forms in enumerate(reversed(values.values()))
        ]
