"""Reads locks of npm packages: Deno's ``deno.lock``, with the upload time of each package; and the operator's
``package-lock.json``, which restricts it.

Lock and upload times were written in a sandbox, from a registry's data. A lock is JSON: ``{"lock", "uploaded"}``, Deno
installs from ``lock``, and refuses files with another digest.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from gloveport.environments.locks import MOST_PACKAGES, Lock, read_time, unreadable_lock
from gloveport.errors import Denied
from gloveport.late_pattern import late_pattern
from gloveport.model.packages import LockedPackage
from gloveport.model.value import Value

_ID: Final = late_pattern(
    r"(?P<name>(?:@[A-Za-z0-9~-][A-Za-z0-9._~-]{0,99}/)?[A-Za-z0-9~-][A-Za-z0-9._~-]{0,127})"
    r"@(?P<version>[0-9][0-9A-Za-z.+-]{0,99})(?:_[A-Za-z0-9@._~+/-]{1,2000})?"
)
"""Name and version, followed by the peers that it was resolved with."""

_INTEGRITY: Final = late_pattern(r"sha512-[A-Za-z0-9+/]{86}==")
_KEYS: Final = frozenset({"version", "specifiers", "npm", "workspace"})
_VERSION: Final = "5"


class NpmLock(Lock):
    """A lock of npm packages."""

    deno_lock: str
    """The file that Deno installs from."""

    requirements: Mapping[str, str]
    """The requirements by name, as Deno spells them."""

    direct: Mapping[str, str]
    """Version of each required package, by name."""


class PackageLock(Value):
    """The ``package-lock.json`` of an operator."""

    packages: Mapping[str, Any]
    """Its packages, without the project itself."""

    integrity: Mapping[str, str]
    """The sha512 of each, by ``NAME@VERSION``."""

    def to_seed(self, requirements: Mapping[str, str]) -> str:
        """The file from which Deno takes the versions of these requirements, by name."""
        packages = {"": {"dependencies": dict(requirements)}, **self.packages}
        return json.dumps({"lockfileVersion": 3, "packages": packages})

    def refuse_others(self, lock: NpmLock) -> None:
        """Refuse a lock with packages that are not in this one.

        Raises:
            Denied: The other lock has such a package, or one with another digest.
        """
        for name, entry in json.loads(lock.deno_lock)["npm"].items():
            found = _ID.fullmatch(name)
            if found is None or self.integrity.get(f"{found['name']}@{found['version']}") != entry["integrity"]:
                raise Denied(
                    "package_not_locked",
                    f"{name.partition('_')[0]} is not in your package-lock.json with the digest that the registry has.",
                    hint="make that lock anew with what npm requires in the configuration, or look at who changed it; "
                    "versions that are too young count as missing",
                )


def read_package_lock(data: bytes) -> PackageLock:
    """Read an operator's ``package-lock.json``. Raises Denied if it was not written by npm 7 or later."""
    try:
        packages = dict(json.loads(data)["packages"])
        packages.pop("", None)
        integrity = {
            f"{one.get('name', path.rpartition('node_modules/')[2])}@{one.get('version')}": digest
            for path, one in packages.items()
            for digest in str(one.get("integrity", "")).split()
            if _INTEGRITY.fullmatch(digest)
        }
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise unreadable_lock(f"it is no package-lock.json of npm 7 or later: {error!r:.200}") from error
    return PackageLock(packages=packages, integrity=integrity)


def read_npm_lock(data: bytes) -> NpmLock:
    """Read a lock of npm packages. Raises Denied if it is malformed, or has a package without a digest."""
    try:
        text = data.decode()
        parsed = json.loads(text)
        lock, uploaded = parsed["lock"], parsed["uploaded"]
        npm, specifiers = lock["npm"], lock["specifiers"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise unreadable_lock(f"it is none of npm: {error!r:.200}") from error
    if not all(isinstance(one, dict) for one in (lock, uploaded, npm, specifiers)) or lock.get("version") != _VERSION:
        raise unreadable_lock("it is none of npm in the version that is known here")
    if more := {*lock} - _KEYS:
        raise unreadable_lock(f"it has more than packages of npm: {sorted(more)!a:.200}")
    if len(npm) > MOST_PACKAGES:
        raise unreadable_lock(f"it has more than {MOST_PACKAGES} packages")
    found = {_read_package(name, entry, uploaded) for name, entry in npm.items()}
    requirements = {specifier: _read_specifier(specifier, resolved) for specifier, resolved in specifiers.items()}
    return NpmLock(
        text=text,
        packages=tuple(sorted(found, key=lambda one: (one.name, one.version))),
        deno_lock=json.dumps(lock),
        requirements={name: specifier for specifier, (name, _) in requirements.items()},
        direct=dict(requirements.values()),
    )


def _read_package(name: str, entry: Any, uploaded: Mapping[str, Any]) -> LockedPackage:  # noqa: ANN401 - what JSON holds
    found = _ID.fullmatch(name)
    if found is None:
        raise unreadable_lock(f"{name!a:.200} is no package in a version")
    integrity = entry.get("integrity") if isinstance(entry, dict) else None
    if not isinstance(integrity, str) or not _INTEGRITY.fullmatch(integrity):
        raise unreadable_lock(f"{name!a:.200} has no sha512")
    return LockedPackage(
        name=f"npm:{found['name']}",
        version=found["version"],
        uploaded=read_time(uploaded.get(f"{found['name']}@{found['version']}")),
    )


def _read_specifier(specifier: str, resolved: object) -> tuple[str, str]:
    """Name and version of a required package."""
    name = specifier.removeprefix("npm:")
    at = name.rfind("@")
    found = _ID.fullmatch(f"{name[:at] if at > 0 else name}@{resolved}")
    if not specifier.startswith("npm:") or found is None:
        raise unreadable_lock(f"{specifier!a:.200} is none of npm")
    return found["name"], found["version"]
