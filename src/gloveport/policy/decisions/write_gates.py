"""Finds the gates that a write comes to, and why."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from gloveport.model.workspace import GateHit, PathChange, WriteFiles
from gloveport.policy.decisions.command_gates import make_need, order_needs
from gloveport.policy.shell_text.rulebook import rulebook
from gloveport.policy.wildcards import has_match
from gloveport.policy.wording import quote_sent


def write_action(changes: Iterable[PathChange], ignored: AbstractSet[str]) -> WriteFiles:
    """Make an action of changes. ``ignored``: the paths among them that git ignores."""
    every = tuple(changes)
    return WriteFiles(changes=every, needs=order_needs(_write_needs(every, ignored)))


def _write_needs(changes: Iterable[PathChange], ignored: AbstractSet[str]) -> Iterator[GateHit]:
    book = rulebook()
    for change in changes:
        *directories, name = change.path.split("/")
        if change.path in ignored:
            why = f"Git ignores {quote_sent(change.path)}: a change of it is seen by nobody, and in no commit."
            yield make_need("write_generated_or_ignored", change.path, why, "Change a file that git knows.")
        elif has_match(book.generated, name) or any(has_match(book.generated_trees, each) for each in directories):
            why = f"{quote_sent(change.path)} is made by a tool, which overwrites it."
            yield make_need("write_generated_or_ignored", change.path, why, "Change its source, and run the tool.")
