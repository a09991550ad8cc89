"""Fetches secrets from where the operator keeps them.

A value is fetched when it is needed and kept for a moment, so a rotated one is found without a restart. Values that
can't be sent as a secret are refused. No message holds a value, or any output of a file or a command.
"""

from collections.abc import Mapping

import anyio
from anyio import to_thread
from msgspec import Struct, field

from gloveport.errors import ConfigError
from gloveport.late_pattern import late_pattern
from gloveport.model.egress import Secret
from gloveport.secrets import secret_commands, secret_files

_KEPT_SECONDS: Mapping[str, float] = {
    "env": 0.0,
    "file": 0.25,  # to read it in a worker thread would cost each request more than all the rest
    "json": 0.25,
    "command": 60.0,
    "keyring": 60.0,
}
_FAILURE_SECONDS = 1.0  # or each request of a program would start the failing command again
_YOUNG_SECONDS = 1.0  # a value fetched just now is not the one that an upstream has found expired
_FETCH_SECONDS = 10.0

LONGEST_SECRET = 8192  # scrubbing searches for all its forms
_ENVIRONMENT = "env:"
_LINE_BREAK = late_pattern(r"[\t\n\r]")
_CONTROL = late_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class _CacheEntry(Struct, eq=False):
    """The outcome of one reference. The holder of the lock fetches it; others wait for the result."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    outcome: str | ConfigError | None = None
    fetched_at: float = 0.0
    until: float = 0.0


class Sources:
    """Fetches secrets from where the operator keeps them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ``: where ``env:`` looks; commands get a few variables of it."""
        self._environ = environ
        self._cache: dict[Secret, _CacheEntry] = {}

    async def resolve(self, ref: Secret) -> str:
        """The value that a reference leads to now, in one line: what can be sent in a header.

        Raises:
            ConfigError: There is none, or it would end the header, or start another one.
        """
        value = await self.resolve_text(ref)
        if _LINE_BREAK.search(value):
            raise _failure(ref, "it holds control characters, such as a line break", "keep the secret in one line")
        if value != value.strip():
            raise _failure(ref, "it begins or ends with a space", "take the space away")
        return value

    async def resolve_text(self, ref: Secret) -> str:
        """The value that a reference leads to now. It may have several lines, as keys in PEM have.

        Raises:
            ConfigError: There is none, or it is no text.
        """
        if ref.startswith(_ENVIRONMENT):
            return self._of_environment(ref)
        entry = self._cache.setdefault(ref, _CacheEntry())
        if anyio.current_time() >= entry.until:
            async with entry.lock:
                if anyio.current_time() >= entry.until:
                    await self._renew(ref, entry)
        if isinstance(entry.outcome, str):
            return entry.outcome
        assert entry.outcome is not None  # noqa: S101 - it was renewed
        raise ConfigError(entry.outcome.args[0], hint=entry.outcome.hint)  # anew: many tasks raise it

    def forget(self, ref: Secret) -> None:
        """Fetch it again at the next request: an upstream has refused it.

        Unless it was fetched a moment ago: else a program could have a command run at each refusal.
        """
        entry = self._cache.get(ref)
        if entry is not None and anyio.current_time() - entry.fetched_at >= _YOUNG_SECONDS:
            del self._cache[ref]  # a fetch in progress only serves those that wait already

    async def require_room(self, ref: Secret, value: str) -> None:
        """Make sure that there is room for a value like this one in its ``file:``. Raises ConfigError if not."""
        kind, _, where = ref.partition(":")
        if kind == "file":
            try:
                await to_thread.run_sync(secret_files.require_room, where, len(value.encode()))
            except ConfigError as error:
                raise _failure(ref, str(error.args[0]), error.hint) from error

    async def replace(self, ref: Secret, value: str) -> None:
        """Write a value back to its ``file:``, after an upstream has exchanged it. Other sources stay unchanged.

        Raises:
            ConfigError: The file can't be written.
        """
        kind, _, where = ref.partition(":")
        if kind == "file":
            try:
                await to_thread.run_sync(secret_files.replace, where, value)
            except ConfigError as error:
                raise _failure(ref, str(error.args[0]), error.hint) from error
            self._cache.pop(ref, None)

    def _of_environment(self, ref: Secret) -> str:
        try:
            return _usable(self._environ.get(ref.removeprefix(_ENVIRONMENT), ""))
        except ConfigError as error:
            raise _failure(ref, str(error.args[0]), error.hint) from error

    async def _renew(self, ref: Secret, entry: _CacheEntry) -> None:
        seconds = _KEPT_SECONDS[ref.partition(":")[0]]
        try:
            with anyio.fail_after(_FETCH_SECONDS):
                entry.outcome = _usable(await self._fetch(ref))
        except TimeoutError:
            problem = f"nothing came of it within {_FETCH_SECONDS:.0f} seconds"
            entry.outcome = _failure(ref, problem, "make it answer without a person, or name another source")
        except ConfigError as error:
            entry.outcome = _failure(ref, str(error.args[0]), error.hint)
        if isinstance(entry.outcome, ConfigError):
            seconds = min(seconds, _FAILURE_SECONDS)
        entry.fetched_at = anyio.current_time()
        entry.until = entry.fetched_at + seconds

    async def _fetch(self, ref: Secret) -> str:
        kind, _, where = ref.partition(":")
        match kind:
            case "file":
                return await to_thread.run_sync(secret_files.read_text, where, abandon_on_cancel=True)
            case "json":
                path, _, pointer = where.partition("#")
                return await to_thread.run_sync(secret_files.read_member, path, pointer, abandon_on_cancel=True)
            case "command":
                return await secret_commands.run_line(where, self._environ)
            case _:
                service, _, user = where.partition("/")
                return await secret_commands.ask_keyring(service, user, self._environ)


def _failure(ref: Secret, problem: str, hint: str) -> ConfigError:
    return ConfigError(f"secret {ref!r}: {problem}", hint=hint)


def _usable(value: str) -> str:
    """The value itself, if it is text that can be a credential. Raises ConfigError if it is not."""
    if not value:
        raise ConfigError("it is missing or empty", hint="set it there, or take what needs it out of the configuration")
    if len(value) > LONGEST_SECRET:
        raise ConfigError(
            f"it is longer than {LONGEST_SECRET} characters", hint="a credential is short: is it the right one?"
        )
    if _CONTROL.search(value):
        raise ConfigError("it holds control characters", hint="a secret is text: encode it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("it is no UTF-8 text", hint="a secret is text: encode it") from None
    return value
