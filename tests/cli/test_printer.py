"""P14: what a program leaves open on a terminal does not swallow what Gloveport says after it."""

import os
import pty

import pytest


def on_a_terminal(gloveport, code, environ):
    """What a terminal gets of ``gloveport run``."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, **environ}
    with gloveport.start("run", "-c", code, stdin=theirs, stdout=theirs, stderr=theirs, env=environ):
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # the terminal has no other end any more
            pass
        os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("left_open", ["\\x1b]", "half a line"])
def test_the_failure_is_shown_after_an_escape_sequence_without_end(gloveport, environ, left_open):
    shown = on_a_terminal(gloveport, f"import sys\nprint('{left_open}', end='', file=sys.stderr)\n1 / 0", environ)
    lines = shown.splitlines()
    assert "ZeroDivisionError: division by zero" in lines
    assert "\x1b" not in shown
