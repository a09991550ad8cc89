"""Stores the tokens of logins: in a file that only its owner can read, or in the keyring.

Several processes may share a login. Who exchanges its tokens holds its lock, and loads it again first: to an
authorization server a refresh token that comes twice looks stolen, and it ends the login. A login belongs to a server's
name and URL together, so that a changed URL gets no tokens.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

import anyio
from anyio import to_thread
from msgspec import Struct

from gloveport.atomic_file import remove_leftovers, replace_file
from gloveport.errors import ConfigError
from gloveport.file_descriptors import LIST, READ, closing
from gloveport.model import Value
from gloveport.model.constraints import Constraints
from gloveport.model.reading import read_json
from gloveport.secrets import secret_commands
from gloveport.user_directories import make_private_directory

_MOST_BYTES = 1 << 16
_LOCK_SECONDS = 20.0
_POLL_SECONDS = 0.02
_KEYRING_SECONDS = 30.0
_SERVICE = "gloveport"
_PASSED = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_OWNER_ONLY = "make it this user's alone, or remove it and log in again"

Stamp: TypeAlias = tuple[int, int] | None


class Login(Value):
    """The tokens of a login, and what renews them. Times are seconds since the epoch."""

    issuer: str
    """The authorization server; tokens go to it and to the server, nowhere else."""
    token_endpoint: str
    revocation_endpoint: str = ""
    resource: str
    """What the tokens are for (RFC 8707)."""
    client_id: str
    client_secret: str = ""
    """The secret of a client that the flow registered; that of a client of the owner's is in the configuration."""
    client_auth: Literal["none", "client_secret_basic", "client_secret_post"]
    """How the client names itself to the token endpoint."""
    access_token: Annotated[str, Constraints(pattern=r"^[\x21-\x7e]+$")]
    refresh_token: Annotated[str, Constraints(pattern=r"^[\x21-\x7e]*$")] = ""
    scope: str = ""
    obtained: float
    expires: float | None = None


class Storage(Protocol):
    """Storage of one login."""

    def hold_lock(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock: nobody else exchanges the tokens of this login meanwhile.

        Raises:
            ConfigError: Another process has held it for too long.
        """

    async def load(self) -> Login | None:
        """Load the login; None if there is none.

        Raises:
            ConfigError: The login is damaged, or others than this user could have read or written it.
        """

    def stamp(self) -> Stamp:
        """What differs after each ``save`` and ``forget``, of whatever process. Fast."""

    async def save(self, login: Login) -> None:
        """Store a login, in place of the former one. Raises ConfigError if the login can't be stored."""

    async def forget(self) -> None:
        """Remove the login. Raises ConfigError if the login can't be removed."""


class Logins(Struct, frozen=True, kw_only=True):
    """Storage of the logins to all servers.

    Attributes:
        directory: The directory of the files; made when the first is written.
        environ: Our own environment, of which the keyring's process gets what it needs.
    """

    directory: Path
    environ: Mapping[str, str]

    def of(self, name: str, url: str, kind: Literal["keyring", "file"]) -> Storage:
        """Find the storage of the login to a server."""
        key = hashlib.sha256(f"{name}\0{url}".encode()).hexdigest()
        file = _LoginFile(self.directory, key)
        return file if kind == "file" else _Keyring(file, key, self.environ)


class _LoginFile(Struct, frozen=True):
    directory: Path
    key: str

    @contextlib.asynccontextmanager
    async def hold_lock(self) -> AsyncIterator[None]:
        with _open_directory(self.directory) as directory:
            with _explain_errors(self.directory):
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(f"{self.key}.lock", flags, 0o600, dir_fd=directory)
            with closing(descriptor):
                await _lock(descriptor)
                yield

    async def load(self) -> Login | None:
        return await to_thread.run_sync(_read, self.directory / f"{self.key}.json")

    def stamp(self) -> Stamp:
        return _stamp(self.directory / f"{self.key}.json")

    async def save(self, login: Login) -> None:
        content = login.model_dump_json().encode()
        await to_thread.run_sync(_write, self.directory, f"{self.key}.json", content)

    async def forget(self) -> None:
        path = self.directory / f"{self.key}.json"
        with _explain_errors(path):
            path.unlink(missing_ok=True)
            if self.directory.exists():
                remove_leftovers(self.directory)


class _Keyring(Struct, frozen=True):
    """The system's keyring, asked in processes of their own: a backend may hang, or ask a person."""

    lock: _LoginFile
    key: str
    environ: Mapping[str, str]

    def hold_lock(self) -> AbstractAsyncContextManager[None]:
        return self.lock.hold_lock()

    async def load(self) -> Login | None:
        try:
            with anyio.fail_after(_KEYRING_SECONDS):
                text = await secret_commands.ask_keyring(_SERVICE, self.key, self.environ)
        except TimeoutError:
            raise ConfigError("the keyring does not answer", hint="unlock it") from None
        except ConfigError:  # no entry, or a locked keyring: the two can't be told apart
            return None
        return _login("the keyring's entry", text.encode())

    def stamp(self) -> Stamp:
        return _stamp(self._lock_path)  # to ask the keyring would take a process for each request

    async def save(self, login: Login) -> None:
        if await self._run("set", login.model_dump_json()):
            raise ConfigError(
                "the keyring does not take the tokens", hint='unlock it, or write tokens = "file" for this server'
            )
        self._change_stamp()

    async def forget(self) -> None:
        if await self.load() is not None and await self._run("del", ""):
            raise ConfigError("the keyring does not give up the tokens", hint="unlock it")
        self._change_stamp()

    @property
    def _lock_path(self) -> Path:
        return self.lock.directory / f"{self.key}.lock"

    def _change_stamp(self) -> None:
        with _open_directory(self.lock.directory), _explain_errors(self._lock_path):
            self._lock_path.touch(0o600)

    async def _run(self, operation: str, text: str) -> int:
        try:
            with anyio.fail_after(_KEYRING_SECONDS):
                done = await anyio.run_process(
                    [sys.executable, "-P", "-X", "utf8", "-m", "keyring", operation, "--", _SERVICE, self.key],
                    input=text.encode(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    cwd="/",
                    env={name: self.environ[name] for name in _PASSED if name in self.environ},
                    start_new_session=True,
                )
        except TimeoutError:
            raise ConfigError("the keyring does not answer", hint="unlock it") from None
        return done.returncode


def _stamp(path: Path) -> Stamp:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read(path: Path) -> Login | None:
    try:
        descriptor = os.open(path, READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{str(path)!a} can't be read: {error.strerror}", hint=_OWNER_ONLY) from error
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{str(path)!a} is no regular file", hint=_OWNER_ONLY)
        _require_own(path, status)
        return _login(ascii(str(path)), file.read(_MOST_BYTES))


def _write(parent: Path, name: str, content: bytes) -> None:
    """Replace a file atomically and durably: with the refresh token the login would be lost."""
    with _open_directory(parent), _explain_errors(parent / name):
        replace_file(parent / name, content)


async def _lock(descriptor: int) -> None:
    """Wait for the lock by polling: a thread that waits for it could not be cancelled."""
    with anyio.move_on_after(_LOCK_SECONDS):
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await anyio.sleep(_POLL_SECONDS)
            else:
                return
    raise ConfigError("another process has been exchanging the tokens for too long", hint="end it, and try again")


@contextlib.contextmanager
def _open_directory(directory: Path) -> Iterator[int]:
    """Open the directory, which nobody but this user may read or write."""
    with _explain_errors(directory):
        make_private_directory(directory)
        descriptor = os.open(directory, LIST)
    with closing(descriptor):
        _require_own(directory, os.fstat(descriptor))
        yield descriptor


@contextlib.contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "make the state directory writable for this user"
        raise ConfigError(f"{str(path)!a} can't be written: {error.strerror}", hint=hint) from error


def _require_own(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise ConfigError(f"{str(path)!a} belongs to user id {status.st_uid}, not to this user", hint=_OWNER_ONLY)
    if status.st_mode & 0o077:
        raise ConfigError(f"{str(path)!a} is open to others than its owner", hint=_OWNER_ONLY)


def _login(where: str, content: bytes) -> Login:
    try:
        return read_json(Login, content)
    except ValueError:  # its text would quote the tokens
        raise ConfigError(f"{where} is damaged", hint=_OWNER_ONLY) from None
