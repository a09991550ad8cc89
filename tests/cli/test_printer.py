"""P14: what a program leaves open on a terminal does not swallow what Gloveport says after it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

GLOVEPORT = str(Path(sys.executable).with_name("gloveport"))


def on_a_terminal(code, environ):
    """What a terminal gets of ``gloveport run``."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, **environ}
    with subprocess.Popen([GLOVEPORT, "run", "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env=environ):
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # the terminal has no other end any more
            pass
        os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("left_open", ["\\x1b]", "\\x1bP", "\\x1b[", "half a line"])
def test_the_failure_is_shown_after_an_escape_sequence_without_end(environ, left_open):
    shown = on_a_terminal(f"import sys\nprint('{left_open}', end='', file=sys.stderr)\n1 / 0", environ)
    lines = shown.splitlines()
    assert "ZeroDivisionError: division by zero" in lines
    assert "\x1b" not in shown
