"""Starts the sandbox of ``gloveport run`` early: before the event loop and most imports."""

from contextlib import AbstractContextManager, closing

from gloveport.bootstrap.host_setup import Host
from gloveport.bootstrap.operator_reach import reach_of, whole_grant
from gloveport.config import Config
from gloveport.egress.sandbox_network import leads_out
from gloveport.errors import SandboxError
from gloveport.model import Request
from gloveport.sandbox.plan import make_plan
from gloveport.sandbox.pool.first_sandbox import EarlyBuild, FirstSandbox


def begin_sandbox(host: Host, config: Config, request: Request) -> AbstractContextManager[FirstSandbox]:
    """The source of the program's sandbox; on leaving, an unused sandbox is ended."""
    return closing(FirstSandbox(backend=host.backend, early_build=_begin(host, config, request)))


def _begin(host: Host, config: Config, request: Request) -> EarlyBuild | None:
    """Start a sandbox with the walls of this policy. None if the program has others, or they aren't known yet."""
    runtime = host.runtimes.get(request.language)
    if runtime is None or request.environment is not None or leads_out(config.way_out):
        return None
    grant = whole_grant(config)
    try:
        plan = make_plan(runtime.prepare(request.code, grant), grant, host.system, reach_of(config, None).network)
        return EarlyBuild(plan=plan, process=host.backend.begin_build(plan))
    except SandboxError:  # the run reports why
        return None
