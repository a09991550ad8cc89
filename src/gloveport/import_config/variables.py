"""Resolves references in texts (``${NAME}``), which each client writes in its own way."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from gloveport.errors import ConfigError

_REFERENCE = re.compile(r"\$\{(?P<braced>[^{}]*)\}|\{(?P<scheme>env|file):(?P<inner>[^{}]*)\}")
_BARE = re.compile(r"\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)")
_BOTH = re.compile(f"{_REFERENCE.pattern}|{_BARE.pattern}")
_WHOLE = re.compile(r"\$(?P<bare>[A-Z_][A-Z0-9_]*)")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


class VariableReference(Struct, frozen=True, kw_only=True):
    """A variable of the environment."""

    name: str
    default: str | None = None


class Stored(Struct, frozen=True, kw_only=True):
    """A reference to the content of a file."""

    path: str


class Unknown(Struct, frozen=True, kw_only=True):
    """A reference that only the client can resolve, such as to an input that it asks a person for."""

    text: str


Piece: TypeAlias = str | VariableReference | Stored | Unknown


class Surroundings(Struct, frozen=True, kw_only=True):
    """The environment, directories and files that resolve references.

    Attributes:
        environ: The environment of the importing process.
        workspace: The project that an entry belongs to.
        bare: Whether ``$NAME`` is a reference as well.
    """

    environ: Mapping[str, str]
    home: Path
    workspace: Path | None
    bare: bool = False

    def pieces(self, text: str) -> tuple[Piece, ...]:
        """Split a text at its references. References to directories are resolved to text; adjacent texts are joined."""
        if whole := _WHOLE.fullmatch(text):  # never meant literally, even if the client does not resolve it
            return (VariableReference(name=whole["bare"]),)
        found: list[Piece] = []
        pattern = _BOTH if self.bare else _REFERENCE
        end = 0
        for match in pattern.finditer(text):
            found += [text[end : match.start()], self._piece(match)]
            end = match.end()
        return _join_pieces([*found, text[end:]])

    def resolve(self, text: str) -> str:
        """Resolve the references of a text to their present values.

        Raises:
            ConfigError: A reference leads nowhere. The message has only the reference.
        """
        return "".join(self._resolve_piece(piece) for piece in self.pieces(text))

    def variables(self, text: str) -> dict[str, str]:
        """List the variables that a text refers to and that are set, with their values."""
        names = [piece.name for piece in self.pieces(text) if isinstance(piece, VariableReference)]
        return {name: self.environ[name] for name in names if name in self.environ}

    def _piece(self, match: re.Match[str]) -> Piece:
        groups = match.groupdict()
        if groups.get("bare"):
            return VariableReference(name=groups["bare"])
        if groups["scheme"] == "file":
            path = groups["inner"]
            path = f"{self.home}{path[1:]}" if path.startswith("~/") else path
            return Stored(path=path) if path.startswith("/") else Unknown(text=match[0])
        inner = groups["inner"] if groups["scheme"] else groups["braced"]
        directories = {"userHome": str(self.home), "pathSeparator": "/", "/": "/", "HOME": str(self.home)}
        if self.workspace is not None:
            directories |= {"workspaceFolder": str(self.workspace), "workspaceFolderBasename": self.workspace.name}
        if inner in directories:
            return directories[inner]
        found = _VARIABLE.fullmatch(inner)
        if found is None or found["name"].startswith("workspaceFolder"):
            return Unknown(text=match[0])
        return VariableReference(name=found["name"], default=found["default"])

    def _resolve_piece(self, piece: Piece) -> str:
        match piece:
            case str():
                return piece
            case VariableReference() if piece.name in self.environ or piece.default is not None:
                return self.environ.get(piece.name, piece.default or "")
            case VariableReference():
                raise ConfigError(f"it needs the variable {piece.name}, which is not set here")
            case Stored():
                raise ConfigError("it needs the content of a file in the middle of a text")
            case Unknown():
                raise ConfigError(f"it needs {piece.text}, which only the client knows")


def _join_pieces(pieces: list[Piece]) -> tuple[Piece, ...]:
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return tuple(joined)
