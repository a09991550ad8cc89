"""Finds directories that a client has made, with all their contents: to delete them loses nothing of the owner's.

Such a directory, and everything in it, was made and last changed while a command or a write of that client ran. The
kernel keeps these times, and no program can set them. Files that somebody else makes there meanwhile, or within the
same tick of the clock, count as the client's; files that were moved there do not: they were made before.
"""

import contextlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from gloveport.file_descriptors import LIST, closing
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.birth_time import Times, read_times
from gloveport.workspace.files.spelling import native_name
from gloveport.workspace.files.tree import Tree

_MOST_CLIENTS: Final = 64
_MOST_SPANS: Final = 512
_MOST_NAMES: Final = 20_000
_SECONDS: Final = 1.0
_DEEPEST: Final = 64
_TICKS: Final = 5
"""CLOCK_REALTIME_COARSE, the time of the kernel's last tick: the kernel takes from it when a file was made. When a file
was changed, it may take from the finer clock.
"""


class _Span(Struct, eq=False):
    """A time in which a command or write of a client ran; without an end it still runs."""

    begin: int
    end: int | None = None

    def holds(self, moment: int) -> bool:
        return self.begin <= moment and (self.end is None or moment <= self.end)


class OwnDirectories(Struct, eq=False, kw_only=True):
    """The directories that the clients of one workspace have made."""

    tree: Tree
    _spans: OrderedDict[str, list[_Span]] = field(default_factory=OrderedDict)

    @contextlib.contextmanager
    def working(self, share: str) -> Iterator[None]:
        """A command or write of a client runs within the context."""
        spans = self._spans.setdefault(share, [])
        self._spans.move_to_end(share)
        if len(self._spans) > _MOST_CLIENTS:
            self._spans.popitem(last=False)
        span = _Span(time.clock_gettime_ns(_TICKS))
        spans.append(span)
        del spans[:-_MOST_SPANS]
        try:
            yield
        finally:
            span.end = time.time_ns()

    def has_made_all(self, share: str, paths: Iterable[str]) -> bool:
        """Whether each of these paths of the workspace is such a directory, or names nothing in a directory that is
        there. May wait for a disk.
        """
        spans, until = list(self._spans.get(share, ())), time.monotonic() + _SECONDS
        names_left = [_MOST_NAMES]
        return all(self._has_made(path, spans, until, names_left) for path in paths)

    def _has_made(self, path: str, spans: list[_Span], until: float, names_left: list[int]) -> bool:
        above, name = path.rpartition("/")[0], native_name(path)
        try:
            with self.tree.open_directory(above or ".") as parent:
                if parent.path != (above or "."):  # by way of a link
                    return False
                times = read_times(parent.descriptor, name)
                if times is None or not stat.S_ISDIR(times.mode):
                    return False
                return _is_made(parent.descriptor, name, times.device, spans, until, names_left, _DEEPEST)
        except FileNotFoundError:
            return True
        except (OSError, WorkspaceError):
            return False


def _is_made(
    parent: int, name: str, device: tuple[int, int], spans: list[_Span], until: float, names_left: list[int], depth: int
) -> bool:
    """Whether a name and all below it was made in these times. Raises OSError, also where a name vanishes meanwhile."""
    names_left[0] -= 1
    times = read_times(parent, name)
    if (
        names_left[0] < 0
        or time.monotonic() > until
        or times is None
        or times.device != device
        or not _fits(times, spans)
    ):
        return False
    if not stat.S_ISDIR(times.mode):
        return True
    with closing(os.open(name, LIST, dir_fd=parent)) as opened:
        names = os.listdir(opened)  # noqa: PTH208 - a descriptor is no path
        return depth > 0 and all(_is_made(opened, each, device, spans, until, names_left, depth - 1) for each in names)


def _fits(times: Times, spans: list[_Span]) -> bool:
    return all(any(span.holds(moment) for span in spans) for moment in (times.born, times.changed))
