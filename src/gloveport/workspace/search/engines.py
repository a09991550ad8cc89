"""Runs a search program: ripgrep, or our own, with the same output as ``rg --json``.

Both leave out the same: hidden files, files in a .gitignore of the workspace (in a checkout or not), build output
(``gitignore.NAMES``), and links. Explicitly named files are always searched. ripgrep walks by itself. For our program
the walk is done here: it gets only names.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from gloveport.model import GUEST
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_SEARCHES
from gloveport.workspace.files.gitignore import NAMES
from gloveport.workspace.files.globs import gitignore_regex
from gloveport.workspace.files.spelling import raw
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.files.walk import Walk
from gloveport.workspace.program import ProgramOutput, RunProgram

Engine: TypeAlias = Literal["rg", "python"]
Cut: TypeAlias = Literal["names", "time"]
"""Why not all files were searched: there are too many, or there was no time to look at all."""

SECONDS: Final = 10.0
BYTES: Final = 8 << 20
"""The most output of the engine, which has whole lines, however long."""

MAX_GLOBS: Final = 100
MAX_GLOB: Final = 1000
"""The most characters of one glob."""

_RIPGREP: Final = (
    # RIPGREP_CONFIG_PATH could name a preprocessor. No option here reads one, nor an archive.
    *("rg", "--no-config", "--json"),
    # Sorted results come from one thread, so they are the same every time.
    *("--sort=path", "--no-follow", "--one-file-system"),
    # A file that shrinks while it is mapped would kill the search.
    "--no-mmap",
    *("--no-require-git", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--crlf"),
    *("--regex-size-limit=32M", "--dfa-size-limit=64M"),
)
_PYTHON: Final = ("python3", "-I", "-S", "-B", f"{GUEST}/python/search_text.py")
_GIT: Final = ".git"
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


class SearchQuery(Struct, frozen=True, kw_only=True):
    """What to search for, and where.

    Attributes:
        expression: What a line must match.
        regex: Whether that is a regular expression of the engine; else plain text.
        case_sensitive: Whether case matters.
        path: Where the search starts: a directory, or a file; relative to the root, no link in it.
        includes: Globs, one of which a file must match, if there are any. As in a .gitignore: without a ``/`` a glob
            matches the name, else the path; ``{a,b}`` works too.
        names: Globs, one of which the name of a file must match, if there are any. They do not affect which files are
            left out.
        excludes: Globs that neither a file nor a directory above it may match.
        context: Lines before and after a match.
        multiline: Whether a match may go over several lines.
        hidden: Whether to search files whose name, or a directory above, begins with a dot; git's own files never are.
        ignored: Whether to search files that a .gitignore leaves out, and build output.
    """

    expression: str
    regex: bool
    case_sensitive: bool
    path: str
    includes: tuple[str, ...]
    excludes: tuple[str, ...]
    context: int
    names: tuple[str, ...] = ()
    multiline: bool = False
    hidden: bool = False
    ignored: bool = False


async def run_engine(
    engine: Engine, tree: Tree, run: RunProgram, question: SearchQuery, further: Sequence[bytes], caller: str
) -> tuple[ProgramOutput, Cut | None]:
    """Search below the question's start, and then these files, even if rules leave them out. Callers take turns.

    Returns:
        What the engine says, and why it was not given all files that it should search; None if it was.

    Raises:
        WorkspaceError: INVALID_ARGUMENT if the engine can't parse it; or as ``run``.
    """
    if engine == "rg":
        return await run(_ripgrep(question, further), seconds=SECONDS, most_bytes=BYTES), None
    candidates, cut = await FILE_SEARCHES.run(caller, _candidates, tree, question)
    head = {
        "expression": question.expression if question.regex else re.escape(question.expression),
        "ignore_case": not question.case_sensitive,
        "context": question.context,
        "multiline": question.multiline,
    }
    stdin = b"\0".join([json.dumps(head).encode(), *candidates, *further])
    return await run(_PYTHON, stdin=stdin, seconds=SECONDS, most_bytes=BYTES), cut


def choose_files(question: SearchQuery, found: Iterable[bytes]) -> tuple[list[bytes], Cut | None]:
    """Those of these files that match the question's globs and start, in ripgrep's order; those found in ``SECONDS``:
    2,000 directories above each file may be compared with 100 globs. The second value says whether these are not all.
    """
    includes, excludes = _compile_globs(question.includes), _compile_globs((*question.excludes, _GIT))
    names = _compile_globs(question.names)
    inside = len(raw(question.path)) + 1 if question.path != "." else 0
    until = time.monotonic() + SECONDS
    chosen: list[bytes] = []
    cut: Cut | None = None
    for name in found:
        is_wanted = (
            name.startswith(raw(question.path) + b"/" if inside else b"")
            and (not includes or _matches(includes, name))
            and (not names or _matches(names, name))
            and not any(_matches(excludes, part) for part in _parts(name, inside, until))
        )
        if time.monotonic() > until:  # then not all of its parts were looked at
            cut = "time"
            break
        if is_wanted:
            chosen.append(name)
    return sorted(chosen, key=lambda name: name.split(b"/")), cut


def _ripgrep(question: SearchQuery, further: Sequence[bytes]) -> tuple[str, ...]:
    try:
        start = raw(question.path).decode()
    except UnicodeDecodeError as error:
        raise WorkspaceError(
            "INVALID_ARGUMENT", f"{question.path} is not UTF-8, so it can't be named", hint="search the directory above"
        ) from error
    built = [_GIT] if question.ignored else sorted({_GIT, *(name.decode() for name in NAMES)})
    return (
        *_RIPGREP,
        *(f"--type-add=asked:{glob}" for glob in question.names),
        *(["--type=asked"] if question.names else ()),
        *(["--multiline"] if question.multiline else ()),
        *(["--hidden"] if question.hidden else ()),
        *(["--no-ignore"] if question.ignored else ()),
        "--no-fixed-strings" if question.regex else "--fixed-strings",
        "--case-sensitive" if question.case_sensitive else "--ignore-case",
        f"--context={question.context}",
        *(f"--glob={_escape_glob(glob)}" for glob in question.includes),
        # The last matching glob decides. These come last, so that no include overrides them.
        *(f"--glob=!{glob}" for glob in (*built, *map(_escape_glob, question.excludes))),
        f"--regexp={question.expression}",
        "--",
        f"./{start}" if start != "." else "./",  # with the dot it can't be an option
        *(f"./{name.decode()}" for name in further),  # named files are searched despite globs and rules
    )


def _escape_glob(glob: str) -> str:
    """The glob, with its first character escaped if it would negate the glob or begin a comment."""
    return f"\\{glob}" if glob[0] in "!#" else glob


def _candidates(tree: Tree, question: SearchQuery) -> tuple[list[bytes], Cut | None]:
    """The files to search, in the order in which ripgrep sorts them, and why these are not all."""
    try:
        with tree.open_directory(question.path) as start:
            walk = Walk(tree=tree, hidden=question.hidden, ignored=question.ignored)
            found = (raw(entry.path) for entry in walk.below(start) if entry.kind == "file")
            chosen, cut = choose_files(question, found)
            return chosen, cut or walk.cut
    except WorkspaceError as error:
        if error.code != "NOT_A_DIRECTORY":
            raise
        return [raw(question.path)], None


def _parts(name: bytes, inside: int, until: float) -> Iterator[bytes]:
    """The path, and the directories above it up to the start of the search, while there is time."""
    while len(name) > inside and time.monotonic() <= until:
        yield name
        name = name.rpartition(b"/")[0]


def _compile_globs(globs: Sequence[str]) -> list[tuple[bool, re.Pattern[str]]]:
    """For each glob, whether it matches the whole path, and its expression. Names are matched byte by byte."""
    compiled = []
    for glob in _expand_braces(globs):
        native = glob.encode().decode("latin-1")
        compiled.append(("/" in native, re.compile(gitignore_regex(native.removeprefix("/")))))
    return compiled


def _expand_braces(globs: Iterable[str]) -> list[str]:
    """Expand the braces of globs.

    Raises:
        WorkspaceError: INVALID_ARGUMENT: there would be too many.
    """
    waiting, done = list(globs), []
    while waiting:
        glob = waiting.pop()
        if found := _BRACES.search(glob):
            waiting += [f"{glob[: found.start()]}{choice}{glob[found.end() :]}" for choice in found[1].split(",")]
        else:
            done.append(glob)
        if len(waiting) + len(done) > MAX_GLOBS:
            raise WorkspaceError("INVALID_ARGUMENT", f"more than {MAX_GLOBS} globs, with each choice of their braces")
    return done


def _matches(globs: Iterable[tuple[bool, re.Pattern[str]]], path: bytes) -> bool:
    where = path.decode("latin-1")
    name = where.rpartition("/")[2]
    return any(glob.fullmatch(where if about_path else name) for about_path, glob in globs)
