"""Searches tools by words: ranks them as BM25 does, over the words of names, parameters and descriptions.

SQLite finds the rows of a word. Its own ``bm25`` looks up the length of each, which takes twice as long as all of this.
How often a tool says a word does not count here, so none gets to the top by saying it again and again.

The words asked for are only ever words: none of the query language of the index gets through.
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
"""Of a description, and of the names of all parameters together."""

_IN_NAME, _ELSEWHERE = 4.0, 1.0
"""What a word counts in a tool's name; and in its server's, its parameters' or its description."""

_SATURATION, _BY_LENGTH = 1.2, 0.75
"""BM25's ``k1`` and ``b``."""

_LEAST_WEIGHT = 1e-6
"""Of a word that most tools say."""

_TABLE = """
    create virtual table tool using
    fts5(name, server, parameters, description, tokenize='porter unicode61', prefix='2 3')
"""
_FIND = "select '[' || coalesce(group_concat(rowid), '') || ']' from tool where tool match ?"
"""All rows in one text: to fetch each alone takes Python three times as long as SQLite takes to find it."""

_ADD = "insert into tool(rowid, name, server, parameters, description) values (?, ?, ?, ?, ?)"

_SAYS_NOTHING: Final = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "the", "to", "with")
)

_WORD = late_pattern(r"[^\W_]+")
_BREAK = late_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")


class Catalog:
    """All tools of all servers, in memory. For any thread: to index what a server offers may take a second."""

    def __init__(self) -> None:
        self._index = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._index.close)  # since Python 3.13 one that is just dropped warns
        self._turn = threading.Lock()  # held for as long as the index is at work, not while words are made
        self._index.execute(_TABLE)
        self._tools: dict[int, Definition] = {}
        self._rows: dict[str, range] = {}
        self._lengths: dict[int, int] = {}  # in words
        self._worth: _Worth | None = None  # None until it is needed
        self._next = 0

    def replace(self, server: str, description: str, definitions: Sequence[Definition]) -> None:
        """Take these as the tools of a server, in place of those before. Of two with one name the first counts.

        Args:
            server: Its name, by which its tools are found as well.
            description: What it is for.
            definitions: Its tools.
        """
        tools = dict(sorted({tool.name: tool for tool in reversed(definitions)}.items()))
        about = _index_text([server, description])
        told = [
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
                self._index.executemany(_ADD, ((row, *texts) for row, texts in zip(rows, told, strict=True)))
            for row in before:
                del self._tools[row], self._lengths[row]
            self._tools |= zip(rows, tools.values(), strict=True)
            self._lengths |= {
                row: sum(text.count(" ") + 1 for text in texts) for row, texts in zip(rows, told, strict=True)
            }
            self._worth = None
            self._rows[server] = rows
            self._next = rows.stop

    def search(
        self, query: str, limit: int, visible: Callable[[Definition], bool] | None = None
    ) -> tuple[list[Definition], int]:
        """Find tools.

        Args:
            query: Words, each of which may be in a tool, and the beginning of a last one. Without any word, every tool
                is found, by server and name.
            limit: How many are wanted.
            visible: Whether a tool may be found; None where each may.

        Returns:
            The best ones, and how many there are.
        """
        with self._turn:
            scores = self._rank(_words(query[:_QUERY_CHARACTERS])[:_QUERY_WORDS])
            if visible is None:
                return _best(scores, self._tools, limit), len(scores)
            tools = {row: self._tools[row] for row in scores}
        found = {row: scores[row] for row, tool in tools.items() if visible(tool)}
        return _best(found, tools, limit), len(found)

    def _rank(self, words: Sequence[str]) -> dict[int, float]:
        """How well each row fits that has one of the words: more is better."""
        if not words:
            return dict.fromkeys(self._tools, 0.0)
        worth = self._worth = self._worth or _Worth.of(self._lengths)
        # In quotes, a word is a word, also AND and NEAR; what words are made of holds no quote.
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
    """What a word counts that a tool says, by rows: less in a long text."""

    anywhere: Mapping[int, float]
    more_in_name: Mapping[int, float]
    """What is added where the tool's name has it."""

    @classmethod
    def of(cls, lengths: Mapping[int, int]) -> "_Worth":
        mean = sum(lengths.values()) / max(len(lengths), 1)
        least, by_length = _SATURATION * (1 - _BY_LENGTH), _SATURATION * _BY_LENGTH / max(mean, 1)
        norms = {row: least + by_length * length for row, length in lengths.items()}
        anywhere = {row: _ELSEWHERE / (_ELSEWHERE + norm) for row, norm in norms.items()}
        return cls(anywhere, {row: _IN_NAME / (_IN_NAME + norm) - anywhere[row] for row, norm in norms.items()})


def _best(scores: Mapping[int, float], tools: Mapping[int, Definition], limit: int) -> list[Definition]:
    least = min(heapq.nlargest(limit, scores.values()), default=0.0)
    best = [row for row, score in scores.items() if score >= least]  # to order all takes as long as to find them
    best.sort(key=lambda row: (-scores[row], tools[row].server, row))  # rows of a server are in the order of names
    return [tools[row] for row in best[:limit]]


def _words(text: str) -> list[str]:
    """The words of a text, and the parts of those that are compounds: createIssue2 is found by issue, and whole."""
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
