"""Begins runs of programs and skills, waits for them, and renders their results. Needs nothing of the SDK."""

import base64
import binascii
import math
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

from msgspec import Struct

from gloveport.engine.caller import Caller
from gloveport.engine.execution import Engine
from gloveport.engine.previews import shown_pictures
from gloveport.engine.run_context import RunContext, SkillRun
from gloveport.engine.runs import Run
from gloveport.errors import GloveportError
from gloveport.model import MIB, Language, Narrowing, Output, Request, Result, Status, Value
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints
from gloveport.model.egress import ApiName
from gloveport.model.hub import ToolPattern
from gloveport.model.json_value import JsonValue
from gloveport.policy.decisions.input_files import MOST_FILES
from gloveport.server.rendering.run_reply import RunReply, reply_error, reply_failure, reply_refusal, reply_result
from gloveport.server.tools.progress import Progress, reporting

WAIT_SECONDS: Final = 50.0
"""How long an answer waits for a run. Clients give up on a call after a minute."""

_BASE64: Final = "base64:"


class ExecuteArguments(Value):
    """What ``execute_code`` takes."""

    language: Language
    code: str
    timeout_seconds: Annotated[float | None, Constraints(gt=0, le=86_400)] = None
    memory_mib: Annotated[int | None, Constraints(ge=32, le=1 << 20)] = None
    ansi: Literal["strip", "keep"] = "strip"
    apis: Annotated[tuple[ApiName, ...] | None, Constraints(max_length=64)] = None
    tools: Annotated[tuple[ToolPattern, ...] | None, Constraints(max_length=64)] = None
    session: Annotated[str | None, Constraints(max_length=64)] = None
    environment: str | None = None
    files: Annotated[Mapping[str, str] | None, Constraints(max_length=MOST_FILES)] = None
    wait_seconds: Annotated[float, Constraints(ge=0, le=3600)] = WAIT_SECONDS


class RunSkillArguments(Value):
    """What ``run_skill`` takes."""

    name: str
    arguments: Mapping[str, JsonValue] | None = None
    wait_seconds: Annotated[float, Constraints(ge=0, le=3600)] = WAIT_SECONDS


class RunCalls(Struct, frozen=True, kw_only=True):
    """The calls about runs, independent of the SDK."""

    engine: Engine

    async def begin(
        self,
        arguments: ExecuteArguments,
        caller: Caller,
        *,
        can_sample: bool = False,
        take_ticket: Callable[[str], bytes | None] | None = None,
    ) -> Run | RunReply:
        """Begin a run; or return the answer that says why there is none. ``can_sample`` is whether the client offers
        its model; ``take_ticket`` returns the file that was uploaded for a ticket.
        """
        try:
            files = decode_files(arguments.files or {}, take_ticket)
        except ValueError as error:
            return reply_error("execute_code was not carried out", f"- files: {error}", "hint: send text, or base64")
        request = Request(
            language=arguments.language,
            code=arguments.code,
            limits=Narrowing(
                wall_seconds=arguments.timeout_seconds,
                memory_bytes=None if arguments.memory_mib is None else ByteSize(arguments.memory_mib * MIB),
            ),
            ansi=arguments.ansi,
            apis=arguments.apis,
            tools=arguments.tools,
            session=arguments.session,
            environment=arguments.environment,
            files=files,
        )
        return self._begin(request, caller, can_sample=can_sample)

    async def begin_skill(
        self, arguments: RunSkillArguments, caller: Caller, *, can_sample: bool = False
    ) -> Run | RunReply:
        """Begin a run of a skill, whose program is read and bound now; or return the answer why there is none."""
        requests = self.engine.skill_requests
        try:
            values, owner = arguments.arguments or {}, caller.share
            prepared = requests.prepare_unchanged(arguments.name, values, owner=owner)
            request, skill = prepared or await requests.prepare_in_thread(arguments.name, values, owner=owner)
        except GloveportError as error:
            return reply_refusal(error)
        return self._begin(request, caller, can_sample=can_sample, skill=skill)

    def _begin(self, request: Request, caller: Caller, *, can_sample: bool, skill: SkillRun | None = None) -> Run:
        async def execute(run: Run) -> Result:
            context = RunContext(
                run_id=run.id,
                session=caller.session,
                asker=self.engine.desk.asker(run.notify),
                ask_client=run.ask_model if can_sample else None,
                live=run.live,
                skill=skill,
                shows_pictures=True,
                on_progress=lambda what: run.output("environment", f"{what}\n"),
            )
            return await self.engine.execute(
                request, caller=caller.name, share=caller.share, on_output=run.output, context=context
            )

        return self.engine.runs.begin(caller.share, request.language, execute)

    async def attend(self, run: Run, seconds: float, progress: Progress | None) -> RunReply:
        """Wait so many seconds for a run that asks nobody; return its result or its state.

        If this is cancelled, a run whose id nobody else knows is cancelled too.
        """
        deadline = time.monotonic() + seconds
        run.on_output = None if progress is None else progress.add
        run.expect(math.inf)
        async with reporting(progress):
            try:
                while not run.is_over and await run.wait_changed(deadline - time.monotonic()):
                    pass
            except BaseException:
                if not run.handed_out:
                    run.cancel()
                raise
        return self.render(run)

    def render(self, run: Run) -> RunReply:
        """Render a run's result or its state."""
        if run.is_over and not run.handed_out:  # nobody has the run's id, so nobody will ask for it again
            self.engine.runs.drop(run)
        if run.failure is not None:
            return reply_failure(run.failure)
        if run.result is not None:
            pictures = shown_pictures(self.engine.artifacts, run.result.artifacts.files, run.owner)
            return reply_result(self.engine.policy, run.result, pictures)
        written = run.live.streams()
        so_far = Result(
            run_id=run.id,
            language=run.language,
            status="cancelled",
            stdout=written.get("stdout", Output()),
            stderr=written.get("stderr", Output()),
        )
        if run.is_over:
            return reply_result(self.engine.policy, so_far)
        ids = tuple(question.id for question in self.engine.desk.pending(run.id))
        run.handed_out = True
        hint = f"call wait_run with run_id {run.id}"
        if ids and "queue" in self.engine.desk.channels:
            hint = f"the owner has to allow it: gloveport approvals approve {' '.join(ids)}. Tell them, then {hint}"
        status: Status = "waiting" if ids else "running"
        return reply_result(
            self.engine.policy, so_far.model_copy(update={"status": status, "approvals": ids, "hint": hint})
        )


def decode_files(files: Mapping[str, str], take_ticket: Callable[[str], bytes | None] | None) -> dict[str, bytes]:
    """Decode the files of a call, by their paths: text, base64 after ``base64:``, or a ticket.

    Raises:
        ValueError: A content is no base64, no text, or no valid ticket.
    """
    decoded: dict[str, bytes] = {}
    for name, text in files.items():
        if take_ticket is not None and (uploaded := take_ticket(text)) is not None:
            decoded[name] = uploaded
            continue
        try:
            is_encoded = text.startswith(_BASE64)
            decoded[name] = base64.b64decode(text[len(_BASE64) :], validate=True) if is_encoded else text.encode()
        except (binascii.Error, UnicodeEncodeError) as error:
            raise ValueError(f"{name[:80]!a} is no base64, or has characters that are none") from error
    return decoded
