"""What a text means to a shell: the commands in it, their words without their quoting. For explanations only.

The grammar is tree-sitter's, which is written in C, holds the interpreter lock, and where a text has errors takes time
and memory that grow with the square of its length. So a text is read up to ``MOST_BYTES``, here documents aside, and
``DEEPEST`` levels; of what lies beyond only that it is there is said. Nothing raises.

A word that depends on what a program does is not known. Variables that the text itself sets are.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MOST_BYTES: Final = 2048
"""Of 25,000 hostile texts of this size the worst took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or no end."""
DEEPEST: Final = 40
MOST_WORDS: Final = 1000
_LONGEST_WORD: Final = 4096
_LONG_DOCUMENT = 200

_BASH: Final = Language(tree_sitter_bash.language())
_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*(\\?|['\"])([A-Za-z_]\w*)['\"]?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SHELVED = re.compile(r"\A\t*\x01(\d+)\n?\Z")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ESCAPED_IN_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_GLOB = re.compile(r"(?<!\\)[*?[]")
_BARE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_TEMPORARY = re.compile(r"(?:\$\(|`)\s*mktemp\b[^;&|]*")
_HERE = re.compile(r"(?:\$\(|`)\s*pwd\b[^;&|]*|\$\{?PWD\}?")
_ARITHMETIC = {"arithmetic_expansion"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}


@dataclass(frozen=True, slots=True)
class Word:
    """One word.

    Attributes:
        text: Without its quoting; of what is not known, what is written.
        known: Whether it says all: nothing of it depends on what a program does.
        glob: Whether it stands for the names of files.
    """

    text: str
    known: bool = True
    glob: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: Its name and its arguments; never empty.
        text: What is written.
        stdin: A here document or a here string; None without one.
        source: The command whose output it reads.
    """

    words: tuple[Word, ...]
    text: str
    stdin: str | None = None
    source: "Command | None" = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text means.

    Attributes:
        commands: In the order in which they are written, those of substitutions before the one they stand in.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why something of it could not be read; empty where all could.
    """

    commands: tuple[Command, ...] = ()
    expansions: tuple[str, ...] = ()
    unread: str = ""


def read(text: str) -> Reading:
    """Read a text as bash does."""
    text = text.encode(errors="replace").decode()
    shelf: list[str] = []
    if len(text) > MOST_BYTES:
        text = _without_documents(text, shelf)
    source = text.encode().replace(b"\0", b" ")
    reader = _Reader(shelf)
    if len(source) > MOST_BYTES:
        reader.unread = f"only its first {MOST_BYTES} bytes are read"
        source = source[:MOST_BYTES]
    reader.visit(Parser(_BASH).parse(source).root_node, DEEPEST)
    return Reading(tuple(reader.commands), tuple(reader.expansions), reader.unread)


def _without_documents(text: str, shelf: list[str]) -> str:
    """Put what long here documents hold on the shelf, and a mark in its place.

    By lines, without a grammar: a text that is made to look so is not read, which is not worse than a longer one.
    """
    kept: list[str] = []
    lines = iter(_LINE.findall(text))
    for line in lines:
        kept.append(line)
        for tabs, _, end in _DOCUMENT.findall(line):
            body: list[str] = []
            last = ""
            for last in lines:
                if (last.lstrip("\t") if tabs else last).rstrip("\n") == end:
                    break
                body.append(last)
            else:
                last = ""
            whole = "".join(body)
            if len(whole) > _LONG_DOCUMENT:
                shelf.append(whole)
                whole = f"\x01{len(shelf) - 1}\n"
            kept += [whole, last]
    return "".join(kept)


@dataclass(slots=True)
class _Reader:
    """Walks a tree once. What it has found is in its fields."""

    shelf: list[str]
    commands: list[Command] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    variables: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    unread: str = ""
    source: Command | None = None

    def visit(self, node: Node, depth: int) -> None:
        if not depth:
            self.unread = "it is nested too deeply to be read"
            return
        match node.type:
            case "command":
                self._command(node, depth)
            case "redirected_statement":
                self._redirected(node, depth)
            case "variable_assignment":
                self._assignment(node, depth)
            case "for_statement":
                self._loop(node, depth)
            case "|" | "|&":
                self.source = self.commands[-1] if self.commands else None
            case _:
                self._noticed(node)
                self._inside(node, depth)

    def _inside(self, node: Node, depth: int) -> None:
        for child in node.children if node.child_count else ():
            self.visit(child, depth - 1)

    def _noticed(self, node: Node) -> None:
        """What a node says besides what is in it."""
        if node.type == "ERROR" or node.is_missing:
            self.unread = self.unread or "its syntax is not understood"
        elif node.type in _SUBSTITUTIONS or (node.type == "expansion" and not _BARE.fullmatch(_written(node))):
            self.expansions.append(_written(node))

    def _command(self, node: Node, depth: int) -> None:
        source, self.source = self.source, None
        words: list[Word] = []
        stdin = None
        for child in node.children:
            match child.type:
                case "variable_assignment" | "file_redirect":
                    self._inside(child, depth)
                case "herestring_redirect":
                    stdin = "".join(word.text for word in self._words(child.children[-1], depth))
                case _:
                    words += self._words(child, depth)
        if len(words) > MOST_WORDS:  # a list in a variable, many times: it would grow with each
            self.unread = self.unread or f"only the first {MOST_WORDS} words of a command are read"
        if words:
            self.commands.append(Command(tuple(words[:MOST_WORDS]), _written(node), stdin, source))

    def _redirected(self, node: Node, depth: int) -> None:
        first = len(self.commands)
        for child in node.children:
            if child.type == "heredoc_redirect" and len(self.commands) > first:
                self.commands[-1] = replace(self.commands[-1], stdin=self._document(child))
            self.visit(child, depth - 1)

    def _document(self, node: Node) -> str:
        text = "".join(_written(child) for child in node.children if child.type == "heredoc_body")
        shelved = _SHELVED.match(text)
        number = int(shelved[1]) if shelved else len(self.shelf)
        return self.shelf[number] if number < len(self.shelf) else text

    def _assignment(self, node: Node, depth: int) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            self.variables[_written(name)] = self._words(value, depth) if value is not None else (Word(""),)

    def _loop(self, node: Node, depth: int) -> None:
        """A variable that stands for several words in turn stands for all of them."""
        values = [word for value in node.children_by_field_name("value") for word in self._words(value, depth)]
        variable = node.child_by_field_name("variable")
        if variable is not None and len(values) <= MOST_WORDS:
            self.variables[_written(variable)] = tuple(values) or (Word("$@", known=False),)
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                self.visit(child, depth - 1)

    def _words(self, node: Node, depth: int) -> tuple[Word, ...]:
        """The words that a node stands for: several where braces or a variable say so."""
        inner = node.children[0] if node.type == "command_name" and node.child_count == 1 else node
        if several := self._several(inner):
            return several
        word = self._joined(self._pieces(inner, depth))
        braces = _BRACES.fullmatch(word.text) if inner.type == "concatenation" and "{" in _written(inner) else None
        if braces:
            return tuple(replace(word, text=f"{braces[1]}{middle}{braces[3]}") for middle in braces[2].split(","))
        return (word,)

    def _several(self, node: Node) -> tuple[Word, ...]:
        only = node.children[1] if node.type == "string" and node.child_count == 3 else node
        name = _BARE.fullmatch(_written(only)) if only.type in {"simple_expansion", "expansion"} else None
        return self.variables.get(name[1] or name[2], ()) if name else ()

    def _joined(self, pieces: Iterable[Word]) -> Word:
        every = list(pieces)
        text = "".join(piece.text for piece in every)
        known = all(piece.known for piece in every) and len(text) <= _LONGEST_WORD  # a=$a$a doubles each time
        return Word(text[:_LONGEST_WORD], known, any(piece.glob for piece in every))

    def _pieces(self, node: Node, depth: int) -> Iterator[Word]:
        written = _written(node)
        match node.type:
            case "word":
                yield Word(_ESCAPED.sub(_kept, written), glob=bool(_GLOB.search(written)))
            case "raw_string":
                yield Word(written[1:-1])
            case "ansi_c_string":
                yield Word(_ESCAPED_IN_ANSI.sub(_ansi, written[2:-1]))
            case "string":
                yield from self._quoted(node, depth)
            case "string_content":
                yield Word(_ESCAPED_IN_QUOTES.sub(_kept, written))
            case "concatenation":
                for child in node.children:
                    yield from self._pieces(child, depth)
            case (
                "simple_expansion" | "expansion" | "command_substitution" | "process_substitution" | "brace_expression"
            ):
                self.visit(node, depth - 1)
                yield self._expanded(node)
            case _:
                self._noticed(node)
                yield Word(written, known=node.type not in _ARITHMETIC)

    def _quoted(self, node: Node, depth: int) -> Iterator[Word]:
        """Blanks at the ends of what is quoted belong to no node of the grammar."""
        whole, at = node.text or b"", 1
        for child in node.children[1:-1]:
            begin, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
            yield Word(whole[at:begin].decode(errors="replace"))
            yield from self._pieces(child, depth)
            at = end
        yield Word(whole[at:-1].decode(errors="replace"))

    def _expanded(self, node: Node) -> Word:
        written = _written(node)
        name = _BARE.fullmatch(written)
        values = self.variables.get(name[1] or name[2], ()) if name else ()
        if len(values) == 1:
            return values[0]
        if _HERE.match(written):
            return Word(".")
        temporary = _TEMPORARY.match(written) or written in {"$TMPDIR", "${TMPDIR}"}
        return Word("/tmp/$", known=False) if temporary else Word(written, known=False)  # noqa: S108 - a sandbox's own


def _written(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _kept(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _ansi(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ANSI.get(code, code)
