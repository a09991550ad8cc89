"""Reads locks in the format of PEP 751 (``pylock.toml``). All are untrusted: each is text from a sandbox.

A lock lists the files to fetch, each with its digest. Their age is checked here once more: the resolver was told to
leave out young packages, but it has read data from an index.
"""

import errno
import hashlib
import itertools
import json
import math
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from gloveport.errors import Denied
from gloveport.file_descriptors import closing
from gloveport.late_libraries import tags as wheel_tags
from gloveport.late_libraries import utils
from gloveport.late_pattern import late_pattern
from gloveport.model.constraints import Constraints
from gloveport.model.packages import LockedPackage
from gloveport.model.reading import CheckedValue, WrongShapeError, read_value
from gloveport.model.value import Value

if TYPE_CHECKING:
    from packaging.tags import Tag

MOST_LOCK_BYTES: Final = 8 << 20
MOST_PACKAGES: Final = 1000
_MOST_TAGS: Final = 128
"""Of one wheel, whose name lists interpreters, ABIs and platforms: it stands for every combination."""

_NAME: Final = late_pattern(r"[a-z0-9](?:[a-z0-9-]{0,98}[a-z0-9])?")
_VERSION: Final = late_pattern(r"[A-Za-z0-9.!+_-]{1,80}")
URL: Final = late_pattern(r"(?:https?|file)://[^\s\x00-\x1f\x7f?#\\@]{1,2000}")
SHA256: Final = late_pattern(r"[0-9a-f]{64}")


class Wheel(CheckedValue):
    """One file of a lock."""

    url: str
    """Without fragment and query."""

    file: str
    """Its file name, which tells its compatibility."""

    sha256: str
    size: Annotated[int, Constraints(ge=0)] | None = None


class Pin(LockedPackage):
    """One package of a lock, and its file to install."""

    wheel: Wheel

    @property
    def requirement(self) -> str:
        """The line for ``pip install --require-hashes``."""
        return f"{self.name}=={self.version} --hash=sha256:{self.wheel.sha256}\n"


class BuiltWheel(LockedPackage):
    """A package of a lock that was built from its source distribution."""

    file: str
    """File name of the wheel."""

    wheel_sha256: str
    source_url: str
    source_sha256: str


class Lock(Value):
    """The lock that an environment is installed from."""

    text: str
    packages: tuple[LockedPackage, ...]
    """Sorted by name, without their files."""

    @property
    def sha256(self) -> str:
        """Digest of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class PythonLock(Lock):
    """A lock of Python packages."""

    pins: tuple[Pin, ...]
    """Sorted by name."""

    built: tuple[BuiltWheel, ...] = ()
    """Packages built from source; no index has their wheels."""

    def requirements(self) -> str:
        """The lines for ``pip install --require-hashes``."""
        return "".join(one.requirement for one in self.pins)


def load_operator_lock(path: str) -> bytes:
    """Read a lock of the operator's. Programs may be able to put a FIFO there, or a link to a device, which may act
    when it is opened: so it is looked at first.

    Raises:
        OSError: It can't be read.
    """
    with closing(os.open(path, os.O_PATH | os.O_CLOEXEC)) as found:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        with open(f"/proc/self/fd/{found}", "rb", opener=_open_without_waiting) as file:
            return file.read(MOST_LOCK_BYTES)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # somebody may hold a lease on it


def add_built(text: str, built: Sequence[BuiltWheel]) -> str:
    """The text of a lock, with its built packages."""
    if not built:
        return text
    tables = ("".join(f"{key} = {json.dumps(field)}\n" for key, field in one.model_dump().items()) for one in built)
    return text + "".join(f"\n[[tool.gloveport.built]]\n{table}" for table in tables)


def read_lock(data: bytes, version: tuple[int, int]) -> PythonLock:
    """Read a lock, for an interpreter of this version on this host.

    Raises:
        Denied: It is malformed, or has a package without a fitting wheel.
    """
    try:
        text = data.decode()
        table = tomllib.loads(text)
        listed, tools = table["packages"], table.get("tool", {})
        own = tools.get("gloveport", {}).get("built", [])
        built = {one.name: one for one in read_value(tuple[BuiltWheel, ...], own)}
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise unreadable_lock(f"it is no pylock.toml: {error!r:.200}") from error
    if not isinstance(listed, list) or len(listed) > MOST_PACKAGES:
        raise unreadable_lock(f"it has more than {MOST_PACKAGES} packages, or no list of them")
    tags = _tags(version)
    pins = sorted((_read_pin(one, tags) for one in listed), key=lambda one: one.name)
    for one, other in itertools.pairwise(pins):
        if one.name == other.name:
            raise unreadable_lock(f"it has {one.name} twice")
    pins = [_with_age(one, built) for one in pins]
    packages = tuple(LockedPackage(name=one.name, version=one.version, uploaded=one.uploaded) for one in pins)
    return PythonLock(text=text, packages=packages, pins=tuple(pins), built=tuple(built.values()))


def refuse_young(packages: Iterable[LockedPackage], cutoff: datetime | None) -> None:
    """Refuse packages younger than the operator's cooldown, or of unknown age. Those uploaded after ``cutoff`` are too
    young; None if there is no cooldown.

    Raises:
        Denied: There is such a package.
    """
    for one in packages if cutoff is not None else ():
        if not one.uploaded:
            raise Denied(
                "package_of_unknown_age",
                f"The index does not say when {one.name} {one.version} was uploaded (PEP 700, or `time` of npm), so "
                "nobody can tell whether it is older than the cooldown.",
                hint="set packages.cooldown_days = 0 if you trust this index, or name one that says it",
            )
        if cutoff is not None and datetime.fromisoformat(one.uploaded) > cutoff:
            raise Denied(
                "package_too_young",
                f"{one.name} {one.version} was uploaded at {one.uploaded}, and the cooldown lets nothing in that is "
                f"younger than {cutoff.isoformat(timespec='seconds')}.",
                hint="wait, or lower packages.cooldown_days",
            )


def select_aged(lock: PythonLock, ageless: Sequence[str]) -> Iterator[LockedPackage]:
    """The packages that have an age: all except those below these URL prefixes, the operator's directories."""
    yield from (one for one in lock.pins if not one.wheel.url.startswith(tuple(ageless)))


def _read_pin(table: Any, tags: "dict[Tag, int]") -> Pin:  # noqa: ANN401 - what TOML holds
    if not isinstance(table, dict):
        raise unreadable_lock("one of its packages is no table")
    name, version = table.get("name"), table.get("version")
    if not isinstance(name, str) or not _NAME.fullmatch(utils.canonicalize_name(name)):
        raise unreadable_lock(f"the name {name!a:.100} is none")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise unreadable_lock(f"{utils.canonicalize_name(name)} has no version, so it is no package of an index")
    best: tuple[int, Pin] | None = None
    for wheel in table.get("wheels") or ():
        pin, rank = _read_wheel(utils.canonicalize_name(name), version, wheel, tags)
        if rank is not None and (best is None or rank < best[0]):
            best = rank, pin
    if best is None:
        raise Denied(
            "package_without_wheel",
            f"{name} {version} has no wheel for this Python, and nothing is built from source.",
            hint=f'ask for another version, or write build = ["{name}=={version}"]: that runs code of its own',
        )
    return best[1]


def _read_wheel(name: str, version: str, wheel: Any, tags: "dict[Tag, int]") -> tuple[Pin, int | None]:  # noqa: ANN401
    """The file, and its rank: lower is better, None does not fit."""
    table = wheel if isinstance(wheel, dict) else {}
    url, hashes, uploaded = table.get("url"), table.get("hashes"), table.get("upload-time")
    sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
    if (
        not isinstance(url, str)
        or not URL.fullmatch(url)
        or not isinstance(sha256, str)
        or not SHA256.fullmatch(sha256)
    ):
        raise unreadable_lock(f"a file of {name} has no plain URL with a sha256")
    file = url.rpartition("/")[2].replace("%2B", "+").replace("%2b", "+")
    if math.prod(part.count(".") + 1 for part in file.removesuffix(".whl").rsplit("-", 3)[1:]) > _MOST_TAGS:
        raise unreadable_lock(f"{file!a:.200} is for more than {_MOST_TAGS} kinds of interpreters")
    try:
        named, _, _, fits = utils.parse_wheel_filename(file)
        pin = Pin(
            name=name,
            version=version,
            uploaded=uploaded.astimezone(UTC).isoformat(timespec="seconds") if isinstance(uploaded, datetime) else "",
            wheel=Wheel(url=url, file=file, sha256=sha256, size=table.get("size")),
        )
    except (utils.InvalidWheelFilename, WrongShapeError, OverflowError) as error:
        raise unreadable_lock(f"{file!a:.200} is no name of a wheel") from error
    if named != name:
        raise unreadable_lock(f"{file!a:.200} is no wheel of {name}")
    return pin, min((tags[tag] for tag in fits if tag in tags), default=None)


def _with_age(pin: Pin, built: Mapping[str, BuiltWheel]) -> Pin:
    """A built package has the age of its source."""
    one = built.get(pin.name)
    if one is None or (one.version, one.wheel_sha256) != (pin.version, pin.wheel.sha256):
        return pin
    return pin.model_copy(update={"uploaded": read_time(one.uploaded)})


def _tags(version: tuple[int, int]) -> "dict[Tag, int]":
    """The wheel tags that an interpreter of this version supports, the best first."""
    interpreter = f"cp{version[0]}{version[1]}"
    every: Iterable[Tag] = (
        *wheel_tags.cpython_tags(version),
        *wheel_tags.compatible_tags(version, interpreter=interpreter),
    )
    return {tag: rank for rank, tag in reversed([*enumerate(every)])}


def read_time(text: object) -> str:
    """The upload time of a file, in canonical spelling; empty if it is unknown."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
        return at.astimezone(UTC).isoformat(timespec="seconds") if at is not None and at.tzinfo is not None else ""
    except (ValueError, OverflowError):
        return ""


def unreadable_lock(why: str) -> Denied:
    """The refusal of a lock."""
    return Denied("lock_unreadable", f"The lock can't be relied on: {why}.", hint="make another: gloveport env lock")
