"""``python -m bench.kills [ROUNDS]``: servers killed at random moments of start, load and stop; nothing may be left.

This process is who orphans are given to. So whatever a server has started, and whatever that has started, is below this
process in the end, or dead; and nobody else is. Beside processes, cgroups, locks of uids and temporary files are
counted. A round is told by its number and the seed, so that one that has failed can be had again. Exits with 1 then.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SEED = 14
_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_PR_SET_CHILD_SUBREAPER = 36
_LOCKS = Path("/run/gloveport.uids")
_UIDS = 64
_START_SECONDS, _LOAD_SECONDS, _STOP_SECONDS = 1.6, 0.5, 0.4
_TELLS = 50
_TWICE_SECONDS = 0.2
_SIGNALS = (signal.SIGKILL, signal.SIGTERM)
_PROTOCOL = "2025-11-25"
_COLD = "[pool]\nforked = 0\nbooted = 0\n"
_PROGRAMS = (
    ("typescript", "while (true) await new Promise((done) => setTimeout(done, 10))"),
    ("typescript", "console.log(1)"),
    ("python", "import subprocess; subprocess.run(['sh', '-c', 'sleep 1000 & sleep 1000'])"),
    ("python", "while True: pass"),
    ("shell", "(setsid sleep 1000 &) ; sleep 1000"),
    ("shell", "echo done"),
)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One server's life.

    Attributes:
        phase: Of the server, when it is killed.
        seconds: After the beginning of the phase.
        signals: Which it gets, one after the other.
        pause: Between two of them.
        warm: Whether sandboxes wait.
    """

    phase: str
    seconds: float
    signals: tuple[signal.Signals, ...]
    pause: float
    warm: bool
    order: tuple[int, ...]

    @classmethod
    def of(cls, seed: int, number: int) -> "Round":
        """The one of this number."""
        chance = random.Random(f"{seed}/{number}")
        phase = chance.choice(("start", "start", "load", "load", "stop"))
        most = {"start": _START_SECONDS, "load": _LOAD_SECONDS, "stop": _STOP_SECONDS}[phase]
        return cls(
            phase=phase,
            seconds=chance.uniform(0, most),
            signals=tuple(chance.choice(_SIGNALS) for _ in range(chance.choice((1, 2)))),
            pause=chance.uniform(0, _TWICE_SECONDS),
            warm=chance.random() < 0.7,
            order=tuple(chance.sample(range(len(_PROGRAMS)), len(_PROGRAMS))),
        )

    def __str__(self) -> str:
        names = "+".join(number.name for number in self.signals)
        return f"{names} {self.seconds:.3f} s into its {self.phase}, {'warm' if self.warm else 'cold'}"


@dataclass(kw_only=True)
class Harness:
    """Where servers are started and killed.

    Attributes:
        place: A directory of this harness alone.
        command: Starts a server.
        first_uid: Of a range that nobody else uses, where this is root.
    """

    place: Path
    command: Sequence[str]
    first_uid: int

    @classmethod
    @contextlib.contextmanager
    def open(cls, command: Sequence[str]) -> "Iterator[Harness]":
        """One in a temporary directory. From now on this process is who orphans are given to."""
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError("this process can't be given orphans")
        with tempfile.TemporaryDirectory(prefix="gloveport-kills.") as name:
            yield cls(place=Path(name), command=command, first_uid=1_970_000_000 + _UIDS * (os.getpid() % 100_000))

    def play(self, each: Round) -> list[str]:
        """Start a server, kill it, and tell what is left of it when it has had its time."""
        scratch, workspace = self.place / "tmp", self.place / "workspace"
        for directory in (scratch, workspace):
            directory.mkdir(exist_ok=True)
        before = frozenset(_groups())  # others leave theirs, and a number is given out again
        process = self._start(each, scratch, workspace)
        with process:
            if each.phase == "start":
                time.sleep(each.seconds)
            else:
                self._load(process, each)
            for number in each.signals:
                process.send_signal(number)
                time.sleep(each.pause)
            process.kill()  # a stop takes as long as it takes: what it leaves is asked from when it is over
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        found = self._await_nothing(process.pid, scratch, before)
        for pid in _below():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        return found

    def _start(self, each: Round, scratch: Path, workspace: Path) -> "subprocess.Popen[bytes]":
        configuration = self.place / "gloveport.toml"
        uids = f"[sandbox]\nfirst_uid = {self.first_uid}\nuid_count = {_UIDS}\n"
        configuration.write_text(uids + ("" if each.warm else _COLD))
        configuration.chmod(0o600)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GLOVEPORT_")}
        environ |= {
            "GLOVEPORT_CONFIG": str(configuration),
            "GLOVEPORT_STATE": str(self.place / "state"),
            "TMPDIR": str(scratch),
        }
        with (self.place / "stderr").open("wb") as stderr:
            return subprocess.Popen(
                [*self.command, "serve", "--workspace", str(workspace)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environ,
                start_new_session=True,
            )

    def _load(self, process: "subprocess.Popen[bytes]", each: Round) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        client = {"name": "kills", "version": "1"}
        greeting = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        lines = [{"id": 0, "method": "initialize", "params": greeting}]
        process.stdin.write(_line(lines[0]))
        process.stdin.flush()
        if not process.stdout.readline():
            raise RuntimeError(f"the server does not start: {(self.place / 'stderr').read_text()}")
        calls = [{"name": "exec_command", "arguments": {"cmd": "sleep 1000 & sleep 1000"}}]
        for index in each.order:
            language, code = _PROGRAMS[index]
            calls.append({"name": "execute_code", "arguments": {"language": language, "code": code}})
        process.stdin.write(_line({"method": "notifications/initialized", "params": {}}))
        for number, call in enumerate(calls, 1):
            process.stdin.write(_line({"id": number, "method": "tools/call", "params": call}))
        process.stdin.flush()
        if each.phase == "load":
            time.sleep(each.seconds)
            return
        time.sleep(_LOAD_SECONDS / 2)
        process.stdin.close()
        time.sleep(each.seconds)

    def _await_nothing(self, server: int, scratch: Path, before: frozenset[Path]) -> list[str]:
        """Wait until nothing is left of a server; what is left all the same."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            _reap()
            found = [f"process {pid}: {_describe(pid)}" for pid in _below()]
            found += [f"cgroup {path}" for path in _groups(server) if path not in before]
            found += [f"file {path}" for path in scratch.rglob("*")]
            found += self._locks()
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(_LOOK_SECONDS)

    def _locks(self) -> list[str]:
        if os.geteuid() != 0 or not _LOCKS.exists():
            return []
        request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, self.first_uid, _UIDS, 0)
        with _LOCKS.open("r+b") as file:
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, request))
        return [] if answer[0] == fcntl.F_UNLCK else [f"lock of uid {answer[2]}"]


def _line(message: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _below() -> list[int]:
    """All processes below this one."""
    parents: dict[int, list[int]] = {}
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry))
    found, rest = [], [os.getpid()]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:60]
        wchan = Path(f"/proc/{pid}/wchan").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError as error:
        return str(error.strerror)
    return f"{state} {wchan} {words}"


def _groups(server: int | None = None) -> list[Path]:
    """Those of a server, or of all."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    name = f"gloveport-{namespace}-" if server is None else f"gloveport-{namespace}-{server}-"
    return [
        Path(place, directory)
        for place, directories, _ in os.walk("/sys/fs/cgroup")
        for directory in directories
        if directory.startswith(name)
    ]


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rounds", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    arguments = parser.parse_args()
    bad = 0
    began = time.monotonic()
    with Harness.open([str(Path(sys.executable).with_name("gloveport"))]) as harness:
        for number in range(arguments.first, arguments.first + arguments.rounds):
            each = Round.of(arguments.seed, number)
            found = harness.play(each)
            bad += bool(found)
            for what in found:
                print(f"round {number}, {each}: left {what}", flush=True)
            played = number + 1 - arguments.first
            if played % _TELLS == 0:
                print(f"{played} rounds, {bad} left something", flush=True)
    seconds = time.monotonic() - began
    print(f"{arguments.rounds} rounds, {bad} left something, {seconds:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
