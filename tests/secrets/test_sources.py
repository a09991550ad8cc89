"""Secrets come from where the operator keeps them, at the moment they are needed. N5, T4, T5.

The time of the event loop can be put ahead, so nothing waits for what is kept to grow old.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
from pathlib import Path

import anyio
import pytest

from gloveport.errors import ConfigError
from gloveport.secrets import secret_files
from gloveport.secrets.sources import Sources

pytestmark = pytest.mark.anyio

SECRET = "correct-horse-battery"


@pytest.fixture(autouse=True)
async def own_time(monkeypatch):
    """That of the event loop, which ``pass_time`` puts ahead, until the test is over."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", loop.time)


def pass_time(seconds):
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds


def written(path: Path, data: bytes | str, mode=0o600) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(mode)
    return path


@pytest.fixture
def sources(tmp_path):
    """Sources whose commands find their home in the test's directory."""
    return Sources({"PATH": os.environ["PATH"], "HOME": str(tmp_path), "API_KEY": SECRET})


async def refusal(sources, ref):
    with pytest.raises(ConfigError) as caught:
        await sources.resolve(ref)
    assert repr(ref) in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


async def test_a_variable_is_looked_up_each_time():
    environ = {"API_KEY": "first-value"}
    sources = Sources(environ)
    assert await sources.resolve("env:API_KEY") == "first-value"
    environ["API_KEY"] = "second-value"
    assert await sources.resolve("env:API_KEY") == "second-value"


@pytest.mark.parametrize("environ", [{}, {"API_KEY": ""}])
async def test_a_secret_that_is_missing_or_empty_is_an_error_that_names_it(environ):
    """N5: never a request with an empty credential."""
    assert "missing or empty" in await refusal(Sources(environ), "env:API_KEY")


@pytest.mark.parametrize(
    "value",
    [
        f"{SECRET}\r\nX-Admin: yes",
        f"{SECRET}\nsecond",
        f"{SECRET}\rsecond",
        f"{SECRET}\0",
        f"{SECRET}\x7f",
        f"{SECRET}\x85",
        f" {SECRET}",
        f"{SECRET}\t",
        f"{SECRET}\udcff",
    ],
)
async def test_a_secret_that_would_break_its_header_is_refused_and_not_shown(value):
    """N5, T4: header injection by a value."""
    assert SECRET not in await refusal(Sources({"API_KEY": value}), "env:API_KEY")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_a_file_holds_a_secret_and_perhaps_one_newline(sources, tmp_path, end):
    file = written(tmp_path / "key", SECRET + end)
    assert await sources.resolve(f"file:{file}") == SECRET


async def test_a_second_newline_is_part_of_the_value_and_so_refused(sources, tmp_path):
    file = written(tmp_path / "key", f"{SECRET}\n\n")
    assert "in one line" in await refusal(sources, f"file:{file}")


async def test_a_key_of_several_lines_is_text_though_no_header(sources, tmp_path):
    """N5, T4: a server's variable takes it; what is no text at all, it does not."""
    file = written(tmp_path / "key", f"-----BEGIN-----\n\t{SECRET}\r\n-----END-----\n")
    assert await sources.resolve_text(f"file:{file}") == f"-----BEGIN-----\n\t{SECRET}\r\n-----END-----"
    assert "one line" in await refusal(sources, f"file:{file}")
    with pytest.raises(ConfigError, match="control characters"):
        await Sources({"API_KEY": f"{SECRET}\0"}).resolve_text("env:API_KEY")


async def test_a_file_that_changes_is_read_again_without_a_restart(sources, tmp_path):
    """N5: rotation, also by a rename onto the name and through a link, as with mounted secrets."""
    file, link = written(tmp_path / "key", "first-value"), tmp_path / "link"
    link.symlink_to(file)
    assert await sources.resolve(f"file:{link}") == "first-value"
    written(tmp_path / "new", "again-value").rename(file)
    pass_time(1)
    assert await sources.resolve(f"file:{link}") == "again-value"


async def test_a_file_is_not_read_for_each_request(sources, tmp_path):
    file = written(tmp_path / "key", SECRET)
    await sources.resolve(f"file:{file}")
    file.unlink()
    assert await sources.resolve(f"file:{file}") == SECRET


async def test_a_file_that_others_may_write_is_refused(sources, tmp_path):
    """T4: or another user of the host chooses what is sent."""
    file = written(tmp_path / "key", SECRET, mode=0o620)
    assert "written by others" in await refusal(sources, f"file:{file}")


@pytest.mark.parametrize("name", ["fifo", "directory", "absent", "/dev/zero"])
async def test_what_is_no_regular_file_is_refused_at_once(sources, tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    await refusal(sources, f"file:{tmp_path / name}")


@pytest.mark.parametrize("content", [b"x" * (1 << 16) + b"y", b"\xff\xfe\xfd secret"])
async def test_a_file_that_is_no_secret_is_refused(sources, tmp_path, content):
    file = written(tmp_path / "key", content)
    await refusal(sources, f"file:{file}")


async def test_a_file_of_somebody_else_is_refused(sources, tmp_path, monkeypatch):
    file = written(tmp_path / "key", SECRET)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
    else:  # only root can give a file away; that it is somebody else's is the same by who we are
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to user id" in await refusal(sources, f"file:{file}")


@pytest.mark.parametrize("pointer", ["/api/0/key", "/a~1b/~0", "/"])
async def test_a_pointer_finds_a_string_in_a_json_file(sources, tmp_path, pointer):
    content = {"api": [{"key": SECRET}], "a/b": {"~": SECRET}, "": SECRET}
    file = written(tmp_path / "keys.json", json.dumps(content))
    assert await sources.resolve(f"json:{file}#{pointer}") == SECRET


@pytest.mark.parametrize("pointer", ["/api/1", "/api/01", "/api/-", "/number", "/api", "/absent/deeper", "/key/0"])
async def test_a_pointer_that_leads_to_no_string_is_refused(sources, tmp_path, pointer):
    file = written(tmp_path / "keys.json", json.dumps({"api": [SECRET], "number": 12345678, "key": SECRET}))
    assert SECRET not in await refusal(sources, f"json:{file}#{pointer}")


@pytest.mark.parametrize("content", [f"{{{SECRET}", "[" * 60_000])
async def test_a_file_that_is_no_json_is_refused_and_not_shown(sources, tmp_path, content):
    """T4"""
    file = written(tmp_path / "keys.json", content)
    assert SECRET not in await refusal(sources, f"json:{file}#/key")


def command(code: str) -> str:
    return f"command:{sys.executable} -S -c '{code}'"


async def test_a_command_prints_a_secret(sources):
    assert await sources.resolve(f"command:printf '{SECRET}\\n'") == SECRET


async def test_no_shell_reads_a_command_line(sources):
    assert await sources.resolve("command:echo $HOME;id|`id`") == "$HOME;id|`id`"


async def test_a_command_gets_next_to_no_environment_and_no_input():
    """T4: a secret of one API is nothing for the command of another."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/h", "LANG": "C", "AWS_SECRET_ACCESS_KEY": SECRET}
    code = 'import os, sys; print(sorted(os.environ), os.getcwd(), sys.stdin.read() == "")'
    names = await Sources(environ).resolve(command(code))
    assert set(names.split("]")[0].strip("[").replace("'", "").split(", ")) <= {"HOME", "LANG", "LC_CTYPE", "PATH"}
    assert names.endswith(" / True")


@pytest.mark.parametrize(
    "line",
    [
        "command:echo 'open",
        "command: ",
        "command:/nonexistent/program",
        "command:./program",
        command(f'print("{SECRET}"); raise SystemExit(3)'),
        command(f'import sys; sys.exit("{SECRET}")'),
        command('print("x" * 70_000)'),
        command("pass"),
    ],
)
async def test_a_command_that_gives_no_secret_is_an_error_without_its_output(sources, line):
    """T4"""
    message = await refusal(sources, line)
    assert SECRET not in message.replace(repr(line), "")


@pytest.fixture
def long():
    """Seconds to sleep: a number that no other process has on its command line."""
    return f"97.{os.getpid()}"


async def test_a_command_that_hangs_is_killed_with_its_children(sources, eventually, is_running, long):
    """N5: a source that hangs must not hold a request for ever."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refusal, sources, command(f'import subprocess as s; s.run(["sleep", "{long}"])'))
        while not is_running(long):
            await anyio.sleep(0.01)
        pass_time(11)
    eventually(lambda: not is_running(long))


async def test_a_command_is_killed_when_nobody_asks_any_more(sources, is_running, long):
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sources.resolve, f"command:sleep {long}")
        while not is_running(long):
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert not is_running(long)


async def test_what_a_command_leaves_behind_is_killed(sources, eventually, is_running, long):
    code = f'import subprocess as s; s.Popen(["sleep", "{long}"], stdout=s.DEVNULL); print("{SECRET}")'
    assert await sources.resolve(command(code)) == SECRET
    eventually(lambda: not is_running(long))


@pytest.fixture
def counted(tmp_path):
    """A command that prints how often it has been run."""
    log = tmp_path / "log"
    return f"command:sh -c 'echo >> {log}; printf value-%04d $(wc -l < {log})'"


async def test_those_who_ask_at_the_same_time_share_one_command(sources, counted):
    values = []

    async def ask():
        values.append(await sources.resolve(counted))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert values == ["value-0001"] * 5


async def test_what_a_command_printed_is_kept_for_a_minute(sources, counted):
    assert await sources.resolve(counted) == "value-0001"
    pass_time(59)
    assert await sources.resolve(counted) == "value-0001"
    pass_time(2)
    assert await sources.resolve(counted) == "value-0002"


async def test_what_an_upstream_has_refused_is_fetched_again(sources, counted):
    """N5: rotation works at once."""
    await sources.resolve(counted)
    pass_time(2)
    sources.forget(counted)
    assert await sources.resolve(counted) == "value-0002"


async def test_a_program_that_is_refused_all_the_time_runs_no_command_each_time(sources, counted):
    await sources.resolve(counted)
    for _ in range(20):
        sources.forget(counted)
        assert await sources.resolve(counted) == "value-0001"


async def test_a_command_that_fails_is_run_once_a_second_at_most(sources, tmp_path):
    log = tmp_path / "log"
    for _ in range(3):
        await refusal(sources, f"command:sh -c 'echo >> {log}; false'")
    assert log.read_text() == "\n"
    pass_time(1.1)
    await refusal(sources, f"command:sh -c 'echo >> {log}; false'")
    assert log.read_text() == "\n\n"


@pytest.fixture
def keyring(tmp_path):
    """A keyring of this test: a backend that the configuration of its home names."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ring.py").write_text(
        "from keyring.backend import KeyringBackend\n"
        "class Ring(KeyringBackend):\n"
        "    priority = 1\n"
        "    def set_password(self, service, username, password):\n"
        "        raise NotImplementedError\n"
        "    def get_password(self, service, username):\n"
        f"        return '{SECRET}' if (service, username) == ('-api', 'me/you') else None\n"
    )
    directory = tmp_path / ".config" / "python_keyring"
    directory.mkdir(parents=True)
    (directory / "keyringrc.cfg").write_text(f"[backend]\ndefault-keyring=ring.Ring\nkeyring-path={tmp_path / 'lib'}\n")


async def test_a_keyring_holds_a_secret(sources, keyring):
    assert await sources.resolve("keyring:-api/me/you") == SECRET


async def test_an_entry_that_a_keyring_does_not_have_is_an_error_that_names_it(sources, keyring):
    assert "keyring set" in await refusal(sources, "keyring:other/me")


async def test_a_value_is_put_back_into_its_file(sources, tmp_path):
    """N5: a refresh token that the server has exchanged."""
    file, link = written(tmp_path / "token", "first-value", mode=0o640), tmp_path / "link"
    link.symlink_to(file)
    assert await sources.resolve(f"file:{link}") == "first-value"
    await sources.replace(f"file:{link}", "other-value")
    assert await sources.resolve(f"file:{link}") == "other-value"
    assert file.read_text() == "other-value\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "token"]


async def test_a_value_that_can_not_be_put_back_is_an_error_that_names_where(sources, tmp_path):
    with pytest.raises(ConfigError, match=r"secret 'file:.*can't be written"):
        await sources.replace(f"file:{tmp_path / 'absent'}", SECRET)


def test_who_may_write_to_the_directory_of_a_secret_is_given_no_other_file(tmp_path):
    """T4: a link in the place of the new file, before it gets the owner of the one that was there. Root gives files
    away, others can't.
    """
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    own, other, over = tmp_path / "own", tmp_path / "other", threading.Event()
    own.mkdir()
    other.write_text("ours")

    def put_links():
        while not over.is_set():
            for new in own.glob(".gloveport-*"):
                with contextlib.suppress(OSError):
                    new.unlink()
                    new.symlink_to(other)

    thread = threading.Thread(target=put_links)
    thread.start()
    try:
        for _ in range(200):
            (own / "key").unlink(missing_ok=True)
            written(own / "key", SECRET)
            os.chown(own / "key", owner, -1)
            with contextlib.suppress(ConfigError):
                secret_files.replace(str(own / "key"), "another-secret")
    finally:
        over.set()
        thread.join()
    assert other.stat().st_uid == os.geteuid()
