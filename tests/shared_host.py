"""This host, found once for the engines of many tests: what is found is the same, and takes longer than all else."""

import atexit
import contextlib
import functools
from collections.abc import Mapping

from gloveport.bootstrap import app
from gloveport.bootstrap.build import Host, open_host
from gloveport.config import Config
from gloveport.engine.execution import Engine


@functools.cache
def _host() -> Host:
    context = contextlib.ExitStack()
    atexit.register(context.close)
    return context.enter_context(open_host(Config()))


def assemble(
    config: Config, environ: Mapping[str, str], *connected: app.Connected
) -> contextlib.AbstractAsyncContextManager[Engine]:
    """As ``app.assemble``; a configuration that says something of sandboxes or runtimes has a host of its own."""
    if (config.sandbox, config.runtimes) != (Config().sandbox, Config().runtimes):
        return app.assemble(config, environ, *connected)
    return app.assemble_on(_host(), config, environ, *(connected or (app.open_no_hub,)))
