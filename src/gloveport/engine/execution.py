"""Runs one program from request to result: grants, admits, builds its sandbox, opens its doors, judges the outcome."""

import contextlib
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gloveport.approvals.desk import Desk
from gloveport.artifacts.artifact_store import ArtifactStore, Found
from gloveport.audit.log import AuditLog
from gloveport.egress.outbound_session import Gateway
from gloveport.egress.scrubbed_output import ScrubbedSink, without_secrets
from gloveport.engine.artifacts import Collector, write_inputs
from gloveport.engine.doors import open_doors
from gloveport.engine.grants import GrantCache, session_grant
from gloveport.engine.previews import Previewer, has_picture
from gloveport.engine.reach import Reach
from gloveport.engine.recent_runs import RecentRun, RecentRuns
from gloveport.engine.result import facts, refusal, result_of
from gloveport.engine.run_context import Execution, OnOutput, RunContext, SkillBudget
from gloveport.engine.run_output import RunOutput
from gloveport.engine.runs import Runs
from gloveport.engine.session import Session
from gloveport.engine.session_requests import SessionRequests
from gloveport.engine.sessions import Sessions
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.hub.ledger import Ledger
from gloveport.late_module import late_module
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import (
    SCRATCH,
    Grant,
    Language,
    Mount,
    Policy,
    Program,
    Request,
    Result,
)
from gloveport.model.artifact import Artifacts
from gloveport.model.json_value import JsonValue
from gloveport.model.packages import PackageRules
from gloveport.policy.decisions.grant import restrict_to_skill, retain_unchanged
from gloveport.runtimes import Runtime
from gloveport.runtimes.session_program import prepare_session
from gloveport.sandbox.base import Child, Outcome
from gloveport.sandbox.clock import Clock
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan, System
from gloveport.sandbox.pool.pool import StockedSandbox
from gloveport.sandbox.pool.stock import Stock
from gloveport.sandbox.run.capture import Archive

if TYPE_CHECKING:
    from gloveport.engine import hints, skill_calls, skill_requests
    from gloveport.engine.environment_provider import Environments
    from gloveport.engine.skill_calls import SkillCalls
    from gloveport.engine.skill_requests import SkillRequests
    from gloveport.hub.calls import LookUp
    from gloveport.hub.hub import Hub
    from gloveport.sampling.provider import Provider
    from gloveport.skills.skill_library import SkillLibrary
    from gloveport.workspace.patch.out_directory import OutDirectory
else:
    hints = late_module("gloveport.engine.hints")
    skill_calls = late_module("gloveport.engine.skill_calls")
    skill_requests = late_module("gloveport.engine.skill_requests")

NEW = "new"
"""In place of a session's id: begin a new session."""


@dataclass(kw_only=True)
class Engine:
    """Runs programs.

    Attributes:
        reach: What programs can reach; may be replaced at any time, for runs that begin from then on.
        gateway: Their outbound HTTP.
        hub: Their tool gateway.
        sessions: Sandboxes that keep their interpreters between calls.
        runs: Runs that may outlive their requests.
        desk: Asks a person.
        sandbox: Hands out waiting sandboxes.
        backend: Builds sandboxes when none waits, and starts fork servers.
        runtimes: The languages this host can run.
        packages: Which packages programs may request.
        make_stock: Makes a stock of sandboxes for programs like this one, in an environment.
        missing: Why the other languages can't be run.
        spool: Host directory for the nameless files of large output.
        out_directory: The workspace's directory for files that programs leave, if it has one.
        calls_skills: Whether programs may call skills.
        restock: Replaces the waiting sandboxes when ``reach`` has changed.
        recent: Recent successful runs, from which skills are saved.
    """

    policy: Policy
    reach: Reach
    gateway: Gateway
    hub: "Hub"
    look_up: "LookUp"
    runs: Runs
    sessions: Sessions
    desk: Desk
    provider: "Provider | None"
    sandbox: StockedSandbox
    backend: Bubblewrap
    system: System
    runtimes: Mapping[Language, Runtime]
    missing: Mapping[Language, str]
    packages: PackageRules
    open_environments: "Callable[[], Environments]"
    make_stock: Callable[[Plan, Program], Stock | None]
    spool: Path
    audit: AuditLog
    admission: AdmissionQueue
    archive: Archive
    artifacts: ArtifactStore
    open_skills: "Callable[[], SkillLibrary]"
    calls_skills: bool = True
    restock: Callable[[], None] = lambda: None
    recent: RecentRuns = field(default_factory=RecentRuns)
    out_directory: "OutDirectory | None" = None
    _environments: "Environments | None" = None
    _granted: GrantCache = field(init=False)

    def __post_init__(self) -> None:
        self._granted = self._make_cache()

    def let_write(self, mount: Mount, sandbox: StockedSandbox) -> None:
        """Let programs write to this mount of the policy, in sandboxes of this source. Call it before the first run."""
        self.sandbox = sandbox
        self._granted = self._make_cache(mount)

    @property
    def skills(self) -> "SkillLibrary":
        """The library of skills, opened on first use."""
        return self.open_skills()

    @property
    def environments(self) -> "Environments":
        """The package environments, opened on first use."""
        if self._environments is None:
            self._environments = self.open_environments()
        return self._environments

    def adopt_environments(self, environments: "Environments") -> None:
        """Use these environments for runs that begin from now on."""
        self._environments = environments
        self.adopt_packages(environments.rules)

    def adopt_packages(self, rules: PackageRules) -> None:
        """Hold runs that begin from now on to these rules."""
        if self._environments is not None:
            self._environments = replace(self._environments, rules=rules)
        self.packages = rules
        self._granted = self._make_cache(self._granted.writable)

    def _make_cache(self, writable: Mount | None = None) -> GrantCache:
        return GrantCache(
            policy=self.policy,
            system=self.system,
            session_seconds=self.sessions.limits.life_seconds,
            packages=self.packages,
            writable=writable,
        )

    @property
    def writable(self) -> Mount | None:
        """What programs may write to."""
        return self._granted.writable

    async def execute(
        self,
        request: Request,
        *,
        caller: str,
        share: str | None = None,
        on_output: OnOutput | None = None,
        context: RunContext | None = None,
    ) -> Result:
        """Run one program to its end. A program that fails, and a refusal, are results.

        Args:
            request: What to run, and under which narrower limits.
            caller: The caller, for the audit log.
            share: Owner of the fair share that the run takes; by default the caller. Callers must not choose it.
            on_output: Called with the program's output as it comes.
            context: The services that the run may call; without it, none.

        Raises:
            SandboxError: The host can't build the sandbox.
            AuditError: The run can't be written down.
        """
        context = context or RunContext()
        outer = None if context.nesting is None else context.nesting.outer
        run_id, clock = context.run_id, Clock(outer=None if outer is None else outer.guard.clock)
        self._notice_skills()
        guard = functools.partial(
            Guard,
            audit=self.audit,
            caller=caller,
            run_id=run_id,
            session=context.session,
            asker=context.asker,
            asks_for="" if outer is None else outer.guard.asks_for or outer.id,
            used=set() if context.used is None else context.used,
            clock=clock,
            refusals=Counter() if outer is None else outer.guard.refusals,
        )
        share, session = share or caller, None
        try:
            grant = context.nesting.grant if context.nesting else self._granted.grant(self.reach, request)
            if request.session not in (None, NEW):
                session = self.sessions.find(request.session or "", share, "programs")
                grant = session_grant(session, request, grant, self.reach)
            if context.skill is not None and context.skill.rights is not None:
                grant = restrict_to_skill(grant, context.skill.rights)
        except Denied as denial:
            guard(grant=Grant()).deny("execute", denial, {"language": request.language})
            return refusal(run_id, request, Grant(), denial)
        run = Execution(
            id=run_id,
            request=request,
            reach=session.reach if session else self.reach,
            guard=guard(grant=grant),
            on_output=on_output,
            context=context,
            share=share,
            budget=SkillBudget(cpu_seconds=grant.limits.cpu_seconds),
            ledger=Ledger(run=run_id),
        )
        if outer is not None:
            run = run.nest_in(outer)
        try:
            async with run.guard.admit(run.action()) as ending:
                result = await self._run(run, session)
                ending.fields.update(facts(result, self._granted.write_out(result.grant)))
                self._remember(run, result)
                if result.session is not None:
                    ending.fields.update({"session": result.session.id, "state": result.session.state})
                return result
        except Denied as denial:
            return refusal(run_id, request, grant, denial)

    def _remember(self, run: Execution, result: Result) -> None:
        """Remember a run from which a skill could be saved: none of a session, and none of a skill."""
        if result.status != "ok" or run.request.session is not None or run.context.skill is not None:
            return
        grant = run.guard.grant
        mounts = tuple(mount.target for mount in (*grant.mounts, *grant.writable))
        self.recent.add(
            RecentRun(
                owner=run.share, request=run.request, result=result, used=frozenset(run.guard.used or ()), mounts=mounts
            )
        )

    @property
    def skill_requests(self) -> "SkillRequests":
        """Handles callers' requests about skills."""
        return skill_requests.SkillRequests(library=self.skills, recent=self.recent, audit=self.audit)

    @property
    def session_requests(self) -> SessionRequests:
        """Handles session requests besides running programs."""
        return SessionRequests(
            sessions=self.sessions, audit=self.audit, admission=self.admission, vault=self.gateway.vault
        )

    async def _run(self, run: Execution, session: Session | None) -> Result:
        """The admitted run: wait for a place, build the sandbox, open its doors, run, judge."""
        request = run.request
        if request.language not in self.runtimes:
            raise Denied(
                "language_unavailable",
                f"{request.language} can't be run on this host: {self.missing[request.language]}",
                hint="write the program in another language, or ask the operator to run `gloveport doctor`",
            )
        # Environments that nobody has opened yet stay closed for a program that names none.
        if session is None and (self._environments is not None or request.environment is not None):
            found = await self.environments.provide(request, run.guard, run.share, run.context.on_progress)
            run = replace(run, environment=found)
        runtimes = self.runtimes if run.environment is None else run.environment.runtimes(self.runtimes)
        program = None if session else self._prepare(runtimes, run)
        output = RunOutput.open(run, self.spool, self.clean)
        try:
            if program is not None and request.session == NEW:
                plan, grant = self._granted.plan(run, program), run.guard.grant
                session = self.sessions.begin(
                    run.share, grant, run.reach, sandbox=self.sandbox, plan=plan, program=program
                )
            if session is not None:
                async with session.take_turn() as child, self.admission.place(run.share):
                    run = self._narrow_to_present(run)
                    with session.use_sandbox():
                        outcome, artifacts = await self._use(child, run, None, output, session)
            else:
                assert program is not None  # noqa: S101 - only a session that there is has none
                # A run that holds a place and waits for another run could wait for ever: a skill that it calls takes no
                # place.
                place = self.admission.place(run.share) if run.depth == 0 else contextlib.nullcontext()
                async with place, self.sandbox.start(self._plan(run, program)) as child:
                    run = self._narrow_to_present(run)
                    outcome, artifacts = await self._use(child, run, program, output, None)
        finally:
            streams = await output.finish(self.archive)  # its output is kept, however it ends
        result = result_of(
            run,
            outcome,
            streams=streams,
            storage_failure=output.failure,
            artifacts=artifacts,
            session=None if session is None else self.session_requests.state_of(session, outcome),
            clean=self.clean,
            runtime=runtimes[request.language],
        )
        modules = hints.find_missing_modules(result.error) if result.error is not None and result.hint else ()
        if not modules:
            return result
        suggestion = await self.environments.suggest(modules, request)
        return result.model_copy(update={"hint": f"{suggestion}; {result.hint}"})

    def _narrow_to_present(self, run: Execution) -> Execution:
        """The same run, without what the configuration has taken back while it waited for its turn or its packages.

        Raises:
            Denied: It is a skill, and its approval has been taken back meanwhile.
        """
        skill = run.context.skill
        if skill is not None and skill.rights is not None and not self.skills.is_approved(skill.name, skill.sha256):
            raise Denied(
                "approval_taken_back",
                f"The approval of the skill {skill.name} was taken back before it began.",
                hint="Ask the owner, or do without it.",
            )
        grant = run.guard.grant
        egress = retain_unchanged(grant.egress, run.reach.egress, self.reach.egress)
        if egress is grant.egress:
            return run
        return replace(run, guard=replace(run.guard, grant=grant.model_copy(update={"egress": egress})))

    def _plan(self, run: Execution, program: Program) -> Plan:
        plan = self._granted.plan(run, program)
        if run.environment is not None:
            self.sandbox.add_stock(plan, lambda: self.make_stock(self._granted.plan_ahead(run, program), program))
        return plan

    async def _use(
        self, child: Child, run: Execution, program: Program | None, output: RunOutput, session: Session | None
    ) -> tuple[Outcome, Artifacts]:
        """Run it in this sandbox, and collect the files that it leaves."""
        if run.request.files:
            await self._write_inputs(child, run.request)
        outcome = await self._run_in(child, run, program, output, session)
        return outcome, await self._collect(child, outcome, run, session)

    async def _write_inputs(self, child: Child, request: Request) -> None:
        """Put the files that come with a program into its working directory.

        Raises:
            Denied: There is no room for them.
        """
        try:
            await write_inputs(child, request.files)
        except OSError as error:
            raise Denied(
                "files_not_written",
                f"The files can't be written to {SCRATCH}: {error.strerror}.",
                hint="send fewer bytes; in a session, under names that are not taken",
            ) from error

    async def _collect(self, child: Child, outcome: Outcome, run: Execution, session: Session | None) -> Artifacts:
        """The files that the program left, with previews of pictures that will be shown."""
        is_lost = session is not None and outcome.session is None  # the session is dead, and its turn over
        if is_lost or run.depth:  # the caller of a skill gets only its value
            return Artifacts()
        collector = Collector(store=self.artifacts, vault=self.gateway.vault, audit=self.audit, out=self.out_directory)
        versions = None if session is None else session.out
        found, bundle = await collector.collect(child, run, outcome.report, versions)
        if not run.context.shows_pictures or not has_picture(found):
            return found
        return await self._previewer.add_previews(found, bundle)

    async def show_picture(self, found: Found, share: str) -> None:
        """Give a kept picture a preview if it needs one, or the reason why none could be made."""
        async with self.admission.place(share):
            await self._previewer.add_preview(found)

    @property
    def _previewer(self) -> Previewer:
        return Previewer(
            policy=self.policy,
            reach=self.reach,
            runtime=self.runtimes["python"],
            system=self.system,
            sandbox=self.sandbox,
        )

    def _skills_of(self, run: Execution) -> "SkillCalls | None":
        """The skills that the run's program may call; None if it may call none."""
        if not run.guard.grant.skills:
            return None
        return skill_calls.SkillCalls(
            run=run,
            requests=self.skill_requests,
            execute=self.execute,
            clean=self.clean,
            default_seconds=self.policy.default_wall_seconds,
        )

    def _notice_skills(self) -> None:
        """Let programs call skills from now on, if some exist by now."""
        if not self.reach.skills and self.calls_skills and not self.skills.is_empty:
            self.reach = self.reach.with_skills()
            self.restock()

    async def _run_in(
        self, child: Child, run: Execution, program: Program | None, output: RunOutput, session: Session | None
    ) -> Outcome:
        """Run the program in this sandbox, with its doors open, and scrub its output."""
        value_bytes, vault, clock = run.guard.grant.limits.output_bytes, self.gateway.vault, run.guard.clock
        run_program: Callable[..., Awaitable[Outcome]]
        if session is not None:
            session.language = run.request.language
            seconds = run.guard.grant.limits.wall_seconds
            message: dict[str, JsonValue] = {"do": "run", "source": run.source}
            run_program = functools.partial(session.call, message, wall_seconds=seconds)
        else:
            assert program is not None  # noqa: S101 - only a call of a session has none
            run_program = functools.partial(child.run, program)
        run_program = functools.partial(run_program, value_bytes=value_bytes, clock=clock)
        doors = open_doors(
            run,
            child,
            self.gateway,
            self.hub,
            look_up=self.look_up,
            provider=self.provider,
            skills=self._skills_of(run),
        )
        captures = output.captures
        async with doors:
            if not run.reach.has_secrets and vault.is_empty:
                return await run_program(stdout=captures["stdout"], stderr=captures["stderr"])
            sinks = {stream: ScrubbedSink(capture, vault) for stream, capture in captures.items()}
            outcome = await run_program(stdout=sinks["stdout"], stderr=sinks["stderr"])
            for sink in sinks.values():
                sink.finish()
            report = await compute(value_bytes, without_secrets, outcome.report, vault)
            return replace(outcome, report=report)

    def _prepare(self, runtimes: Mapping[Language, Runtime], run: Execution) -> Program:
        """Prepare the program for a sandbox that is the same for all requests: the doors narrow what it reaches."""
        reach = run.reach
        whole = {
            "egress": reach.egress,
            "toolbox": reach.toolbox,
            "sampling": reach.sampling,
            "skills": reach.skills,
        }
        grant = run.guard.grant
        if any(getattr(grant, name) is not value for name, value in whole.items()):
            grant = grant.model_copy(update=whole)
        apis = run.reach.egress.apis
        types = "\n".join(apis[name].types for name in run.request.apis or () if apis[name].types)
        if run.request.session == NEW:
            first = run.request.language, run.request.code
            return prepare_session(runtimes, first, grant, types, counts_memory=self.system.counts_memory)
        return runtimes[run.request.language].prepare(run.source, grant, types)

    def clean(self, text: str) -> str:
        """The text without secrets: removed escape sequences may have hidden one."""
        return self.gateway.vault.clean(text)
