"""The registry of Go: a module proxy of the sources in Debian's golang-*-dev, and a checksum database of its own."""

import hashlib
import io
import json
import re
import subprocess
import threading
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SOURCES: Final = Path("/usr/share/gocode/src")
HOSTS: Final = ("proxy.golang.org", "sum.golang.org", "storage.googleapis.com")
_TIME: Final = "2023-02-01T00:00:00Z"
_ARCHIVE: Final = re.compile(r"/proxy-golang-org-prod/0-(?P<module>.+)-(?P<version>v[^/]+)\.zip")
_FILE: Final = re.compile(r"/(?P<module>.+)/@v/(?P<version>v[^/]+)\.(?P<kind>info|mod|zip)")


def answer(host: str, path: str) -> bytes | str | None:
    """What the proxy or the database answers at a path: where it leads on to, or nothing where it has none."""
    if host == "sum.golang.org":
        return CHECKSUMS.answer(path)
    if host == "storage.googleapis.com":
        asked = _ARCHIVE.fullmatch(path)
        return asked and _archive(asked["module"].replace(":", "/"), asked["version"])
    if not (asked := _FILE.fullmatch(path)) or asked["version"] != _version(asked["module"]):
        return None
    module, version = asked["module"], asked["version"]
    match asked["kind"]:
        case "info":
            return json.dumps({"Version": version, "Time": _TIME}).encode()
        case "mod":
            return (SOURCES / module / "go.mod").read_bytes()
    return f"https://storage.googleapis.com/proxy-golang-org-prod/0-{module.replace('/', ':')}-{version}.zip?Expires=1"


@cache
def _version(module: str) -> str | None:
    """The version that the distribution has packed."""
    manifest = SOURCES / module / "go.mod"
    if not manifest.is_file():
        return None
    owner = _dpkg_query("--search", str(manifest)).partition(":")[0]
    packed = re.match(r"(?:\d+:)?(\d+\.\d+\.\d+)", _dpkg_query("--show", "--showformat=${Version}", owner))
    return packed and f"v{packed[1]}"


def _dpkg_query(*arguments: str) -> str:
    return subprocess.run(["dpkg-query", *arguments], check=True, capture_output=True, text=True).stdout


def _files(module: str) -> Iterator[tuple[str, bytes]]:
    """What belongs to a module: not the modules below it."""
    root = SOURCES / module
    nested = [manifest.parent for manifest in root.rglob("go.mod") if manifest.parent != root]
    for file in sorted(root.rglob("*")):
        if file.is_file() and not file.is_symlink() and not any(map(file.is_relative_to, nested)):
            yield str(file.relative_to(root)), file.read_bytes()


@cache
def _archive(module: str, version: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(module):
            archive.writestr(f"{module}@{version}/{name}", content)
    return packed.getvalue()


def _hash(files: Mapping[str, bytes]) -> str:
    """What go.sum says of files."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return f"h1:{b64encode(hashlib.sha256(''.join(lines).encode()).digest()).decode()}"


class Checksums:
    """A transparency log as sum.golang.org is one (RFC 6962), under another key: a record for each that is asked for.

    Attributes:
        verifier: What GOSUMDB has to say.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._key = Ed25519PrivateKey.generate()
        public = b"\x01" + self._key.public_key().public_bytes_raw()
        self._key_hash = hashlib.sha256(f"{name}\n".encode() + public).digest()[:4]
        self.verifier = f"{name}+{self._key_hash.hex()}+{b64encode(public).decode()}"
        self._records: list[str] = []
        self._lock = threading.Lock()

    def answer(self, path: str) -> bytes | None:
        """What the database answers at a path."""
        with self._lock:
            if (asked := re.fullmatch(r"/lookup/(.+)@(v[^/]+)", path)) and asked[2] == _version(asked[1]):
                record = self._record(asked[1], asked[2])
                if record not in self._records:
                    self._records.append(record)
                return f"{self._records.index(record)}\n{record}\n{self._signed_tree()}".encode()
            if asked := re.fullmatch(r"/tile/8/0/000\.p/(\d{1,3})", path):
                return b"".join(self._leaves()[: int(asked[1])])
            return self._signed_tree().encode() if path == "/latest" else None

    def _record(self, module: str, version: str) -> str:
        content = dict(_files(module))
        whole = _hash({f"{module}@{version}/{name}": data for name, data in content.items()})
        return f"{module} {version} {whole}\n{module} {version}/go.mod {_hash({'go.mod': content['go.mod']})}\n"

    def _leaves(self) -> list[bytes]:
        return [hashlib.sha256(b"\x00" + record.encode()).digest() for record in self._records]

    def _signed_tree(self) -> str:
        leaves = self._leaves()
        root = b64encode(_tree_hash(leaves)).decode()
        text = f"go.sum database tree\n{len(leaves)}\n{root}\n"
        signature = b64encode(self._key_hash + self._key.sign(text.encode())).decode()
        return f"{text}\n\N{EM DASH} {self._name} {signature}\n"


def _tree_hash(leaves: list[bytes]) -> bytes:
    match len(leaves):
        case 0:
            return hashlib.sha256().digest()
        case 1:
            return leaves[0]
    middle = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + _tree_hash(leaves[:middle]) + _tree_hash(leaves[middle:])).digest()


CHECKSUMS: Final = Checksums("sum.golang.org")
