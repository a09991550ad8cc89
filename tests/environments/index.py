"""An index of packages on this host, with wheels that the tests make: honest ones, and attacks."""

import base64
import contextlib
import hashlib
import io
import json
import stat
import tarfile
import textwrap
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.environments.http_stand_in import WholeAnswers, answering

OLD, YOUNG = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


def make_wheel(name: str, version: str = "1.0", files: Mapping[str, str] | None = None, **how) -> bytes:
    """A wheel. ``how``: ``requires``, ``extra`` entries as pairs of a ``ZipInfo`` or a name and bytes."""
    packed, record = io.BytesIO(), []
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {one}\n" for one in how.get("requires", ()))
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    every = {
        **({f"{name}.py": f"VERSION = {version!r}\n"} if files is None else files),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in every.items():
            archive.writestr(path, text)
            record.append(f"{path},,")
        for entry, data in how.get("extra", ()):
            archive.writestr(entry, data)
            record.append(f"{entry if isinstance(entry, str) else entry.filename},,")
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return packed.getvalue()


def make_source(name: str, version: str = "1.0", build: str = "", requires: str = "[]", wheel: bytes = b"") -> bytes:
    """A source distribution whose backend does ``build``, and then leaves this wheel in ``place``."""
    packed = io.BytesIO()
    backend = f"""
import base64, os, socket, sys, time, urllib.request
def build_wheel(directory, settings=None, metadata=None):
    wheel, place = base64.b64decode({base64.b64encode(wheel)!r}), "{name}-{version}-py3-none-any.whl"
{textwrap.indent(textwrap.dedent(build), "    ")}
    with open(os.path.join(directory, place), "wb") as file:
        file.write(wheel)
    return place
"""
    system = f'build-system = {{ requires = {requires}, build-backend = "backend", backend-path = ["."] }}'
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {"pyproject.toml": system, "backend.py": backend}.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    """A symbolic link, as an archive has it."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def write_index(place: Path, name: str, wheel: bytes) -> str:
    """Make a directory that is an index with one package; gives its URL."""
    file = f"{name}-1.0-py3-none-any.whl"
    (place / name).mkdir(parents=True)
    (place / name / file).write_bytes(wheel)
    digest = hashlib.sha256(wheel).hexdigest()
    (place / name / "index.html").write_text(f'<a href="{file}#sha256={digest}">{file}</a>')
    return f"file://{place}"


def _metadata(wheel: bytes) -> bytes:
    """Of a wheel, as PEP 658 has it: so that nobody reads the wheel for it."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


def _open_gate() -> threading.Event:
    gate = threading.Event()
    gate.set()
    return gate


@dataclass
class Index:
    """What it serves.

    Attributes:
        files: By name of the package, pairs of a file's name and its bytes.
        uploaded: When a file was uploaded, where that is not ``OLD``; None to say nothing.
        digests: What it says of a file's digest, where it lies.
        asked: The paths that it was asked for.
        hold: Files are not sent before it is set.
        held: Whether one is being held.
    """

    port: int = 0
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    uploaded: dict[str, str | None] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=_open_gate)
    held: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, version: str = "1.0", files: Mapping[str, str] | None = None, **how) -> None:
        """Serve a wheel. ``uploaded``: when it was."""
        wheel = f"{name}-{version}-py3-none-any.whl"
        if "uploaded" in how:
            self.uploaded[wheel] = how["uploaded"]
        self.files.setdefault(name.replace("_", "-"), {})[wheel] = make_wheel(name, version, files, **how)

    def add_source(self, name: str, version: str = "1.0", **how) -> None:
        """Serve a source distribution, see ``make_source``; by default of an honest wheel."""
        packed = make_source(name, version, **{"wheel": make_wheel(name, version), **how})
        self.files.setdefault(name, {})[f"{name}-{version}.tar.gz"] = packed

    def page(self, name: str) -> bytes:
        """A project's page, as PEP 691 and PEP 700 have it."""
        listed = []
        for file, data in self.files[name].items():
            digest = self.digests.get(file, hashlib.sha256(data).hexdigest())
            told = {"filename": file, "url": f"/files/{name}/{file}", "hashes": {"sha256": digest}, "size": len(data)}
            told["core-metadata"] = file.endswith(".whl")
            uploaded = self.uploaded.get(file, OLD)
            listed.append({**told, **({"upload-time": uploaded} if uploaded else {})})
        meta = {"api-version": "1.1"}
        return json.dumps({"meta": meta, "name": name, "files": listed, "versions": []}).encode()


@contextlib.contextmanager
def serve(index: Index) -> Iterator[Index]:
    """Serve it on a port of the loopback interface."""

    class Handler(WholeAnswers):
        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            index.asked.append(self.path)
            kind, _, rest = self.path.strip("/").partition("/")
            if kind == "files" and not self.path.endswith(".metadata"):
                index.held.set()
                index.hold.wait()
            name, _, file = rest.partition("/")
            found = None
            if kind == "simple" and name in index.files:
                found = index.page(name), "application/vnd.pypi.simple.v1+json"
            elif kind == "files" and (data := index.files.get(name, {}).get(file.removesuffix(".metadata"))):
                found = _metadata(data) if file.endswith(".metadata") else data, "application/octet-stream"
            body, content = found or (b"", "text/plain")
            self.answer(body, content, 200 if found else 404)

    with answering(Handler) as index.port:
        yield index
