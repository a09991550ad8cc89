"""Git's own HTTP server, as a web server runs it (CGI, RFC 3875)."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from tests.far_side.app import Headers, Request, Response

_IDENTITY = {f"GIT_{role}_{what}": "far side" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def make_repository(directory: Path, files: dict[str, str]) -> None:
    """A bare repository with one commit, to which anybody may push."""
    work = directory.with_suffix(".work")
    _git("init", "-q", "-b", "main", work)
    for name, text in files.items():
        (work / name).write_text(text)
    _git("-C", work, "add", ".")
    _git("-C", work, "commit", "-q", "-m", "first")
    _git("clone", "-q", "--bare", work, directory)
    _git("-C", directory, "config", "http.receivepack", "true")


def log(directory: Path) -> str:
    """The subjects of all commits of ``main``, the latest first."""
    return _git("-C", directory, "log", "--format=%s", "main")


async def answer(root: Path, request: Request) -> Response:
    """Answer a request of Git's below ``/git``."""
    body = b"".join([piece async for piece in request.body])
    path, _, query = request.target.partition("?")
    headers = {name.lower(): value.decode() for name, value in request.headers}
    environ = {
        **_environ(),
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": path.removeprefix("/git"),
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get(b"content-type", ""),
        "HTTP_CONTENT_ENCODING": headers.get(b"content-encoding", ""),
        "CONTENT_LENGTH": str(len(body)),
    }
    done = await anyio.run_process(["git", "http-backend"], input=body, env=environ)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    fields: Headers = [
        (name.lower(), value) for name, _, value in (line.partition(b": ") for line in head.splitlines())
    ]
    status = next((int(value.split()[0]) for name, value in fields if name == b"status"), 200)
    return Response(_once(content), status, [field for field in fields if field[0] != b"status"])


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _environ() -> dict[str, str]:
    return {**_IDENTITY, "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def _git(*arguments: str | Path) -> str:
    done = subprocess.run(["git", *arguments], env=_environ(), check=True, capture_output=True, text=True)
    return done.stdout
