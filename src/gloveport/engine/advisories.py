"""Looks up security advisories for packages (OSV), in a sandbox whose only door leads to that service."""

import json
from collections.abc import Sequence
from typing import Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import BuildHost, read_lock_file, write_input
from gloveport.environments.indexes import hosts_of
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.model import GUEST, Grant, Value
from gloveport.model.packages import PACKAGES, LockedPackage
from gloveport.model.reading import WrongShapeError, read_json
from gloveport.policy.npm_requests import NPM

PUBLIC_ADVISORIES: Final = "https://api.osv.dev"
_MALWARE: Final = "MAL-"


class Advisory(Value):
    """An advisory about one version of a package. All of it is untrusted text."""

    id: str
    summary: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def is_malware(self) -> bool:
        """Whether the package does harm on purpose."""
        return any(one.startswith(_MALWARE) for one in (self.id, *self.aliases))


class AdvisoryService(Struct, frozen=True, kw_only=True):
    """A service of security advisories.

    Attributes:
        unasked: Prefixes of package names that are never sent to it: the operator's own packages.
    """

    host: BuildHost
    url: str
    unasked: tuple[str, ...] = ()

    @property
    def grant(self) -> Grant:
        """The grant of the program that asks the service."""
        return self.host.grant(hosts_of([self.url]), methods=("GET", "POST"))

    async def find(
        self, packages: Sequence[LockedPackage], guard: Guard
    ) -> list[tuple[LockedPackage, tuple[Advisory, ...]]]:
        """The advisories about each package that has some. Their names and versions are sent to the service; ``guard``
        has that grant, and records the requests.

        Raises:
            Denied: The service can't be reached, or its answer can't be read.
            SandboxError: This host can't build the sandbox.
        """
        packages = [one for one in packages if not one.name.startswith(self.unasked)]
        if not packages:
            return []
        queries = [
            {
                "name": one.name.removeprefix(NPM),
                "version": one.version,
                "ecosystem": "npm" if one.name.startswith(NPM) else "PyPI",
            }
            for one in packages
        ]
        async with self.host.open_sandboxes(self.grant, (), {}) as build:
            write_input(build.work / "packages.json", json.dumps(queries))
            ask = (self.host.system.python, "-I", f"{GUEST}/python/query_advisories.py", self.url)
            ending = await build.run((*ask, f"{PACKAGES}/packages.json", f"{PACKAGES}/found.json"), guard)
            if ending.outcome.exit_code != 0:
                failure = ending.failure("advisories_unavailable", f"{self.url} does not tell what is known")
                failure.hint = "name a mirror that this host reaches: packages.advisories; nothing was found out"
                raise failure
            data = await to_thread.run_sync(read_lock_file, build.work / "found.json")
            try:
                found = await compute(len(data), read_json, tuple[tuple[Advisory, ...], ...], data)
            except WrongShapeError as error:
                raise self._refuse_answer() from error
        if len(found) != len(packages):
            raise self._refuse_answer()
        return [(one, some) for one, some in zip(packages, found, strict=True) if some]

    def _refuse_answer(self) -> Denied:
        return Denied("advisories_unavailable", f"What {self.url} answers can't be read.", hint="name another service")
