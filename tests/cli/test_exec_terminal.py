"""``gloveport exec`` at a terminal, as a person uses it, and what a program can do to that."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.cli.terminals import open_terminal
from tests.cli.test_exec import children

GLOVEPORT = Path(sys.executable).with_name("gloveport")


@pytest.fixture
def terminal():
    with open_terminal() as one:
        yield one


@pytest.fixture
def told(environ, tmp_path):
    """The environment of the command."""
    (tmp_path / "gloveport.toml").touch()
    return {**os.environ, **environ, "TERM": "xterm", "GLOVEPORT_CONFIG": str(tmp_path / "gloveport.toml")}


@pytest.fixture
def start(gloveport, told, tmp_path, terminal):
    """Start ``gloveport exec`` of bash with a script at the terminal."""
    started = []
    (tmp_path / "work").mkdir()

    def call(script):
        at = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.program)
        started.append(gloveport.start("exec", "bash", "-c", script, env=told, cwd=tmp_path / "work", **at))
        return started[-1]

    yield call
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def test_a_program_has_a_terminal_of_this_size_and_is_told_of_another(start, terminal):
    """E12."""
    terminal.resize(31, 97)
    # Waits for the signal itself: a shell that starts one process after the other looks at it when it pleases.
    waits = "from signal import *; pthread_sigmask(0, {28}); print('ready', flush=True); sigwait({28})"
    process = start(f'tty; stty size; python3 -c "{waits}"; stty size')
    terminal.see("/dev/pts/0\r\n31 97\r\n")
    terminal.see("ready")
    terminal.resize(50, 132)
    os.kill(process.pid, signal.SIGWINCH)  # which the kernel sends to whoever has it for a controlling terminal
    terminal.see("50 132\r\n")
    assert process.wait(30) == 0


def test_the_person_is_asked_and_answers_and_the_answer_is_shown_once(start, terminal):
    process = start('read -p "name? " name; echo "hello $name"; read -sp "secret? " secret; echo "${#secret}"')
    terminal.see(r"name\? ")
    terminal.type("Ada\r")
    terminal.see("hello Ada\r\n")
    terminal.see(r"secret\? ")
    terminal.type("12345\r")
    terminal.see("5\r\n")
    assert process.wait(30) == 0
    assert terminal.screen.count(b"Ada") == 2
    assert b"12345" not in terminal.screen


def test_ctrl_c_is_the_programs(start, terminal):
    # The program that is interrupted says when. Bash would lose what it hears between ``echo`` and ``exec``.
    says = "python3 -c 'import signal, sys, time; signal.signal(2, 0); print(sys.argv[1], flush=True); time.sleep(60)'"
    process = start(f"trap 'echo caught' INT; {says} ready; trap - INT; exec {says} again")
    terminal.see("ready")
    terminal.type("\x03")
    terminal.see("caught\r\nagain")
    terminal.type("\x03")
    assert process.wait(30) == 128 + signal.SIGINT


def test_a_program_may_draw_on_the_whole_screen_and_do_nothing_else_with_the_terminal(start, terminal):
    r"""P14, P41: not write into the clipboard, print, or ask what the terminal would answer by typing."""
    usual = terminal.settings
    hostile = r"\e]52;c;ZXZpbA==\a\e[5i\e[21t\eP$qm\e\\\e]1337;File=name=eA==:eA==\a\e[?1000;2004h\e[>1u"
    process = start(rf"stty raw -echo; printf '\e[?1049h\e[H\e[7mdrawn\e[0m{hostile}'; sleep 0.01; kill -KILL $$")
    assert process.wait(30) == 128 + signal.SIGKILL
    terminal.see(r"\x1b\[\?1049h\x1b\[H\x1b\[7mdrawn\x1b\[0m")
    terminal.take()
    for sequence in (b"52;c", b"[5i", b"[21t", b"$qm", b"1337"):
        assert sequence not in terminal.screen
    after = terminal.screen[terminal.screen.index(b"drawn") :]
    for sequence in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[<1u"):
        assert sequence in after
    assert terminal.settings == usual


def test_the_clipboard_is_written_where_the_operator_lets_it(start, terminal, told):
    """T5: ``exec.clipboard``. It is read in no case."""
    Path(told["GLOVEPORT_CONFIG"]).write_text("[exec]\nclipboard = true\n")
    process = start(r"printf '\e]52;c;Z29vZA==\a\e]52;c;?\adone\n'")
    terminal.see(r"\x1b\]52;c;Z29vZA==\x07done")
    assert process.wait(30) == 0


def test_the_callers_terminal_is_not_inside(start, terminal):
    """P7, P41: neither as a descriptor nor as a controlling terminal, and nothing is typed into it."""
    inject = "import fcntl,termios;[fcntl.ioctl(n,termios.TIOCSTI,b'x') for n in (0,)]"
    process = start(
        f'for n in /proc/self/fd/*; do readlink $n; done; python3 -c "{inject}"; ls /dev/pts; tty < /dev/tty; echo over'
    )
    terminal.see("over\r\n")
    assert process.wait(30) == 0
    ours = os.ttyname(terminal.program)
    assert ours == "/dev/pts/0" or ours.encode() not in terminal.screen
    assert b"PermissionError" in terminal.screen


@pytest.mark.parametrize("killed", ["front", "engine"])
def test_the_terminal_is_as_before_though_one_of_our_processes_is_killed(
    start, terminal, killed, eventually, is_running
):
    """P9, P41: and nothing is left."""
    usual, word = terminal.settings, f"{os.getpid()}7{len(killed)}"
    process = start(rf"printf '\e[?1049hready'; sleep {word}")
    terminal.see("ready")
    eventually(lambda: terminal.settings != usual)
    (engine,) = children(process.pid)
    os.kill(process.pid if killed == "front" else engine, signal.SIGKILL)
    assert process.wait(30) == (-signal.SIGKILL if killed == "front" else 128 + signal.SIGKILL)
    terminal.see(r"\x1b\[\?1049l")
    if killed == "engine":
        terminal.see(r"\x1b\[<99u.*\x1b\]8;;\x1b\\")
    eventually(lambda: terminal.settings == usual and not is_running(word))


def test_a_terminal_that_is_closed_ends_all(gloveport, told, tmp_path, is_running, eventually):
    """P9."""
    word = f"{os.getpid()}71"
    (tmp_path / "work").mkdir()
    with open_terminal() as terminal:
        at = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.program)
        process = gloveport.start(
            "exec", "bash", "-c", f"echo ready; sleep {word}", env=told, cwd=tmp_path / "work", **at
        )
        terminal.see("ready")
    os.kill(process.pid, signal.SIGHUP)
    assert process.wait(30) == 128 + signal.SIGHUP
    eventually(lambda: not is_running(word))


@pytest.fixture
def shell(told, tmp_path, terminal):
    """A shell with job control, in the project's directory, at the terminal."""
    (tmp_path / "work").mkdir(exist_ok=True)
    argv = [shutil.which("setsid"), "--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"]
    at = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.program)
    with subprocess.Popen(argv, env={**told, "PS1": "prompt> "}, cwd=tmp_path / "work", **at) as process:
        terminal.see("prompt> ")
        yield process
        process.kill()


def test_ctrl_z_stops_the_program_and_gives_the_shell_its_terminal_back(shell, terminal):
    """E12: as with a program that runs here; ``fg`` lets it go on, with the terminal's new size."""
    usual = terminal.settings
    # With a time, since it may be stopped before it reads, and bash looks for signals between commands.
    program = 'trap "echo again; stty size" CONT; echo ready; until read -t 1 line; do :; done; echo got $line'
    terminal.type(f"{GLOVEPORT} exec bash -c '{program}'\r")
    terminal.see("ready\r\n")
    terminal.type("\x1a")
    terminal.see("Stopped")
    terminal.see("prompt> ")
    assert terminal.settings[3] & termios.ICANON == usual[3] & termios.ICANON
    terminal.resize(40, 100)
    terminal.type("echo between\r")
    terminal.see("\rbetween\r\n")
    terminal.type("fg\r")
    terminal.see("again\r\n40 100")
    terminal.type("line\r")
    terminal.see("got line")
    terminal.see("prompt> ")


def is_stopped(word):
    """Whether a bash that has this word as its name is stopped."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            argv = (process / "cmdline").read_text().split("\0")
            if argv[0] == "bash" and word in argv:
                return (process / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def test_a_program_that_stops_itself_before_the_terminal_is_its_own_goes_on(shell, terminal, eventually):
    """As on a busy host, where our process at the terminal comes late: here it is held, by a stop of its own."""
    word = f"{os.getpid()}73"
    terminal.type(f"{GLOVEPORT} exec bash -c 'kill -STOP $$; read line; echo got $line' {word}\r")
    eventually(lambda: any(children(front) for front in children(shell.pid)))
    (front,) = children(shell.pid)
    os.kill(front, signal.SIGSTOP)
    terminal.see("Stopped")
    terminal.see("prompt> ")
    eventually(lambda: is_stopped(word))
    terminal.type("fg\r")
    terminal.see("Stopped")
    terminal.see("prompt> ")
    terminal.type("echo for the $((1 + 1))nd shell\r")
    terminal.see("for the 2nd shell")
    terminal.type("fg\r")
    eventually(lambda: not is_stopped(word))
    terminal.type("line\r")
    terminal.see("got line")
    terminal.see("prompt> ")


def test_a_program_that_stops_itself_is_watched_all_the_same(shell, terminal, told, is_running, eventually):
    """P8: else whatever it has started would be bound by no limit that we look after."""
    word = f"{os.getpid()}72"
    Path(told["GLOVEPORT_CONFIG"]).write_text("[exec.limits]\nwall_seconds = 2\n")
    begun = "until grep -q sleep /proc/$!/comm; do :; done"  # else nothing of that name may run yet
    terminal.type(f"{GLOVEPORT} exec bash -c 'sleep {word} & {begun}; kill -STOP $$'\r")
    terminal.see("Stopped")
    eventually(lambda: not is_running(f"{word}"))
    terminal.type("fg\r")
    terminal.see(r"killed \(wall_seconds\)")
    terminal.see("prompt> ")
