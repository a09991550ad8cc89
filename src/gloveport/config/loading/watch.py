"""Watches the configuration files, and tells when they may have changed.

inotify says when to look, and the files' status says whether anything changed. So no change between two looks is
missed, nor one that inotify does not report: on a network file system, or when a directory far above is replaced.
"""

import ctypes
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final, TypeAlias

import anyio
from anyio import to_thread

from gloveport.config.api_files.api_directory import api_files
from gloveport.config.sources.selection import ConfigSources, sources
from gloveport.config.sources.trust import record_path
from gloveport.openat2 import check
from gloveport.real_paths import real

_LOOK_SECONDS: Final = 2.0
"""How often the files are checked even without an event."""

_QUIET_SECONDS: Final = 0.05
"""Changes at shorter intervals count as one: some editors empty a file and then write it."""

_DEBOUNCE_SECONDS: Final = 0.5
"""How often changes that never stop are reported."""

_CHANGES: Final = 0x0FCE
"""inotify events: all but opening, reading and closing, which occur by the thousands in a workspace."""

_NEWS_BYTES: Final = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)

_Look: TypeAlias = Mapping[Path, tuple[int, ...] | None]


async def changes(config_path: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> AsyncGenerator[None, None]:
    """Yield when the files that ``load`` would read may have changed; at once for what changed before the first look.

    Never ends but by being closed (``contextlib.aclosing``) or cancelled.

    Raises:
        ConfigError: This user has no home directory.
    """
    found = sources(config_path, cwd=cwd, environ=environ)
    last_look: _Look | None = None
    while True:
        look = await to_thread.run_sync(_look, found, environ)
        if look != last_look:
            last_look = look
            yield
        else:
            await _wait_changed(last_look, found, environ)


def _look(found: ConfigSources, environ: Mapping[str, str]) -> _Look:
    return {path: _status(path) for path in _paths(found, environ)}


def _paths(found: ConfigSources, environ: Mapping[str, str]) -> Iterator[Path]:
    yield from (found.operator, found.apis, *api_files(found.apis))
    if found.project is not None:
        yield from (found.project, record_path(found.project, environ=environ))


def _status(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        status = path.stat()
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return None


def _directories(look: _Look) -> Mapping[Path, tuple[int, int]]:
    """The directory that each path is or lies in, with and without links; where there is none, the nearest above. Of
    each what tells it from another in its place.
    """
    places = {*look, *(real(path) for path in look)}
    found = {next(directory for directory in (path, *path.parents) if directory.is_dir()) for path in places}
    return {path: (status.st_dev, status.st_ino) for path, status in ((path, path.stat()) for path in found)}


async def _wait_changed(last_look: _Look, found: ConfigSources, environ: Mapping[str, str]) -> None:
    """Wait until the files, or their paths, may have changed."""
    try:
        directories = await to_thread.run_sync(_directories, last_look)
        async with _open_watch(directories) as news:
            while (look := await to_thread.run_sync(_look, found, environ)) == last_look:
                if await to_thread.run_sync(_directories, look) != directories:
                    break
                with anyio.move_on_after(_LOOK_SECONDS):
                    await anyio.wait_readable(news)
                    await _wait_quiet(news)
    except OSError:  # a directory has just been removed, or this user has too many watches
        await anyio.sleep(_LOOK_SECONDS)


async def _wait_quiet(news: FileIO) -> None:
    with anyio.move_on_after(_DEBOUNCE_SECONDS):
        while True:
            news.read(_NEWS_BYTES)
            with anyio.move_on_after(_QUIET_SECONDS) as quiet:
                await anyio.wait_readable(news)
            if quiet.cancelled_caught:
                return


@asynccontextmanager
async def _open_watch(directories: Iterable[Path]) -> AsyncIterator[FileIO]:
    """A file that is readable after changes in these directories. Raises OSError where they can't be watched."""
    news = FileIO(check(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)))
    try:
        for directory in directories:
            check(_libc.inotify_add_watch(news.fileno(), bytes(directory), _CHANGES))
        yield news
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(news.close)  # closing takes the kernel milliseconds
