"""Watches the configuration files, and tells when they may have changed.

The kernel says when to look, what the files look like says whether anything changed. So nothing is lost that happens
between two looks, nor where the kernel is silent: on a network's file system, or when a directory far above is put in
the place of another.
"""

import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from gloveport.config.api_files.api_directory import api_files
from gloveport.config.sources.selection import ConfigSources, sources
from gloveport.config.sources.trust import record_path
from gloveport.late_module import late_module

if TYPE_CHECKING:
    import watchfiles
else:
    watchfiles = late_module("watchfiles")

_LOOK_SECONDS = 2.0
"""After so long the files are looked at, whatever the kernel says."""

_QUIET_MS = 50
"""Changes that follow each other so closely are one: some editors empty a file and then write it."""

_DEBOUNCE_MS = 500
"""Changes that never end are said so often."""

_Look: TypeAlias = Mapping[Path, tuple[int, ...] | None]


async def changes(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> AsyncGenerator[None, None]:
    """Yield when the files that ``load`` would read may have changed; at once for what changed before the first look.

    Never ends but by being closed (``contextlib.aclosing``) or cancelled.

    Args:
        given: As for ``load``.
        cwd: As for ``load``.
        environ: As for ``load``.

    Raises:
        ConfigError: This user has no home directory.
    """
    found = sources(given, cwd=cwd, environ=environ)
    seen: _Look | None = None
    while True:
        look = await to_thread.run_sync(_look, found, environ)
        if look != seen:
            seen = look
            yield
        else:
            await _wait_changed(seen, found, environ)


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


def _directories(look: _Look) -> set[Path]:
    """The directory that each path is or lies in, with and without links; where there is none, the nearest above."""
    places = {*look, *(Path(os.path.realpath(path)) for path in look)}
    return {next(directory for directory in (path, *path.parents) if directory.is_dir()) for path in places}


async def _wait_changed(seen: _Look, found: ConfigSources, environ: Mapping[str, str]) -> None:
    """Wait until something happens near the files, or it is time to look anyway."""
    stop, changed = anyio.Event(), anyio.Event()
    directories = await to_thread.run_sync(_directories, seen)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, directories, stop, changed)
        try:
            await checkpoint()  # the kernel is asked for news before the first wait of _listen
            if await to_thread.run_sync(_look, found, environ) == seen:  # nothing happened before it was asked
                await changed.wait()
        finally:
            # The thread that listens can't be cancelled, but it asks every now and then whether it is to stop.
            stop.set()
            tasks.cancel_scope.cancel()


async def _listen(directories: set[Path], stop: anyio.Event, changed: anyio.Event) -> None:
    news = watchfiles.awatch(
        *directories,
        watch_filter=None,
        recursive=False,
        debounce=_DEBOUNCE_MS,
        step=_QUIET_MS,
        rust_timeout=int(_LOOK_SECONDS * 1000),
        yield_on_timeout=True,
        stop_event=stop,
    )
    try:
        async with aclosing(news):
            await anext(news, None)
    except (OSError, RuntimeError):  # a directory has just gone, or this user watches too much already
        await anyio.sleep(_LOOK_SECONDS)
    changed.set()
