"""Runs the one program of ``gloveport run`` in a sandbox of this process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gloveport.cli.artifact_files import make_out, read_inputs
from gloveport.cli.config_loading import load_config
from gloveport.cli.exit_codes import OF_A_RUN, of_unwritten
from gloveport.cli.file_limit import raise_file_limit
from gloveport.cli.garbage import collect_from_now_on
from gloveport.cli.run_options import RunOptions

if TYPE_CHECKING:
    from gloveport.bootstrap.host_setup import Host
    from gloveport.config import Config
    from gloveport.model import Request, Result
    from gloveport.sandbox.pool.first_sandbox import FirstSandbox


def run_program_here(options: RunOptions) -> int:
    """Run the program; return the exit code.

    Raises:
        UsageError: An option is wrong, or a file can't be read.
        GloveportError: The configuration is wrong, or the program can't be run here.
    """
    raise_file_limit()
    # The reaper starts while the rest is imported.
    from gloveport.sandbox.reaper.reaper_process import start_reaper

    reaper = start_reaper()
    from gloveport.cli.run_printing import read_request

    config = load_config(options.config)
    limits = config.policy.limits
    request = read_request(options.request_fields(limits.code_bytes))
    if options.files:
        request = request.model_copy(update={"files": read_inputs(options.files, limits.input_bytes)})
    if options.out is not None:
        make_out(options.out)
    from gloveport.bootstrap.host_setup import open_host
    from gloveport.late_module import import_now

    meanwhile = "gloveport.bootstrap.early_sandbox", "gloveport.event_loop"
    with open_host(config, os.environ, reaper, lambda: import_now(*meanwhile)) as host:
        from gloveport.bootstrap.early_sandbox import begin_sandbox
        from gloveport.event_loop import run

        with begin_sandbox(host, config, request) as first:
            return run(_execute, host, first, config, request, options.as_json, options.out)


async def _execute(
    host: "Host", first: "FirstSandbox", config: "Config", request: "Request", as_json: bool, out: Path | None
) -> int:
    """Run the program in this process; return the exit code."""
    import anyio

    from gloveport.bootstrap.app import assemble_on
    from gloveport.cli.backend import choose_connect
    from gloveport.cli.printer import printing
    from gloveport.cli.run_printing import run_program
    from gloveport.config.schema import PoolSettings
    from gloveport.errors import GloveportError
    from gloveport.server.process.signals import on_end_signal

    ended: Result | GloveportError | None = None
    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})  # no later program needs a sandbox
    async with assemble_on(host, alone, os.environ, choose_connect(config), cold=first) as engine:
        collect_from_now_on()
        with anyio.CancelScope() as scope, on_end_signal(scope.cancel) as signals:
            async with printing(scope) as printer:
                try:
                    limits = config.policy.limits
                    ended = await run_program(engine, request, limits, printer, as_json=as_json, out=out)
                except GloveportError as error:
                    ended = error
    if isinstance(ended, GloveportError):
        raise ended
    if signals:
        return 128 + signals[0]
    if printer.failure is not None:
        return of_unwritten(printer.failure)
    return OF_A_RUN[ended.status] if ended else 1
