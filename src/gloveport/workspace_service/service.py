"""One workspace and what its tools share: files, sandboxes, the writer, and the guards of actions."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from gloveport.config import Config
from gloveport.config.schema import Workspace as WorkspaceSettings
from gloveport.engine.caller import Caller, Transport
from gloveport.errors import Denied
from gloveport.guard import Ending, Guard
from gloveport.limits.admission import AdmissionQueue, make_turns
from gloveport.model import Allow, Grant
from gloveport.model.egress import Egress
from gloveport.model.workspace import RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.gate_decisions import open_needs, permission_details
from gloveport.policy.decisions.grant import reachable
from gloveport.policy.decisions.inherited_variables import inherit_variables
from gloveport.policy.decisions.modes import stance
from gloveport.policy.hosts.authorities import parse_pattern, places_of
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import quote_sent
from gloveport.secrets.scrub import scrub_value
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_READS
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.writer import Writer
from gloveport.workspace.search.engines import Engine as SearchEngine
from gloveport.workspace_service.command_sessions import CommandSessions
from gloveport.workspace_service.own_directories import OwnDirectories
from gloveport.workspace_service.permissions import Permissions
from gloveport.workspace_service.refused_requests import remedy_for
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

Result = TypeVar("Result")

Fields: TypeAlias = Mapping[str, Any]
"""The fields of an answer."""

_LISTS_AT_ONCE: Final = 4
"""Fewer than the threads that read files, which then wait for no walk."""

_ASK: Final = "request_permissions asks the owner; when they permit it, make the same call again"

_NOBODY: Final = "nobody can permit it here: do it another way"
_WITHOUT_SESSION: Final = (
    "make the call without session: in one nobody can permit it, for earlier commands may have given it another meaning"
)


class WorkspaceService(Struct, frozen=True, kw_only=True, dict=True):
    """One workspace, as its tools use it.

    Attributes:
        own: The directories that its clients have made.
        run_ids: The run of each command in the audit log.
        list_turns: Places for walks of directories, each of which takes seconds; callers take turns.
    """

    sandboxes: WorkspaceSandboxes
    sessions: CommandSessions
    config: Config
    transport: Transport
    writer: Writer
    permissions: Permissions
    search_engine: SearchEngine
    own: OwnDirectories
    run_ids: WeakKeyDictionary[Command, str] = field(default_factory=WeakKeyDictionary)
    list_turns: AdmissionQueue = field(default_factory=lambda: make_turns(_LISTS_AT_ONCE))

    @property
    def tree(self) -> Tree:
        """Its files."""
        return self.sandboxes.tree

    @property
    def settings(self) -> WorkspaceSettings:
        """The operator's policy for it, without any permissions of approvers."""
        return self.config.workspace

    @cached_property
    def inherited_variables(self) -> Mapping[str, str]:
        """The server's variables that its commands have."""
        return inherit_variables(self.settings, os.environ)

    async def list_in_turn(self, caller: str, work: Callable[[], Result]) -> Result:
        """Call ``work``, which walks directories, in a thread, when it is the turn of ``caller``."""
        async with self.list_turns.place(caller):
            return await FILE_READS.run(work)

    def clean(self, answer: Fields) -> Fields:
        """An answer without our secrets: a file may hold one."""
        engine = self.sandboxes.engine
        if engine.gateway.vault.is_empty:
            return answer
        clean = scrub_value(dict(answer), engine.clean)
        return clean if isinstance(clean, dict) else answer

    @contextlib.asynccontextmanager
    async def admit(self, caller: Caller, action: WriteFiles, request: str) -> AsyncIterator[Ending]:
        """Admit a write: decide, and write it down.

        Raises:
            WorkspaceError: PERMISSION_REQUIRED.
            AuditError: It can't be written down.
        """
        guard = await self.make_guard(caller, action, f"write-{request}")
        async with guard.admit(action) as ending:
            with self.own.working(caller.share):
                yield ending

    def admit_now(
        self, caller: Caller, action: WriteFiles, request: str
    ) -> contextlib.AbstractContextManager[Ending] | None:
        """The same if the policy alone allows it; None where a person would have to permit it."""
        if open_needs(self.settings, action.needs):
            return None
        return self._admit_now(caller, action, f"write-{request}")

    @contextlib.contextmanager
    def _admit_now(self, caller: Caller, action: WriteFiles, run_id: str) -> Iterator[Ending]:
        with (
            self._guard(self.settings, caller, run_id, action).admit_now(action) as ending,
            self.own.working(caller.share),
        ):
            yield ending

    async def make_guard(self, caller: Caller, action: RunCommand | WriteFiles, run_id: str) -> Guard:
        """The guard of an allowed action, with the permissions that a person has given.

        Raises:
            WorkspaceError: PERMISSION_REQUIRED: it is not allowed, or a person has to permit it first. That is written
                down.
        """
        is_in_session = isinstance(action, RunCommand) and bool(action.session)
        policy: WorkspacePolicy = self.settings
        permits: tuple[str, ...] = ()
        if not is_in_session:
            policy, permits = await self.permissions.apply(policy, caller.share, action)
        guard = self._guard(policy, caller, run_id, action, permits)
        if isinstance(decide(guard.grant, action), Allow):
            return guard
        details = permission_details(policy, action)
        gates = [str(gate) for gate in details["permissions"]] if isinstance(details["permissions"], list) else []
        reasons = " ".join(need.why for need in action.needs if need.gate in gates)
        guard.deny(action.kind, Denied("permission_required", reasons), {"gates": [*gates]})
        can_be_permitted = all(stance(policy, need.gate) != "deny" for need in action.needs if need.gate in gates)
        unreachable = None
        if "network" in gates and isinstance(action, RunCommand):
            unreachable = self.explain_unreachable(action)
        hint = _NOBODY if not can_be_permitted else _WITHOUT_SESSION if is_in_session else _ASK
        raise WorkspaceError(
            "PERMISSION_REQUIRED",
            reasons,
            hint=unreachable or hint,
            retryable=can_be_permitted and unreachable is None,
            details=details,
        )

    def _guard(
        self,
        policy: WorkspacePolicy,
        caller: Caller,
        run_id: str,
        action: RunCommand | WriteFiles,
        permits: tuple[str, ...] = (),
    ) -> Guard:
        egress = self._egress(policy) if isinstance(action, RunCommand) else Egress()
        return Guard(
            grant=Grant(workspace=policy, egress=egress, limits=self.settings.limits),
            audit=self.sandboxes.engine.audit,
            caller=caller.name,
            run_id=run_id,
            session=caller.session,
            permits=permits,
        )

    def explain_unreachable(self, action: RunCommand) -> str | None:
        """Why a command can't reach the hosts it needs, even with the network permitted; None where it can."""
        egress = reachable(self.sandboxes.egress, None)
        if egress.yolo:
            return None
        lacking = [host for host in action.hosts if not places_of(egress, host)]
        if lacking:
            return f"No permission opens {quote_sent(lacking[0])}: {remedy_for(lacking[0], self.sandboxes.egress)}."
        is_closed = not any(api.active for api in egress.apis.values())
        return 'No host is granted to anybody: the owner grants one by hosts = ["@pypi"] or so.' if is_closed else None

    def _egress(self, policy: WorkspacePolicy) -> Egress:
        """What commands may reach: with the network permitted as programs, else the workspace's hosts."""
        egress = self.sandboxes.egress
        if stance(policy, "network") == "allow":
            return reachable(egress, None)
        apis = egress.apis.items()
        named = (
            name for name, api in apis if api.active and all(_is_granted(policy.hosts, host) for host in api.hosts)
        )
        return reachable(egress, tuple(named))


def _is_granted(patterns: Sequence[str], host: str) -> bool:
    """Whether an API's address, with or without scheme and port, is one of these hosts."""
    return any(matches(pattern, parse_pattern(host)[1]) for pattern in patterns)
