"""The registry of Rust: a sparse index and downloads, of the sources in Debian's librust-*-dev."""

import gzip
import hashlib
import io
import json
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

SOURCES: Final = Path("/usr/share/cargo/registry")
HOSTS: Final = ("crates.io", "index.crates.io", "static.crates.io")
_CONFIG: Final = {"dl": "https://static.crates.io/crates", "api": "https://crates.io"}
_NOT_PUBLISHED: Final = ".cargo-checksum.json"


def answer(host: str, path: str) -> bytes | None:
    """What the registry answers at a path, or nothing where it has none."""
    match host, path.split("/"):
        case "index.crates.io", ["", "config.json"]:
            return json.dumps(_CONFIG).encode()
        case "index.crates.io", ["", *directories, name] if directories == _directories(name):
            return "".join(f"{json.dumps(entry)}\n" for entry in _entries(name)).encode() or None
        case "static.crates.io", ["", "crates", name, version, "download"] if (SOURCES / f"{name}-{version}").is_dir():
            return _archive(f"{name}-{version}")
    return None


def _directories(name: str) -> list[str]:
    """Where a crate stands in the index."""
    match len(name):
        case 1 | 2:
            return [str(len(name))]
        case 3:
            return ["3", name[0]]
    return [name[:2], name[2:4]]


def _entries(name: str) -> Iterator[dict[str, Any]]:
    """A line of the index for each version."""
    for directory in SOURCES.glob(f"{name}-[0-9]*"):
        manifest = tomllib.loads((directory / "Cargo.toml").read_text())
        package = manifest["package"]
        if package["name"] == name:
            yield {
                "name": name,
                "vers": package["version"],
                "deps": [*_dependencies(manifest, None)],
                "features": manifest.get("features", {}),
                "cksum": hashlib.sha256(_archive(directory.name)).hexdigest(),
                "yanked": False,
            }


def _dependencies(manifest: Mapping[str, Any], target: str | None) -> Iterator[dict[str, Any]]:
    """What is needed to build a crate, on a target or on all; for its own tests more would be."""
    for kind, key in (("normal", "dependencies"), ("build", "build-dependencies")):
        for name, told in manifest.get(key, {}).items():
            table = told if isinstance(told, dict) else {"version": told}
            yield {
                "name": name,
                "req": table["version"],
                "features": table.get("features", []),
                "optional": table.get("optional", False),
                "default_features": table.get("default-features", True),
                "target": target,
                "kind": kind,
                "package": table.get("package"),
            }
    for name, table in manifest.get("target", {}).items():
        yield from _dependencies(table, name)


@cache
def _archive(name: str) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for file in sorted((SOURCES / name).rglob("*")):
            if file.is_file() and file.name != _NOT_PUBLISHED:
                archive.add(file, f"{name}/{file.relative_to(SOURCES / name)}")
    return packed.getvalue()
