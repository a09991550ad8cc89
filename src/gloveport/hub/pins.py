"""Pins the accepted tools of each server, so that none changes its meaning behind the owner's back.

The tools that a server lists first are all accepted. From then on a new or changed tool is held back until a person has
accepted it; and under another command or URL all tools of a server are new. Other processes read and write the files
too, one for each server: each is replaced atomically, under a lock.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

from gloveport.atomic_file import replace_file
from gloveport.errors import ConfigError
from gloveport.hub.definition import Definition
from gloveport.late_libraries import difflib
from gloveport.model import Value
from gloveport.model.hub import Server
from gloveport.model.reading import read_value
from gloveport.untrusted_text import printable
from gloveport.user_directories import make_private_directory, open_private, read_private

_MOST_BYTES = 64 << 20
_MOST_COMPARED = 400
_MOST_REVIEWED = 256 << 10
_WIDTH = 110
_HINT = "look at it; once it is removed, all that the server offers next is accepted"


class Offer(Value):
    """The tools that a server offers, compared with the accepted ones. Each in the order of the names."""

    unchanged: tuple[Definition, ...] = ()
    """The unchanged ones."""
    new: tuple[Definition, ...] = ()
    changed: tuple[Definition, ...] = ()
    """The changed ones, as they are offered."""
    missing: tuple[Definition, ...] = ()
    """The missing ones, as they were accepted. They stay accepted, in case they come back."""


class PinRecord(Value):
    """The content of the file of a server."""

    server: str
    identity: str
    accepted: tuple[Definition, ...]
    offered_identity: str = ""
    offered: tuple[Definition, ...] | None = None
    """The last offer of which a tool was held back; null when none is."""

    def accepted_from(self, identity: str) -> tuple[Definition, ...]:
        """The tools that were accepted from this command or URL."""
        return self.accepted if self.identity == identity else ()


class Pins:
    """The accepted tools of all servers.

    An ``identity`` is an opaque text for the command or the URL that a server is reached by.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory  # made when the first file is written

    def path(self, server: str) -> Path:
        """Return the path of a server's file, which may not exist. It does not show the server's name."""
        return self._directory / f"{hashlib.sha256(server.encode('utf-8', 'surrogatepass')).hexdigest()}.json"

    def load(self, server: str, identity: str) -> tuple[Definition, ...] | None:
        """Load the accepted tools of a server; None if it has never listed any.

        Raises:
            ConfigError: The file is damaged or not private.
        """
        record = self._read(server)
        return None if record is None else record.accepted_from(identity)

    def accept_all(self, server: str, identity: str, offered: Sequence[Definition]) -> None:
        """Accept the first offer of a server. Does nothing if the server has a file already.

        Raises:
            ConfigError: The file is damaged, not private, or can't be written.
        """
        with self._lock_directory():
            if self._read(server) is None:
                self._write(PinRecord(server=server, identity=identity, accepted=_by_name(offered)))

    def hold(self, server: str, identity: str, offered: Sequence[Definition]) -> None:
        """Store the offer of a server for a person to review.

        Raises:
            ConfigError: The file is damaged, not private, or can't be written.
        """
        with self._lock_directory():
            record = self._read(server) or PinRecord(server=server, identity=identity, accepted=())
            update = {"offered_identity": identity, "offered": _by_name(offered)}
            self._write(record.model_copy(update=update))

    def held_offer(self, server: str) -> Offer | None:
        """Load the offer that waits for a person's review; None if there is none.

        Raises:
            ConfigError: The file is damaged or not private.
        """
        record = self._read(server)
        if record is None or record.offered is None:
            return None
        return compare(record.accepted_from(record.offered_identity), record.offered)

    def accept(self, server: str, offer: Offer, names: Collection[str] | None = None) -> None:
        """Accept tools as a person has seen them in ``offer``, the ``held_offer``: those of the new and changed ones
        that are in ``names``. None accepts all, and forgets the missing ones.

        Raises:
            ConfigError: There is no such tool, a tool's text is longer than a person reads, the server's offer has
                changed since, or the file is damaged, not private, or can't be written. Nothing was accepted then.
        """
        with self._lock_directory():
            record = self._read(server)
            if record is None or record.offered is None:
                raise ConfigError(f"nothing of the server {server!a} is held back", hint="there is nothing to accept")
            self._write(_accepting(record, record.offered, offer, names))

    def _read(self, server: str) -> PinRecord | None:
        path = self.path(server)
        try:
            with open_private(self._directory, os.O_DIRECTORY):
                content = read_private(path, _MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{str(path)!a} can't be read: {error.strerror}", hint=_HINT) from error
        try:
            record = read_value(PinRecord, json.loads(content))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{str(path)!a} is damaged", hint=_HINT) from error
        if record.server != server:
            raise ConfigError(f"{str(path)!a} is the file of another server", hint=_HINT)
        return record

    def _write(self, record: PinRecord) -> None:
        """Write the file of a server. The directory is locked."""
        content = json.dumps(record.model_dump(mode="json"), sort_keys=True).encode()
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"the server {record.server!a} offers too much: {len(content)} bytes", hint="remove it")
        replace_file(self.path(record.server), content)

    @contextlib.contextmanager
    def _lock_directory(self) -> Iterator[None]:
        """Lock the directory against other processes for a change."""
        try:
            make_private_directory(self._directory)
            with open_private(self._directory, os.O_DIRECTORY) as directory:
                fcntl.flock(directory, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise ConfigError(
                f"{str(self._directory)!a} can't be written: {error.strerror}",
                hint="make the state directory writable, or set GLOVEPORT_STATE to one that is",
            ) from error


def compare(accepted: Sequence[Definition], offered: Sequence[Definition]) -> Offer:
    """Compare the offered tools with the accepted ones. Of two with one name the first counts."""
    before, now = ({tool.name: tool for tool in _by_name(tools)} for tools in (accepted, offered))
    same = {name for name in now.keys() & before.keys() if now[name].digest == before[name].digest}
    return Offer(
        unchanged=tuple(before[name] for name in now if name in same),
        new=tuple(now[name] for name in now if name not in before),
        changed=tuple(now[name] for name in now if name in before and name not in same),
        missing=tuple(before[name] for name in before if name not in now),
    )


def _accepting(
    record: PinRecord, offered: tuple[Definition, ...], offer: Offer, names: Collection[str] | None
) -> PinRecord:
    """The record with these tools accepted."""
    before = record.accepted_from(record.offered_identity)
    now = compare(before, offered)
    seen_digests = {tool.name: tool.digest for tool in (*offer.new, *offer.changed)}
    additions = {tool.name: tool for tool in (*now.new, *now.changed) if names is None or tool.name in names}
    if unknown := sorted(set(names or ()) - additions.keys()):
        raise ConfigError(f"{unknown[0]!a} is not held back", hint="name a tool that is, or none for all")
    for tool in additions.values():
        if seen_digests.get(tool.name) != tool.digest:  # the person must have seen exactly this definition
            raise ConfigError(f"{tool.name!a} has changed since it was shown", hint="review it once more")
        if (size := sum(len(line) for aspect in _aspects(tool) for line in aspect)) > _MOST_REVIEWED:
            raise ConfigError(
                f"{tool.name!a} says more than anybody reads: {size} characters, of at most {_MOST_REVIEWED}",
                hint="name the tools that you want without it, and ask whoever runs the server",
            )
    former = {tool.name: tool for tool in (now.unchanged if names is None else before)}
    accepted = _by_name([*(former | additions).values()])
    rest = compare(accepted, offered)
    return PinRecord(
        server=record.server,
        identity=record.offered_identity,
        accepted=accepted,
        offered_identity=record.offered_identity,
        offered=offered if rest.new or rest.changed else None,
    )


def differences(before: Definition | None, after: Definition) -> list[str]:
    """Diff two definitions of a tool as printable lines: ``-`` before accepted ones, ``+`` before offered ones.

    Every difference is shown, however long: what is left out would be accepted unseen. Backslashes are doubled, so that
    no text looks like the escape of a hidden character.
    """
    lines: list[str] = []
    for title, old, new in zip(_ASPECTS, _aspects(before), _aspects(after), strict=True):
        if old != new:
            lines += [f"{title}:", *_changes(old, new)]
    return lines


_ASPECTS = ("title", "description", "input schema", "output schema", "only reads", "may destroy")


def _aspects(tool: Definition | None) -> list[list[str]]:
    if tool is None:
        return [[] for _ in _ASPECTS]
    schemas = (None if schema is None else dict(schema) for schema in (tool.input_schema, tool.output_schema))
    schema_texts = [json.dumps(schema, ensure_ascii=False, indent=2, sort_keys=True) for schema in schemas]
    texts = [text.replace("\\", "\\\\") for text in (tool.title, tool.description)]
    return [_wrap_lines(text) for text in (*texts, *schema_texts, str(tool.read_only), str(tool.destructive))]


def _wrap_lines(text: str) -> list[str]:
    """Split a text into printable lines of a bounded width, so that none extends beyond the screen."""
    lines = (printable(line) for line in text.split("\n"))
    return [line[at : at + _WIDTH] for line in lines for at in range(0, len(line) or 1, _WIDTH)] if text else []


def _changes(old: list[str], new: list[str]) -> list[str]:
    alike = _alike(old, new)
    tail = _alike(old[alike:][::-1], new[alike:][::-1])
    old, new = old[alike : len(old) - tail], new[alike : len(new) - tail]
    if max(len(old), len(new)) <= _MOST_COMPARED:
        compared = islice(difflib.unified_diff(old, new, n=1, lineterm=""), 2, None)  # without the names of files
        return [line for line in compared if not line.startswith("@")]  # each line of a text begins with a mark
    # difflib would take time by the product of the two lengths.
    return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the equal lines at the beginning of both."""
    differing = (number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))


def _by_name(tools: Sequence[Definition]) -> tuple[Definition, ...]:
    first = {tool.name: tool for tool in reversed(tools)}
    return tuple(first[name] for name in sorted(first))


def identity_of(server: Server) -> str:
    """Identify a server by the command or the URL that it is reached by."""
    address = json.dumps([*server.command] or server.url)
    return hashlib.sha256(address.encode()).hexdigest()
