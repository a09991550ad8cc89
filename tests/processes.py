"""Processes of this host, as the kernel tells of them."""

import contextlib
from pathlib import Path


def below(pid: int) -> list[int]:
    """Process ids below one that are alive: the reaper reaps the dead in its own time."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            found += [*([] if is_dead(child) else [child]), *below(child)]
    return found


def is_dead(pid: int) -> bool:
    """Whether a process has ended, or there is none of this number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
