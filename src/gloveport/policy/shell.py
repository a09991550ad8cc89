"""What a text means to a shell: the commands in it, their words without their quoting. For explanations only.

The grammar is tree-sitter's, which is written in C, holds the interpreter lock, and where a text has errors takes time
and memory that grow with the square of its length. So a text is read up to ``MOST_BYTES``, here documents aside, and
``DEEPEST`` levels; of what lies beyond only that it is there is said. Nothing raises.

A word that depends on what a program does is not known. Variables that the text itself sets are, until what they stand
for comes to ``MOST_EXPANDED`` characters: a list in a loop would grow with each command.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gloveport.policy.commands import Command, Scope, Variables, Word
from gloveport.policy.documents import shelved, without_documents
from gloveport.policy.quoting import of_ansi, of_quoted, unescaped

MOST_BYTES: Final = 2048
"""Of 25,000 hostile texts of this size the worst took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or no end."""
DEEPEST: Final = 40
MOST_EXPANDED: Final = 8192
_LONGEST_WORD: Final = 4096
_QUOTED: Final = 3
"""The parts of a string that holds one thing."""

_BASH: Final = Language(tree_sitter_bash.language())
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_ASCII: Final = bytes(range(128)) + b"_" * 128
"""What the grammar is shown of a byte: it looks characters up in a table of 256, and others end the process."""
_GLOB = re.compile(r"(?<!\\)[*?[]")
_BARE = re.compile(r"\$\{(\w+)(?:\[[@*]\])?\}|\$(\w+)")
_TEMPORARY = re.compile(r"(?:\$\(|`)\s*mktemp\b[^;&|]*")
_HERE = re.compile(r"(?:\$\(|`)\s*pwd\b[^;&|]*|\$\{?PWD\}?")
_TEMPORARY_DIRECTORY = re.compile(r"\$\{TMPDIR(?::?-[\w/]*)?\}|\$TMPDIR")
_PLAIN = re.compile(f"{_BARE.pattern}|{_TEMPORARY_DIRECTORY.pattern}")
_BLANK = re.compile(r"[ \t\n]+")
_SUBSTITUTED = re.compile(r"\$\(|`")
_ARITHMETIC = {"arithmetic_expansion"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_SCOPES = _SUBSTITUTIONS | {"subshell", "if_statement", "while_statement", "case_statement", "function_definition"}
"""What bash runs in a shell of its own, and what it may not run at all."""
_CUTS = {">", ">|"}
_WRITES_NOTHING = {(), (":",), ("true",), ("cat", "/dev/null"), ("echo", "-n")}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text means.

    Attributes:
        commands: In the order in which they are written, those of substitutions before the one they stand in.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why something of it could not be read; empty where all could.
        room: For how many characters variables may still stand, in other texts.
    """

    commands: tuple[Command, ...] = ()
    expansions: tuple[str, ...] = ()
    unread: str = ""
    room: int = MOST_EXPANDED


def read(
    text: str,
    stdin: str | None = None,
    scope: Scope | None = None,
    room: int = MOST_EXPANDED,
    variables: Variables | None = None,
) -> Reading:
    """Read a text as bash does.

    Args:
        text: What a shell is given.
        stdin: What its commands read that read nothing else; None where that is not known.
        scope: What the text stands in.
        room: For how many characters variables may stand.
        variables: Those that are set already.
    """
    text = text.encode(errors="replace").decode()
    shelf: list[str] = []
    if len(text) > MOST_BYTES:
        text = without_documents(text, shelf)
    source = text.encode().replace(b"\0", b" ")
    reader = _Reader(source[:MOST_BYTES], shelf, stdin, scope or Scope(), room, dict(variables or {}))
    if len(source) > MOST_BYTES:
        reader.unread = f"only its first {MOST_BYTES} bytes are read"
    reader.visit(Parser(_BASH).parse(reader.written.translate(_ASCII)).root_node, DEEPEST)
    return Reading(tuple(reader.commands), tuple(reader.expansions), reader.unread, reader.room)


@dataclass(slots=True)
class _Reader:
    """Walks a tree once. What it has found is in its fields."""

    written: bytes
    shelf: list[str]
    stdin: str | None
    scope: Scope
    room: int
    variables: dict[str, tuple[Word, ...]]
    commands: list[Command] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
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
                self._scoped(node, depth, node.type in _SCOPES)

    def _scoped(self, node: Node, depth: int, closed: bool) -> None:  # noqa: FBT001
        """What is in a node; a change of the directory stays there if it is closed."""
        outer = self.scope
        self.scope = Scope(outer) if closed else outer
        self._inside(node, depth)
        self.scope = outer

    def _written(self, node: Node) -> str:
        return self.written[node.start_byte : node.end_byte].decode(errors="replace")

    def _inside(self, node: Node, depth: int) -> None:
        outer, children = self.scope, node.children if node.child_count else []
        for child, following in zip_longest(children, children[1:]):
            alone = node.type == "pipeline" or (following is not None and following.type == "&")
            self.scope = Scope(outer) if alone else outer
            self.visit(child, depth - 1)
        self.scope = outer

    def _noticed(self, node: Node) -> None:
        """What a node says besides what is in it."""
        if node.type == "ERROR" or node.is_missing:
            self.unread = self.unread or "its syntax is not understood"
        elif node.type in _SUBSTITUTIONS or (node.type == "expansion" and not _PLAIN.fullmatch(self._written(node))):
            self.expansions.append(self._written(node))

    def _command(self, node: Node, depth: int) -> None:
        source, self.source = self.source, None
        words: list[Word] = []
        stdin = self.stdin if source is None else None
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    self._inside(child, depth)
                case "file_redirect":
                    self._inside(child, depth)
                    stdin = None if child.children[0].type == "<" else stdin
                case "herestring_redirect":
                    stdin = "".join(word.text for word in self._words(child.children[-1], depth))
                case _:
                    words += self._words(child, depth)
        if words:
            self.commands.append(Command(tuple(words), self._written(node), stdin, source, self.scope, self.variables))

    def _redirected(self, node: Node, depth: int) -> None:
        first = len(self.commands)
        outer = self.stdin
        if any(child.type == "file_redirect" and child.children[0].type == "<" for child in node.children):
            self.stdin = None
        for child in node.children:
            if child.type == "heredoc_redirect" and len(self.commands) > first:
                self.commands[-1] = replace(self.commands[-1], stdin=self._document(child))
            self.visit(child, depth - 1)
        self.stdin = outer
        self._cut(node, tuple(word.text for command in self.commands[first:] for word in command.words), depth)

    def _cut(self, node: Node, words: tuple[str, ...], depth: int) -> None:
        """Note a redirection that leaves nothing in a file as a command of its own."""
        targets = [child for child in node.children if child.type == "file_redirect" and _operator(child) in _CUTS]
        if targets and words in _WRITES_NOTHING:
            cut = [word for target in targets for word in self._words(target.children[-1], depth)]
            self.commands.append(Command((Word(">"), *cut), self._written(node), scope=self.scope))

    def _document(self, node: Node) -> str:
        return shelved(
            "".join(self._written(child) for child in node.children if child.type == "heredoc_body"), self.shelf
        )

    def _assignment(self, node: Node, depth: int) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            self.variables[self._written(name)] = tuple(self._values(value, depth)) or (Word(""),)

    def _values(self, value: Node | None, depth: int) -> Iterator[Word]:
        if value is not None:
            for each in value.named_children if value.type == "array" else [value]:
                yield from self._words(each, depth)

    def _loop(self, node: Node, depth: int) -> None:
        """A variable that stands for several words in turn stands for all of them."""
        values = [word for value in node.children_by_field_name("value") for word in self._words(value, depth)]
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self.variables[self._written(variable)] = tuple(values) or (Word("$@", known=False),)
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                self.visit(child, depth - 1)

    def _words(self, node: Node, depth: int) -> tuple[Word, ...]:
        """The words that a node stands for: several where braces or a variable say so."""
        inner = node.children[0] if node.type == "command_name" and node.child_count == 1 else node
        if several := self._several(inner):
            return several
        word = self._joined(self._pieces(inner, depth))
        braces = _BRACES.fullmatch(word.text) if inner.type == "concatenation" and "{" in self._written(inner) else None
        if braces:
            every = [f"{braces[1]}{middle}{braces[3]}" for middle in braces[2].split(",")]
            if self._has_room(sum(map(len, every))):
                return tuple(replace(word, text=text) for text in every)
        return (word,)

    def _several(self, node: Node) -> tuple[Word, ...]:
        """The words of a variable. Bash splits them at blanks where they are not quoted."""
        quoted = node.type == "string" and node.child_count == _QUOTED
        only = node.children[1] if quoted else node
        name = _BARE.fullmatch(self._written(only)) if only.type in {"simple_expansion", "expansion"} else None
        values = self.variables.get(name[1] or name[2], ()) if name else ()
        if not self._has_room(sum(len(value.text) + 1 for value in values)):
            return ()
        return values if quoted else tuple(piece for value in values for piece in _split(value))

    def _has_room(self, characters: int) -> bool:
        """Take room for what an expansion stands for. Without, it is not known, and what is written stays."""
        if characters > self.room:
            self.unread = self.unread or f"only {MOST_EXPANDED} characters of what variables stand for are read"
            return False
        self.room -= characters
        return True

    def _joined(self, pieces: Iterable[Word]) -> Word:
        every = list(pieces)
        text = "".join(piece.text for piece in every)
        known = all(piece.known for piece in every) and len(text) <= _LONGEST_WORD  # a=$a$a doubles each time
        return Word(text[:_LONGEST_WORD], known, any(piece.glob for piece in every))

    def _pieces(self, node: Node, depth: int) -> Iterator[Word]:
        written = self._written(node)
        match node.type:
            case "word":
                yield Word(unescaped(written), glob=bool(_GLOB.search(written)))
            case "raw_string":
                yield Word(written[1:-1])
            case "ansi_c_string":
                yield Word(of_ansi(written[2:-1]))
            case "string":
                yield from self._quoted(node, depth)
            case "string_content":
                yield Word(of_quoted(written))
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
        whole, at = self.written[node.start_byte : node.end_byte], 1
        for child in node.children[1:-1]:
            begin, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
            yield Word(whole[at:begin].decode(errors="replace"))
            yield from self._pieces(child, depth)
            at = end
        yield Word(whole[at:-1].decode(errors="replace"))

    def _expanded(self, node: Node) -> Word:
        written = self._written(node)
        name = _BARE.fullmatch(written)
        values = self.variables.get(name[1] or name[2], ()) if name else ()
        if len(values) == 1 and self._has_room(len(values[0].text)):
            return values[0]
        if _HERE.match(written):
            return Word(".")
        if _TEMPORARY_DIRECTORY.fullmatch(written):
            return Word("/tmp")  # noqa: S108 - a sandbox's own
        return Word("/tmp/tmp.$" if _TEMPORARY.match(written) else written, known=False)  # noqa: S108


def _operator(redirect: Node) -> str:
    return next((child.type for child in redirect.children if child.type != "file_descriptor"), "")


def _split(word: Word) -> Iterator[Word]:
    pieces = [] if _SUBSTITUTED.search(word.text) else [piece for piece in _BLANK.split(word.text) if piece]
    yield from (replace(word, text=piece) for piece in pieces or [word.text])
