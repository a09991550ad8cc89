"""A draft: one entry as a table of ours, while it is being made."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gloveport.config.sources.layers import Table
from gloveport.import_config.secrets import find_fault, find_fault_of_variable
from gloveport.import_config.variables import Stored, Surroundings, Unknown, VariableReference

FindFault: TypeAlias = Callable[[str], str | None]


@dataclass(kw_only=True)
class ServerDraft:
    """A server's table, the secrets that belong to it, and what a person has to know of it.

    Attributes:
        directory: Where its secrets are to be kept.
        table: As ``[servers.NAME]`` would hold it: says where secrets are, never what they are.
        secrets: By the name of the file. No text for people may hold one.
        notes: In words, free of secrets. Texts of the entry in them are not made printable yet.
    """

    directory: Path
    table: Table = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    def variable(self, name: str, text: str, surroundings: Surroundings) -> str:
        """As ``secret``, for a variable of the server's environment, whose value may have lines."""
        return self.secret(name, name, text, surroundings, find_fault_of_variable)

    def secret(
        self, label: str, file_name: str, text: str, surroundings: Surroundings, find_fault: FindFault = find_fault
    ) -> str:
        """Give the place of what a text says or refers to. What it says itself is kept in a file of its own.

        Args:
            label: What it is, for people.
            file_name: Name of that file.
            text: As the client has it.
            surroundings: What its references lead to.
            find_fault: Says why a value can't be used.

        Raises:
            ConfigError: One leads nowhere.
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
                self.note(f"{label}: unresolved, since only the client knows {unknown}: write it to {path}")
                return f"file:{path}"
            case _:
                value = surroundings.resolve(text)
                if fault := find_fault(value):
                    self.note(f"{label}: {fault}; put another one into {path}, or the server will not start")
                self.secrets[file_name] = value
                return f"file:{path}"
