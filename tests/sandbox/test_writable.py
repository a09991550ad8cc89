"""Directories of the host that programs may write: whose they stay, what is kept in them, and what a console is for."""

import os
import shutil
import signal
import stat
from dataclasses import dataclass, field
from io import FileIO

import anyio
import pytest

from gloveport.bootstrap import host_setup, operator_reach
from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model import Mount, Program
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.plan import make_plan
from gloveport.sandbox.pool import zygote_process

pytestmark = pytest.mark.anyio

INSIDE = "/workspace"
OWNER = 54_321
KEPT = ((f"{INSIDE}/.git", "pinned"), (f"{INSIDE}/.git/config", "read-only"), (f"{INSIDE}/.git/hooks", "read-only"))


@dataclass
class Heard:
    """Where the bytes of one stream go."""

    data: bytes = b""
    wanted: dict[bytes, anyio.Event] = field(default_factory=dict)

    def write(self, data):
        self.data += data
        for word, event in self.wanted.items():
            if word in self.data:
                event.set()

    def full(self):
        return False

    async def until(self, word):
        """Return when these bytes have come."""
        event = self.wanted.setdefault(word, anyio.Event())
        self.write(b"")
        with anyio.fail_after(30):
            await event.wait()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The directory that all sandboxes are shown."""
    root = tmp_path_factory.mktemp("shown") / "work"
    root.mkdir()
    return root


@pytest.fixture
def folder(root):
    """The same with nothing but a repository in it; for root, of another user."""
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("[core]\n")
    (root / "old.txt").write_text("old")
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, OWNER, OWNER + 1)
    return root


@pytest.fixture(scope="module")
async def server(root):
    """A fork server whose sandboxes may write there."""
    if os.geteuid() == 0:
        os.chown(root, OWNER, OWNER + 1)  # who owns it at the start is whom the sandboxes write as
    config = Config()
    with Launcher.open() as launcher:
        tree = host_setup.cgroups(config, launcher)
        backend, system = (
            host_setup.bubblewrap(config, launcher, tree),
            host_setup.system_of(host_setup.init_of(config, os.environ), tree),
        )
        shares = (Mount(source=str(root), target=INSIDE),)
        grant = operator_reach.whole_grant(config).model_copy(update={"writable": shares})
        plan = make_plan(Program(name="command"), grant, system)
        async with zygote_process.start(backend, plan) as running:
            yield running


@pytest.fixture
def shell(server, folder):
    """``await shell(command)``: exit code, standard output, standard error."""

    async def run(command, *, attend=None, kept=KEPT, **more):
        out, err = Heard(), Heard()
        program = Program(name="command", argv=("/bin/bash", "-c", command), directory=INSIDE, **more)
        async with server.fork(kept) as child, anyio.create_task_group() as tasks:
            hand = None if attend is None else lambda console: tasks.start_soon(attend, console, out)
            outcome = await child.run(program, value_bytes=256, stdout=out, stderr=err, on_console=hand)
        return outcome.exit_code, out.data.decode(), err.data.decode()

    return run


async def test_what_a_program_makes_belongs_to_whom_the_directory_belongs(shell, folder):
    """P35, W4, E9: on the host, and to the program inside."""
    code, out, _ = await shell(
        "echo new > new.txt; mkdir -p a/b; echo more >> old.txt; stat -c %u:%g . old.txt new.txt"
    )
    assert (code, out) == (0, "1000:1000\n" * 3)
    assert (folder / "old.txt").read_text() == "oldmore\n"
    owner = folder.stat()
    for path in (folder / "new.txt", folder / "a/b", folder / "old.txt"):
        assert (path.stat().st_uid, path.stat().st_gid) == (owner.st_uid, owner.st_gid)


ATTACKS = (
    *("echo x >> .git/config", "mv .git .old", "mv .git/config .git/old", "rm -rf .git/hooks"),
    *("echo x > .git/hooks/pre-commit", "rm .git/config", "ln .git/config also", "mkdir n && mv n .git/hooks"),
    *("cd .git && mv ../.git/config ./x", "chmod 777 .git/config"),
    "python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(l.umount2(b\".git/config\", 2) and 1)'",
    'python3 -c \'import os; os.rename("old.txt", ".git/config")\'',
)


async def test_what_is_kept_is_neither_written_nor_replaced(shell, folder):
    """P30, W4: by no way that leads to the same file or the same name."""
    for attack in ATTACKS:
        code, _, err = await shell(attack)
        assert (code != 0, bool(err) or "umount2" in attack) == (True, True), attack
        assert (folder / ".git/config").read_text() == "[core]\n", attack
        assert [*(folder / ".git/hooks").iterdir()] == [], attack
        assert stat.S_IMODE((folder / ".git/config").stat().st_mode) == 0o644, attack


async def test_beside_what_is_kept_all_can_be_written(shell, folder):
    """W4: git works."""
    command = "git init -q . 2>/dev/null; touch .git/index.lock && mv .git/index.lock .git/index && rm old.txt"
    assert (await shell(command))[0] == 0
    assert (folder / ".git/index").exists()


@pytest.mark.parametrize("link", [".git", ".git/config"])
async def test_a_link_at_a_place_that_is_to_be_kept_makes_no_sandbox(shell, folder, link, tmp_path):
    """W2, W4: mounted would be what it leads to."""
    (folder / link).rename(tmp_path / "moved")
    (folder / link).symlink_to(tmp_path / "moved")
    with pytest.raises(SandboxError):
        await shell("true")


async def test_a_place_that_is_not_there_makes_no_sandbox_and_the_next_one_is_made(shell):
    """W4: a wall that can't be built."""
    with pytest.raises(SandboxError):
        await shell("true", kept=(*KEPT, (f"{INSIDE}/nothing", "read-only")))
    assert (await shell("true"))[0] == 0


async def test_no_program_makes_a_file_that_lends_the_rights_of_the_owner(shell, folder):
    """P35, W4, E9"""
    code, _, _ = await shell("cp /bin/true t; chmod 4755 t || chmod g+s t || install -m 6755 t u")
    assert code != 0
    assert not any(path.stat().st_mode & 0o6000 for path in folder.rglob("*"))


CHANGES = (
    *("echo x > new.txt", "echo x > old.txt", "touch .git/x", "rm old.txt", "mkdir d", "mv old.txt new.txt"),
    *("chmod 600 old.txt", "touch -d 2001-01-01 old.txt", "ln old.txt new.txt", "chown 1000 old.txt"),
    'python3 -c \'import os; os.setxattr("old.txt", "user.a", b"x")\'',
)


async def test_where_all_is_kept_nothing_of_the_host_can_be_changed(shell, folder):
    """W4: neither modes nor times, which Landlock knows nothing of; and the scratch can be written as ever."""
    before = (folder / "old.txt").stat()
    script = "; ".join(f"{change} && echo done" for change in CHANGES)
    code, out, _ = await shell(f"cat old.txt; {script}; echo > /tmp/x", kept=((INSIDE, "read-only"),))
    assert (code, out) == (0, "old")
    assert sorted(path.name for path in folder.iterdir()) == [".git", "old.txt"]
    after = (folder / "old.txt").stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_nlink) == (before.st_mode, before.st_mtime_ns, before.st_nlink)
    for change in CHANGES:
        assert (await shell(f"echo > old.txt; rm -f new.txt; {change}"))[0] == 0, "else it proves nothing"


async def test_nothing_of_the_host_can_be_written_where_no_fork_server_makes_the_sandbox(server):
    """W4: nothing would keep what is to be kept."""
    with pytest.raises(SandboxError):
        async with server.backend.start(server.plan):
            pass


async def test_variables_of_a_caller_reach_the_program_alone(shell):
    """P37, W6: here they would have started another interpreter's library than ours."""
    hostile = {"PYTHONHOME": "/workspace", "LD_PRELOAD": "/workspace/x.so", "WORD": "yes"}
    assert (await shell("echo $WORD $PYTHONHOME", variables=hostile))[:2] == (0, "yes /workspace\n")


# -- Consoles --------------------------------------------------------------------------------------------------------


async def test_standard_input_stays_open_until_it_is_closed(shell):
    """W4"""

    async def attend(console, out):
        await console.write(b"one\n")
        await out.until(b"one\n")
        await console.write(b"two\n")
        console.close_input()
        with pytest.raises(BrokenPipeError):
            await console.write(b"three\n")

    assert (await shell("cat; echo end", attend=attend))[:2] == (0, "one\ntwo\nend\n")


async def test_who_waits_to_write_to_what_has_ended_is_told_and_nobody_else_pays_for_it(shell):
    """W4: the number of its descriptor is another's by then."""
    told = []

    async def attend(console, out):
        try:
            await console.write(bytes(1 << 20))
        except BrokenPipeError:
            told.append(True)

    for _ in range(5):
        assert (await shell("exec sleep 0.05", attend=attend))[0] == 0
    reading, writing = os.pipe()
    with FileIO(writing, "w"), FileIO(reading) as end:
        os.write(writing, b"x")
        await anyio.wait_readable(end)
        await anyio.wait_writable(writing)
    assert told == [True] * 5


async def test_a_terminal_controls_the_session(shell):
    """W4: Ctrl-C interrupts what is in front, and the shell goes on."""

    async def attend(console, out):
        await out.until(b"ready")
        await console.write(b"\x03")

    command = (
        "tty; stty size; trap 'echo caught' INT; python3 -c 'import time; print(\"ready\", flush=True); time.sleep(99)'"
    )
    code, out, _ = await shell(f"{command}; echo after", attend=attend, terminal=(40, 120))
    assert code == 0
    assert out.startswith("/dev/pts/0\r\n40 120\r\nready\r\n")
    assert out.endswith("caught\r\nafter\r\n")


async def test_a_terminal_can_be_resized(shell):
    """W4: and the program is told."""

    async def attend(console, out):
        await out.until(b"ready")
        console.resize(11, 22)

    command = "trap 'stty size; exit 7' WINCH; echo ready; while :; do read -t 1 x; done"
    code, out, _ = await shell(command, attend=attend, terminal=(40, 120))
    assert (code, out) == (7, "ready\r\n11 22\r\n")


async def test_a_signal_reaches_the_group_and_the_end_whoever_has_left_it(shell, is_running):
    """P33, W4: setsid and a double fork hide nobody."""
    word = f"9{os.getpid()}{os.times().elapsed:.0f}"

    async def attend(console, out):
        await out.until(b"ready")
        console.signal(signal.SIGTERM)

    command = (
        f"trap 'exit 3' TERM; setsid sleep {word} & (setsid sleep {word} &); echo ready; while :; do sleep 0.1; done"
    )
    assert (await shell(command, attend=attend))[0] == 3
    assert not is_running(word)


async def test_what_a_program_writes_to_a_terminal_at_its_end_is_heard(shell):
    """W4: all of it, though the terminal is gone."""

    async def attend(_console, _out):
        pass

    code, out, _ = await shell("seq 20000", attend=attend, terminal=(40, 120))
    assert (code, len(out.splitlines())) == (0, 20_000)
