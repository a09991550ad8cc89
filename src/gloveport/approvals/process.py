"""Identifies a process by its number and start time, since numbers are used again."""

from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def birth_of(pid: int) -> str:
    """When a process was started: the boot of this host, and clock ticks since. Empty where there is no such process.

    A zombie does not count as a process, nor does one that this process can't see, in another container for example.
    """
    try:
        # After the command's name, which may hold any character: state, ppid, … starttime as the 20th.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in {"Z", "X"} else f"{_BOOT.read_text().strip()} {fields[19]}"
    except (OSError, IndexError):
        return ""
