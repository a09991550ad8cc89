"""The sandboxes of one build: run its programs one after the other, which write into one directory."""

import contextlib
import functools
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from msgspec import Struct

from gloveport import door
from gloveport.egress.outbound_session import EgressSession, Gateway, RequestJournal
from gloveport.engine.reach import Reach
from gloveport.environments.seal import TOO_MUCH, TreeBounds, measure_tree
from gloveport.errors import Denied, SandboxError
from gloveport.guard import Guard
from gloveport.late_module import late_module
from gloveport.model import Program
from gloveport.model.egress import Exchange
from gloveport.model.packages import PACKAGES
from gloveport.policy.hosts.authorities import canonical_host, find_loopback
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.pool.zygote_process import ZygoteProcess
from gloveport.sandbox.run.sinks import OutputTail
from gloveport.task_group import open_task_group
from gloveport.untrusted_text import one_line

if TYPE_CHECKING:
    from gloveport.egress.proxy import handler
else:
    handler = late_module("gloveport.egress.proxy.handler")

_WATCH_SECONDS: Final = 0.3
_SHARE_OF_WATCH: Final = 4
"""Measuring may take a fourth of the time at most."""

_SAID_BYTES: Final = 32 << 10
_SAID_CHARACTERS: Final = 1200
_HOST_CHARACTERS: Final = 128
_NO_VALUE_BYTES: Final = 256
_DISK_FULL: Final = "(os error 28)"  # as programs in Rust write it, which uv and Deno are
MAKE_ROOM: Final = "make room on the disk of the state directory"
_PLACES: Final = 3
"""Copies of a tree's file that may be on the disk during its installation: packed, unpacked, and in its place."""


class ProgramEnding(Struct, frozen=True, kw_only=True):
    """How a program of a build has ended, the tail of its output, and its first request that was not answered."""

    outcome: Outcome
    text: str
    refused: Exchange | None

    @property
    def has_cause_of_its_own(self) -> bool:
        """Whether it failed for another reason than the packages: ``failure`` says which, and what to do."""
        return self.refused is not None or _DISK_FULL in self.text or self.outcome.killed_by is not None

    def failure(self, code: str, what: str) -> Denied:
        """The refusal for it. Its text was written in a sandbox."""
        why = self.text or f"exit code {self.outcome.exit_code}, no word"
        hint = "correct what is asked for"
        if self.refused is not None:
            why, hint = f"{self.refused.url}: {self.refused.reason}", _hint_of_unreached(self.refused.url)
        elif _DISK_FULL in self.text:
            what, hint = "There is no room", MAKE_ROOM
        elif (limit := self.outcome.killed_by) is not None:
            why = f"it was ended at its limit of {limit}. {self.text}"
            hint = "leave out the package that needs so much, or see what its index sends"
        return Denied(code, f"{what}: {one_line(why, _SAID_CHARACTERS)}", hint=hint)


def _hint_of_unreached(url: str) -> str:
    """What to do where an index can't be reached. A refusal may name an API that only the build has."""
    place = urlsplit(url)
    if _is_sandbox(place.hostname or ""):  # named by this user's own pip, uv or npm: else the configuration is refused
        return (
            "builds run in a sandbox, which means itself by that: give this host another name, such as "
            'service.example, there and in the hosts of an [api.NAME] with addresses = ["127.0.0.1"]'
        )
    host = one_line(place.netloc if place.scheme == "https" else f"{place.scheme}://{place.netloc}", _HOST_CHARACTERS)
    return (
        "see that this host reaches it; an [api.NAME] that the configuration lacks begins with "
        f'hosts = ["{host}"], rules = [{{ action = "allow", methods = ["GET", "HEAD"] }}]'
    )


def _is_sandbox(host: str) -> bool:
    try:
        return find_loopback(canonical_host(host)) is not None
    except ValueError:
        return False


class BuildSandboxes(Struct, frozen=True, kw_only=True):
    """The sandboxes of one build.

    Attributes:
        work: The directory that they write into.
        spared_bytes: How much room they leave on its disk.
    """

    work: Path
    zygote: ZygoteProcess
    gateway: Gateway
    reach: Reach
    bounds: TreeBounds
    spared_bytes: int

    async def run(
        self, argv: tuple[str, ...], guard: Guard | None, take: Callable[[int], None] | None = None
    ) -> ProgramEnding:
        """Run a program to its end. ``guard`` decides about requests on its doors; without one, its doors are not
        answered. ``take`` takes the files at ``OUT`` if the program succeeded: it gets a descriptor of it, in a thread,
        when all processes are dead.

        Raises:
            Denied: It has written too much.
            SandboxError: The sandbox can't be built, or has died.
        """
        tail, journal = OutputTail(most=_SAID_BYTES), RequestJournal()
        program = Program(name="build", argv=argv, directory=PACKAGES)
        outcome: Outcome | None = None
        refusals: list[Denied] = []
        async with open_task_group() as tasks:
            tasks.start_soon(self._watch, tasks.cancel_scope, refusals)
            async with self.zygote.fork() as child, self._open_doors(child.doors, guard, journal):
                outcome = await child.run(program, value_bytes=_NO_VALUE_BYTES, stdout=tail, stderr=tail)
                if take is not None and outcome.exit_code == 0:
                    await child.wait_dead()
                    await to_thread.run_sync(take, child.directories.out)
        if refusal := next(iter(refusals), None) or await to_thread.run_sync(self._find_excess):
            raise refusal
        if outcome is None:
            raise SandboxError("a build was interrupted", hint="build it again")
        refused = next((one for one in journal.listed if one.reason), None)
        return ProgramEnding(outcome=outcome, text=tail.data.decode(errors="replace").strip(), refused=refused)

    async def _watch(self, scope: anyio.CancelScope, refusals: list[Denied]) -> None:
        """End a build as soon as it has written too much."""
        while True:
            start = anyio.current_time()
            if refusal := await to_thread.run_sync(self._find_excess):
                refusals.append(refusal)
                scope.cancel()
            await anyio.sleep(max(_WATCH_SECONDS, _SHARE_OF_WATCH * (anyio.current_time() - start)))

    def _find_excess(self) -> Denied | None:
        """The refusal of what was written so far, if it is too much. Files that have no name are seen by the room that
        they take alone.
        """
        bounds = TreeBounds(bytes=_PLACES * self.bounds.bytes, files=_PLACES * self.bounds.files)
        if too_much := measure_tree(self.work, bounds):
            return Denied("environment_refused", f"What was installed is refused: {too_much}.", hint=TOO_MUCH)
        disk = os.statvfs(self.work)
        if disk.f_bavail * disk.f_frsize < self.spared_bytes:
            reason = f"There is no room: less than {self.spared_bytes >> 20} MiB are left."
            return Denied("environment_refused", reason, hint=MAKE_ROOM)
        return None

    @contextlib.asynccontextmanager
    async def _open_doors(
        self, doors: Sequence[socket.socket], guard: Guard | None, journal: RequestJournal
    ) -> AsyncIterator[None]:
        if guard is None:
            yield
            return
        session = EgressSession(
            gateway=self.gateway,
            guard=guard,
            names=self.reach.names,
            placeholders={},
            journal=journal,
        )
        async with door.open_door(doors, functools.partial(handler.answer, session)):
            yield
