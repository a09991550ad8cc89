"""Searches tools by words: ranks them as BM25 does, over the words of names, parameters and descriptions.

SQLite finds the rows of a word. The scores are computed here, in half the time of its own ``bm25``, which looks up the
length of each row. How often a text repeats a word does not count, so no tool gets to the top by repetition.

A query is only ever words: none of SQLite's query language gets through.
"""

import heapq
import json
import math
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from gloveport.hub.definition import Definition
from gloveport.late_pattern import late_pattern

_QUERY_CHARACTERS = 400
_QUERY_WORDS = 24
_INDEXED_CHARACTERS = 2000
"""Most indexed characters of a description, and of the names of all parameters together."""

_IN_NAME, _ELSEWHERE = 4.0, 1.0
"""Weights of a word in a tool's name, and in its server's name, its parameters or its description."""

_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's ``k1`` and ``b``."""

_LEAST_WEIGHT = 1e-6
"""The weight of a word that most tools have."""

_TABLE = """
    create virtual table tool using
    fts5(name, server, parameters, description, tokenize='porter unicode61', prefix='2 3')
"""
_FIND = "select '[' || coalesce(group_concat(rowid), '') || ']' from tool where tool match ?"
"""All rows in one text: fetching single rows takes Python three times as long as SQLite's search."""

_ADD = "insert into tool(rowid, name, server, parameters, description) values (?, ?, ?, ?, ?)"

_SAYS_NOTHING: Final = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "the", "to", "with")
)

_WORD = late_pattern(r"[^\W_]+")
_BREAK = late_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")


class Catalog:
    """An index of all tools of all servers, in memory. Thread-safe: indexing one server's tools may take a second."""

    def __init__(self) -> None:
        self._index = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._index.close)  # since Python 3.13 a connection that is not closed warns
        self._turn = threading.Lock()  # held while the index is read or written, not while texts are split into words
        self._index.execute(_TABLE)
        self._tools: dict[int, Definition] = {}
        self._rows: dict[str, range] = {}
        self._lengths: dict[int, int] = {}  # in words
        self._worth: _Worth | None = None  # None until it is needed
        self._next = 0

    def replace(self, server: str, description: str, definitions: Sequence[Definition]) -> None:
        """Replace the tools of a server by these. Of two with one name the first counts. A search for the server's name
        finds them too; ``description`` is what the operator says that it is for.
        """
        tools = dict(sorted({tool.name: tool for tool in reversed(definitions)}.items()))
        about = _index_text([server, description])
        entries = [
            (
                _index_text([tool.name]),
                about,
                _index_text(_parameters(tool)),
                _index_text([tool.title, tool.description]),
            )
            for tool in tools.values()
        ]
        with self._turn:
            before, rows = self._rows.get(server, range(0)), range(self._next, self._next + len(tools))
            with self._index:
                self._index.execute("begin")
                self._index.executemany("delete from tool where rowid = ?", ((row,) for row in before))
                self._index.executemany(_ADD, ((row, *texts) for row, texts in zip(rows, entries, strict=True)))
            for row in before:
                del self._tools[row], self._lengths[row]
            self._tools |= zip(rows, tools.values(), strict=True)
            self._lengths |= {
                row: sum(text.count(" ") + 1 for text in texts) for row, texts in zip(rows, entries, strict=True)
            }
            self._worth = None
            self._rows[server] = rows
            self._next = rows.stop

    def search(
        self, query: str, limit: int, visible: Callable[[Definition], bool] | None = None
    ) -> tuple[list[Definition], int]:
        """Find tools.

        Args:
            query: Words, any of which a tool may match; the last may be the beginning of a word. Without any word,
                every tool is found, by server and name.
            limit: How many tools to return.
            visible: Whether a tool may be found; None for all.

        Returns:
            The best matches, and the number of all matches.
        """
        with self._turn:
            scores = self._rank(_words(query[:_QUERY_CHARACTERS])[:_QUERY_WORDS])
            if visible is None:
                return _best(scores, self._tools, limit), len(scores)
            tools = {row: self._tools[row] for row in scores}
        found = {row: scores[row] for row, tool in tools.items() if visible(tool)}
        return _best(found, tools, limit), len(found)

    def _rank(self, words: Sequence[str]) -> dict[int, float]:
        """Score each row that has one of the words: higher is better."""
        if not words:
            return dict.fromkeys(self._tools, 0.0)
        worth = self._worth = self._worth or _Worth.of(self._lengths)
        # Quoted, AND and NEAR are words like others. No word holds a quote itself.
        telling = [word for word in words if word.lower() not in _SAYS_NOTHING] or words
        phrases = [f'"{word}"' for word in dict.fromkeys(telling)]
        phrases[-1] += " *"
        scores: dict[int, float] = {}
        for phrase in phrases:
            rows, named = self._rows_with(phrase), self._rows_with(f"name : {phrase}")
            rarity = math.log((len(self._tools) - len(rows) + 0.5) / (len(rows) + 0.5))
            weight, anywhere, in_name = max(rarity, _LEAST_WEIGHT), worth.anywhere, worth.more_in_name
            if scores:
                for row in rows:
                    scores[row] = scores.get(row, 0.0) + weight * anywhere[row]
            else:
                scores = {row: weight * anywhere[row] for row in rows}
            for row in named:
                scores[row] += weight * in_name[row]
        return scores

    def _rows_with(self, phrase: str) -> list[int]:
        ((listed,),) = self._index.execute(_FIND, (phrase,))
        rows: list[int] = json.loads(listed)
        return rows


class _Worth(NamedTuple):
    """How much a matching word counts, by rows: less in a long text."""

    anywhere: Mapping[int, float]
    more_in_name: Mapping[int, float]
    """What is added where the tool's name has the word."""

    @classmethod
    def of(cls, lengths: Mapping[int, int]) -> "_Worth":
        mean = sum(lengths.values()) / max(len(lengths), 1)
        least, by_length = _SATURATION * (1 - _BY_LENGTH), _SATURATION * _BY_LENGTH / max(mean, 1)
        norms = {row: least + by_length * length for row, length in lengths.items()}
        anywhere = {row: _ELSEWHERE / (_ELSEWHERE + norm) for row, norm in norms.items()}
        return cls(anywhere, {row: _IN_NAME / (_IN_NAME + norm) - anywhere[row] for row, norm in norms.items()})


def _best(scores: Mapping[int, float], tools: Mapping[int, Definition], limit: int) -> list[Definition]:
    least = min(heapq.nlargest(limit, scores.values()), default=0.0)
    best = [row for row, score in scores.items() if score >= least]  # sorting all would take as long as the search
    best.sort(key=lambda row: (-scores[row], tools[row].server, row))  # rows of a server are in the order of names
    return [tools[row] for row in best[:limit]]


def _words(text: str) -> list[str]:
    """Split a text into words, and compounds into their parts too: both issue and createIssue2 find createIssue2."""
    words: list[str] = []
    for word in _WORD.findall(text):
        parts = [word] if word.isalpha() and word.islower() else _BREAK.sub(" ", word).split()
        words += parts if len(parts) == 1 else [*parts, word]
    return words


def _index_text(texts: Iterable[str]) -> str:
    return " ".join(word for text in texts for word in _words(text[:_INDEXED_CHARACTERS]))


def _parameters(tool: Definition) -> list[str]:
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict):
        return []
    names = islice(properties, _INDEXED_CHARACTERS)
    return [" ".join(name[:_INDEXED_CHARACTERS] for name in names)]
