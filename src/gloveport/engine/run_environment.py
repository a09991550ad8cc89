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
    """The packages of one ecosystem in a run.

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
        trees: One for each ecosystem with packages in this run: a session can have more than one.
    """

    name: str
    trees: tuple[PackageTree, ...]

    @property
    def label(self) -> str:
        """Its name in results."""
        return f"{self.name} ({', '.join(one.tree.lock_sha256[:12] for one in self.trees)})"

    @property
    def address(self) -> str:
        """Its unique address."""
        return " ".join(one.tree.address for one in self.trees)

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The mounts by which programs see it."""
        return tuple(Mount(source=str(one.path), target=one.ecosystem.target) for one in self.trees)

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that tell programs of it."""
        return {name: text for one in self.trees for name, text in one.ecosystem.env.items()}

    def variables(self, path: str) -> Mapping[str, str]:
        """Variables that tell commands of a workspace of it. Its own programs come last in their ``path``, so that they
        shadow none.
        """
        found = {name: text for one in self.trees for name, text in one.ecosystem.commands_env.items()}
        programs = ":".join(one.ecosystem.programs for one in self.trees)
        return {**found, "PATH": f"{ENVIRONMENT_PYTHON}:{path}:{programs}"}

    def runtimes(self, runtimes: Mapping[Language, Runtime]) -> Mapping[Language, Runtime]:
        """The runtimes of the languages, as its programs use them."""
        for one in self.trees:
            runtimes = one.ecosystem.runtimes(runtimes, self.name, one.tree.modules)
        return runtimes
