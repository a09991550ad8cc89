"""The table of package indexes, and of the packages that programs may ask for."""

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
    """Where packages come from: URLs of simple indexes, or `file:///…` for a directory that is one. Only the first
    index that has a name provides it. An `[api.NAME]` for an index's host gives the credential. Default: the indexes of
    this user's uv or pip, without passwords; else the public index."""

    npm_registry: RegistryUrl | None = None
    """The registry of npm packages. An `[api.NAME]` for its host gives the credential. Default: that of this user's
    npm, without its tokens; else the public one."""

    npm_scopes: Mapping[NpmScope, RegistryUrl] = {}
    """Registries of scopes: `"@acme" = "https://npm.acme.example"`. Packages of a scope come only from its registry, so
    nobody can replace one of yours by publishing its name in the public registry."""

    advisories: RegistryUrl | None = None
    """An advisory service with OSV's interface, which gets names and versions of packages, but none of `npm_scopes`. A
    build then queries it before it installs, and refuses packages known to be malicious, or all without an answer.
    `gloveport env audit` queries it as well. Default: builds query none, and `env audit` the public service of OSV."""

    cooldown_days: Annotated[float, Constraints(ge=0, le=3650, allow_inf_nan=False)] = 7
    """Versions younger than this are ignored: most malicious ones are found in their first days. 0 takes all."""

    environment_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(4096 * MIB)
    """Size of all files of one environment."""

    environment_files: Annotated[int, Constraints(ge=1, le=10_000_000)] = 200_000
    """How many files one environment may have."""
