"""The context of one run: the services that it may call, and what it was granted when it began."""

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from gloveport.egress.outbound_session import RequestJournal
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.live import LiveOutput
from gloveport.engine.reach import Reach
from gloveport.guard import Asker, Guard
from gloveport.hub.ledger import Ledger
from gloveport.model import Execute, Grant, Request, Stream
from gloveport.model.skill import SkillRights
from gloveport.policy.decisions.skill_grant import UsedRight
from gloveport.policy.npm_requests import with_imports_of_npm

if TYPE_CHECKING:
    from gloveport.engine.run_environment import RunEnvironment
    from gloveport.sampling.sampler import AskClient

OnOutput: TypeAlias = Callable[[Stream, str], None]
"""Takes a stream's name and the text that has just come on it, escape sequences and all. Must not wait."""


class SkillRun(Struct, frozen=True, kw_only=True):
    """Which skill a run is of.

    Attributes:
        sha256: Digest of all of its files.
        rights: What it may do, where a person has approved exactly this; None: it runs as any program does.
    """

    name: str
    sha256: str
    rights: SkillRights | None


class SkillBudget(Struct, eq=False, kw_only=True):
    """What all skills that one run calls may take together, however they call each other.

    Attributes:
        cpu_seconds: Processor time that is left.
        begun: How many there were.
    """

    cpu_seconds: float
    begun: int = 0


class Nesting(Struct, frozen=True, kw_only=True):
    """That a run's program has called a skill, and what this may do.

    Attributes:
        outer: The run that has called.
        grant: What that one may do, in what it has left.
    """

    outer: "Execution"
    grant: Grant


class RunContext(Struct, frozen=True, kw_only=True):
    """Services that one run may call: approvals and the client's model; and who is told of it.

    Attributes:
        run_id: What it is called.
        session: Whose approvals count, and for how long; opaque. Empty where nobody is told from others.
        asker: Who asks a person.
        ask_client: Asks the client's model.
        live: Is told what the run has written, while there is no result.
        skill: The skill that runs; None for a program of the caller's own.
        used: Is told what the run was let do, where a skill is to learn it.
        shows_pictures: Whether pictures that the run leaves will be shown, and so have to be small enough.
        nesting: Which run has called this one; None where a caller has.
        on_progress: Is told how far its environment is, where that is built first.
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
    """One execution, and what it was granted when it began.

    Attributes:
        share: Whose share it takes: see ``Engine.execute``.
        journal: Its requests, and those of the skills that it has called.
        ledger: The same of calls of tools.
        budget: What the skills that it calls may take, together with those of whoever has called it.
        depth: How many runs wait for it.
    """

    id: str
    request: Request
    reach: Reach
    guard: Guard
    on_output: OnOutput | None
    context: RunContext
    share: str
    budget: SkillBudget
    depth: int = 0
    environment: "RunEnvironment | None" = None
    journal: RequestJournal = field(default_factory=RequestJournal)
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def source(self) -> str:
        """Its text, as the runtime of its language gets it."""
        code, imports = self.request.code, self.request.language in {"typescript", "javascript"}
        return with_imports_of_npm(code) if imports else code

    def nest_in(self, outer: "Execution") -> "Execution":
        """The same as a run that this one has called: it reaches what that did, and is counted with it."""
        return replace(
            self,
            reach=outer.reach,
            budget=outer.budget,
            depth=outer.depth + 1,
            journal=outer.journal,
            ledger=outer.ledger,
        )

    def action(self) -> Execute:
        """What is decided and written down of it."""
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
