"""Reads the text of a command with tree-sitter's grammar of bash: which programs it starts, and which program texts.

The grammar is written in C, holds the interpreter lock, and where a text has errors takes time and memory that grow
with the square of its length. So a text is read up to ``MOST_BYTES``, long here documents aside, and so much in all;
what is not read is scanned for words. Nothing raises.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final, TypeAlias

import tree_sitter_bash
from msgspec import Struct, field
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.programs import ProgramRun, find_runner, inline_text, reads_stdin, started_words
from gloveport.policy.shell_text.words import Word, unescape, unescape_ansi

MOST_BYTES: Final = 2048
"""Of 25,000 hostile texts of this size the worst took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or no end."""
_MOST_ROOM: Final = 32_768
"""Characters of words and of nested texts that are read of one command; a program counts as so many, too."""
_PROGRAM_ROOM: Final = 64
_MOST_TURNS: Final = 8
_LONG_DOCUMENT: Final = 200

_BASH: Final = Language(tree_sitter_bash.language())
_ASCII: Final = bytes(range(128)) + b"_" * 128
"""What the grammar is shown of a byte: it looks characters up in a table of 256, and others end the process."""
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([A-Za-z_]\w*)")
_PIPE = re.compile(rb"(?<!\|)\|&?\s*\Z")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_VARIABLE = re.compile(r"\$\{(\w+)(?:\[[@*]\])?\}|\$(\w+)")
_PLAIN_EXPANSION = re.compile(r"\$\{\w+(?:\[[@*]\])?\}|\$\{TMPDIR:?-[\w/]*\}")
_SANDBOX_PATHS: Final = (
    (re.compile(r"(?:\$\(|`)\s*pwd\b[^;&|]*|\$\{?PWD\}?"), Word(".")),
    (re.compile(r"\$\{TMPDIR(?::?-[\w/]*)?\}|\$TMPDIR"), Word("/tmp")),  # noqa: S108 - a sandbox's own
    (re.compile(r"(?:\$\(|`)\s*mktemp\b[^;&|]*"), Word("/tmp/tmp.$", known=False)),  # noqa: S108
)
_SUBSTITUTIONS: Final = {"command_substitution", "process_substitution"}
_EXPANSIONS: Final = _SUBSTITUTIONS | {"simple_expansion", "expansion", "brace_expression", "arithmetic_expansion"}
_SCOPES: Final = _SUBSTITUTIONS | {
    "subshell", "if_statement", "while_statement", "case_statement", "function_definition",
}  # fmt: skip
"""What bash runs in a shell of its own, and what it may not run at all: a change of the directory ends with it."""
_NO_WORDS: Final = {"variable_assignment", "file_redirect", "herestring_redirect"}
_GROUPS: Final = {"list", "negated_command", "subshell", "compound_statement"}
_WRITES_NOTHING: Final = {"", ":", "true", "cat /dev/null", "echo -n"}

Values: TypeAlias = dict[str, Word | None]
"""What variables stand for; None for one that stands for several words."""


class Facts(Struct):
    """What a command would do, as far as its text tells.

    Attributes:
        runs: In the order in which they are written.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why something of it was not read, so that words are looked for in it; empty where all was.
        texts: The command, what it is given to read, and the texts for shells in it.
    """

    runs: list[ProgramRun] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    texts: list[str] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Note that something is not read."""
        self.unread = self.unread or why


class _TooMuchError(Exception):
    """There is no room to read more."""


def read_programs(command: str, directory: Directory, stdin: str = "") -> Facts:
    """Tell what a command would do, in a directory, with what it is given to read. Raises nothing."""
    reader = _Reader(directory, stdin)
    try:
        reader.read(command)
        for place, text in reader.traps:  # at the end, for variables may be set after a trap
            reader.directory = place
            reader.read(text)
    except _TooMuchError:
        reader.facts.skip("it is too much to be read")
    return reader.facts


class _Reader:
    """Goes through a text once. A command in a loop is taken once for each of the first values of the loop."""

    def __init__(self, directory: Directory, stdin: str) -> None:
        self.facts, self.directory, self.room, self.source = Facts(texts=[stdin]), directory, _MOST_ROOM, b""
        self.variables: dict[str, tuple[Word | None, ...]] = {}
        self.traps: list[tuple[Directory, str]] = []
        self.fed: set[str] = set()

    def read(self, text: str) -> None:
        """Read a text for a shell, in its directory and with its variables."""
        self.facts.texts.append(text)
        text = text.encode(errors="replace").decode().replace("\0", " ")
        source = (_without_documents(text) if len(text) > MOST_BYTES else text).encode()
        outer, self.source = self.source, source[:MOST_BYTES]
        self._take_room(len(self.source) + _PROGRAM_ROOM)
        root = Parser(_BASH).parse(self.source.translate(_ASCII)).root_node
        if len(source) > MOST_BYTES:
            self.facts.skip(f"only its first {MOST_BYTES} bytes are read")
        if root.has_error:
            self.facts.skip("its syntax is not understood")
        ends: list[tuple[int, Directory]] = []
        for node in _walk(root):
            while ends and node.start_byte >= ends[-1][0]:
                _, self.directory = ends.pop()
            before = self.directory
            self._read_node(node)
            if self.directory != before:
                ends.append((_scope_end(node), before))
        self.source = outer

    def _take_room(self, amount: int) -> None:
        self.room -= amount
        if self.room < 0:
            raise _TooMuchError

    def _text(self, node: Node | None) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace") if node is not None else ""

    def _read_node(self, node: Node) -> None:
        text = self._text(node)
        match node.type:
            case "command":
                self._read_command(node, [], _word_nodes(node))
            case "redirected_statement":  # one that leaves nothing in a file counts as a command of its own
                redirects = [child for child in node.children if child.type == "file_redirect"]
                cuts = [child for child in redirects if any(part.type in {">", ">|"} for part in child.children)]
                if cuts and self._writes_nothing(node.child_by_field_name("body")):
                    self._read_command(node, [Word(">")], [cut.children[-1] for cut in cuts])
            case "variable_assignment" if node.parent is None or node.parent.type != "command":
                name, value = self._text(node.child_by_field_name("name")), node.child_by_field_name("value")
                turns = self._turns(value, [value])
                self.variables[name] = tuple(words[0] if len(words) == 1 else None for words in turns)
            case "for_statement":
                listed = [
                    turn for value in node.children_by_field_name("value") for turn in self._turns(value, [value])
                ]
                values = tuple(word for words in listed for word in words)
                self.variables[self._text(node.child_by_field_name("variable"))] = values or (Word("$@", known=False),)
            case kind if kind in _SUBSTITUTIONS or (kind == "expansion" and not _PLAIN_EXPANSION.fullmatch(text)):
                self.facts.expansions.append(text)
            case _:
                pass

    def _writes_nothing(self, body: Node | None) -> bool:
        while body is not None and body.type in _GROUPS and body.named_children:
            body = body.named_children[-1]
        turns = self._turns(body, _word_nodes(body)) if body is None or body.type == "command" else []
        return any(" ".join(word.text for word in words) in _WRITES_NOTHING for words in turns)

    def _turns(self, whole: Node | None, parts: Sequence[Node | None]) -> list[list[Word]]:
        """The words of parts of a node, once for each of the first values of the variables in it."""
        named = [found[1] or found[2] for found in _VARIABLE.finditer(self._text(whole))]
        names = [name for name in dict.fromkeys(named) if name in self.variables]
        turns = list(islice(product(*(self.variables[name] for name in names)), _MOST_TURNS + 1))
        if len(turns) > _MOST_TURNS:
            self.facts.skip(f"only the first {_MOST_TURNS} values of a loop are read")
        known = [dict(zip(names, turn, strict=True)) for turn in turns[:_MOST_TURNS]]
        return [[word for part in parts for word in self._words(part, values)] for values in known]

    def _read_command(self, node: Node, words: list[Word], parts: Sequence[Node]) -> None:
        before, turns = self.directory, self._turns(node, parts)
        piped = self.facts.runs[-1] if self.facts.runs and _PIPE.search(self.source, 0, node.start_byte) else None
        for more in turns:
            self._start([*words, *more], self._text(node), piped)
        if len(turns) > 1 and self.directory != before:
            self.directory = replace(before, path=None)

    def _words(self, node: Node | None, values: Values) -> list[Word]:
        """The words that a node stands for: several where braces say so, none for an array."""
        if node is None or node.type == "array":
            return [] if node else [Word("")]
        word = self._word(node, values)
        self._take_room(len(word.text))
        braces = _BRACES.fullmatch(word.text) if node.type == "concatenation" and "{" in self._text(node) else None
        if not braces:
            return [word]
        self._take_room(len(word.text) * braces[2].count(","))
        return [Word(f"{braces[1]}{middle}{braces[3]}", word.known) for middle in braces[2].split(",")]

    def _word(self, node: Node, values: Values, *, quoted: bool = False) -> Word:  # noqa: PLR0911 - one for each
        text = self._text(node)
        match node.type:
            case "word":
                return Word(unescape(text))
            case "raw_string":
                return Word(text[1:-1])
            case "ansi_c_string":
                return Word(unescape_ansi(text[2:-1]))
            case "string_content":
                return Word(unescape(text, r'[$`"\\]'))
            case "string" | "concatenation" | "command_name":
                ends = int(node.type == "string")
                at, pieces = node.start_byte + ends, []
                for child in node.children[ends : len(node.children) - ends]:
                    # blanks at the ends of what is quoted belong to no node
                    pieces.append(Word(self.source[at : child.start_byte].decode(errors="replace")))
                    pieces.append(self._word(child, values, quoted=quoted or bool(ends)))
                    at = child.end_byte
                pieces.append(Word(self.source[at : node.end_byte - ends].decode(errors="replace")))
                return Word("".join(piece.text for piece in pieces), all(piece.known for piece in pieces))
            case kind if kind in _EXPANSIONS:
                return self._expand(text, values, quoted=quoted)
            case _:
                return Word(text)

    def _expand(self, text: str, values: Values, *, quoted: bool) -> Word:
        variable = _VARIABLE.fullmatch(text)
        if variable and (name := variable[1] or variable[2]) in values:
            value = values[name]
            if value is None or (not quoted and value.known and re.search(r"\s", value.text)):  # bash makes more words
                self.facts.skip("a variable stands for several words")
            return value or Word(text, known=False)
        return next((word for form, word in _SANDBOX_PATHS if form.fullmatch(text)), Word(text, known=False))

    def _start(self, words: Sequence[Word], text: str, piped: ProgramRun | None) -> None:
        """Note the program that words start, and those that it starts."""
        pending: list[tuple[Sequence[Word], ProgramRun | None]] = [(words, None)] if words else []
        for started, origin in pending:  # which grows
            self._take_room(_PROGRAM_ROOM)
            name = started[0].text.rpartition("/")[2] if started[0].known else ""
            run = ProgramRun(name, tuple(started[1:]), text, self.directory, origin)
            self.facts.runs.append(run)
            arguments, runner = find_runner(run)
            source = inline_text(run, arguments, runner)
            if source is not None or (runner and reads_stdin(arguments, runner)):
                self._read_script(run, runner.language if runner else "sh", source)
            if name == "xargs":
                origin = piped or origin  # noqa: PLW2901 - finds the arguments
                if piped is None or piped.program in {"echo", "printf", "cat", "tee"}:
                    self.facts.skip("xargs puts commands together")
            elif name == "cd":
                targets = [word for word in arguments if not re.fullmatch(r"-[LPe@]+|--", word.text)]
                self.directory = self.directory.change(targets[0] if targets else Word("~"))
            elif name == "git" and any(re.match(r"(?i)alias\.|foreach\Z", word.text) for word in arguments):
                self.facts.skip("git is given a command of its own")
            others = started_words(run, arguments, runner)
            pending += [(each, run if name == "find" else origin) for each in others if each]

    def _read_script(self, run: ProgramRun, language: str, source: str | None) -> None:
        """Note a text that a program is given as a program, and read it where a shell does; None: what it reads."""
        if source is None and language in self.fed:  # once: what it is given may be long, and is searched for each
            return
        self.fed |= {language} if source is None else set()
        whole = "\n".join(self.facts.texts)
        known = whole + "\n" + whole.replace("\\", "") if source is None else source
        self.facts.runs.append(replace(run, program=language, arguments=(), source=known))
        if language == "sh" and source is None:
            self.facts.skip("a shell reads what it is given")
        elif language == "sh" and run.program == "trap":
            self.traps.append((self.directory, known))
        elif language == "sh":
            outer, self.variables, directory = self.variables, {}, self.directory
            self.read(known)
            self.variables = outer
            if self.directory != directory:  # which stays so after `eval`, and not after `sh -c`
                self.directory = replace(directory, path=None)


def _walk(root: Node) -> Iterator[Node]:
    """A node and all in it, as they are written."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def _word_nodes(command: Node | None) -> list[Node]:
    return [child for child in command.children if child.type not in _NO_WORDS] if command is not None else []


def _scope_end(node: Node) -> int:
    """Where a change of the directory by a command ends."""
    while node.parent is not None:
        in_background = node.next_sibling is not None and node.next_sibling.type == "&"
        if node.type in _SCOPES or node.parent.type == "pipeline" or in_background:
            return node.end_byte
        node = node.parent
    return MOST_BYTES + 1


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
