"""One session: a sandbox whose interpreters persist between calls, and its calls.

One call is made at a time, and the others wait for it.

A branch is a session that shares the sandbox of another, its trunk, and has a Python of its own there. The branch takes
turns with its trunk, and ends with it at the latest.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from gloveport.engine.reach import Reach
from gloveport.engine.session_answer import read_changes, read_text
from gloveport.errors import Denied, SandboxError
from gloveport.model import Grant, Language, Program, SessionState
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Child, ChildSession, Outcome, Sandbox, Sink
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.run.out_files import FileVersion
from gloveport.sandbox.run.sinks import OutputTail

Purpose: TypeAlias = Literal["programs", "commands"]

_BETWEEN_BYTES: Final = 64 * 1024
"""How much of each stream's output between calls is kept, from its end, and shown with the next call."""

_MOST_WAITING: Final = 16
"""Calls that wait for their turn: each holds its program and files in memory, and needs no open request meanwhile."""

_SUFFIXES: Final[Mapping[Language, str]] = {"python": "py", "shell": "sh", "typescript": "ts", "javascript": "js"}
ANEW: Final = 'begin another with session="new": variables, files and processes of this one are gone'


class SessionLimits(Struct, frozen=True, kw_only=True):
    """How long sessions live, and how many there may be.

    Attributes:
        idle_seconds: A session without a call ends after so long.
        life_seconds: A session ends after so long even if it is used.
        per_caller: The most of one caller.
        total: The most of all callers.
    """

    idle_seconds: float = 900
    life_seconds: float = 28_800
    per_caller: int = 4
    total: int = 16


class _Turn(Struct, eq=False):
    """The turn of one call: the task that keeps the sandbox gives it, and then waits until it is over."""

    ready: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)


class _TakenTurn:
    """The context of a turn. A class, for a generator would cost as much as the turn itself."""

    __slots__ = ("_session",)

    def __init__(self, session: "Session") -> None:
        self._session = session

    async def __aenter__(self) -> Child:
        return await self._session._take()  # noqa: SLF001 - a part of it

    async def __aexit__(self, *_: object) -> None:
        (self._session.trunk or self._session)._give_back()  # noqa: SLF001


class Session(Struct, eq=False, kw_only=True, weakref=True):
    """One session.

    Attributes:
        owner: Who may use it; opaque.
        purpose: Whether it runs programs of ``execute_code`` or commands of a workspace, which have other rights.
        grant: Its grant when it began.
        reach: What it could reach when it began.
        out: Versions of the files in ``/out`` after its last call, by path.
        generation: See ``model.SessionState``.
        language: Language of its last program.
        narrowed: The parts of its grant that the configuration has taken back.
        trunk: The session whose sandbox it shares; None where it has one of its own.
        branch: Number of its Python in that sandbox.
        branches: Live sessions that share its sandbox.
        branched: How many branches there have been.
        current: The session, itself or a branch, whose call runs in its sandbox.
        ended: Why it is over; empty while it is not.
    """

    id: str
    owner: str
    purpose: Purpose
    grant: Grant
    reach: Reach
    limits: SessionLimits
    out: dict[str, FileVersion] = field(default_factory=dict)
    generation: int = 1
    calls: int = 0
    language: Language = "python"
    narrowed: tuple[str, ...] = ()
    ended: str = ""
    trunk: "Session | None" = None
    branch: int = 0
    branches: "list[Session]" = field(default_factory=list)
    branched: int = 0
    current: "Session | None" = None
    start_time: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _child: Child | None = None
    _child_session: ChildSession | None = None
    """Its interpreters, which live as long as its sandbox."""

    _failure: SandboxError | None = None
    _over: anyio.Event = field(default_factory=anyio.Event)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _unused: anyio.Event | None = None
    """Set when the call that uses its sandbox no longer does."""

    _is_closing: bool = False
    _next: _Turn | None = None
    _turn: _Turn | None = None
    """The current turn, if the task that keeps the sandbox has given it."""

    _untold: str = ""
    """The fate of a cancelled call, until a client has read it."""

    _between: tuple[OutputTail, OutputTail] = field(
        default_factory=lambda: (OutputTail(most=_BETWEEN_BYTES), OutputTail(most=_BETWEEN_BYTES))
    )

    @property
    def seconds_left(self) -> float:
        """Seconds until it ends, without further calls."""
        if self.trunk is not None:
            return self.trunk.seconds_left
        now = time.monotonic()
        return min(self.used + self.limits.idle_seconds, self.start_time + self.limits.life_seconds) - now

    @property
    def expires_at(self) -> str:
        """The same as a time of day."""
        return (datetime.now(UTC) + timedelta(seconds=max(0.0, self.seconds_left))).isoformat(timespec="seconds")

    def end(self, why: str) -> None:
        """End it: all of its sandbox dies, with its branches. A branch ends alone."""
        self.ended = self.ended or why
        self._scope.cancel()
        for branch in self.branches:
            branch.ended = branch.ended or f"the session that it was a branch of is over: {self.ended}"

    async def wait_over(self) -> None:
        """Return when nothing is left of it; for a branch at once, since its processes are in the shared sandbox."""
        if self.trunk is None:
            await self._over.wait()

    def take_turn(self) -> AbstractAsyncContextManager[Child]:
        """Its sandbox, for one call.

        Raises:
            Denied: It is over, or too many calls wait.
            SandboxError: It could not be built.
        """
        return _TakenTurn(self)

    async def _take(self) -> Child:
        sandbox = self.trunk or self
        if self.ended and sandbox is not self:
            raise self.denial()
        try:
            sandbox.turn.acquire_nowait()
        except anyio.WouldBlock:
            if sandbox.turn.statistics().tasks_waiting >= _MOST_WAITING:
                raise Denied(
                    "session_busy",
                    f"{_MOST_WAITING} calls of this session and its branches wait already.",
                    hint="make the next when one has been answered, or begin another session",
                ) from None
            await sandbox.turn.acquire()
        try:
            return await sandbox._take_over(self)  # noqa: SLF001 - of its own class
        except BaseException:
            sandbox._give_back()  # noqa: SLF001
            raise

    async def _take_over(self, taker: "Session") -> Child:
        """The sandbox, left alone by its keeping task until the turn is over. ``taker``: this session or a branch."""
        if self._child_session is None or not self._child_session.pause_idle():
            turn = self._turn = self._next = _Turn()
            if self._child_session is not None:
                self._child_session.end_idle()
            if not self._over.is_set():
                await turn.ready.wait()
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # else it would keep each call that has raised it
        if self.ended or self._child is None:
            raise self.denial()
        if why := await self._child.why_stale():
            self.end(why)
            await self.wait_over()
            raise self.denial()
        if taker.ended:  # while it waited
            raise taker.denial()
        return self._child

    def _give_back(self) -> None:
        self.used = time.monotonic()
        if self._turn is not None:
            self._turn.over.set()
            self._turn = None
        elif self._child_session is not None:
            self._child_session.resume_idle()
        self.turn.release()

    @contextmanager
    def use_sandbox(self) -> Iterator[None]:
        """Keep its sandbox's descriptors open, for the call whose turn it is, even if the session ends meanwhile: their
        numbers would be those of others' files.

        Raises:
            Denied: It is over.
        """
        sandbox = self.trunk or self
        if self.ended or sandbox._is_closing:  # noqa: SLF001 - of its own class
            raise self.denial()
        unused = sandbox._unused = anyio.Event()  # noqa: SLF001 - of its own class
        try:
            yield
        finally:
            unused.set()

    @asynccontextmanager
    async def _close_unused(self, child: Child) -> AsyncIterator[None]:
        """On leaving, kill the sandbox, and wait until no call uses it."""
        try:
            yield
        finally:
            self._is_closing = True
            with anyio.CancelScope(shield=True):
                try:
                    await child.wait_dead()
                finally:  # also where no descriptor is left to wait by: then numbers are given away at once
                    if self._unused is not None:
                        await self._unused.wait()

    def denial(self) -> Denied:
        """The error for calls after its end."""
        return Denied("session_lost", f"The session {self.id} is over: {self.ended or 'it died'}.", hint=ANEW)

    async def call(
        self,
        message: dict[str, JsonValue],
        *,
        wall_seconds: float,
        value_bytes: int,
        stdout: Sink,
        stderr: Sink,
        clock: Clock | None = None,
    ) -> Outcome:
        """Make a call in the current turn. Output since the last call comes first.

        ``message``: what to do, and in which ``language``, if not in the last call's.

        Raises:
            Denied: It is over by now.
        """
        sandbox = self.trunk or self
        if (inside := sandbox._child_session) is None:  # noqa: SLF001 - of its own class
            raise self.denial()
        for tail, sink in zip(sandbox._between, (stdout, stderr), strict=True):  # noqa: SLF001
            if tail.data:
                sink.write(bytes(tail.data))
                tail.data.clear()
        self.calls += 1
        defaults: dict[str, JsonValue] = {
            "language": self.language,
            "branch": self.branch,
            "name": f"call-{self.calls}.{_SUFFIXES[self.language]}",
            "heap_bytes": int(self.grant.limits.memory_bytes) // 3,
            "value_bytes": value_bytes,
            "wall_seconds": wall_seconds,
        }
        answered: list[Mapping[str, JsonValue] | None] = []
        sandbox.current = self
        try:
            outcome = await inside.call(
                {**defaults, **message},
                wall_seconds=wall_seconds,
                value_bytes=value_bytes,
                stdout=stdout,
                stderr=stderr,
                clock=clock,
                on_answer=answered.append,
            )
            await anyio.lowlevel.checkpoint_if_cancelled()  # a cancelled call has no reader
        except anyio.get_cancelled_exc_class():
            self._count(answered, "the call before this one was cancelled")
            raise
        finally:
            sandbox.current = None
        self._count(answered, "")
        if outcome.session is None:
            limit = f"its call exceeded {outcome.killed_by}, and" if outcome.killed_by else ""
            sandbox.end(f"{limit} its sandbox died".strip())
        return outcome

    def _count(self, answered: Sequence[Mapping[str, JsonValue] | None], cause: str) -> None:
        """Note that its state is no longer the one that the last call left."""
        for answer in answered:
            state = answer.get("state") if answer is not None else None
            if state in ("rewound", "lost"):
                self.generation += 1
                self._untold = f"{cause}, and its state {state}" if cause else ""

    def interrupt(self) -> bool:
        """Interrupt the running call; tell whether there is one."""
        sandbox = self.trunk or self
        if sandbox._child_session is None or sandbox.current is not self:  # noqa: SLF001 - of its own class
            return False
        sandbox._child_session.interrupt()  # noqa: SLF001
        return True

    def describe(self, outcome: Outcome | None = None) -> SessionState:
        """Its state, after a call or without one. Claims of the guest are taken as text, or not at all."""
        if self.ended:
            return SessionState(id=self.id, expires_at="", state="lost", why=self.ended, generation=self.generation)
        answer = outcome.session if outcome is not None and isinstance(outcome.session, dict) else {}
        state = answer.get("state")
        undone = answer.get("undone")
        why, self._untold = self._untold, ""
        changed, removed = read_changes(answer)
        return SessionState(
            id=self.id,
            expires_at=self.expires_at,
            state="rewound" if state == "rewound" else "lost" if state == "lost" else "kept",
            why="; ".join(filter(None, (why, read_text(answer, "why")))),
            generation=self.generation,
            undone=len(undone) if isinstance(undone, list) else 0,
            checkpoint=read_text(answer, "checkpoint"),
            variables=changed,
            removed=removed,
            narrowed=self.narrowed,
        )

    async def keep(self, sandbox: Sandbox, plan: Plan, program: Program) -> None:
        """Keep its sandbox until the session is over."""
        try:
            with self._scope, _as_sandbox_error():
                async with sandbox.start(plan) as child, self._close_unused(child):
                    self._child_session = await child.begin_session(program)
                    self._child = child
                    await self._rest(self._child_session)
        except SandboxError as error:
            self._failure = None if self._child else error
            self.ended = self.ended or str(error.args[0])
        finally:
            self.end("the server ended it")
            self._child = self._child_session = None
            if self._next is not None:
                self._next.ready.set()
            self._over.set()

    async def _rest(self, inside: ChildSession) -> None:
        self.used = time.monotonic()
        while True:
            while self._next is None:
                if not await inside.idle(*self._between, self.seconds_left):
                    self.end("it died between two calls")
                if self.seconds_left <= 0:
                    old = time.monotonic() - self.start_time >= self.limits.life_seconds
                    self.end("it was as old as a session may be" if old else "nobody had called it for too long")
                if self.ended:
                    return
            turn, self._next = self._next, None
            turn.ready.set()
            await turn.over.wait()


@contextmanager
def _as_sandbox_error() -> Iterator[None]:
    """With no descriptor left, a sandbox can't be watched: it alone ends, and neither other sessions nor the server."""
    try:
        yield
    except OSError as error:
        raise SandboxError(f"its sandbox could not be watched: {error.strerror}", hint=ANEW) from error
