"""The context of one run: the services that it may call, and its grant."""

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from gloveport.egress.outbound_session import OutboundLoad, RequestJournal
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.live import LiveOutput
from gloveport.engine.reach import Reach
from gloveport.guard import Asker, Guard
from gloveport.hub.ledger import Ledger
from gloveport.model import Execute, Grant, Request, Stream
from gloveport.model.skill import SkillRights
from gloveport.policy.decisions.skill_grant import UsedRight
from gloveport.policy.npm_requests import with_imports_of_npm
from gloveport.sampling.sampling_usage import SamplingUsage

if TYPE_CHECKING:
    from gloveport.engine.run_environment import RunEnvironment
    from gloveport.sampling.sampler import AskClient

OnOutput: TypeAlias = Callable[[Stream, str], None]
"""Takes a stream's name and its latest text, escape sequences included. Must not wait."""


class SkillRun(Struct, frozen=True, kw_only=True):
    """The skill that a run executes.

    Attributes:
        sha256: Digest of all of its files.
        rights: Its rights, if a person has approved exactly this version; None: it runs like any program.
    """

    name: str
    sha256: str
    rights: SkillRights | None


class SkillBudget(Struct, eq=False, kw_only=True):
    """The budget of all skills that one run calls, including nested calls.

    Attributes:
        cpu_seconds: Processor time that is left.
        total: How many skills were started.
        searches: How often it was asked which skills there are.
    """

    cpu_seconds: float
    total: int = 0
    searches: int = 0


class Nesting(Struct, frozen=True, kw_only=True):
    """A skill call of a run's program, and the grant of the skill.

    Attributes:
        outer: The calling run.
        grant: The calling run's grant, within its remaining limits.
    """

    outer: "Execution"
    grant: Grant


class RunContext(Struct, frozen=True, kw_only=True):
    """Services that one run may call: approvals and the client's model; and the observers of the run.

    Attributes:
        session: Identifies the session whose approvals count, and for how long; opaque. Empty where sessions can't be
            told apart.
        live: Shows the run's output while there is no result.
        skill: The skill that runs; None for a program of the caller's own.
        used: Collects the rights that the run uses, if a skill is to learn them.
        shows_pictures: Whether pictures that the run leaves will be shown, so they must be small enough.
        nesting: The run that has called this one; None for a caller's own run.
        on_progress: Hears the progress of its environment's build, if there is one.
    """

    run_id: str = field(default_factory=lambda: f"run-{os.urandom(8).hex()}")
    session: str = ""
    asker: Asker | None = None
    ask_client: "AskClient | None" = None
    live: LiveOutput = field(default_factory=LiveOutput)
    skill: SkillRun | None = None
    used: set[UsedRight] | None = None
    shows_pictures: bool = False
    nesting: Nesting | None = None
    on_progress: OnProgress = no_progress


class Execution(Struct, frozen=True, kw_only=True):
    """One execution and its grant.

    Attributes:
        share: Owner of the fair share that it takes: see ``Engine.execute``.
        journal: Its requests, including those of skills that it called.
        outbound_load: Bounds what its requests cost at once, likewise.
        ledger: Its tool calls, likewise.
        sampling_usage: Its questions to a language model, likewise.
        budget: The budget of skills that it calls, shared with its calling run.
        depth: How many calling runs wait for it.
    """

    id: str
    request: Request
    reach: Reach
    guard: Guard
    on_output: OnOutput | None
    context: RunContext
    share: str
    budget: SkillBudget
    ledger: Ledger
    depth: int = 0
    environment: "RunEnvironment | None" = None
    journal: RequestJournal = field(default_factory=RequestJournal)
    outbound_load: OutboundLoad = field(default_factory=OutboundLoad)
    sampling_usage: SamplingUsage = field(default_factory=SamplingUsage)

    @property
    def source(self) -> str:
        """Its program text, as the runtime of its language gets it."""
        code, imports = self.request.code, self.request.language in {"typescript", "javascript"}
        return with_imports_of_npm(code) if imports else code

    def nest_in(self, outer: "Execution") -> "Execution":
        """This execution as nested in ``outer``: it shares the outer run's reach, counters and budget."""
        return replace(
            self,
            reach=outer.reach,
            budget=outer.budget,
            depth=outer.depth + 1,
            journal=outer.journal,
            outbound_load=outer.outbound_load,
            ledger=outer.ledger,
            sampling_usage=outer.sampling_usage,
        )

    def action(self) -> Execute:
        """The action that the guard decides on and records."""
        code = self.request.code.encode("utf-8", "surrogatepass")
        return Execute(
            language=self.request.language,
            code_bytes=len(code),
            code_sha256=hashlib.sha256(code).hexdigest(),
            files={name: hashlib.sha256(data).hexdigest() for name, data in self.request.files.items()},
            files_bytes=sum(map(len, self.request.files.values())),
            skill="" if self.context.skill is None else self.context.skill.name,
            skill_sha256="" if self.context.skill is None else self.context.skill.sha256,
            approved=self.context.skill is not None and self.context.skill.rights is not None,
            parent="" if self.context.nesting is None else self.context.nesting.outer.id,
        )
