"""Reads the text of a command with tree-sitter's grammar of bash: which programs it starts, and which program texts.

The grammar is written in C, holds the interpreter lock, and on errors in a text takes time and memory quadratic in its
length. So at most ``MOST_BYTES`` of a text are read, not counting long here documents, and a bounded amount in all; the
rest is scanned for words. Nothing raises.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import tree_sitter_bash
from msgspec import Struct, field
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.programs import (
    ProgramRun,
    find_results,
    find_runner,
    inline_text,
    reads_stdin,
    started_words,
)
from gloveport.policy.shell_text.words import Word, options, unescape, unescape_ansi

MOST_BYTES: Final = 2048
"""The worst of 25,000 hostile texts of this size took 0.3 s and 140 MB; of 64 KiB, 22 s and 2 GB, or never ended."""
_MOST_ROOM: Final = 32_768
"""Budget of characters in words, nested texts and repeated loops; a program costs some characters, too."""
_PROGRAM_ROOM: Final = 64
_MOST_TURNS: Final = 8
_LONG_DOCUMENT: Final = 200

_BASH: Final = Language(tree_sitter_bash.language())
_ASCII: Final = bytes(range(128)) + b"_" * 128
"""Maps bytes for the grammar: it looks characters up in a table of 256 entries, and others crash the process."""
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([A-Za-z_]\w*)")
_PIPE = re.compile(rb"(?<!\|)\|&?\s*\Z")
_BRACES = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)")
_WORD_ON_TWO_LINES = re.compile(r"(?<=\S)\\\n(?=\S)")
_CHANGES_DIRECTORY = re.compile(r"env (?:-[iv0]*C|--ch).*|find -(?:exec|ok)dir", re.DOTALL)
_ENDS = re.compile(r"(?:exit|return)(?:\s|\Z)")
_VARIABLE = re.compile(r"\$\{?(\w+)(?:\[[@*]\])?\}?|(?:\$\(|`)\s*pwd\s*[)`]")
_SUBSTITUTIONS: Final = {"command_substitution", "process_substitution"}
_EXPANSIONS: Final = _SUBSTITUTIONS | {"simple_expansion", "expansion", "brace_expression", "arithmetic_expansion"}
_CONDITIONAL: Final = {"if_statement", "while_statement", "case_statement", "function_definition"}
_SCOPES: Final = _SUBSTITUTIONS | _CONDITIONAL | {"subshell"}
"""Nodes that bash runs in a subshell, or perhaps not at all."""
_NO_WORDS: Final = {"variable_assignment", "file_redirect", "herestring_redirect"}
_GROUPS: Final = {"list", "negated_command", "subshell", "compound_statement"}
_IN_SHELL: Final = {"builtin", "command", "time"}  # what starts a builtin of the shell; others start a process
_WRITES_NOTHING: Final = {"", ":", "true", "cat /dev/null", "echo -n"}

Variables: TypeAlias = dict[str, Word | None]
"""The values of variables; None for one that stands for several words."""


class Facts(Struct):
    """What a command would do, as far as its text tells.

    Attributes:
        runs: Programs and program texts; those of a nested shell text come after those of the outer text.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why a part was not read, so that it is scanned for words; empty if all was read.
        texts: The command, its input, and the texts for shells in it.
    """

    runs: list[ProgramRun] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    texts: list[str] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Note that a part is not read."""
        self.unread = self.unread or why


class _TooMuchError(Exception):
    """The budget for reading is used up."""


def read_programs(command: str, directory: Directory, stdin: str = "") -> Facts:
    """Tell what a command would do, in a directory, with its input. Raises nothing."""
    reader = _Reader(Facts(texts=[stdin]))
    reader.add_text(command, directory, {})
    try:
        for text, place, variables in reader.pending:  # which grows
            reader.read(text, place, variables)
    except _TooMuchError:
        reader.facts.skip("it is too much to be read")
    return reader.facts


class _Reader:
    """Walks a text once, and a loop once for each of its first values."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.room = facts, _MOST_ROOM
        self.pending: list[tuple[str, Directory, Variables]] = []
        self.fed: set[str] = set()

    def add_text(self, text: str, directory: Directory, variables: Variables) -> None:
        """Queue a text for a shell, to be read after this one."""
        self.facts.texts.append(text)
        self.pending.append((text, directory, variables))
        joined = _WORD_ON_TWO_LINES.sub("", text)
        if joined != text:  # bash joins the lines, where they are not quoted; the grammar takes two words
            self.pending.append((joined, directory, variables))

    def read(self, text: str, directory: Directory, variables: Variables) -> None:
        """Read a text for a shell."""
        text = text.encode(errors="replace").decode().replace("\0", " ")
        source = (_without_documents(text) if len(text) > MOST_BYTES else text).encode()
        self.source, self.directory, self.variables = source[:MOST_BYTES], directory, variables
        self._take_room(len(self.source) + _PROGRAM_ROOM)
        root = Parser(_BASH).parse(self.source.translate(_ASCII)).root_node
        if len(source) > MOST_BYTES:
            self.facts.skip(f"only its first {MOST_BYTES} bytes are read")
        if root.has_error:
            self.facts.skip("its syntax is not understood")
        scopes: list[tuple[Node, Directory]] = []  # each with the directory after it
        nodes: list[tuple[Node, Variables]] = [(root, {})]
        while nodes:
            node, turn = nodes.pop()
            self.variables |= turn
            while scopes and not scopes[-1][0].start_byte <= node.start_byte < scopes[-1][0].end_byte:
                _, self.directory = scopes.pop()
            before = self.directory
            self._read_node(node)
            if self.directory != before:
                if not (self.directory.always_exists or self._ends_on_failure(node)):
                    self.directory = replace(self.directory, path=None)
                scope = _find_scope(node)
                scopes.append((scope, replace(before, path=None) if scope.type in _CONDITIONAL else before))
            turns = self._turns(node) if node.type == "for_statement" else [{}]
            nodes += [(child, values) for values in reversed(turns) for child in reversed(node.children)]

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
                piped = self.facts.runs[-1:] if _PIPE.search(self.source, 0, node.start_byte) else []
                self._start(self._words(_word_nodes(node)), text, piped)
            case "redirected_statement":  # a redirection that empties a file counts as a program
                redirects = [child for child in node.children if child.type == "file_redirect"]
                cuts = [child for child in redirects if any(part.type in {">", ">|"} for part in child.children)]
                body = node.child_by_field_name("body")
                while body is not None and body.type in _GROUPS and body.named_children:
                    body = body.named_children[-1]
                words = self._words(_word_nodes(body)) if body is None or body.type == "command" else [Word("more")]
                if cuts and " ".join(word.text for word in words) in _WRITES_NOTHING:
                    self._start([Word(">"), *(self._word(cut.children[-1]) for cut in cuts)], text, [])
            case "variable_assignment" if node.parent is None or node.parent.type != "command":
                name, value = self._text(node.child_by_field_name("name")), node.child_by_field_name("value")
                word = Word("") if value is None else None if value.type == "array" else self._word(value)
                if word is not None and any(child.type == "+=" for child in node.children):
                    first = self.variables.get(name, Word(f"${name}", known=False))
                    word = first and Word(first.text + word.text, first.known and word.known)
                self.variables[name] = word
            case kind if kind in _SUBSTITUTIONS or (kind == "expansion" and not _VARIABLE.fullmatch(text)):
                self.facts.expansions.append(text)
            case _:
                pass

    def _ends_on_failure(self, node: Node | None) -> bool:
        """Tell whether what follows a command runs only if it succeeds."""
        after = None
        while node is not None and (after is None or after.type == "file_redirect"):
            after, node = node.next_sibling, node.parent
        return (
            after is None
            or after.type in {"&&", ")"}
            or (after.type == "||" and _ENDS.match(self._text(after.next_sibling)) is not None)
            or any(run.program == "set" and "-e" in options(run.arguments) for run in self.facts.runs)
        )

    def _turns(self, loop: Node) -> list[Variables]:
        """The value of a loop's variable in each of its first iterations."""
        name = self._text(loop.child_by_field_name("variable"))
        values = self._words(loop.children_by_field_name("value"))
        if len(values) > _MOST_TURNS:
            self.facts.skip(f"only the first {_MOST_TURNS} values of a loop are read")
        self._take_room((loop.end_byte - loop.start_byte) * min(len(values), _MOST_TURNS))
        return [{name: value} for value in values[:_MOST_TURNS] or [Word("$@", known=False)]]

    def _words(self, nodes: Sequence[Node]) -> list[Word]:
        """The words that nodes stand for: a node with braces stands for several."""
        words = []
        for node in nodes:
            word = self._word(node)
            braces = _BRACES.fullmatch(word.text) if node.type == "concatenation" and "{" in self._text(node) else None
            before, middles, after = braces.groups() if braces else (word.text, "", "")
            self._take_room(len(word.text) * middles.count(","))
            words += [Word(f"{before}{middle}{after}", word.known) for middle in middles.split(",")]
        return words

    def _word(self, node: Node, *, quoted: bool = False) -> Word:  # noqa: PLR0911 - one for each
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
                    # blanks at the ends of a quoted text belong to no node
                    pieces.append(Word(self.source[at : child.start_byte].decode(errors="replace")))
                    pieces.append(self._word(child, quoted=quoted or bool(ends)))
                    at = child.end_byte
                pieces.append(Word(self.source[at : node.end_byte - ends].decode(errors="replace")))
                return Word("".join(piece.text for piece in pieces), all(piece.known for piece in pieces))
            case kind if kind in _EXPANSIONS:
                return self._expand(text, quoted=quoted)
            case _:
                return Word(text)

    def _expand(self, text: str, *, quoted: bool) -> Word:
        unknown, variable = Word(text, known=False), _VARIABLE.fullmatch(text)
        name = (variable[1] or "PWD") if variable else ""
        here = self.directory.resolve(Word(".")) if name == "PWD" else None
        value = self.variables.get(name, Word(here) if here else unknown)
        if value is None or (not quoted and value.known and re.search(r"\s", value.text)):  # bash makes more words
            self.facts.skip("a variable stands for several words")
        self._take_room(len(value.text) if value else 0)
        return value or unknown

    def _start(self, words: Sequence[Word], text: str, piped: Sequence[ProgramRun]) -> None:
        """Note the program that words start, and those that it starts in turn."""
        pending, is_shell, is_elsewhere = [words], True, False
        for started in filter(None, pending):  # which grows
            self._take_room(_PROGRAM_ROOM + len(started))
            name = started[0].text.rpartition("/")[2] if started[0].known else ""
            directory = replace(self.directory, path=None) if is_elsewhere else self.directory
            run = ProgramRun(name, tuple(started[1:]), text, directory)
            self.facts.runs.append(run)
            arguments, runner = find_runner(run)
            source = inline_text(run, arguments, runner)
            if source is not None or (runner and reads_stdin(arguments, runner)):
                self._read_script(run, runner.language if runner else "sh", source)
            is_elsewhere |= any(_CHANGES_DIRECTORY.fullmatch(f"{name} {word.text}") for word in arguments)
            if name in {"cd", "pushd"} and is_shell:
                targets = [word for word in arguments if not re.fullmatch(r"-[LPe@]+|--", word.text)]
                self.directory = self.directory.change(targets[0] if targets else Word("~" if name == "cd" else "-"))
            elif name == "popd" and is_shell:
                self.directory = replace(self.directory, path=None)
            elif name == "xargs" and (not piped or piped[0].program in {"echo", "printf", "cat", "tee"}):
                self.facts.skip("xargs puts commands together")
            elif name == "git" and any(re.match(r"(?i)alias\.|foreach\Z", word.text) for word in arguments):
                self.facts.skip("git is given a command of its own")
            is_shell = is_shell and name in _IN_SHELL
            read = find_results(piped[0]) if piped and piped[0].program == "find" else [Word("…", known=False)]
            pending += started_words(run, arguments, runner, read)

    def _read_script(self, run: ProgramRun, language: str, source: str | None) -> None:
        """Note a program text of an interpreter, and read it if that is a shell; None: the command's input."""
        if source is None:
            if language in self.fed:  # once: the input may be long, and each run searches it
                return
            self.fed.add(language)
            whole = "\n".join(self.facts.texts)
            source = whole + "\n" + whole.replace("\\", "")
            if language == "sh":
                self.facts.skip("a shell reads what it is given")
        elif language == "sh":
            self.add_text(source, self.directory, self.variables if run.program == "trap" else {})
            if run.program == "eval":
                self.directory = replace(self.directory, path=None)
        self.facts.runs.append(replace(run, program=language, arguments=(), source=source))


def _word_nodes(command: Node | None) -> list[Node]:
    return [child for child in command.children if child.type not in _NO_WORDS] if command is not None else []


def _find_scope(node: Node) -> Node:
    """The node at whose end a command's change of directory ends."""
    while node.parent is not None:
        in_background = node.next_sibling is not None and node.next_sibling.type == "&"
        if node.type in _SCOPES or node.parent.type == "pipeline" or in_background:
            break
        node = node.parent
    return node


def _without_documents(text: str) -> str:
    """Remove long here documents, line by line, without the grammar."""
    lines: list[str] = []
    body: list[str] = []
    end = ""
    for line in [*text.split("\n"), ""]:
        if end and line.lstrip("\t") != end:
            body.append(line)
            continue
        lines += [*(body if sum(map(len, body)) <= _LONG_DOCUMENT else ()), line]
        start = None if end else _DOCUMENT.search(line)
        end, body = start[1] if start else "", []
    return "\n".join(lines + body)
