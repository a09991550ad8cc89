"""Runs one program with an engine, and prints its output as it comes and then its value.

For runs of this process, and for those that a server does for ``gloveport run``.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from gloveport.cli.printer import STDERR, STDOUT
from gloveport.cli.usage import UsageError

if TYPE_CHECKING:
    from gloveport.cli.printer import Printer
    from gloveport.engine.execution import Engine
    from gloveport.model import Limits, Request, Result

_LONGER_TIMEOUT: Final = "give a longer --timeout, if policy.limits.wall_seconds allows it, or do less in one run"


def read_request(options: "Mapping[str, object]") -> "Request":
    """Make the request of a command line.

    Args:
        options: ``language``, ``code``, ``environment``, and ``limits`` with ``wall_seconds`` and ``memory_bytes``.

    Raises:
        UsageError: A value is wrong; the error names its option.
    """
    from gloveport.model import Request
    from gloveport.model.reading import WrongShapeError, read_value

    with contextlib.suppress(WrongShapeError):
        return read_value(Request, options)

    from pydantic import ValidationError  # imported late: only an error needs it

    from gloveport.model.pydantic_models import validate

    try:
        request: Request = validate(Request, options)
    except ValidationError as error:
        option = {
            "language": "--language",
            "code": "the program",
            "environment": "--env",
            "wall_seconds": "--timeout",
            "memory_bytes": "--memory",
        }
        faults = (f"{option[str(fault['loc'][-1])]}: {fault['msg'].removeprefix('Input ')}" for fault in error.errors())
        raise UsageError("; ".join(faults)) from error
    return request


async def run_program(
    engine: "Engine",
    request: "Request",
    ceiling: "Limits",
    printer: "Printer",
    *,
    as_json: bool,
    out: Path | None = None,
) -> "Result":
    """Run the program, print its output, and write its artifacts to ``out``.

    ``ceiling`` has the owner's maximum limits; a note names the requested limits that are lowered to it. With
    ``as_json`` only the whole result is printed, at the end.

    Raises:
        GloveportError: As ``Engine.execute``.
    """
    from gloveport.engine.run_context import RunContext

    def pass_on(stream: str, text: str) -> None:
        printer.put(STDOUT if stream == "stdout" else STDERR, text)

    _tell_lowered(request, ceiling, printer)
    context = RunContext()
    context = replace(
        context,
        asker=engine.desk.asker(make_teller(engine, context.run_id, functools.partial(printer.put_line, STDERR))),
        on_progress=lambda what: printer.put_line(STDERR, f"gloveport: {what}"),
    )
    caller = f"cli (uid {os.getuid()})"
    result = await engine.execute(request, caller=caller, on_output=None if as_json else pass_on, context=context)
    _show(printer, result, as_json)
    _put_out(printer, engine, caller, result, out)
    return result


def _tell_lowered(request: "Request", ceiling: "Limits", printer: "Printer") -> None:
    """Print which requested limits exceed the owner's."""
    from gloveport.model import MIB

    if (seconds := request.limits.wall_seconds) is not None and seconds > ceiling.wall_seconds:
        bound = f"{ceiling.wall_seconds:g} s, as policy.limits.wall_seconds says"
        printer.put_line(STDERR, f"gloveport: --timeout {seconds:g} is lowered to {bound}")
    if (size := request.limits.memory_bytes) is not None and size > ceiling.memory_bytes:
        bound = f"{ceiling.memory_bytes / MIB:g} MiB, as policy.limits.memory_bytes says"
        printer.put_line(STDERR, f"gloveport: --memory {size / MIB:.15g} MiB is lowered to {bound}")


def make_teller(engine: "Engine", run_id: str, say: Callable[[str], None]) -> Callable[[], None]:
    """Make a function that says, in lines of their own, each question of the run to a person once."""
    printed_ids: set[str] = set()

    def tell() -> None:
        for question in engine.desk.pending(run_id):
            if question.id not in printed_ids:
                printed_ids.add(question.id)
                say(f"gloveport: {question.text}")
                say(f"hint: gloveport approvals approve {question.id}")

    return tell


def _show(printer: "Printer", result: "Result", as_json: bool) -> None:
    from gloveport.server.rendering.result_text import failure_text, refusals, value_text

    if as_json:
        printer.put(STDOUT, msgspec.json.format(result.model_dump_json(), indent=2) + "\n")
        return
    if value := value_text(result):
        printer.put_line(STDOUT, value)
    if result.error is not None:
        printer.put_line(STDERR, failure_text(result.error))
    for line in refusals(result):
        printer.put_line(STDERR, f"gloveport: {line}")
    if result.status not in {"ok", "error"}:
        limits = f" ({', '.join(result.limits_hit)})" if result.limits_hit else ""
        printer.put_line(STDERR, f"gloveport: {result.status}{limits}")
    was_printed = result.limits_hit == ("output_bytes",) and (result.stdout.truncated or result.stderr.truncated)
    hint = _LONGER_TIMEOUT if result.status == "timeout" else result.hint
    if hint and not was_printed:  # uncut, unlike in an answer to an agent
        printer.put_line(STDERR, f"hint: {hint}")


def _put_out(printer: "Printer", engine: "Engine", caller: str, result: "Result", out: Path | None) -> None:
    """Write the program's artifacts, or print that there are some which are not kept."""
    from gloveport.cli.artifact_files import write_artifacts

    artifacts = result.artifacts
    if artifacts.files and out is None:
        printer.put_line(STDERR, f"gloveport: {len(artifacts.files)} files in /out are not kept")
        printer.put_line(STDERR, "hint: --out DIR puts them there")
    if out is not None:
        try:
            faults = write_artifacts(engine.artifacts, caller, artifacts.files, out)
        except OSError as error:
            faults = dict.fromkeys((one.path for one in artifacts.files), error)
        for one in artifacts.files:
            fault = faults[one.path]
            end = f"is not written: {fault}" if fault else f"({one.bytes} bytes)"
            if isinstance(fault, OSError):
                end, printer.failure = f"is not written: {fault.strerror}", fault
            printer.put_line(STDERR, f"gloveport: {out / one.path.removeprefix('/out/')} {end}")
    for line in artifacts.left_out:
        printer.put_line(STDERR, f"gloveport: not kept: {line}")
