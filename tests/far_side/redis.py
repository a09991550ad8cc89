"""A Redis of the distribution on a loopback address."""

import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.far_side.listening import HOST, free_port


@contextlib.asynccontextmanager
async def redis(directory: Path, password: str, pair: Path | None = None) -> AsyncIterator[int]:
    """Serve until the context is left: the port. By TLS where there is a certificate, with its key."""
    # Debian has the server in redis-tools as well, under another name: that package starts none by itself.
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if program is None:
        pytest.skip("redis-tools is not installed")
    port = free_port()
    server = directory / "redis-server"
    server.symlink_to(Path(program).resolve())
    settings = {"port": port, "bind": HOST, "requirepass": password, "save": "", "dir": directory, "logfile": "log"}
    if pair is not None:
        tls = {"tls-cert-file": pair, "tls-key-file": pair, "tls-ca-cert-file": pair, "tls-auth-clients": "no"}
        settings |= {"port": 0, "tls-port": port, **tls}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    with subprocess.Popen([server, *words], stdout=subprocess.DEVNULL) as process:
        try:
            await _answering(port)
            yield port
        finally:
            process.terminate()


async def _answering(port: int) -> None:
    with anyio.fail_after(10):
        while True:
            with contextlib.suppress(OSError):
                await (await anyio.connect_tcp(HOST, port)).aclose()
                return
            await anyio.sleep(0.01)
