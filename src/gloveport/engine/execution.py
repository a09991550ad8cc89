"""One execution, from request to result. Nothing below calls back up."""

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio

from gloveport import door, rpc
from gloveport.approvals.desk import Desk
from gloveport.audit.log import AuditLog
from gloveport.egress.proxy.handler import answer
from gloveport.egress.scrubbed_output import ScrubbedSink, without_secrets
from gloveport.egress.session import EgressSession, Gateway, RequestJournal
from gloveport.engine.live import LiveOutput, Streams
from gloveport.engine.reach import Reach
from gloveport.engine.result import Stream, facts, refusal, result_of
from gloveport.engine.runs import Runs
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Asker, Guard
from gloveport.hub.calls import Calls, Ledger, LookUp
from gloveport.hub.discovery import Discovery
from gloveport.hub.hub import Hub
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import (
    Execute,
    Grant,
    Language,
    Narrowing,
    Output,
    Policy,
    Program,
    Request,
    Result,
)
from gloveport.model.hub import DOOR
from gloveport.policy.grant import grant_for
from gloveport.runtimes import Runtime
from gloveport.sampling.provider import Provider
from gloveport.sampling.sampler import AskClient, Sampler
from gloveport.sandbox.base import Child, Outcome, Sandbox
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.plan import Plan, System, make_plan
from gloveport.sandbox.run.capture import Archive, Capture

OnOutput: TypeAlias = Callable[[Stream, str], None]
"""Takes a stream's name and the text that has just come on it, escape sequences and all. Must not wait."""

Key = TypeVar("Key")
Made = TypeVar("Made")

_MOST_REMEMBERED = 64
_LIVE_BYTES = 4096
"""Of each stream of a run that goes on: who looks again and again reads it each time."""

_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


@dataclass(frozen=True, kw_only=True)
class Company:
    """Whom one run may ask while it goes on.

    Attributes:
        run_id: What it is called.
        session: Whose approvals count, and for how long; opaque. Empty where nobody is told from others.
        asker: Who asks a person.
        ask_client: Asks the client's model.
        live: Is told what the run has written, while there is no result.
    """

    run_id: str = field(default_factory=lambda: f"run-{os.urandom(8).hex()}")
    session: str = ""
    asker: Asker | None = None
    ask_client: AskClient | None = None
    live: LiveOutput = field(default_factory=LiveOutput)


@dataclass(kw_only=True)
class Engine:
    """Runs programs.

    Attributes:
        reach: What they can reach; may be replaced at any time, and counts for what begins then.
        gateway: Their way out over HTTP.
        hub: Their way out to tools.
        look_up: Tells the addresses of a host.
        runs: Those of them that may outlive their requests.
        desk: Where a person is asked.
        provider: The model that the operator has configured.
        runtimes: The languages this host can run.
        missing: Why the others can't be run.
        spool: Host directory for the nameless files of large output.
    """

    policy: Policy
    reach: Reach
    gateway: Gateway
    hub: Hub
    look_up: LookUp
    runs: Runs
    desk: Desk
    provider: Provider | None
    sandbox: Sandbox
    system: System
    runtimes: Mapping[Language, Runtime]
    missing: Mapping[Language, str]
    spool: Path
    audit: AuditLog
    admission: AdmissionQueue
    archive: Archive
    # Not init: a copy with another policy must not have them.
    _grants: dict[tuple[Reach, Narrowing, tuple[str, ...] | None, tuple[str, ...] | None], Grant] = field(
        default_factory=dict, init=False
    )
    _plans: dict[tuple[Reach, Language, tuple[str, ...], Narrowing], Plan] = field(default_factory=dict, init=False)

    async def execute(
        self,
        request: Request,
        *,
        caller: str,
        share: str | None = None,
        on_output: OnOutput | None = None,
        company: Company | None = None,
    ) -> Result:
        """Run one program to its end. A program that fails, and a refusal, are results.

        Args:
            request: What to run, and under which narrower limits.
            caller: Who asks, for the audit log.
            share: Whose fair share of the places the run takes; without it, the caller's. Callers must not choose it.
            on_output: Called with the program's output as it comes.
            company: Whom the run may ask; without it, nobody.

        Raises:
            SandboxError: The host can't build the sandbox.
            AuditError: The run can't be written down.
        """
        company = company or Company()
        run_id, clock = company.run_id, Clock()
        guard = functools.partial(
            Guard,
            audit=self.audit,
            caller=caller,
            run_id=run_id,
            session=company.session,
            asker=company.asker,
            clock=clock,
        )
        try:
            grant = self._grant(request)
        except Denied as denial:
            guard(grant=Grant()).deny("execute", denial, {"language": request.language})
            return refusal(run_id, request, Grant(), denial)
        run = _Run(
            id=run_id, request=request, reach=self.reach, guard=guard(grant=grant), on_output=on_output, company=company
        )
        try:
            async with run.guard.admit(_action(request)) as ending:
                result = await self._run(run, share or caller)
                ending.fields.update(facts(result))
                return result
        except Denied as denial:
            return refusal(run_id, request, grant, denial)

    async def _run(self, run: "_Run", share: str) -> Result:
        """The admitted run: wait for a place, build the sandbox, open its doors, run, judge."""
        request, limits = run.request, run.guard.grant.limits
        runtime = self.runtimes.get(request.language)
        if runtime is None:
            raise Denied(
                "language_unavailable",
                f"{request.language} can't be run on this host: {self.missing[request.language]}",
                hint="write the program in another language, or ask the operator to run `gloveport doctor`",
            )
        program = self._prepare(runtime, run)
        plan = self._plan(run, program)
        streams = {
            stream: Capture(
                shown=limits.output_bytes,
                stored=limits.stored_output_bytes,
                directory=self.spool,
                notify=functools.partial(run.on_output, stream) if run.on_output else None,
                clean=self.clean,
            )
            for stream in _STREAMS
        }
        live = run.company.live
        live.follow(functools.partial(_shown_live, request, streams))
        try:
            async with self.admission.place(share), self.sandbox.start(plan) as child:
                outcome = await self._run_in(child, run, program, streams)
        finally:
            with anyio.CancelScope(shield=True):  # what it has said is kept, however it ends
                shown = await self._shown(run, streams)
            live.keep(shown)
        return result_of(
            run_id=run.id,
            request=request,
            grant=run.guard.grant,
            outcome=outcome,
            shown=shown,
            journal=run.journal,
            ledger=run.ledger,
            clean=self.clean,
            packages=self.runtimes[request.language].packages,
        )

    async def _run_in(self, child: Child, run: "_Run", program: Program, streams: Mapping[Stream, Capture]) -> Outcome:
        """Run the program in this sandbox, with its way out open."""
        value_bytes = run.guard.grant.limits.output_bytes
        outlet = EgressSession(
            gateway=self.gateway,
            guard=run.guard,
            names=run.reach.names,
            placeholders=child.placeholders,
            redactions=run.reach.redactions,
            journal=run.journal,
        )
        run_program = functools.partial(child.run, program, value_bytes=value_bytes, clock=run.guard.clock)
        doors = dict(zip(run.reach.network.doors, child.doors, strict=True))
        hub = [doors.pop(DOOR)] if DOOR in doors else []
        async with (
            door.opened([*doors.values()], functools.partial(answer, outlet)),
            door.opened(hub, functools.partial(rpc.answer, self._tools(run) if hub else {}, rpc.Room())),
        ):
            if not run.reach.has_secrets and not self.gateway.vault.needles:
                return await run_program(stdout=streams["stdout"], stderr=streams["stderr"])
            sinks = {stream: ScrubbedSink(capture, self.gateway.vault) for stream, capture in streams.items()}
            outcome = await run_program(stdout=sinks["stdout"], stderr=sinks["stderr"])
            for sink in sinks.values():
                sink.finish()
            report = await compute(value_bytes, without_secrets, outcome.report, self.gateway.vault)
            return outcome.model_copy(update={"report": report})

    def _tools(self, run: "_Run") -> Mapping[str, rpc.Handler]:
        """What the program may ask on the door of the tools."""
        calls = Calls(
            hub=self.hub, guard=run.guard, clean=self.gateway.vault.clean, look_up=self.look_up, ledger=run.ledger
        )
        sampler = Sampler(
            guard=run.guard, vault=self.gateway.vault, provider=self.provider, ask_client=run.company.ask_client
        )
        return {**Discovery(hub=self.hub, calls=calls).handlers(), "sample": sampler.sample}

    def _grant(self, request: Request) -> Grant:
        """``grant_for``, remembered: of a request, a grant depends on its limits, APIs and tools alone."""
        reach = self.reach
        key = reach, request.limits, request.apis, request.tools
        return _remembered(
            self._grants,
            key,
            lambda: grant_for(self.policy, reach.egress, request, toolbox=reach.toolbox, sampling=reach.sampling),
        )

    def _prepare(self, runtime: Runtime, run: "_Run") -> Program:
        """The program, for a sandbox that is the same for all requests: it is the doors that narrow what it reaches."""
        reach = run.reach
        whole = {"egress": reach.egress, "toolbox": reach.toolbox, "sampling": reach.sampling}
        grant = run.guard.grant.model_copy(update=whole)
        apis = run.reach.egress.apis
        types = "\n".join(apis[name].types for name in run.request.apis or () if apis[name].types)
        return runtime.prepare(run.request.code, grant, types)

    def _plan(self, run: "_Run", program: Program) -> Plan:
        """``make_plan``, remembered: of a language's programs a plan depends on nothing but what they import."""
        key = run.reach, run.request.language, program.preload, run.request.limits
        grant, network = run.guard.grant, run.reach.network
        return _remembered(self._plans, key, lambda: make_plan(program, grant, self.system, network))

    def clean(self, text: str) -> str:
        """The text without secrets: one may have been hidden between escapes that are gone now."""
        return self.gateway.vault.clean(text)

    async def _shown(self, run: "_Run", streams: Mapping[Stream, Capture]) -> Streams:
        """What the answer shows of the output. What it can't show belongs to the archive from now on."""
        shown: dict[Stream, Output] = {}
        for name, capture in streams.items():
            handle = f"output://{run.id}/{name}"
            make = functools.partial(capture.output, handle, ansi=run.request.ansi)
            shown[name] = await compute(min(capture.shown, capture.total), make)
            if shown[name].truncated:
                self.archive.add(handle, capture)
            else:
                capture.close()
        return shown


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One execution, and what it was granted when it began."""

    id: str
    request: Request
    reach: Reach
    guard: Guard
    on_output: OnOutput | None
    company: Company
    journal: RequestJournal = field(default_factory=RequestJournal)
    ledger: Ledger = field(default_factory=Ledger)


def _shown_live(request: Request, streams: Mapping[Stream, Capture]) -> Streams:
    return {name: capture.output(None, ansi=request.ansi, most=_LIVE_BYTES) for name, capture in streams.items()}


def _remembered(known: dict[Key, Made], key: Key, make: Callable[[], Made]) -> Made:
    """What was made for this key before, or is made now. Callers may ask for any limits, so not all is kept."""
    made = known.get(key)
    if made is None:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        made = known[key] = make()
    return made


def _action(request: Request) -> Execute:
    code = request.code.encode("utf-8", "surrogatepass")
    return Execute(language=request.language, code_bytes=len(code), code_sha256=hashlib.sha256(code).hexdigest())
