"""What the tools of a workspace share: its tree, its sandboxes, its writer, and who may do what there."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import JsonValue

from gloveport.config import Config
from gloveport.engine.workspace import Workspace
from gloveport.errors import Denied
from gloveport.guard import Ending, Guard
from gloveport.model import Allow, Grant
from gloveport.model.egress import Egress
from gloveport.model.workspace import RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.decide import decide
from gloveport.policy.gates import open_needs, permission_details
from gloveport.policy.grant import reachable
from gloveport.policy.hosts import parse_pattern
from gloveport.policy.modes import stance
from gloveport.policy.wildcards import matches
from gloveport.secrets.scrub import scrub_value
from gloveport.server.caller import Caller, Transport, caller_of
from gloveport.server.workspace.permissions import Permissions
from gloveport.server.workspace.replies import Told, refusal
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.reading import read_file
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.writer import Writer, WriteResult
from gloveport.workspace.program import RunProgram
from gloveport.workspace.search.engines import Engine as SearchEngine

_HOOK_WORDS: Final = 2000
_ASK: Final = "request_permissions asks the owner; when they permit it, make the same call again"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One workspace, and what is offered of it.

    Attributes:
        search_engine: What searches text on this host.
        runs: Under which run each of its commands is written down.
    """

    workspace: Workspace
    config: Config
    transport: Transport
    writer: Writer
    permissions: Permissions
    search_engine: SearchEngine
    runs: WeakKeyDictionary[Command, str] = field(default_factory=WeakKeyDictionary)

    @property
    def tree(self) -> Tree:
        """Its files."""
        return self.workspace.tree

    @property
    def run(self) -> RunProgram:
        """Runs what only reads."""
        return self.workspace.readers.run

    def caller(self, ctx: Context[Any, Any]) -> Caller:
        """Who calls."""
        return caller_of(ctx, self.transport)

    def clean(self, told: Told) -> Told:
        """An answer without secrets of ours: a file may hold one."""
        engine = self.workspace.engine
        if not engine.gateway.vault.needles:
            return told
        clean = scrub_value(dict(told), engine.clean)
        return clean if isinstance(clean, dict) else told

    def refused(self, error: WorkspaceError | Denied) -> wire.CallToolResult:
        """A refusal. Its details may show a piece of a file."""
        answer = refusal(error)
        answer.structured_content = dict(self.clean(answer.structured_content or {}))
        for block in answer.content:
            if isinstance(block, wire.TextContent):
                block.text = self.workspace.engine.clean(block.text)
        return answer

    @contextlib.asynccontextmanager
    async def admitted(self, ctx: Context[Any, Any], action: WriteFiles) -> AsyncIterator[Ending]:
        """A write that is allowed, and written down.

        Raises:
            WorkspaceError: PERMISSION_REQUIRED.
            AuditError: It can't be written down.
        """
        guard = await self.guarded(self.caller(ctx), action, f"write-{ctx.request_id}")
        async with guard.admit(action) as ending:
            yield ending

    def admitted_now(
        self, caller: Caller, action: WriteFiles, request: str
    ) -> contextlib.AbstractContextManager[Ending] | None:
        """The same of what the policy alone allows; None where somebody would have to permit it."""
        policy = self.config.workspace
        if open_needs(policy, action.needs):
            return None
        return self._guard(policy, caller, f"write-{request}", action).admit_now(action)

    async def guarded(self, caller: Caller, action: RunCommand | WriteFiles, run_id: str) -> Guard:
        """The guard of an action that is allowed, with what a person has permitted of it.

        Raises:
            WorkspaceError: PERMISSION_REQUIRED: it is not, or somebody has to say first. That is written down.
        """
        policy, permits = await self.permissions.applied(self.config.workspace, caller.share, action)
        guard = self._guard(policy, caller, run_id, action, permits)
        decision = decide(guard.grant, action)
        if isinstance(decision, Allow):
            return guard
        details = permission_details(policy, action)
        gates = [str(gate) for gate in details["permissions"]] if isinstance(details["permissions"], list) else []
        reasons = " ".join(need.why for need in action.needs if need.gate in gates)
        guard.deny(action.kind, Denied("permission_required", reasons), {"gates": [*gates]})
        can_ask = all(stance(policy, need.gate) != "deny" for need in action.needs if need.gate in gates)
        raise WorkspaceError(
            "PERMISSION_REQUIRED",
            reasons,
            hint=_ASK if can_ask else "nobody can permit it here: do it another way",
            retryable=can_ask,
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
            grant=Grant(workspace=policy, egress=egress, limits=self.config.workspace.limits),
            audit=self.workspace.engine.audit,
            caller=caller.name,
            run_id=run_id,
            session=caller.session,
            permits=permits,
        )

    def _egress(self, policy: WorkspacePolicy) -> Egress:
        """What commands may reach: what programs may, where the network is permitted, else the hosts named for it."""
        egress = self.workspace.egress
        named = (
            name
            for name, api in egress.apis.items()
            if api.active and all(_is_granted(policy.hosts, host) for host in api.hosts)
        )
        return reachable(egress, None if stance(policy, "network") == "allow" else tuple(named))

    async def hooked(self, outcome: WriteResult) -> Told:
        """The answer to a write, when the operator's hooks have run on what was written."""
        answer = dict(outcome.answer)
        warnings: list[JsonValue] = []
        ran = False
        for hook in self.config.workspace.hooks if outcome.number else ():  # what was taken back is what it was
            paths = [path for path in outcome.written if _is_named(hook.files, path)]
            if paths:
                ran = True
                warnings += await self._hook(hook.command, paths, hook.seconds)
        if not ran:
            return answer
        before = answer["warnings"]
        answer["warnings"] = [*(before if isinstance(before, list) else []), *warnings]
        return await to_thread.run_sync(self._renewed, answer, outcome.number)

    async def _hook(self, command: str, paths: Sequence[str], seconds: float) -> list[JsonValue]:
        try:
            ran = await self.workspace.hook(command, paths, seconds)
        except WorkspaceError as error:
            return [f"{command}: {error.args[0]}"]
        if ran.exit_code == 0:
            return []
        said = (ran.stdout + ran.stderr).decode(errors="replace")[-_HOOK_WORDS:].strip()
        state = "has not ended in time" if ran.timed_out else f"has failed ({ran.exit_code})"
        return [f"{command} {state}: {said}" if said else f"{command} {state}"]

    def _renewed(self, answer: dict[str, JsonValue], number: int) -> Told:
        """With the revisions of the files as they are now, which undo takes back to what they were before."""
        revisions = {}
        files = answer["affected_files"]
        for file in files if isinstance(files, list) else []:
            if isinstance(file, dict) and file.get("revision"):
                try:
                    read = read_file(self.tree, str(file["path"]), max_lines=1)
                except WorkspaceError:
                    continue
                file |= {"revision": read["revision"], "total_lines": read["total_lines"]}
                revisions[read["path"]] = read["revision"]
        with contextlib.suppress(OSError):  # no space: undo says that there is nothing to take back
            self.writer.adopt(number, revisions)
        return answer


def _is_granted(patterns: Sequence[str], host: str) -> bool:
    """Whether the place of an API, with or without scheme and port, is one of these hosts."""
    return any(matches(pattern, parse_pattern(host)[1]) for pattern in patterns)


def _is_named(patterns: Sequence[str], name: str) -> bool:
    last = name.rpartition("/")[2]
    return any(matches(pattern, name) or matches(pattern, last) for pattern in patterns)
