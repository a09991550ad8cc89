"""Starts the reaper as a process of its own. Imports almost nothing: the reaper starts during all other imports."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
_START = _HERE.parents[1] / "guest" / "start.py"


class ReaperProcess(NamedTuple):
    """A reaper that was started; it ends when ``control`` is closed."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket


def start_reaper() -> ReaperProcess:
    """Start a reaper from its cached bytecode. Raises OSError if it can't be started."""
    control, theirs = socket.socketpair()
    control.settimeout(0)
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - every word of the command line is ours
            [sys.executable, "-I", "-S", str(_START), str(_HERE / "reaper.py"), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return ReaperProcess(process, control)
