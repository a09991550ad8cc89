"""A registry of npm on this host, with packages that the tests make: honest ones, and attacks."""

import base64
import contextlib
import hashlib
import io
import json
import tarfile
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.environments.http_stand_in import WholeAnswers, answering

OLD, YOUNG = "2020-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z"


def make_package(manifest: Mapping[str, object], files: Mapping[str, str], extra=()) -> bytes:
    """A package, as ``npm pack`` makes one. ``extra``: pairs of a ``TarInfo`` and bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"package.json": json.dumps(manifest), **files}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
        for entry, data in extra:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """An entry of an archive."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, mode
    return made


@dataclass
class Registry:
    """What it serves.

    Attributes:
        packages: By name and version, what it says of one, and the archive.
        times: When a version was uploaded, where that is not ``OLD``; None to say nothing.
        asked: The paths that it was asked for.
    """

    port: int = 0
    packages: dict[str, dict[str, tuple[dict, bytes]]] = field(default_factory=dict)
    times: dict[tuple[str, str], str | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    host: str = ""

    def add(self, name: str, version: str = "1.0.0", files: Mapping[str, str] | None = None, **how) -> None:
        """Serve a package. ``how``: ``manifest``, ``extra``, ``uploaded``, ``integrity``."""
        manifest = {"name": name, "version": version, "main": "index.js", **how.get("manifest", {})}
        archive = make_package(
            manifest, {"index.js": f"exports.VERSION = {version!r};"} if files is None else files, how.get("extra", ())
        )
        digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        dist = {"integrity": how.get("integrity", f"sha512-{digest}"), "shasum": hashlib.sha1(archive).hexdigest()}
        self.packages.setdefault(name, {})[version] = {**manifest, "dist": dist}, archive
        if "uploaded" in how:
            self.times[name, version] = how["uploaded"]

    def document(self, name: str) -> bytes:
        """What it says of a package."""
        versions = self.packages[name]
        for version, (told, _) in versions.items():
            told["dist"]["tarball"] = f"http://{self.host}:{self.port}/{name}/-/{version}.tgz"
        times = {one: self.times.get((name, one), OLD) for one in versions}
        times = {one: at for one, at in times.items() if at}
        told = {"name": name, "dist-tags": {"latest": [*versions][-1]}, "time": times}
        return json.dumps({**told, "versions": {one: told for one, (told, _) in versions.items()}}).encode()


@contextlib.contextmanager
def serve(registry: Registry, host: str = "registry0.test") -> Iterator[Registry]:
    """Serve it on a port of the loopback interface, under this name."""

    class Handler(WholeAnswers):
        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            path = urllib.parse.unquote(self.path).strip("/")
            registry.asked.append(path)
            name, _, file = path.partition("/-/")
            if name not in registry.packages:
                body = b""
            else:
                known = registry.packages[name]
                body = known[file.removesuffix(".tgz")][1] if file else registry.document(name)
            self.answer(body, "application/octet-stream" if file else "application/json", 200 if body else 404)

    with answering(Handler) as registry.port:
        registry.host = host
        yield registry
