"""Where tokens are kept: this user's alone, whole or not at all, one exchange at a time. H1, N5."""

import os
import stat
import time
from pathlib import Path

import anyio
import pytest

from gloveport.errors import ConfigError
from gloveport.hub.credentials.login_storage import Login, Logins
from gloveport.model.reading import WrongShapeError, read_value

pytestmark = pytest.mark.anyio

URL = "https://mcp.test/mcp"
TOKEN = "an-access-token-of-the-owner"


@pytest.fixture
def logins(tmp_path):
    return Logins(directory=tmp_path / "state" / "oauth", environ={})


@pytest.fixture
def storage(logins):
    return logins.of("far", URL, "file")


def login(**other):
    told = {
        "issuer": "https://auth.test",
        "token_endpoint": "https://auth.test/token",
        "resource": URL,
        "client_id": "us",
        "client_auth": "none",
        "access_token": TOKEN,
        "refresh_token": "a-refresh-token",
        "obtained": time.time(),
    }
    return Login(**told | other)


def file_of(logins) -> Path:
    [file] = logins.directory.glob("*.json")
    return file


async def test_what_is_kept_is_the_owners_alone(logins, storage):
    """N5: the directory too, and nothing is left beside it."""
    assert await storage.load() is None
    kept = login()
    await storage.save(login(access_token="older"))
    await storage.save(kept)
    assert await storage.load() == kept
    file = file_of(logins)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    await storage.forget()
    await storage.forget()
    assert await storage.load() is None


async def test_a_logout_removes_what_a_killed_writer_has_left_and_nothing_that_is_being_written(logins, storage):
    """N5: tokens are in it."""
    await storage.save(login())
    left, being_written = logins.directory / ".gloveport-former__", logins.directory / ".gloveport-present_"
    left.write_text(TOKEN)
    os.utime(left, (0, 0))
    being_written.write_text(TOKEN)
    await storage.forget()
    assert [*logins.directory.iterdir()] == [being_written]


async def test_a_mask_that_gives_everything_away_gives_nothing_away(logins, storage):
    before = os.umask(0)
    try:
        await storage.save(login())
        async with storage.hold_lock():
            pass
    finally:
        os.umask(before)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (logins.directory, *logins.directory.iterdir()))


async def test_a_login_belongs_to_a_name_and_a_url_together(logins, storage):
    """H1: a changed URL gets nobody's tokens."""
    await storage.save(login())
    assert await logins.of("far", "https://evil.test/mcp", "file").load() is None
    assert await logins.of("other", URL, "file").load() is None
    assert await logins.of("far", URL, "file").load() is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
async def test_a_file_that_others_may_open_is_refused(logins, storage, mode):
    """N5."""
    await storage.save(login())
    file_of(logins).chmod(mode)
    with pytest.raises(ConfigError, match="open to others"):
        await storage.load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_a_file_of_another_user_is_refused(logins, storage):
    """N5: it may be an attacker's login, into which the owner's data would go."""
    await storage.save(login())
    os.chown(file_of(logins), 12345, 12345)
    with pytest.raises(ConfigError, match="user id 12345"):
        await storage.load()


async def test_a_directory_that_others_may_open_is_refused(logins, storage):
    """N5."""
    await storage.save(login())
    logins.directory.chmod(0o755)
    with pytest.raises(ConfigError, match="open to others"):
        await storage.save(login())
    with pytest.raises(ConfigError, match="open to others"):
        async with storage.hold_lock():
            pass


async def test_a_link_is_not_followed_and_a_pipe_hangs_nobody(logins, storage, tmp_path):
    """N5."""
    await storage.save(login())
    file = file_of(logins)
    elsewhere = file.rename(tmp_path / "elsewhere")
    file.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="can't be read"):
        await storage.load()
    file.unlink()
    os.mkfifo(file, 0o600)
    with anyio.fail_after(5):
        with pytest.raises(ConfigError, match="no regular file"):
            await storage.load()


async def test_a_directory_that_is_a_link_is_refused(logins, storage, tmp_path):
    logins.directory.parent.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    logins.directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        await storage.save(login())


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"access_token": "an-access-token"}'])
async def test_a_damaged_file_is_an_error_that_does_not_quote_it(logins, storage, damage):
    """N5."""
    await storage.save(login())
    file_of(logins).write_bytes(damage)
    with pytest.raises(ConfigError, match="damaged") as caught:
        await storage.load()
    assert "an-access-token" not in str(caught.value)
    assert caught.value.__suppress_context__


async def test_a_token_that_would_break_a_header_is_none(logins):
    with pytest.raises(WrongShapeError, match="access_token"):
        read_value(Login, login().model_dump() | {"access_token": "a\r\nx-evil: 1"})


async def test_one_exchange_at_a_time_whoever_makes_it(logins, storage):
    """H1: another process has a descriptor of its own, as this one has for each."""
    order = []
    inside, leave = anyio.Event(), anyio.Event()

    async def first():
        async with storage.hold_lock():
            inside.set()
            await leave.wait()
            order.append("first")

    async def second():
        await inside.wait()
        leave.set()
        async with logins.of("far", URL, "file").hold_lock():
            order.append("second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        tasks.start_soon(first)
    assert order == ["first", "second"]


async def test_who_waits_for_the_lock_can_be_called_off(logins, storage):
    async with storage.hold_lock():
        with anyio.move_on_after(0.05) as scope:
            async with storage.hold_lock():
                raise AssertionError("both had it")
        assert scope.cancelled_caught
        async with logins.of("other", URL, "file").hold_lock():  # which is another's
            pass
    async with storage.hold_lock():
        pass


@pytest.fixture
def ringed(tmp_path):
    """Logins in a keyring of this test: a backend that the configuration of its home names."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ring.py").write_text(
        "import pathlib\n"
        "from keyring.backend import KeyringBackend\n"
        "class Ring(KeyringBackend):\n"
        "    priority = 1\n"
        "    def _path(self, service, username):\n"
        f"        return pathlib.Path('{tmp_path}') / f'{{service}}-{{username}}'\n"
        "    def set_password(self, service, username, password):\n"
        "        self._path(service, username).write_text(password)\n"
        "    def get_password(self, service, username):\n"
        "        path = self._path(service, username)\n"
        "        return path.read_text() if path.exists() else None\n"
        "    def delete_password(self, service, username):\n"
        "        self._path(service, username).unlink()\n"
    )
    directory = tmp_path / ".config" / "python_keyring"
    directory.mkdir(parents=True)
    (directory / "keyringrc.cfg").write_text(f"[backend]\ndefault-keyring=ring.Ring\nkeyring-path={tmp_path / 'lib'}\n")
    return Logins(directory=tmp_path / "oauth", environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})


async def test_a_keyring_keeps_a_login(ringed):
    """H1, N5, T5: the knob ``servers.NAME.auth.tokens``; no file does."""
    storage, kept = ringed.of("far", URL, "keyring"), login()
    assert await storage.load() is None
    async with storage.hold_lock():
        await storage.save(kept)
    assert await ringed.of("far", URL, "keyring").load() == kept
    assert not [*ringed.directory.glob("*.json")]
    await storage.forget()
    await storage.forget()
    assert await storage.load() is None


async def test_a_keyring_that_takes_nothing_is_an_error(tmp_path):
    directory = tmp_path / ".config" / "python_keyring"
    directory.mkdir(parents=True)
    (directory / "keyringrc.cfg").write_text("[backend]\ndefault-keyring=keyring.backends.fail.Keyring\n")
    storage = Logins(directory=tmp_path / "oauth", environ={"HOME": str(tmp_path)}).of("far", URL, "keyring")
    with pytest.raises(ConfigError, match="does not take") as caught:
        await storage.save(login())
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("kind", ["file", "keyring"])
async def test_a_login_and_a_logout_of_another_process_are_noticed(ringed, kind):
    storage, other = ringed.of("far", URL, kind), ringed.of("far", URL, kind)
    stamps = [storage.stamp()]
    await other.save(login())
    stamps.append(storage.stamp())
    assert await storage.load() is not None
    assert storage.stamp() == stamps[-1]
    await other.forget()
    stamps.append(storage.stamp())
    assert stamps[0] != stamps[1] != stamps[2]
