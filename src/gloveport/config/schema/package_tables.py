"""The table that says where packages come from, and which of them programs may ask for."""

from collections.abc import Mapping
from typing import Annotated

from gloveport.model import MIB
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints
from gloveport.model.packages import IndexUrl, NpmScope, PackageRules, RegistryUrl


class Packages(PackageRules):
    """Where packages come from, how environments are built, and which packages a program may ask for by itself.

    It does so in the `# /// script` block of PEP 723, or by imports from `npm:…`. Of the rules for a package `deny`
    comes first, then `allow`, then `ask`; what none names is denied.
    """

    indexes: tuple[IndexUrl, ...] = ()
    """Where packages come from: URLs of simple indexes, and `file:///…` of a directory that is one. The first that has
    a name is asked for it, and no other. An `[api.NAME]` for the host of one says by which credential. Default: what uv
    or pip of this user ask, without passwords; else the public index."""

    npm_registry: RegistryUrl | None = None
    """Where packages of npm come from. An `[api.NAME]` for its host says by which credential. Default: what npm of this
    user asks, without its tokens; else the public one."""

    npm_scopes: Mapping[NpmScope, RegistryUrl] = {}
    """Registries of scopes: `"@acme" = "https://npm.acme.example"`. What has a scope comes from there and from
    nowhere else, so nobody can put a package of yours into a public registry under its name."""

    advisories: RegistryUrl | None = None
    """A service of advisories with OSV's interface, which is told names and versions of packages, but none of
    `npm_scopes`. With it a build asks before it installs, and refuses packages that are known to do harm on purpose, or
    all if it has no answer. `gloveport env audit` asks it as well. Default: builds ask nobody, and `env audit` asks the
    public service of OSV."""

    cooldown_days: Annotated[float, Constraints(ge=0, le=3650, allow_inf_nan=False)] = 7
    """Versions younger than this are left out: most that do harm are found in their first days. 0 takes all."""

    environment_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(4096 * MIB)
    """Size of all files of one environment."""

    environment_files: Annotated[int, Constraints(ge=1, le=10_000_000)] = 200_000
    """How many files one environment may have."""
