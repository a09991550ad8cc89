"""Moves this process's heap into huge pages, where the kernel has them: a call after a pause misses fewer translations.

A region moves at a time, in a thread: nobody else waits for longer than it takes to copy one.
"""

import contextlib
import ctypes
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from gloveport.openat2 import check
from gloveport.task_group import open_task_group

_SETTINGS: Final = Path("/sys/kernel/mm/transparent_hugepage")
_MOMENTS: Final = (2.0, 10.0, 60.0)
"""So many seconds after one another: what runs once is over by the first, what comes late is there by the last."""

_MOST_BYTES: Final = 2 << 20
"""Of one region: kernels with large pages have huge ones of half a gigabyte."""

_SHARE: Final = 0.9
"""Of a region this much must be in memory already: what is missing becomes memory too."""

_COLLAPSE: Final = 25  # MADV_COLLAPSE, since Linux 6.1
_ENTRY_BYTES, _PRESENT = 8, 0x80  # of /proc/self/pagemap; the bit is one of the entry's last byte

_libc = ctypes.CDLL(None, use_errno=True)


@asynccontextmanager
async def huge_pages() -> AsyncIterator[None]:
    """Move the heap while the context lasts, and again later what has come to it."""
    async with open_task_group() as tasks:
        tasks.start_soon(_collapse_again_and_again)
        yield


async def _collapse_again_and_again() -> None:
    for seconds in _MOMENTS:
        await anyio.sleep(seconds)
        await to_thread.run_sync(collapse_heap, abandon_on_cancel=True)


def collapse_heap() -> int:
    """Move what of the heap fills huge pages. How many it fills: 0 where the kernel or its administrator has none."""
    moved = 0
    with contextlib.suppress(OSError):
        size = int((_SETTINGS / "hpage_pmd_size").read_text())
        if size > _MOST_BYTES or "[never]" in (_SETTINGS / "enabled").read_text():
            return 0
        for address in [*_find_full_regions(size)]:  # at once: no descriptor is open while they move
            check(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _COLLAPSE))
            moved += 1
    return moved


def _find_full_regions(size: int) -> Iterator[int]:
    """Addresses of private memory that could be one page of this size. Raises OSError."""
    page = os.sysconf("SC_PAGE_SIZE")
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, _, _, inode, *name = line.split()
            if access != "rw-p" or inode != "0" or (name and name != ["[heap]"]):
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            for address in range(-(-start // size) * size, end - size + 1, size):
                entries = os.pread(pagemap.fileno(), size // page * _ENTRY_BYTES, address // page * _ENTRY_BYTES)
                present = sum(byte >= _PRESENT for byte in entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES])
                if present >= _SHARE * size / page:
                    yield address
