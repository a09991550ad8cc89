"""mitmproxy, the usual proxy that sees into TLS, with an add-on that does nothing: in an environment of its own."""

import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio

from bench.installed import installed

VERSION: Final = "11.0.2"
"""The last one that Python 3.11 can run."""

_EMPTY = "addons = []\n"
_START_SECONDS, _GLANCE_SECONDS = 30, 0.05


@contextlib.asynccontextmanager
async def listening(scratch: Path, ca_file: Path) -> AsyncIterator[tuple[str, Path]]:
    """Run it on the loopback, on a free port: its URL, and a file with its authority.

    Args:
        scratch: Where it keeps its things.
        ca_file: The authorities that it trusts.

    Raises:
        Unavailable: It is not installed and can't be.
    """
    program = await installed("mitmproxy", VERSION, "mitmdump")
    addon, directory, port = scratch / "empty.py", scratch / "mitmproxy", _free_port()
    addon.write_text(_EMPTY)
    command = [program, "--quiet", "--listen-host", "127.0.0.1", "--listen-port", str(port), "--scripts", str(addon)]
    settings = [f"confdir={directory}", f"ssl_verify_upstream_trusted_ca={ca_file}"]
    command += [word for setting in settings for word in ("--set", setting)]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=None, stderr=None) as process:
        try:
            with anyio.fail_after(_START_SECONDS):
                while not _answers(port):  # noqa: ASYNC110 - nothing tells
                    await anyio.sleep(_GLANCE_SECONDS)
            yield f"http://127.0.0.1:{port}", directory / "mitmproxy-ca-cert.pem"
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
