"""Reloads the configuration while the server runs: a valid change takes effect, a faulty one changes nothing.

Running programs keep their grants.
"""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from gloveport.bootstrap import app
from gloveport.bootstrap.host_setup import init_of
from gloveport.config import Config, Loaded
from gloveport.config.loading.reload import reload
from gloveport.config.loading.watch import changes
from gloveport.engine.execution import Engine
from gloveport.errors import AuditError, ConfigError
from gloveport.late_module import late_module
from gloveport.model.json_value import JsonValue
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from gloveport.bootstrap import environment_setup
else:
    environment_setup = late_module("gloveport.bootstrap.environment_setup")

_RETRY_SECONDS = 2.0

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def following(
    engine: Engine, loaded: Loaded, config_path: Path | None, environ: Mapping[str, str]
) -> AsyncIterator[None]:
    """Watch the files of ``loaded`` for changes, inside the context."""
    async with open_task_group() as tasks:
        tasks.start_soon(_follow, engine, loaded, config_path, environ)
        yield


async def _follow(engine: Engine, loaded: Loaded, config_path: Path | None, environ: Mapping[str, str]) -> None:
    cwd, faulty = Path.cwd(), False
    async with contextlib.aclosing(changes(config_path, cwd=cwd, environ=environ)) as changed:
        async for _ in changed:
            try:
                found = await to_thread.run_sync(
                    functools.partial(reload, loaded, config_path, cwd=cwd, environ=environ), abandon_on_cancel=True
                )
            except ConfigError as error:
                _warn(str(error))
                _log.warning("the configuration has faults: what counted before goes on counting")
                faulty = True
                await _write_down(engine, "config.refused", {"reason": str(error)})
                continue
            if (refusal := found.loaded.refusal) != loaded.refusal and refusal:
                _warn(refusal)
                _log.warning("that file changes nothing; what changes in the others counts")
                await _write_down(engine, "config.refused", {"reason": refusal})
            if found.postponed:
                _log.warning("restart to apply: %s", ", ".join(found.postponed))
            if faulty or found.loaded.config != loaded.config:
                apis = ", ".join(sorted(name for name, api in found.loaded.config.api.items() if api.active)) or "none"
                _log.warning("the configuration counts as it is now; APIs: %s", apis)
            faulty = False
            if found.loaded.config != loaded.config:
                await _write_down(engine, "config.changed", {"files": [str(file) for file in found.loaded.files]})
                app.adopt(engine, found.loaded.config)
                await _adopt_environments(engine, found.loaded.config, environ)
            loaded = found.loaded


def _warn(text: str) -> None:
    for line in text.splitlines():
        _log.warning("%s", line)


async def _write_down(engine: Engine, kind: str, fields: Mapping[str, JsonValue]) -> None:
    """Append a record. Where nothing can be written down, which the log warns of, wait: nothing is begun either."""
    while True:
        try:
            engine.audit.append(kind, fields)
        except AuditError:
            await anyio.sleep(_RETRY_SECONDS)
        else:
            return


async def _adopt_environments(engine: Engine, config: Config, environ: Mapping[str, str]) -> None:
    """Offer programs the environments of ``config``, which are built with its APIs."""
    try:
        init = await to_thread.run_sync(init_of, config, environ)
        environments = environment_setup.open_environments(
            config, init, environ, backend=engine.backend, system=engine.system, gateway=engine.gateway
        )
    except ConfigError as error:
        _log.warning("the environments stay as they were: %s", error)
        return
    engine.adopt_environments(environments)
