"""The environment of one run: its packages, and how programs and commands see them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.engine.ecosystems import Ecosystem
from gloveport.environments.environment_store import BuiltTree
from gloveport.model import Language, Mount
from gloveport.runtimes import Runtime

ENVIRONMENT_PYTHON: Final = "/opt/environment-python"
"""Where commands of a workspace find the interpreter that their environment is for."""


class PackageTree(Struct, frozen=True, kw_only=True):
    """The packages of one ecosystem, as a run has them.

    Attributes:
        path: The tree on this host.
    """

    ecosystem: Ecosystem
    tree: BuiltTree
    path: Path


class RunEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of one run.

    Attributes:
        name: The operator's name of it, or ``inline``.
        trees: One of each ecosystem that the run has packages of: a session can have more than one.
    """

    name: str
    trees: tuple[PackageTree, ...]

    @property
    def label(self) -> str:
        """What a result calls it."""
        return f"{self.name} ({', '.join(one.tree.lock_sha256[:12] for one in self.trees)})"

    @property
    def address(self) -> str:
        """What tells it from others."""
        return " ".join(one.tree.address for one in self.trees)

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """How programs see it."""
        return tuple(Mount(source=str(one.path), target=one.ecosystem.target) for one in self.trees)

    @property
    def env(self) -> Mapping[str, str]:
        """What programs are told about it."""
        return {name: text for one in self.trees for name, text in one.ecosystem.env.items()}

    def variables(self, path: str) -> Mapping[str, str]:
        """What commands of a workspace are told about it.

        Args:
            path: Where they find programs without it. Its own come behind those, so that none of them is shadowed.
        """
        found = {name: text for one in self.trees for name, text in one.ecosystem.commands_env.items()}
        programs = ":".join(one.ecosystem.programs for one in self.trees)
        return {**found, "PATH": f"{ENVIRONMENT_PYTHON}:{path}:{programs}"}

    def runtimes(self, runtimes: Mapping[Language, Runtime]) -> Mapping[Language, Runtime]:
        """The languages as its programs have them."""
        for one in self.trees:
            runtimes = one.ecosystem.runtimes(runtimes, self.name, one.tree.modules)
        return runtimes
