"""Runs programs of our own tools, one after another, in sandboxes in which all of the host is read-only.

To make a sandbox takes longer than to search a repository in it. The programs are ours, but read hostile files, so they
are trusted as little as an agent's. A program that was taken over can write to nothing, reach nothing, and leave
nothing behind for the next (``guest/jobs.py``): it can only give a false answer.
"""

import contextlib
import functools
import json
import math
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.errors import SandboxError
from gloveport.executables import find_executable
from gloveport.limits.admission import AdmissionQueue, make_turns
from gloveport.model import GUEST, LimitName, Program
from gloveport.sandbox.base import IsolationReport
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.console import Console
from gloveport.sandbox.plan import PathProtection
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.program import ProgramOutput

_AT_ONCE: Final = 4
_MOST_JOBS: Final = 200
_IDLE_SECONDS: Final = 60.0
_HEAD_BYTES: Final = 4
_BY_A_SIGNAL: Final = 129  # the least exit code after a signal; git itself fails with 128
_MARK_BYTES: Final = 16
_END_BYTES: Final = _MARK_BYTES + 1
_STDERR_BYTES: Final = 64 << 10
_VALUE_BYTES: Final = 256
_VARIABLES: Final = {"HOME": "/"}
_JOBS: Final = ("-I", "-S", "-B", f"{GUEST}/jobs.py")

Make: TypeAlias = Callable[[tuple[PathProtection, ...]], AbstractAsyncContextManager[Confined]]
"""Makes a sandbox that protects these paths."""


class _JobOutput(Struct, eq=False, kw_only=True):
    """A ``sandbox.base.Sink`` for one stream of a worker: the current program's output, up to the mark.

    Attributes:
        notify: Called when the mark has come.
        exit_code: Comes with the mark.
    """

    notify: Callable[[], object] = bool
    mark: bytes = b""
    most: int = 0
    data: bytearray = field(default_factory=bytearray)
    exit_code: int | None = None

    def listen(self, mark: bytes, most: int) -> None:
        """Begin with the next program, and keep at most so many bytes of its output."""
        self.mark, self.most, self.data, self.exit_code = mark, most, bytearray(), None

    def write(self, data: bytes) -> None:
        """See ``Sink``."""
        self.data += data
        end = len(self.data) - _END_BYTES
        if self.exit_code is None and self.data[end:-1] == self.mark:
            self.exit_code = self.data[-1]
            del self.data[end:]
            self.notify()

    def full(self) -> bool:
        """See ``Sink``."""
        return len(self.data) > self.most + _END_BYTES


class _Worker(Struct, eq=False, kw_only=True):
    """One sandbox, from its first program to its last.

    Attributes:
        scope: Cancelling it ends the worker; its deadline is how long the worker may idle.
        jobs: How many programs it was given.
        killed_by: The limit that has ended it.
        failure: Why it can't be used.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    jobs: int = 0
    walls: IsolationReport | None = None
    killed_by: LimitName | None = None
    failure: Exception | None = None
    is_gone: bool = False
    stdout: _JobOutput = field(default_factory=_JobOutput)
    stderr: _JobOutput = field(default_factory=_JobOutput)
    _console: Console | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.stdout.notify = self.stderr.notify = self._notify

    async def live(self, make: Make, protections: tuple[PathProtection, ...]) -> None:
        """Keep the sandbox until it ends or the scope does."""
        clock = Clock()
        try:
            with self.scope:
                async with make(protections) as child:
                    self.walls = child.walls
                    program = Program(name="jobs", argv=(child.plan.interpreter[0], *_JOBS))
                    with clock.pause():  # each job has its own time limit
                        outcome = await child.run(
                            program,
                            value_bytes=_VALUE_BYTES,
                            stdout=self.stdout,
                            stderr=self.stderr,
                            clock=clock,
                            on_console=self._begin,
                        )
                    self.killed_by = outcome.killed_by
        except (SandboxError, OSError) as error:
            self.failure = error
        finally:
            self.is_gone = True
            self._notify()

    async def do(self, job: Mapping[str, object], stdin: bytes, most_bytes: int) -> None:
        """Run a program until it or the sandbox has ended."""
        mark = secrets.token_bytes(_MARK_BYTES)
        self.stdout.listen(mark, most_bytes)
        self.stderr.listen(mark, _STDERR_BYTES)
        head = json.dumps({**job, "stdin": len(stdin), "mark": mark.hex()}).encode()
        self.jobs += 1
        await self._until(lambda: self._console is not None)
        if self._console is not None:
            with contextlib.suppress(BrokenPipeError):
                await self._console.write(len(head).to_bytes(_HEAD_BYTES, "big") + head + stdin)
        await self._until(self.has_ended)

    def _begin(self, console: Console) -> None:
        self._console = console
        self._notify()

    def has_ended(self) -> bool:
        """Whether the last program has ended."""
        return self.stdout.exit_code is not None and self.stderr.exit_code is not None

    def has_ended_well(self) -> bool:
        """Whether the last program has ended by itself. If the kernel killed it for memory, the sandbox ends a moment
        later.
        """
        code = self.stdout.exit_code
        return self.has_ended() and code is not None and code < _BY_A_SIGNAL

    def is_full(self) -> bool:
        """Whether the program has written too much."""
        return self.stdout.full() or self.stderr.full()

    def _notify(self) -> None:
        self._changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds, or the worker is gone."""
        while not self.is_gone and not holds():
            self._changed = anyio.Event()
            await self._changed.wait()


class ReadonlyWorkers(Struct, eq=False, kw_only=True):
    """Runs programs that only read.

    Attributes:
        protections: The protected paths: all that their plan could write to.
        target: Where programs see the workspace.
        walls: The isolation in force in the last one.
    """

    make: Make
    protections: tuple[PathProtection, ...]
    target: str
    tasks: TaskGroup
    walls: IsolationReport | None = None
    _idle: list[_Worker] = field(default_factory=list)
    _turns: AdmissionQueue = field(default_factory=lambda: make_turns(_AT_ONCE))

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        caller: str = "",
        variables: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float = 10.0,
        most_bytes: int = 1 << 20,
    ) -> ProgramOutput:
        """See ``workspace.program.RunProgram``; callers that wait take turns."""
        job = {
            "argv": (_path_of(argv[0]), *argv[1:]),
            "directory": self.target,
            "variables": {**_VARIABLES, **(variables or {})},
        }
        async with self._turns.place(caller):
            ends = anyio.current_time() + seconds
            while self._idle and self._idle[-1].is_gone:
                self._idle.pop()
            if self._idle:
                async with self._keep_or_end(self._idle.pop()) as worker:
                    ran = await _run_job(worker, job, stdin, ends, most_bytes)
                if ran is not None:
                    return ran
            async with self._keep_or_end(_Worker()) as worker:
                self.tasks.start_soon(worker.live, self.make, self.protections)
                return await _run_job(worker, job, stdin, ends, most_bytes) or _result_of_dead(worker)

    @contextlib.asynccontextmanager
    async def _keep_or_end(self, worker: _Worker) -> AsyncIterator[_Worker]:
        """Keep the worker for the next program if all went well, else end it."""
        worker.scope.deadline = math.inf
        serves_on = False
        try:
            yield worker
            serves_on = worker.has_ended_well() and not worker.is_full() and worker.jobs < _MOST_JOBS
        finally:
            self.walls = worker.walls or self.walls
            if serves_on:
                worker.scope.deadline = anyio.current_time() + _IDLE_SECONDS
                self._idle.append(worker)
            else:
                worker.scope.cancel()


@functools.cache
def _path_of(program: str) -> str:
    """The path of a program of the system, which every sandbox shows; the bare name for any other program."""
    return find_executable(program, "/usr/bin:/bin") or program


async def _run_job(
    worker: _Worker, job: Mapping[str, object], stdin: bytes, ends: float, most_bytes: int
) -> ProgramOutput | None:
    """The result of a program; None where its sandbox has ended, perhaps because of an earlier program."""
    with anyio.move_on_at(ends) as time:
        await worker.do(job, stdin, most_bytes)
    has_ended = worker.has_ended()
    is_over = has_ended or worker.is_full() or time.cancelled_caught or worker.killed_by == "memory_bytes"
    if not is_over:
        return None
    return ProgramOutput(
        exit_code=worker.stdout.exit_code if has_ended else None,
        stdout=bytes(worker.stdout.data[:most_bytes]),
        stderr=bytes(worker.stderr.data[:_STDERR_BYTES]),
        truncated=len(worker.stdout.data) > most_bytes,
        timed_out=time.cancelled_caught,
    )


def _result_of_dead(worker: _Worker) -> ProgramOutput:
    """The result of the only program of a sandbox that has ended.

    Raises:
        WorkspaceError: SANDBOX_UNAVAILABLE.
    """
    if worker.killed_by is not None:
        return ProgramOutput(exit_code=None, stdout=b"", stderr=b"", truncated=False, timed_out=False)
    hint = worker.failure.hint if isinstance(worker.failure, SandboxError) else "try again"
    raise WorkspaceError(
        "SANDBOX_UNAVAILABLE", str(worker.failure or "the sandbox has ended"), hint=hint, retryable=True
    )
