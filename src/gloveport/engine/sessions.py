"""Registry of sessions: who may use which, how many there may be, and why ended ones have ended.

A session is bound to its owner: for anybody else it does not exist. Its grant is decided when it begins. It ends when
it is closed, when nobody has called for a while, when it is old, and with the server; for a while its id still tells
why.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from anyio.abc import TaskGroup

from gloveport.engine.reach import Reach
from gloveport.engine.session import ANEW, Purpose, Session, SessionLimits
from gloveport.errors import Denied
from gloveport.model import Grant, Program
from gloveport.sandbox.base import Sandbox
from gloveport.sandbox.plan import Plan
from gloveport.task_group import open_task_group

_ID_BYTES: Final = 16
_MOST_REMEMBERED: Final = 256
"""Ended sessions whose reason is remembered."""
_OTHER_PURPOSE: Final[Mapping[Purpose, tuple[str, str, str]]] = {
    "programs": (
        "session_of_programs",
        "This session runs programs: commands can't go on in it.",
        "call execute_code with language=shell, which sees the workspace; or begin one of commands",
    ),
    "commands": (
        "session_of_commands",
        "This session runs commands of the workspace, which may write to it: programs can't go on in it.",
        'call exec_command with it, as for "python3 x.py"; or begin one of programs',
    ),
}


class Sessions:
    """The sessions of one server."""

    def __init__(self, tasks: TaskGroup, limits: SessionLimits) -> None:
        self._tasks = tasks
        self.limits = limits
        self._sessions: dict[str, Session] = {}

    def begin(
        self,
        owner: str,
        grant: Grant,
        reach: Reach,
        *,
        sandbox: Sandbox,
        plan: Plan,
        program: Program,
        purpose: Purpose = "programs",
    ) -> Session:
        """Begin a session. Raises Denied if there are too many."""
        session = Session(id=_new_id(), owner=owner, purpose=purpose, grant=grant, reach=reach, limits=self.limits)
        self._add(session)
        self._tasks.start_soon(session.keep, sandbox, plan, program)
        return session

    def branch(self, session: Session) -> Session:
        """Register a session that shares the sandbox of this one. The caller has the branch made there.

        Raises:
            Denied: There are too many.
        """
        trunk = session.trunk or session
        branch = Session(
            id=_new_id(),
            owner=session.owner,
            purpose=session.purpose,
            grant=session.grant,
            reach=session.reach,
            limits=self.limits,
            out=trunk.out,
            narrowed=session.narrowed,
            trunk=trunk,
            branch=trunk.branched + 1,
        )
        self._add(branch)
        trunk.branched += 1
        trunk.branches = [one for one in [*trunk.branches, branch] if not one.ended]
        return branch

    def _add(self, session: Session) -> None:
        """Register a session, and forget the oldest ended ones. Raises Denied."""
        owner, alive = session.owner, self.alive()
        own = [session for session in alive if session.owner == owner]
        for count, most, whose in (
            (len(own), self.limits.per_caller, " of yours"),
            (len(alive), self.limits.total, ""),
        ):
            if count >= most:
                raise Denied(
                    "too_many_sessions",
                    f"There are {count} sessions{whose}, and no more than {most} may be.",
                    hint="go on with one, or close one: session(action=list) names yours",
                )
        self._sessions[session.id] = session
        for one in [one for one in self._sessions.values() if one.ended][:-_MOST_REMEMBERED]:
            del self._sessions[one.id]

    def find(self, session_id: str, owner: str, purpose: Purpose | None = None) -> Session:
        """The session of this id, which may be over.

        Raises:
            Denied: This owner has none of this id, or it is for another purpose.
        """
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            raise Denied(
                "unknown_session",
                "There is no such session of yours, or no longer: the server may have been started anew.",
                hint=ANEW,
            )
        if purpose not in (None, session.purpose):
            code, reason, hint = _OTHER_PURPOSE[session.purpose]
            raise Denied(code, reason, hint=hint)
        return session

    def alive(self) -> Sequence[Session]:
        """Sessions that are not over."""
        return [one for one in self._sessions.values() if not one.ended]

    def list_of(self, owner: str) -> Sequence[Session]:
        """This owner's sessions that are not over."""
        return [one for one in self.alive() if one.owner == owner]

    async def end_of(self, owner: str, why: str) -> None:
        """End all sessions of this owner, and wait until nothing is left of them."""
        ended = self.list_of(owner)
        for session in ended:
            session.end(why)
        for session in ended:
            await session.wait_over()


def _new_id() -> str:
    return f"ses-{os.urandom(_ID_BYTES).hex()}"


@contextlib.asynccontextmanager
async def open_sessions(limits: SessionLimits) -> AsyncIterator[Sessions]:
    """Open the registry of sessions. On leaving, all are ended."""
    async with open_task_group() as tasks:
        yield Sessions(tasks, limits)
