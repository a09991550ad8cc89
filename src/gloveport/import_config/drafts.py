"""A draft: one entry while it is being converted to a table of ours."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gloveport.config.sources.layers import Table
from gloveport.import_config.secrets import address_in, find_fault, find_fault_of_variable
from gloveport.import_config.variables import Stored, Surroundings, Unknown, VariableReference

FindFault: TypeAlias = Callable[[str], str | None]


@dataclass(kw_only=True)
class ServerDraft:
    """A server's table, its secrets, and notes on it for a person.

    Attributes:
        directory: Where its secrets are to be kept.
        table: The future ``[servers.NAME]``: it has the places of secrets, never their values.
        secrets: Values by the name of their file. No text for people may hold one.
        notes: Text without secrets. Parts from the entry are not escaped yet.
    """

    directory: Path
    table: Table = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note, unless it is there already."""
        if text not in self.notes:
            self.notes.append(text)

    def variable(self, name: str, text: str, surroundings: Surroundings) -> str:
        """As ``secret``, for a variable of the server's environment, whose value may have lines."""
        return self.secret(name, name, text, surroundings, find_fault_of_variable)

    def secret(
        self, label: str, file_name: str, text: str, surroundings: Surroundings, find_fault: FindFault = find_fault
    ) -> str:
        """Give the place of the secret in a client's text, or that it refers to. A literal secret is kept in a file of
        its own, ``file_name``. ``label`` names the secret for people; ``find_fault`` says why a value can't be used.

        Raises:
            ConfigError: A reference leads nowhere.
        """
        path = self.directory / file_name
        match surroundings.pieces(text):
            case (VariableReference(name=name, default=default),) if name in surroundings.environ or default is None:
                if name not in surroundings.environ:
                    self.note(f"{label}: the variable {name} is not set here")
                elif fault := find_fault(surroundings.environ[name]):
                    self.note(f"{label}: {name} {fault}; set another one, or the server will not start")
                return f"env:{name}"
            case (Stored(path=stored),):
                return f"file:{stored}"
            case (Unknown(text=unknown),):
                former = ", whose present content it gets until then" if os.path.exists(path) else ""  # noqa: PTH110 - never an error
                self.note(f"{label}: unresolved, since only the client knows {unknown}: write it to {path}{former}")
                return f"file:{path}"
            case _:
                value = surroundings.resolve(text)
                for name in surroundings.variables(text):
                    self.note(f"{label}: holds the value of your variable {name}, which the server would get")
                if address := address_in(value):
                    self.note(f"{label}: leads to {address}")
                if fault := find_fault(value):
                    self.note(f"{label}: {fault}; put another one into {path}, or the server will not start")
                self.secrets[file_name] = value
                return f"file:{path}"
