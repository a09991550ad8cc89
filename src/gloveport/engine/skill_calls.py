"""Skills that a program calls: each runs in a sandbox of its own, within the place and the budget of the calling run.

A sandbox can't give a part of its program narrower rights, so a skill is an execution like any other: decided, recorded
with the calling run, and under that run's grant, narrowed to the rights that the skill was approved for. It takes no
place in the queue: a run that holds a place and waits for another could wait for ever.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import pydantic_core
from msgspec import Struct, field

from gloveport.engine.run_context import Execution, Nesting, RunContext, SkillRun
from gloveport.engine.skill_requests import SkillRequests
from gloveport.errors import ConfigError, Denied, SandboxError, UpstreamError
from gloveport.hub.definition import Definition
from gloveport.late_module import late_module
from gloveport.model import MIB, Grant, Request, Result
from gloveport.model.byte_size import ByteSize
from gloveport.model.json_value import JsonValue
from gloveport.model.skill import DEEPEST
from gloveport.policy.decisions.skill_grant import MOST_USED, UsedRight
from gloveport.policy.wording import FINAL, quote_sent
from gloveport.rpc import DoorRequest, Handler
from gloveport.skills.parameters import schema_of
from gloveport.skills.skill_threads import SKILL_READS, SKILL_SEARCHES
from gloveport.skills.snapshot import unknown_skill

if TYPE_CHECKING:
    from gloveport.hub.stubs import python_stubs, typescript_stubs
else:
    python_stubs = late_module("gloveport.hub.stubs.python_stubs")
    typescript_stubs = late_module("gloveport.hub.stubs.typescript_stubs")

MOST_RUNS: Final = 100
"""Skills that one run, its nested runs included, may run in all."""

_LEAST_MEMORY: Final = 32 * MIB
_LEAST_SECONDS: Final = 0.1
_RETURNED_BYTES: Final = MIB
"""Of a skill's value, which a program gets and no model reads."""

_MOST_REQUESTS: Final = 1000
_MOST_NAMED: Final = 1000
_NAME_CHARACTERS: Final = 128
_STDERR_CHARACTERS: Final = 500
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ProgramRunner(Protocol):
    """Runs a program to its end (``Engine.execute``)."""

    def __call__(  # noqa: D102
        self, request: Request, *, caller: str, share: str, context: RunContext
    ) -> Awaitable[Result]: ...


class SkillCalls(Struct, eq=False, kw_only=True):
    """The skills that the program of one execution calls.

    Attributes:
        run: The calling execution.
        default_seconds: How long a skill may take at most, even if the run has more time left.
    """

    run: Execution
    requests: SkillRequests
    execute: ProgramRunner
    clean: Callable[[str], str]
    default_seconds: float
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    def handlers(self) -> Mapping[str, Handler]:
        """Handlers of the door's requests, by name."""
        return {"run_skill": self.call, "skills": self.list_names, "describe_skill": self.describe}

    async def call(self, message: DoorRequest) -> JsonValue:
        """Run a skill, one at a time: ``{skill, arguments}`` → ``{value}``, or its output if it has no value.

        Raises:
            Denied: It may not run, or was called wrongly.
            UpstreamError: It failed, or its value is no JSON.
        """
        name, arguments = _read_skill_name(message), message.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Denied("malformed_call", "A call has the name of a skill and an object of arguments.", hint=FINAL)
        try:
            self._require_budget()
            async with self._turn:
                request, skill = await self._prepare(name, arguments)
                result = await self._execute(request, skill)
        except Denied as denial:
            self.run.guard.deny("execute", denial, {"skill": self.clean(quote_sent(name)[1:-1])})
            raise
        except ConfigError as error:
            raise Denied("skill_unreadable", f"The skill {quote_sent(name)} can't be read here.", hint=FINAL) from error
        value = _value_of(skill.name, result)
        self.run.ledger.bytes += len(pydantic_core.to_json(value))
        return {"value": value}

    async def list_names(self, message: DoorRequest) -> JsonValue:  # noqa: ARG002 - as every handler
        """Names of skills → ``{names, total}``; only the first of many."""
        self._count()
        places = await SKILL_SEARCHES.run(lambda: [name for name, _ in self.requests.library.places()])
        names: list[JsonValue] = [*places[:_MOST_NAMED]]
        return {"names": names, "total": len(places)}

    async def describe(self, message: DoorRequest) -> JsonValue:
        """``{skill}`` → a skill's description and typed parameters."""
        self._count()
        own = await self._find_name(_read_skill_name(message))
        entry = await SKILL_READS.run(self.requests.library.find, own)
        if not entry.is_shown_to(self.run.share):
            raise unknown_skill(own)
        exposed = own.replace("-", "_")
        definition = Definition(
            server="skills",
            name=own,
            description=entry.skill.head.description,
            input_schema=schema_of(entry.skill.parameters),
        )
        return {
            "name": own,
            "description": self.clean(definition.description),
            "state": entry.state,
            "origin": entry.origin,
            "input_schema": dict(definition.input_schema),
            "python": self.clean(python_stubs.stub(definition, exposed)),
            "typescript": self.clean(typescript_stubs.stub(definition, exposed)),
        }

    async def _prepare(self, name: str, arguments: Mapping[str, JsonValue]) -> tuple[Request, SkillRun]:
        owner = self.run.share
        for own in _spellings(name):
            if (prepared := self.requests.prepare_unchanged(own, arguments, owner=owner)) is not None:
                return prepared
        return await self.requests.prepare_in_thread(await self._find_name(name), arguments, owner=owner)

    async def _find_name(self, name: str) -> str:
        """The skill that a program means. Raises Denied if there is none."""
        stores = (self.requests.library.own, *self.requests.library.others)
        found = await SKILL_READS.run(
            lambda: next((one for one in _spellings(name) if any(store.has(one) for store in stores)), None)
        )
        if found is None:
            hint = f"In Python `import skills; print(skills)` lists them, in a shell `skill`. {FINAL}"
            raise Denied("unknown_skill", f"There is no skill {quote_sent(name)}.", hint=hint)
        return found

    async def _execute(self, request: Request, skill: SkillRun) -> Result:
        outer, budget = self.run, self.run.budget
        grant = _nested_grant(outer, self.default_seconds)
        reserved = spent = grant.limits.cpu_seconds
        self._note_mounts(grant, request, skill)
        context = RunContext(
            session=outer.context.session,
            asker=outer.context.asker,
            ask_client=outer.context.ask_client,
            skill=skill,
            used=outer.guard.used,
            nesting=Nesting(outer=outer, grant=grant),
        )
        budget.cpu_seconds -= reserved
        try:
            result = await self.execute(request, caller=outer.guard.caller, share=outer.share, context=context)
            if result.usage.cpu_ms is not None:
                spent = result.usage.cpu_ms / 1000
            elif result.usage.wall_ms is not None:
                spent = result.usage.wall_ms / 1000 * grant.limits.cpus
        except SandboxError as error:
            raise UpstreamError("sandbox_failed", "No sandbox could be built for it.", hint="Try again.") from error
        finally:
            budget.cpu_seconds += max(0.0, reserved - spent)
        return result

    def _note_mounts(self, grant: Grant, request: Request, skill: SkillRun) -> None:
        """Note which directories of the owner the skill needs, if the calling run's needs are being learned."""
        used = self.run.guard.used
        if used is None:
            return
        for mount in (*grant.mounts, *grant.writable):
            needed = mount.target in request.code if skill.rights is None else mount.target in skill.rights.grant.mounts
            if needed and len(used) <= MOST_USED:
                used.add(UsedRight("files", mount.target))

    def _require_budget(self) -> None:
        """Refuse a call that is nested too deep, or one too many within the outermost run."""
        budget = self.run.budget
        if self.run.depth >= DEEPEST:
            raise Denied(
                "skills_too_deep",
                f"{DEEPEST} skills wait for one another, and there may be no more.",
                hint="A skill that calls itself has no end here: do the work in one.",
            )
        budget.total += 1
        if budget.total > MOST_RUNS:
            raise Denied(
                "too_many_skill_runs",
                f"A run may have {MOST_RUNS} runs of skills.",
                hint="Have a skill do more at once, or do the work in several runs.",
            )

    def _count(self) -> None:
        self.run.budget.searches += 1
        if self.run.budget.searches > _MOST_REQUESTS:
            raise Denied("too_many_searches", f"A run may ask {_MOST_REQUESTS} times for skills.", hint=FINAL)


def _nested_grant(outer: Execution, default_seconds: float) -> Grant:
    """The grant of a called skill, out of what the calling program has left.

    The skill gets half of the memory, and so does a skill that it calls in turn: all together have less than twice the
    caller's. It gets half of the processor time that is left to all skills, and returns what it does not use.

    Raises:
        Denied: Too little is left.
    """
    grant = outer.guard.grant
    limits = grant.limits
    memory, seconds = limits.memory_bytes // 2, limits.wall_seconds - outer.guard.clock.seconds
    cpu_seconds = outer.budget.cpu_seconds / 2
    for what, rest, least in (
        ("memory", memory, _LEAST_MEMORY),
        ("time", seconds, _LEAST_SECONDS),
        ("processor time", cpu_seconds, _LEAST_SECONDS),
    ):
        if rest < least:
            raise Denied(
                "too_little_left",
                f"The program that calls it has too little {what} left.",
                hint="Call it earlier, give the program more, or do less.",
            )
    changes = {
        "memory_bytes": ByteSize(memory),
        "wall_seconds": min(seconds, default_seconds),
        "cpu_seconds": cpu_seconds,
        "output_bytes": ByteSize(max(limits.output_bytes, min(_RETURNED_BYTES, limits.stored_output_bytes))),
    }
    return grant.model_copy(update={"limits": limits.model_copy(update=changes)})


def _spellings(name: str) -> Iterable[str]:
    """The skill names that a program may mean by this name: its language has no hyphens in names."""
    return dict.fromkeys((name, name.replace("_", "-"), _HUMP.sub("-", name).replace("_", "-").lower()))


def _read_skill_name(message: DoorRequest) -> str:
    name = message.get("skill")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS:
        raise Denied("malformed_call", f"A skill has a name of 1 to {_NAME_CHARACTERS} characters.", hint=FINAL)
    return name


def _value_of(name: str, result: Result) -> JsonValue:
    """The value that a call returns, from the ended run.

    Raises:
        Denied: It was refused.
        UpstreamError: It failed, or its value is no JSON, or incomplete.
    """
    error = result.error
    if result.status == "denied" and error is not None:
        raise Denied(error.type, error.message, hint=result.hint)
    if result.status != "ok":
        limits = f" It has used up {', '.join(result.limits_hit)}." if result.limits_hit else ""
        reason = f"{error.type}: {error.message}" if error is not None else result.stderr.text[-_STDERR_CHARACTERS:]
        what = "error" if result.status == "error" else result.status
        raise UpstreamError(f"skill_{what}", f"It has ended with {what}: {reason.strip()}{limits}", hint=result.hint)
    if result.value_type is not None:
        raise UpstreamError(
            "no_json_value",
            f"Its value, of the type {result.value_type}, is no JSON, or too large to be returned.",
            hint=f"Have {name} end with a smaller value of null, booleans, numbers, texts, lists and objects.",
        )
    if result.value is None and result.stdout.text:
        if result.stdout.truncated:
            raise UpstreamError("no_json_value", "It has printed too much to be returned.", hint="Have it print less.")
        return result.stdout.text.removesuffix("\n")
    return result.value
