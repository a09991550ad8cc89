"""Packages: environments that programs run in, which packages they may ask for, and the action of installing some."""

from typing import Annotated, Literal, TypeAlias

from gloveport.model.constraints import Constraints
from gloveport.model.languages import Language, Languages
from gloveport.model.value import Value

EnvironmentName: TypeAlias = Annotated[str, Constraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
RequirementText: TypeAlias = Annotated[str, Constraints(pattern=r"^[A-Za-z0-9][^\x00-\x1f\x7f]{0,199}$")]
"""As pip writes it, without a URL: ``requests``, ``httpx[http2]>=0.28``."""

NpmRequirementText: TypeAlias = Annotated[str, Constraints(pattern=r"^[@A-Za-z0-9][^\x00-\x1f\x7f]{0,199}$")]
"""As npm writes it, without a place to get it from: ``zod``, ``csv-parse@5``, ``@scope/name@^1.2``."""

PinnedText: TypeAlias = Annotated[
    str, Constraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}==[A-Za-z0-9.!+_-]{1,80}$")
]
"""A name and one version of it: ``docopt==0.6.2``."""

PackagePattern: TypeAlias = Annotated[
    str,
    Constraints(
        pattern=r"^(?:npm:[a-z0-9@*][a-z0-9@*._/-]*|[A-Za-z0-9*][A-Za-z0-9*._-]*)(?:[<>=!~][^\x00-\x1f\x7f]*)?$"
    ),
]
"""A name, with ``*`` for any characters, and perhaps versions: ``azure-*``, ``numpy>=2,<3``; with ``npm:`` before it
one of npm: ``npm:zod>=4``, ``npm:@types/*``."""

IndexUrl: TypeAlias = Annotated[
    str, Constraints(pattern=r"^(?:https?://[^\s\x00-\x1f#?@]+|file:///[^\s\x00-\x1f#?@]+)$")
]

RegistryUrl: TypeAlias = Annotated[str, Constraints(pattern=r"^https?://[^\s\x00-\x1f#?@]+$")]
NpmScope: TypeAlias = Annotated[str, Constraints(pattern=r"^@[a-z0-9~-][a-z0-9._~-]{0,99}$")]

PACKAGES = "/opt/environment"
"""Where programs see their environment's Python packages."""

NPM_PACKAGES = "/opt/npm"
"""Where programs see their environment's npm packages."""


class Environment(Value):
    """Packages that programs can import: what `environment` of `execute_code` and `gloveport run --env` name."""

    description: str = ""
    """What it is for, in a few words for the agent."""

    python: tuple[RequirementText, ...] = ()
    """Packages of Python in pip's spelling: `requests`, `httpx[http2]>=0.28`. Their dependencies come with them."""

    npm: tuple[NpmRequirementText, ...] = ()
    """Packages of npm for programs in TypeScript and JavaScript: `zod`, `csv-parse@5`, `@scope/name@^1.2`,
    and of JSR, where `packages.npm_scopes` has a registry for `@jsr`: `jsr:@std/path`. They are imported by their names
    and by `npm:` or `jsr:`. Their install scripts never run."""

    languages: Languages | None = None
    """Languages whose programs may run in it, among those for which it has packages. Default: all of these:
    `python` and `shell` for packages of Python, `typescript` and `javascript` for those of npm."""

    lock: Annotated[str, Constraints(pattern=r"^/[^\x00]+$")] | None = None
    """A `pylock.toml` (as `uv pip compile --format pylock.toml` or `uv export` write it) to install as it is, instead
    of `python`. Default: Gloveport makes one, and keeps it until `gloveport env lock`."""

    npm_lock: Annotated[str, Constraints(pattern=r"^/[^\x00]+$")] | None = None
    """A `package-lock.json` of npm 7 or later: of `npm`, and of what comes with it, nothing is let in but its versions,
    with its digests. It is read when the environment is locked: after a change of it, `gloveport env lock`. Default:
    the newest versions that are old enough."""

    build: tuple[PinnedText, ...] = ()
    """Packages of Python that are built from their source distributions, each in one version, and in this order:
    `docopt==0.6.2`. The build runs their code, and that of their build dependencies, in a sandbox without a network.
    Default: none, so that packages without a wheel are refused."""

    allow: tuple[PackagePattern, ...] = ()
    """All packages that may be in it, including dependencies and those that `build` needs: `requests`, `azure-*`,
    `numpy>=2`, `npm:zod`. A lock with any other is refused. Default: all that its requirements need."""

    default: bool = False
    """Whether programs that name no environment run in this one. There may be one for each language."""

    @property
    def has_python(self) -> bool:
        """Whether it has packages of Python. What has no packages at all is an empty one of Python."""
        return bool(self.python) or self.lock is not None or not self.npm

    @property
    def packaged_languages(self) -> frozenset[Language]:
        """Languages that it has packages for."""
        python: tuple[Language, ...] = ("python", "shell") if self.has_python else ()
        npm: tuple[Language, ...] = ("typescript", "javascript") if self.npm else ()
        return frozenset((*python, *npm))

    @property
    def served_languages(self) -> frozenset[Language]:
        """Languages whose programs may run in it."""
        return self.packaged_languages if self.languages is None else self.languages


class PackageRules(Value):
    """Which packages a program may request itself, in a PEP 723 block or by imports from ``npm:``."""

    allow: tuple[PackagePattern, ...] = ()
    """Packages that are installed without a question: `requests`, `azure-*`, `numpy>=2`, `npm:zod`, `npm:@types/*`.
    Without `allow` and `ask` such blocks are comments."""

    ask: tuple[PackagePattern, ...] = ()
    """Packages about which a person is asked, who sees versions, ages, and what else comes with them."""

    deny: tuple[PackagePattern, ...] = ()
    """Packages that no environment requested by a program may have, not even as dependencies."""

    @property
    def enabled(self) -> bool:
        """Whether programs may ask at all."""
        return bool(self.allow or self.ask)


class LockedPackage(Value):
    """One package of a lock."""

    name: str
    """With ``npm:`` before it, where it is one of npm."""

    version: str
    uploaded: str = ""
    """When its file was uploaded, as the index says: ISO 8601. Empty where it says nothing."""


class Install(Value):
    """Action: build an environment with these packages."""

    kind: Literal["install"] = "install"
    environment: EnvironmentName | None = None
    """The operator's; null for one that a program has asked for."""

    requested_names: tuple[str, ...] = ()
    """Names of the packages that were asked for, canonical and sorted. The others come with them."""

    packages: tuple[LockedPackage, ...] = ()
    """All of them, sorted by name."""

    lock_sha256: str = ""
    """Digest of the lock that they are installed from."""
