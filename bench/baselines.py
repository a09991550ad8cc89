"""What Gloveport is measured against: the same program without a sandbox, in bubblewrap alone, in other sandboxes.

Each is started in the cheapest way there is, by ``posix_spawn``, and is done when it has ended well and all that it
printed is there. Nothing is installed; what is not there is said to be not there.
"""

import contextlib
import os
import shlex
import shutil
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from deno import find_deno_bin

from bench.measure import Contender, Sample, Unavailable, WrongAnswer, timed
from bench.programs import PYTHON, Program, packages
from gloveport.runtimes import python
from gloveport.sandbox.detection import host
from gloveport.sandbox.seccomp.compiler import compile_filter

ENVIRON: Final[Mapping[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

_NOBODY = "65534"
_TRY_SECONDS = 120


def interpreter() -> str:
    """The interpreter that runs the programs of sandboxes."""
    return python.find(None).executable


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line and the proof that it did its work.

    Attributes:
        filter: A descriptor that it inherits, read to its end by each start.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    prints: str
    filter: int | None = None

    async def run(self) -> None:
        """Run it once. Blocks: while a baseline runs, nothing else shall."""
        status, printed = self._spawn()
        if (status, printed) != (0, self.prints):
            code = os.waitstatus_to_exitcode(status)
            raise WrongAnswer(f"{shlex.join(self.argv)} ended with {code} and printed {printed!r}")

    def _spawn(self) -> tuple[int, str]:
        """Its wait status and its output."""
        if self.filter is not None:
            os.lseek(self.filter, 0, os.SEEK_SET)
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as output:
            try:
                silent = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, 0, 2)
                actions = [*silent, (os.POSIX_SPAWN_DUP2, writing, 1)]
                pid = os.posix_spawn(self.argv[0], self.argv, self.env, file_actions=actions)
            finally:
                os.close(writing)
            printed = output.read().decode(errors="replace")
        return os.waitpid(pid, 0)[1], printed


def bare_python(program: Program) -> Contender:
    """The guests' interpreter with ``-c``."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        yield timed(_python(program, ENVIRON).run)

    return opened


def bare_python_with_packages(program: Program) -> Contender:
    """The same, with the packages that sandboxes show to their programs."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        yield timed(_python(program, {**ENVIRON, "PYTHONPATH": str(packages())}).run)

    return opened


def _python(program: Program, env: Mapping[str, str]) -> Command:
    return Command(argv=(interpreter(), "-c", program.code), env=env, prints=program.prints)


def bare_deno(program: Program) -> Contender:
    """``deno run`` of a file, with a cache directory that it keeps."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        file = scratch / "program.ts"
        file.write_text(program.code)
        env = {**ENVIRON, "DENO_DIR": str(scratch / "deno"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
        yield timed(Command(argv=(find_deno_bin(), "run", str(file)), env=env, prints=program.prints).run)

    return opened


def bubblewrap(program: Program) -> Contender:
    """A sandbox as strong as one shell line makes it, built for each run: all namespaces, an empty root, no capability,
    no further user namespace, sized file systems in memory, our system call filter. No Landlock, cgroup, report or log.
    """

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        binds, command = _inside(program, scratch)
        code = compile_filter(os.uname().machine, frozenset({socket.AF_INET, socket.AF_INET6}))
        with os.fdopen(os.memfd_create("filter"), "wb") as file:
            file.write(code)
            file.flush()
            os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its signature
            walls = (*_as_nobody(), *_bubblewrap(binds), "--add-seccomp-fd", str(file.fileno()), "--")
            line = Command(argv=(*walls, *command), env=ENVIRON, prints=program.prints, filter=file.fileno())
            yield timed(line.run)

    return opened


def _inside(program: Program, scratch: Path) -> tuple[dict[Path, str], list[str]]:
    """What is bound besides the system, and the command, of a program in a sandbox."""
    match program.language:
        case "python":
            return {}, [interpreter(), "-c", program.code]
        case "shell":
            return {}, ["/bin/bash", "--noprofile", "--norc", "-c", program.code]
        case "typescript" | "javascript":
            deno, file = scratch / "deno-binary", scratch / "program.ts"
            shutil.copyfile(find_deno_bin(), deno)  # to where an unprivileged uid can reach it
            deno.chmod(0o755)
            file.write_text(program.code)
            return {deno: "/opt/deno", file: "/opt/program.ts"}, ["/opt/deno", "run", "--no-remote", "/opt/program.ts"]


def _as_nobody() -> list[str]:
    """As root, give up root first, as Gloveport does: bubblewrap of host uid 0 leaves /proc/sys writable."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv") or "/usr/bin/setpriv"
    return [program, "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups", "--no-new-privs", "--"]


def _bubblewrap(binds: Mapping[Path, str]) -> list[str]:
    line = [str(host.find_bubblewrap(None)), "--unshare-all", "--unshare-user", "--disable-userns"]
    line += ["--assert-userns-disabled", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    line += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8"]
    line += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]
    for path in (Path("/bin"), Path("/lib"), Path("/lib64")):
        if path.is_symlink():
            line += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            line += ["--ro-bind", str(path), str(path)]
    for source, target in binds.items():
        line += ["--ro-bind", str(source), target]
    line += ["--proc", "/proc", "--dev", "/dev", "--size", str(16 << 20), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    return [*line, "--size", str(64 << 20), "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/tmp"]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another sandbox, as its own command runs a program, where it is installed."""

    program: str
    arguments: Sequence[str]
    install: str
    prints: str = PYTHON.prints

    @contextlib.asynccontextmanager
    async def open(self, _: Path) -> AsyncIterator[Sample]:
        """Find it and try it once. It gets this process's environment: where it keeps its things, only it knows.

        Raises:
            Unavailable: It is not installed, or it does not run here.
        """
        path = shutil.which(self.program)
        if path is None:
            raise Unavailable(f"{self.program} is not installed", self.install)
        argv = (path, *self.arguments)
        try:
            with anyio.fail_after(_TRY_SECONDS):
                tried = await anyio.run_process(argv, check=False)
        except TimeoutError:
            raise Unavailable(f"{self.program} gives no answer within {_TRY_SECONDS} s", self.install) from None
        if (tried.returncode, tried.stdout.decode(errors="replace")) != (0, self.prints):
            said = (tried.stderr or tried.stdout).decode(errors="replace").strip().splitlines()[-1:]
            raise Unavailable(f"{self.program} does not run here: {' '.join(said)}", self.install)
        yield timed(Command(argv=argv, env=dict(os.environ), prints=self.prints).run)


_IMAGE = "docker.io/library/python:3-slim"

PEERS: Final = {
    "srt": Peer(
        program="srt",
        arguments=("-c", "/usr/bin/python3 -c 'print(1)'"),
        install="npm install -g @anthropic-ai/sandbox-runtime; apt-get install ripgrep socat",
    ),
    "codex sandbox": Peer(
        program="codex",
        arguments=("sandbox", "/usr/bin/python3", "-c", "print(1)"),
        install="npm install -g @openai/codex",
    ),
    "podman run": Peer(
        program="podman",
        arguments=(
            *("run", "--rm", "--pull=never", "--network=none", "--read-only", "--cap-drop=all", _IMAGE),
            *("python3", "-c", "print(1)"),
        ),
        install=f"apt-get install podman; podman pull {_IMAGE}",
    ),
    "runsc do": Peer(
        program="runsc",
        arguments=("--network=none", "do", "/usr/bin/python3", "-c", "print(1)"),
        install="apt-get install runsc",
    ),
}
