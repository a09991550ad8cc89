"""A whole Gloveport whose programs have a way out: it runs them, and shows what it has written down."""

import contextlib
import textwrap
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import shared_host
from tests.far_side.listening import HOST

from gloveport.audit import read
from gloveport.audit.record import Record
from gloveport.config import Config
from gloveport.engine.execution import Engine
from gloveport.model import Language, Request, Result
from gloveport.model.reading import read_value

SECRET = "s3cr3t/alpha+VALUE=4711"
BEARER = {"kind": "bearer", "secret": "env:ALPHA_KEY"}


@dataclass(frozen=True)
class World:
    """A Gloveport that is served.

    Attributes:
        state: Its state directory.
    """

    engine: Engine
    state: Path

    async def run(self, language: Language, code: str, **request) -> Result:
        """Run a program."""
        asked = read_value(Request, {"language": language, "code": textwrap.dedent(code), **request})
        return await self.engine.execute(asked, caller="tester")

    async def value(self, language: Language, code: str, **request):
        """The value of a program that shall end well; a shell program's is what it prints, where that is no JSON."""
        result = await self.run(language, code, **request)
        assert result.status == "ok", (result.error, result.stdout.text, result.stderr.text, result.requests)
        return result.stdout.text if result.value is None else result.value

    def records(self, kind: str = "", run: str | None = None) -> list[Record]:
        """What the audit log says: of this kind (``fetch`` is also ``fetch.ended``), of this run."""
        wanted = read.Filter(kind=kind or None, run=run)
        return [record for record in read.records(self.state / "audit") if wanted.matches(record)]

    def written(self) -> bytes:
        """Every byte of the state directory: what has ever been written down."""
        return b"".join(path.read_bytes() for path in sorted(self.state.rglob("*")) if path.is_file())


@contextlib.asynccontextmanager
async def opened(state: Path, environ: Mapping[str, str], **config) -> AsyncIterator[World]:
    """Serve this configuration, whose keys are those of the file; nothing waits ahead of need if it does not say so."""
    state.mkdir()
    told = {"pool": {"forked": 0, "booted": 0}} | config
    secrets = {"ALPHA_KEY": SECRET, **environ, "GLOVEPORT_STATE": str(state)}
    async with shared_host.assemble(read_value(Config, told), secrets) as engine:
        yield World(engine, state)


def api_at(port: int, ca_file: str, name: str = "alpha.test", **api) -> dict:
    """An ``[api.NAME]`` table for an HTTPS server of the far side; a bearer token is injected unless told otherwise."""
    there = {"hosts": [f"{name}:{port}"], "addresses": [HOST], "ca_file": ca_file, "auth": [BEARER]}
    return there | api
