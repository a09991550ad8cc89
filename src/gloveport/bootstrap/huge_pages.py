"""Moves this process's heap into huge pages, if the kernel has them: a call after a pause has fewer TLB misses.

One region moves at a time, in a thread: other threads wait at most for the copy of one region.
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
"""Seconds between the moves: by the first, one-time work is over; by the last, late memory is there."""

_MOST_BYTES: Final = 2 << 20
"""The largest region to move: kernels with large pages have huge ones of half a gigabyte."""

_SHARE: Final = 0.9
"""This share of a region must be in memory already: a move makes the rest resident too."""

_COLLAPSE: Final = 25  # MADV_COLLAPSE, since Linux 6.1
_ENTRY_BYTES, _PRESENT = 8, 0x80  # of /proc/self/pagemap; the bit is one of the entry's last byte

_libc = ctypes.CDLL(None, use_errno=True)


@asynccontextmanager
async def huge_pages() -> AsyncIterator[None]:
    """Move the heap within the context, and its new parts again later."""
    async with open_task_group() as tasks:
        tasks.start_soon(_collapse_again_and_again)
        yield


async def _collapse_again_and_again() -> None:
    for seconds in _MOMENTS:
        await anyio.sleep(seconds)
        await to_thread.run_sync(collapse_heap, abandon_on_cancel=True)


def collapse_heap() -> int:
    """Move the parts of the heap that fill huge pages; returns how many: 0 if the kernel or administrator has none."""
    moved = 0
    with contextlib.suppress(OSError):
        size = int((_SETTINGS / "hpage_pmd_size").read_text())
        if size > _MOST_BYTES or "[never]" in (_SETTINGS / "enabled").read_text():
            return 0
        for address in [*_find_full_regions(size)]:  # all found first: no descriptor is open while they move
            check(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _COLLAPSE))
            moved += 1
    return moved


def _find_full_regions(size: int) -> Iterator[int]:
    """Addresses of private memory that could become one page of this size. Raises OSError."""
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
