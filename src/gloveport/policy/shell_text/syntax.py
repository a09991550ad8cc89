"""Finds the simple commands in a text, and their words without their quoting, with tree-sitter's grammar of bash.

The grammar is written in C, holds the interpreter lock, and where a text has errors takes time and memory that grow
with the square of its length. So a text is read up to ``MOST_BYTES``, here documents aside, and ``DEEPEST`` levels; of
what lies beyond only that it is there is said. Nothing raises.

A word that depends on what a program does is not known. Variables that the text itself sets are, until what they stand
for comes to ``MOST_EXPANDED`` characters: a list in a loop would grow with each command.
"""

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gloveport.policy.shell_text.facts import MOST_EXPANDED, Facts, ShellState, SimpleCommand
from gloveport.policy.shell_text.words import Word, unescape, unescape_ansi, unescape_quoted

MOST_BYTES: Final = 2048
"""Of 25,000 hostile texts of this size the worst took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or no end."""
DEEPEST: Final = 40
_LONGEST_WORD: Final = 4096
_LONG_DOCUMENT: Final = 200
_QUOTED: Final = 3
"""The parts of a string that holds one thing."""

_BASH: Final = Language(tree_sitter_bash.language())
_ASCII: Final = bytes(range(128)) + b"_" * 128
"""What the grammar is shown of a byte: it looks characters up in a table of 256, and others end the process."""
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([A-Za-z_]\w*)")
_MARK = re.compile(r"\A\t*\x01(\d+)\n?\Z")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_BARE = re.compile(r"\$\{(\w+)(?:\[[@*]\])?\}|\$(\w+)")
_TEMPORARY = re.compile(r"(?:\$\(|`)\s*mktemp\b[^;&|]*")
_HERE = re.compile(r"(?:\$\(|`)\s*pwd\b[^;&|]*|\$\{?PWD\}?")
_TEMPORARY_DIRECTORY = re.compile(r"\$\{TMPDIR(?::?-[\w/]*)?\}|\$TMPDIR")
_BLANK = re.compile(r"[ \t\n]+")
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_SCOPES = _SUBSTITUTIONS | {"subshell", "if_statement", "while_statement", "case_statement", "function_definition"}
"""What bash runs in a shell of its own, and what it may not run at all: a change of the directory ends with it."""
_WRITES_NOTHING = {(), (":",), ("true",), ("cat", "/dev/null"), ("echo", "-n")}


def read_commands(
    text: str, facts: Facts, shell: ShellState, stdin: str | None, on_command: Callable[[SimpleCommand], None]
) -> None:
    """Call ``on_command`` for each command of a text, as bash comes to them. It may change the shell's directory.

    Args:
        text: What a shell is given.
        facts: Where expansions, and what can't be read, are noted.
        shell: The shell that reads it.
        stdin: What its commands read that read nothing else; None where that is not known.
        on_command: Called with each command.
    """
    documents: list[str] = []
    text = text.encode(errors="replace").decode().replace("\0", " ")
    source = (_without_documents(text, documents) if len(text) > MOST_BYTES else text).encode()
    if len(source) > MOST_BYTES:
        facts.unread = facts.unread or f"only its first {MOST_BYTES} bytes are read"
    reader = _Reader(source[:MOST_BYTES], documents, facts, shell, stdin, on_command)
    reader.visit(Parser(_BASH).parse(reader.source.translate(_ASCII)).root_node, DEEPEST)


def _without_documents(text: str, documents: list[str]) -> str:
    """Put a mark in the place of each long here document, which may be long, and means nothing to the grammar.

    By lines, without a grammar: a text that is made to look so is not read, which is not worse than a longer one.
    """
    kept: list[str] = []
    body: list[str] = []
    end = ""
    for line in [*text.split("\n"), None]:
        if end and line is not None and line.lstrip("\t") != end:
            body.append(line)
            continue
        whole = "\n".join([*body, ""])
        if len(whole) > _LONG_DOCUMENT:
            documents.append(whole)
            body = [f"\x01{len(documents) - 1}"]
        start = _DOCUMENT.search(line) if line is not None and not end else None
        kept += body if line is None else [*body, line]
        end, body = start[1] if start else "", []
    return "\n".join(kept)


class _Reader:
    """Walks a tree once."""

    def __init__(
        self,
        source: bytes,
        documents: list[str],
        facts: Facts,
        shell: ShellState,
        stdin: str | None,
        on_command: Callable[[SimpleCommand], None],
    ) -> None:
        self.source, self.documents, self.facts, self.shell = source, documents, facts, shell
        self.stdin, self.on_command = stdin, on_command
        self.commands: list[SimpleCommand] = []
        self.piped: SimpleCommand | None = None
        self.documents_of: dict[int, str] = {}

    def visit(self, node: Node, depth: int) -> None:
        if not depth:
            self.facts.unread = "it is nested too deeply to be read"
            return
        outer, outer_stdin = self.shell.directory, self.stdin
        if node.id in self.documents_of:
            self.stdin, self.piped = self.documents_of[node.id], None
        match node.type:
            case "command":
                self._read_command(node, depth)
            case "redirected_statement":
                self._read_redirected(node, depth)
            case "variable_assignment":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                values = () if value is None else value.named_children if value.type == "array" else (value,)
                words = tuple(word for each in values for word in self._words(each, depth))
                if name is not None:
                    self.shell.variables[self._text(name)] = words or (Word(""),)
            case "for_statement":
                self._read_loop(node, depth)
            case "|" | "|&":
                self.piped = self.commands[-1] if self.commands else None
            case _:
                self._note(node)
                self._visit_children(node, depth)
        self.stdin = outer_stdin
        if node.type in _SCOPES:
            self.shell.directory = outer

    def _visit_children(self, node: Node, depth: int) -> None:
        for child, following in zip_longest(node.children, node.children[1:]):
            outer = self.shell.directory
            self.visit(child, depth - 1)
            if node.type == "pipeline" or (following is not None and following.type == "&"):
                self.shell.directory = outer

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def _note(self, node: Node) -> None:
        """Note what a node says besides what is in it."""
        if node.type == "ERROR" or node.is_missing:
            self.facts.unread = self.facts.unread or "its syntax is not understood"
        elif node.type in _SUBSTITUTIONS or (
            node.type == "expansion" and not any(p.fullmatch(self._text(node)) for p in (_BARE, _TEMPORARY_DIRECTORY))
        ):
            self.facts.expansions.append(self._text(node))

    def _read_command(self, node: Node, depth: int) -> None:
        piped, self.piped = self.piped, None
        words: list[Word] = []
        stdin = self.stdin if piped is None else None
        for child in node.children:
            match child.type:
                case "variable_assignment" | "file_redirect":
                    self._visit_children(child, depth)
                    stdin = None if child.children[0].type == "<" else stdin
                case "herestring_redirect":
                    stdin = "".join(word.text for word in self._words(child.children[-1], depth))
                case _:
                    words += self._words(child, depth)
        if words:
            self._start(SimpleCommand(tuple(words), self._text(node), stdin, piped))

    def _start(self, command: SimpleCommand) -> None:
        self.commands.append(command)
        self.on_command(command)

    def _read_redirected(self, node: Node, depth: int) -> None:
        outer, first = self.stdin, len(self.commands)
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child != body]
        for child in redirects:
            if child.type == "heredoc_redirect":
                reads = body
                while reads is not None and reads.type in {"list", "pipeline"}:  # a document is for its last command
                    reads = reads.named_children[-1]
                self.documents_of[reads.id if reads is not None else 0] = self._document(child)
            elif child.type == "file_redirect" and child.children[0].type == "<":
                self.stdin = None
        if body is not None:
            self.visit(body, depth - 1)
        self.stdin = outer
        for child in redirects:
            self.visit(child, depth - 1)
        # a redirection that leaves nothing in a file counts as a command of its own
        cuts = [child for child in redirects if child.type == "file_redirect" and _operator(child) in {">", ">|"}]
        if cuts and tuple(word.text for command in self.commands[first:] for word in command.words) in _WRITES_NOTHING:
            targets = [word for each in cuts for word in self._words(each.children[-1], depth)]
            self._start(SimpleCommand((Word(">"), *targets), self._text(node)))

    def _document(self, node: Node) -> str:
        text = "".join(self._text(child) for child in node.children if child.type == "heredoc_body")
        mark = _MARK.match(text)
        return self.documents[int(mark[1])] if mark and int(mark[1]) < len(self.documents) else text

    def _read_loop(self, node: Node, depth: int) -> None:
        """A variable that stands for several words in turn stands for all of them."""
        values = [word for value in node.children_by_field_name("value") for word in self._words(value, depth)]
        if (variable := node.child_by_field_name("variable")) is not None:
            self.shell.variables[self._text(variable)] = tuple(values) or (Word("$@", known=False),)
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                self.visit(child, depth - 1)

    def _words(self, node: Node, depth: int) -> tuple[Word, ...]:
        """The words that a node stands for: several where braces or a variable say so."""
        inner = node.children[0] if node.type == "command_name" and node.child_count == 1 else node
        quoted = inner.type == "string" and inner.child_count == _QUOTED
        if several := self._values(inner.children[1] if quoted else inner):
            # bash splits what a variable stands for at blanks, unless it is quoted
            return several if quoted else tuple(piece for value in several for piece in _split(value))
        pieces = list(self._pieces(inner, depth))
        text = "".join(piece.text for piece in pieces)
        known = all(piece.known for piece in pieces) and len(text) <= _LONGEST_WORD  # a=$a$a doubles each time
        word = Word(text[:_LONGEST_WORD], known)
        braces = _BRACES.fullmatch(word.text) if inner.type == "concatenation" and "{" in self._text(inner) else None
        if braces:
            every = [f"{braces[1]}{middle}{braces[3]}" for middle in braces[2].split(",")]
            if self._has_room(sum(map(len, every))):
                return tuple(Word(text, known) for text in every)
        return (word,)

    def _values(self, node: Node) -> tuple[Word, ...]:
        """What a variable stands for; nothing where that is not known, or there is no room for it."""
        name = _BARE.fullmatch(self._text(node)) if node.type in {"simple_expansion", "expansion"} else None
        values = self.shell.variables.get(name[1] or name[2], ()) if name else ()
        return values if self._has_room(sum(len(value.text) + 1 for value in values)) else ()

    def _has_room(self, characters: int) -> bool:
        """Take room for what an expansion stands for. Without, it is not known, and what is written stays."""
        if characters > self.facts.expandable:
            why = f"only {MOST_EXPANDED} characters of what variables stand for are read"
            self.facts.unread = self.facts.unread or why
            return False
        self.facts.expandable -= characters
        return True

    def _pieces(self, node: Node, depth: int) -> Iterator[Word]:
        text = self._text(node)
        match node.type:
            case "word":
                yield Word(unescape(text))
            case "raw_string":
                yield Word(text[1:-1])
            case "ansi_c_string":
                yield Word(unescape_ansi(text[2:-1]))
            case "string_content":
                yield Word(unescape_quoted(text))
            case "string":
                at = node.start_byte + 1
                for child in node.children[1:-1]:  # blanks at the ends of what is quoted belong to no node
                    yield Word(self.source[at : child.start_byte].decode(errors="replace"))
                    yield from self._pieces(child, depth)
                    at = child.end_byte
                yield Word(self.source[at : node.end_byte - 1].decode(errors="replace"))
            case "concatenation":
                for child in node.children:
                    yield from self._pieces(child, depth)
            case (
                "simple_expansion" | "expansion" | "brace_expression" | "command_substitution" | "process_substitution"
            ):
                self.visit(node, depth - 1)
                yield self._expand(node, text)
            case _:
                self._note(node)
                yield Word(text, known=node.type != "arithmetic_expansion")

    def _expand(self, node: Node, text: str) -> Word:
        if len(values := self._values(node)) == 1:
            return values[0]
        if _HERE.match(text):
            return Word(".")
        if _TEMPORARY_DIRECTORY.fullmatch(text):
            return Word("/tmp")  # noqa: S108 - a sandbox's own
        return Word("/tmp/tmp.$" if _TEMPORARY.match(text) else text, known=False)  # noqa: S108


def _operator(redirect: Node) -> str:
    return next((child.type for child in redirect.children if child.type != "file_descriptor"), "")


def _split(word: Word) -> Iterator[Word]:
    pieces = [] if "$(" in word.text or "`" in word.text else [piece for piece in _BLANK.split(word.text) if piece]
    yield from (Word(piece, word.known) for piece in pieces or [word.text])
