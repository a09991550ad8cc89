"""Finds the simple commands in a text, and their words without their quoting, with tree-sitter's grammar of bash.

The grammar is written in C, holds the interpreter lock, and where a text has errors takes time and memory that grow
with the square of its length. So a text is read up to ``MOST_BYTES``, long here documents aside, and ``DEEPEST``
levels; what is not read is scanned for words. Nothing raises.
"""

import re
from collections.abc import Callable
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gloveport.policy.shell_text.facts import Facts, ShellState, SimpleCommand
from gloveport.policy.shell_text.words import Word, unescape, unescape_ansi, unescape_quoted

MOST_BYTES: Final = 2048
"""Of 25,000 hostile texts of this size the worst took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or no end."""
DEEPEST: Final = 40
_MOST_TURNS: Final = 8
_LONGEST_WORD: Final = 4096
_LONG_DOCUMENT: Final = 200

_BASH: Final = Language(tree_sitter_bash.language())
_ASCII: Final = bytes(range(128)) + b"_" * 128
"""What the grammar is shown of a byte: it looks characters up in a table of 256, and others end the process."""
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([A-Za-z_]\w*)")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_BARE = re.compile(r"\$\{(\w+)(?:\[[@*]\])?\}|\$(\w+)")
_TEMPORARY = re.compile(r"(?:\$\(|`)\s*mktemp\b[^;&|]*")
_HERE = re.compile(r"(?:\$\(|`)\s*pwd\b[^;&|]*|\$\{?PWD\}?")
_TEMPORARY_DIRECTORY = re.compile(r"\$\{TMPDIR(?::?-[\w/]*)?\}|\$TMPDIR")
_EXPANSIONS = {"simple_expansion", "expansion", "brace_expression", "command_substitution", "process_substitution"}
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_SCOPES = _SUBSTITUTIONS | {"subshell", "if_statement", "while_statement", "case_statement", "function_definition"}
"""What bash runs in a shell of its own, and what it may not run at all: a change of the directory ends with it."""
_WRITES_NOTHING = {(), (":",), ("true",), ("cat", "/dev/null"), ("echo", "-n")}


def read_commands(
    text: str, facts: Facts, shell: ShellState, on_command: Callable[[SimpleCommand], None], *, fed: bool = False
) -> None:
    """Call ``on_command`` for each command of a text, as bash comes to them. It may change the shell's directory."""
    text = text.encode(errors="replace").decode().replace("\0", " ")
    text = _without_documents(text) if len(text) > MOST_BYTES else text
    source = text.encode()
    if len(source) > MOST_BYTES:
        facts.skip(f"only its first {MOST_BYTES} bytes are read", text)
    reader = _Reader(source[:MOST_BYTES], facts, shell, on_command)
    reader.visit(Parser(_BASH).parse(reader.source.translate(_ASCII)).root_node, DEEPEST, fed=fed)


def _without_documents(text: str) -> str:
    """Without long here documents: by lines, without a grammar."""
    kept: list[str] = []
    body: list[str] = []
    end = ""
    for line in [*text.split("\n"), ""]:
        if end and line.lstrip("\t") != end:
            body.append(line)
            continue
        kept += [*(body if sum(map(len, body)) <= _LONG_DOCUMENT else ()), line]
        start = None if end else _DOCUMENT.search(line)
        end, body = start[1] if start else "", []
    return "\n".join(kept + body)


class _Reader:
    """Walks a tree once, and the body of a loop once for each of its first values."""

    def __init__(
        self, source: bytes, facts: Facts, shell: ShellState, on_command: Callable[[SimpleCommand], None]
    ) -> None:
        self.source, self.facts, self.shell, self.on_command = source, facts, shell, on_command
        self.commands: list[SimpleCommand] = []
        self.piped: SimpleCommand | None = None

    def visit(self, node: Node, depth: int, *, fed: bool = False) -> None:
        if not depth or not self.facts.take_room(1):
            self.facts.skip("it is nested too deeply to be read" if not depth else "it is too much", self._all())
            return
        outer = self.shell.directory
        match node.type:
            case "command":
                self._read_command(node, depth, fed=fed)
            case "redirected_statement":
                self._read_redirected(node, depth, fed=fed)
            case "variable_assignment":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                words = [Word("")] if value is None else self._words(value, depth) if value.type != "array" else []
                if value is not None and not words:
                    self._visit_children(value, depth, fed=fed)
                if name is not None:
                    self.shell.variables[self._text(name)] = words[0] if len(words) == 1 else None
            case "for_statement":
                self._read_loop(node, depth, fed=fed)
            case "|" | "|&":
                self.piped = self.commands[-1] if self.commands else None
            case _:
                self._note(node)
                self._visit_children(node, depth, fed=fed)
        if node.type in _SCOPES:
            self.shell.directory = outer

    def _visit_children(self, node: Node, depth: int, *, fed: bool) -> None:
        for at, child in enumerate(node.children):
            outer = self.shell.directory
            self.visit(child, depth - 1, fed=fed or (at > 0 and node.type in {"pipeline", "heredoc_redirect"}))
            if node.type == "pipeline" or [each.type for each in node.children[at + 1 : at + 2]] == ["&"]:
                self.shell.directory = outer

    def _all(self) -> str:
        return self.source.decode(errors="replace")

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def _note(self, node: Node) -> None:
        """Note what a node says besides what is in it."""
        if node.type == "ERROR" or node.is_missing:
            self.facts.skip("its syntax is not understood", self._all())
        elif node.type in _SUBSTITUTIONS or (
            node.type == "expansion" and not any(p.fullmatch(self._text(node)) for p in (_BARE, _TEMPORARY_DIRECTORY))
        ):
            self.facts.expansions.append(self._text(node))

    def _read_command(self, node: Node, depth: int, *, fed: bool) -> None:
        piped, self.piped = self.piped, None
        words: list[Word] = []
        for child in node.children:
            match child.type:
                case "variable_assignment" | "file_redirect":
                    self._visit_children(child, depth, fed=False)
                    fed = fed and child.children[0].type != "<"
                case "herestring_redirect":
                    self._words(child.children[-1], depth)
                    fed = True
                case _:
                    words += self._words(child, depth)
        if words:
            self._start(SimpleCommand(tuple(words), self._text(node), fed, piped))

    def _start(self, command: SimpleCommand) -> None:
        self.commands.append(command)
        self.on_command(command)

    def _read_redirected(self, node: Node, depth: int, *, fed: bool) -> None:
        first, body = len(self.commands), node.child_by_field_name("body")
        redirects = [child for child in node.children if child != body]
        files = {_operator(child): child for child in redirects if child.type == "file_redirect"}
        given = any(child.type in {"heredoc_redirect", "herestring_redirect"} for child in redirects)
        for child in [body, *redirects] if body is not None else redirects:
            self.visit(child, depth - 1, fed=given or (fed and "<" not in files))
        # a redirection that leaves nothing in a file counts as a command of its own
        cuts = [child for child in redirects if child.type == "file_redirect" and _operator(child) in {">", ">|"}]
        if cuts and tuple(word.text for command in self.commands[first:] for word in command.words) in _WRITES_NOTHING:
            targets = [word for each in cuts for word in self._words(each.children[-1], depth)]
            self._start(SimpleCommand((Word(">"), *targets), self._text(node)))

    def _read_loop(self, node: Node, depth: int, *, fed: bool) -> None:
        """Read the body once for each of the first values."""
        values = [word for value in node.children_by_field_name("value") for word in self._words(value, depth)]
        if len(values) > _MOST_TURNS:
            self.facts.skip(f"only the first {_MOST_TURNS} values of a loop are read", self._all())
        variable = node.child_by_field_name("variable")
        for value in values[:_MOST_TURNS] or [Word("$@", known=False)]:
            if variable is not None:
                self.shell.variables[self._text(variable)] = value
            for child in node.children:
                if child.type in {"do_group", "compound_statement"}:
                    self.visit(child, depth - 1, fed=fed)
        if variable is not None and len(values) > 1:
            self.shell.variables[self._text(variable)] = None

    def _words(self, node: Node, depth: int) -> list[Word]:
        """The words that a node stands for: several where braces say so."""
        inner = node.children[0] if node.type == "command_name" and node.child_count == 1 else node
        pieces = self._pieces(inner, depth, quoted=False)
        text = "".join(piece.text for piece in pieces)
        if len(text) > _LONGEST_WORD or not self.facts.take_room(len(text)):
            self.facts.skip("its words are too long to be read", self._all())
            return [Word(self._text(inner), known=False)]
        known = all(piece.known for piece in pieces)
        braces = _BRACES.fullmatch(text) if inner.type == "concatenation" and "{" in self._text(inner) else None
        if braces and self.facts.take_room(len(text) * braces[2].count(",")):
            return [Word(f"{braces[1]}{middle}{braces[3]}", known) for middle in braces[2].split(",")]
        return [Word(text, known)]

    def _pieces(self, node: Node, depth: int, *, quoted: bool) -> list[Word]:  # noqa: PLR0911 - one for each
        text = self._text(node)
        match node.type:
            case "word":
                return [Word(unescape(text))]
            case "raw_string":
                return [Word(text[1:-1])]
            case "ansi_c_string":
                return [Word(unescape_ansi(text[2:-1]))]
            case "string_content":
                return [Word(unescape_quoted(text))]
            case "string":
                found, at = [], node.start_byte + 1
                for child in node.children[1:-1]:  # blanks at the ends of what is quoted belong to no node
                    found.append(Word(self.source[at : child.start_byte].decode(errors="replace")))
                    found += self._pieces(child, depth, quoted=True)
                    at = child.end_byte
                return [*found, Word(self.source[at : node.end_byte - 1].decode(errors="replace"))]
            case "concatenation":
                return [word for child in node.children for word in self._pieces(child, depth, quoted=quoted)]
            case kind if kind in _EXPANSIONS:
                self.visit(node, depth - 1)
                return [self._expand(text, quoted=quoted)]
            case _:
                self._note(node)
                return [Word(text, known=node.type != "arithmetic_expansion")]

    def _expand(self, text: str, *, quoted: bool) -> Word:
        name = _BARE.fullmatch(text)
        if name and (name[1] or name[2]) in self.shell.variables:
            value = self.shell.variables[name[1] or name[2]]
            if value is None or (not quoted and value.known and re.search(r"\s", value.text)):  # bash makes more words
                self.facts.skip("a variable stands for several words", self._all())
            return value or Word(text, known=False)
        if _HERE.match(text):
            return Word(".")
        if _TEMPORARY_DIRECTORY.fullmatch(text):
            return Word("/tmp")  # noqa: S108 - a sandbox's own
        return Word("/tmp/tmp.$" if _TEMPORARY.match(text) else text, known=False)  # noqa: S108


def _operator(redirect: Node) -> str:
    return next((child.type for child in redirect.children if child.type != "file_descriptor"), "")
