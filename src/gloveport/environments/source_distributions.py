"""Source distributions: finds one on an index page, reads its build requirements, and checks the built wheel.

Index pages and ``pyproject.toml`` are untrusted text from a sandbox.
"""

import hashlib
import html.parser
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from packaging import utils
from packaging.version import Version

from gloveport.environments.locks import SHA256, URL, BuiltWheel, Wheel, read_time
from gloveport.environments.wheel_store import open_left
from gloveport.errors import Denied
from gloveport.file_descriptors import LIST, closing
from gloveport.model.packages import LockedPackage
from gloveport.policy.npm_requests import MOST_REQUIREMENTS, MetadataError
from gloveport.policy.package_requests import normalize_requirement, parse_toml

_LEGACY: Final = ("setuptools>=40.8.0",)
"""The default of PEP 517."""

_MOST_PROJECT_CHARACTERS: Final = 256 * 1024
_FILE: Final = re.compile(r"[A-Za-z0-9_.+-]{1,200}")
_MOST_NAMES: Final = 100


def find_source(page: bytes, url: str, pinned: str) -> tuple[LockedPackage, Wheel] | None:
    """The source distribution of ``pinned``, a ``NAME==VERSION``, on a project's page (PEP 503, PEP 691: JSON, or HTML
    from a directory), and when it was uploaded; None where the page has none with a digest.
    """
    name, _, version = pinned.partition("==")
    release, on_disk = (name, Version(version)), url.startswith("file:")
    for one in _read_links(page) if on_disk else _read_files(page):
        file, digest, uploaded = one.get("filename"), one.get("hashes"), one.get("upload-time")
        sha256 = digest.get("sha256") if isinstance(digest, Mapping) else None
        try:
            place = urldefrag(urljoin(url, str(one.get("url")))).url
            named = utils.parse_sdist_filename(str(file))
        except (ValueError, utils.InvalidSdistFilename):
            continue
        if named != release or not URL.fullmatch(place) or not SHA256.fullmatch(str(sha256)):
            continue
        if place.startswith("file:") != on_disk:  # files on the disk have no cooldown
            continue
        package = LockedPackage(name=name, version=str(named[1]), uploaded=read_time(uploaded))
        suffix = ".zip" if str(file).endswith(".zip") else ".tar.gz"
        return package, Wheel(url=place, file=f"{name}-{named[1]}{suffix}", sha256=str(sha256))
    return None


def read_build_requirements(pyproject: bytes) -> tuple[str, ...]:
    """The requirements for building a source distribution.

    Raises:
        Denied: It can't be read, or names a source for a requirement.
    """
    try:
        project = parse_toml(pyproject.decode(), _MOST_PROJECT_CHARACTERS)
        listed = project.get("build-system", {}).get("requires", _LEGACY)
        if isinstance(listed, list | tuple) and len(listed) <= MOST_REQUIREMENTS:
            return tuple(normalize_requirement(one) for one in listed)
        why = f"requires is no list of at most {MOST_REQUIREMENTS} texts"
    except (ValueError, AttributeError, TypeError, MetadataError) as error:
        why = f"{str(error)!a:.200}"
    raise Denied("package_refused", f"What it needs to be built can't be read: {why}.", hint="ask for another version")


def read_built(directory: Path, package: LockedPackage, most_bytes: int) -> Wheel:
    """The wheel that a build has left in a directory of its own. No process of the build runs any more; each name in
    the directory may be an attack.

    Raises:
        Denied: There is no wheel, more than one, or one of another package or version.
    """
    names = _list_names(directory)
    try:
        [file] = [name for name in names if name.endswith(".whl")]
        named, version, _, _ = utils.parse_wheel_filename(file)
    except (ValueError, utils.InvalidWheelFilename) as error:
        raise _other_wheel(package, names) from error
    if (named, version) != (package.name, Version(package.version)) or not _FILE.fullmatch(file):
        raise _other_wheel(package, names)
    try:
        with open_left(directory / file) as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
                raise _other_wheel(package, names)
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise _other_wheel(package, names) from error
    return Wheel(url="", file=file, sha256=digest, size=status.st_size)


def write_directory_index(place: Path, built: BuiltWheel) -> Path:
    """Add a wheel to a directory index, as the only one of its project; returns the path where it has to lie."""
    project = place / built.name
    project.mkdir(parents=True)
    link = f'<a href="{built.file}#sha256={built.wheel_sha256}">{built.file}</a>'
    (project / "index.html").write_text(link, "utf-8")
    return project / built.file


def _read_links(page: bytes) -> list[Mapping[str, Any]]:
    """The links of an operator's directory page. Only for trusted pages: this parser is slow on hostile ones."""
    parser = _Anchors()
    parser.feed(page.decode("utf-8", "replace"))
    return parser.found


def _read_files(page: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        parsed = json.loads(page)
    except (ValueError, RecursionError):
        return
    listed = parsed.get("files") if isinstance(parsed, dict) else None
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


class _Anchors(html.parser.HTMLParser):
    """Parses a page of PEP 503 into the fields of PEP 691."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Mapping[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See ``HTMLParser``."""
        if tag == "a" and (link := dict(attrs).get("href")):
            url, fragment = urldefrag(link)
            kind, _, digest = fragment.partition("=")
            self.found.append({"filename": unquote(url.rpartition("/")[2]), "url": url, "hashes": {kind: digest}})


def _list_names(directory: Path) -> list[str]:
    with suppress(OSError), closing(os.open(directory, LIST)) as descriptor, os.scandir(descriptor) as entries:
        return [entry.name for entry in islice(entries, _MOST_NAMES)]
    return []


def _other_wheel(package: LockedPackage, names: list[str]) -> Denied:
    found = ", ".join(sorted(names))
    return Denied(
        "package_refused",
        f"The build of {package.name} {package.version} has not left one wheel of it, but: {found!a:.200}.",
        hint="look at what it does before you build it again",
    )
