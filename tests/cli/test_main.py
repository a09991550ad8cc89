"""The command line as a whole."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import remembered

from gloveport.cli import direct

GLOVEPORT = [str(Path(sys.executable).with_name("gloveport"))]


def test_help_names_the_commands(gloveport):
    assert {"serve", "run", "doctor", "config", "audit"} <= set(gloveport.run("--help").stdout.split())
    for words in ((), ("run",), ("env", "build")):
        assert gloveport.run(*words, "-h").stdout == gloveport.run(*words, "--help").stdout != "", words


def test_where_no_thread_can_be_started_that_is_said_in_one_message(environ):
    """As at a limit of processes, which does not count for root."""
    refused = 'import threading\ndef refuse(*_): raise RuntimeError("can\'t start new thread")\n'
    code = f"{refused}threading._start_new_thread = refuse\n{ENDING.format('')}".replace("--version", "doctor")
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ | environ
    )
    assert (said.returncode, said.stderr.splitlines()[0]) == (4, "gloveport: this host lets us start no thread")


def test_a_file_where_a_directory_of_the_state_belongs_is_no_matter_of_owners_or_modes(gloveport, tmp_path):
    for name, words, remedy in (
        ("ports", ("ports",), "have a directory of this user there, or set GLOVEPORT_STATE"),
        ("approvals", ("approvals",), "move away the file that lies where a directory belongs"),
        ("approvals", ("run", "-c", "1"), "move away the file that lies where a directory belongs"),
        ("audit", ("run", "-c", "1"), "name a directory that this user can write: audit.directory"),
    ):
        state = tmp_path / f"{name}-{words[0]}"
        state.mkdir(mode=0o700)
        (state / name).touch()
        ended = gloveport.run(*words, env={**os.environ, "GLOVEPORT_STATE": str(state)}, cwd=tmp_path)
        assert ended.returncode == 2, words
        assert f"\nhint: {remedy}" in ended.stderr, words


@pytest.mark.parametrize("words", ["run -c 'print(4242)'", "exec -- true", "doctor", "serve --http --port 0"])
def test_a_limit_of_open_files_that_is_too_low_is_named_with_what_raises_it(words, environ, tmp_path):
    (tmp_path / "work").mkdir()
    for most in (8, 16, 32):
        command = ["sh", "-c", f"ulimit -n {most}; exec {GLOVEPORT[0]} {words}"]
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path / "work", env=os.environ | environ
        )
        assert told.returncode == 4, (most, told)
        message, hint = told.stderr.splitlines()
        assert message.startswith("gloveport: this process may open "), most
        assert "ulimit -Hn 65536" in hint, most


def test_a_soft_limit_of_open_files_is_raised_to_the_hard_one(environ, tmp_path):
    command = ["sh", "-c", f"ulimit -Sn 16; exec {GLOVEPORT[0]} run -c 'print(4242)'"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | environ)
    assert told.stdout == "4242\n", told.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["env", "list"], ["config", "show"], ["--help"]], ids=" ".join)
def test_output_that_a_full_disk_does_not_take_is_one_message(words, environ, unbuffered):
    environ = os.environ | environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*GLOVEPORT, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environ
        )
    assert ended.returncode == 1
    assert ended.stderr == "gloveport: the output can't be written: No space left on device\n"


def test_messages_that_a_full_disk_does_not_take_change_nothing(environ):
    """As of a log: the exit code says what has happened, and a service manager acts by it."""
    with Path("/dev/full").open("w") as full:
        for words, code in ((["config", "check", "--config", "/nowhere"], 2), (["env", "list"], 0)):
            ended = subprocess.run(
                [*GLOVEPORT, *words], stdout=subprocess.PIPE, stderr=full, check=False, env=os.environ | environ
            )
            assert ended.returncode == code


@pytest.mark.parametrize("words", [["approvals"], ["approvals", "remembered"], ["env", "list"]], ids=" ".join)
def test_a_state_directory_that_can_not_be_reached_is_one_message(gloveport, tmp_path, words):
    """As one of another user. It is here by a name that is too long, which root can't reach either."""
    ended = gloveport.run(*words, env={**os.environ, "GLOVEPORT_STATE": str(tmp_path / ("x" * 300))})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("gloveport: ")
    assert "\nhint: run as " in ended.stderr


PRESSED = """
import os, signal, sys

events = 0

def press(*_):
    global events
    events += 1
    if events == 1:
        interrupt()

def interrupt():
    sys.setprofile(None)
    os.kill(os.getpid(), signal.SIGINT)

class Pressing:
    def find_spec(self, name, *_):
        if name == "{}":
            sys.setprofile(press)

sys.meta_path.insert(0, Pressing())
sys.argv = ["gloveport", "run", "-c", "1"]
from gloveport.cli.entry_point import main
main()
"""


@pytest.mark.parametrize(
    "name", ["gloveport.cli.direct", "gloveport.untrusted_text", "gloveport.cli.logs", "anyio", "datetime"]
)
def test_ctrl_c_while_a_command_is_still_imported_ends_it_silently(name, environ):
    ended = subprocess.run(
        [sys.executable, "-c", PRESSED.format(name)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


THREAD = "threading.Thread(target=lambda: (threading.main_thread().join(), print('a thread'))).start()"
ENDING = """
import atexit, sys, threading
from gloveport.cli.main import main
atexit.register(print, "and what is registered")
{}
sys.argv = ["gloveport", "--version"]
main()
"""


@pytest.mark.parametrize(("before", "meanwhile"), [("", ""), (THREAD, "a thread\n")], ids=["alone", "thread"])
def test_what_waits_for_the_end_of_the_process_has_its_turn(before, meanwhile):
    """Though no object is freed any more."""
    said = subprocess.run([sys.executable, "-c", ENDING.format(before)], capture_output=True, text=True, check=True)
    assert said.stdout == f"gloveport 0.1.0\n{meanwhile}and what is registered\n"


def test_what_runs_one_program_does_not_wait_for_libraries_that_other_configurations_need():
    modules = "gloveport.bootstrap.app, gloveport.cli.main, gloveport.cli.single_run, gloveport.cli.run_printing"
    needless = {
        "mcp",
        "cryptography",
        "yaml",
        "typer",
        "packaging",
        "tree_sitter",
        "html",
        "configparser",
    }
    needless |= {f"gloveport.{name}" for name in ("engine.environment_provider", "skills.skill_files", "egress.proxy")}
    code = f"import sys, {modules}; raise SystemExit(bool({needless} & sys.modules.keys()))"
    subprocess.run([sys.executable, "-c", code], check=True)


CALLS = [
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "execute_code", "arguments": {"language": "python", "code": "1 + 41"}},
    },
]


@pytest.mark.parametrize(
    "command", [["run", "-c", "42"], ["exec", "--", "echo", "42"], ["serve"]], ids=lambda one: one[0]
)
def test_neither_a_run_nor_a_command_nor_a_server_until_its_first_answer_imports_pydantic(command, environ, tmp_path):
    """Which takes a third of a start: see docs/decisions/0045."""
    (tmp_path / "work").mkdir()
    with (
        (tmp_path / "imports").open("w") as imports,
        subprocess.Popen(
            [sys.executable, "-X", "importtime", *GLOVEPORT, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=imports,
            cwd=tmp_path / "work",
            env={**os.environ, **environ},
            text=True,
        ) as process,
    ):
        if command == ["serve"]:
            process.stdin.writelines(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in CALLS)
            process.stdin.flush()
            process.stdout.readline()
        assert "42" in process.stdout.readline()
        process.stdin.close()
    imported = {line.rpartition("|")[2].strip() for line in (tmp_path / "imports").read_text().splitlines()}
    assert "gloveport.sandbox.launch.spawn" in imported
    assert "pydantic" not in imported


@pytest.mark.parametrize("command", ["run", "exec", "serve"])
def test_options_that_are_read_without_the_library_are_those_of_the_command(gloveport, command):
    named = {*re.findall(r"^ +(?:-\w, )?--([a-z-]+)", gloveport.run(command, "--help").stdout, re.MULTILINE)}
    named |= {"code", "language"} if command == "run" else set()
    assert {name.removesuffix("=") for name in direct.OPTIONS[command]} == named - {"help"}


def test_no_package_hands_in_code_that_sees_what_is_validated(tmp_path):
    """As pydantic lets each do that is installed."""
    found = tmp_path / "spy-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
    (found / "entry_points.txt").write_text("[pydantic]\nspy = spy:plugin\n")
    (tmp_path / "spy.py").write_text("print('here I am')\nplugin = None\n")
    words = [*GLOVEPORT, "run", "-l", "none", "-c", "1"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for told, seen in (({}, ""), ({"PYDANTIC_DISABLE_PLUGINS": "others"}, "here I am\n")):
        done = subprocess.run(words, env={**environ, **told}, capture_output=True, text=True, check=False)
        assert done.stdout == seen


PLAIN = ["run --json -c 1", "run -l shell -c ls --timeout 3", "exec --api a --api=b -- ls --config x", "serve --http"]
OTHERS = [
    "run --js -c 1",
    "run -c 1 -c 2",
    "run a b",
    "run --timeout x -c 1",
    "exec",
    "exec --work . ls",
    "serve --port 0",
]


def test_a_command_line_that_is_not_plain_is_left_to_the_library():
    assert not [line for line in PLAIN if direct.find_direct(line.split()) is None]
    assert not [line for line in [*OTHERS, "", "doctor", "run --help"] if direct.find_direct(line.split())]


@pytest.mark.parametrize(
    "words", [("run", "nowhere.py"), ("run", "nowhere.py", "-c", "1"), ("run", "--out", ".", "a.x")]
)
def test_what_is_wrong_with_a_command_line_is_said_in_the_same_words_however_it_was_read(gloveport, words):
    plain, whole = gloveport.run(*words), gloveport.run(*words, "--timeout=1", "--timeout=1")
    assert (plain.returncode, plain.stderr) == (whole.returncode, whole.stderr)
    assert (plain.returncode, plain.stdout) == (2, "")
    assert plain.stderr.endswith("\nhint: gloveport run --help\n")


def test_a_wrong_configuration_is_one_message_and_exit_code_2(gloveport, tmp_path):
    path = tmp_path / "gloveport.toml"
    path.write_text("[policy]\nlanguage = ['python']\n")
    for arguments in (["serve"], ["run", "-c", "1"], ["doctor"]):
        ended = gloveport.run(*arguments, "--config", str(path))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "policy.language" in ended.stderr
        assert "hint: " in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.fixture
def environ(environ):
    with remembered.lent(Path(environ["GLOVEPORT_STATE"])):
        yield environ


def test_serve_on_a_terminal_says_what_it_waits_for(gloveport, environ):
    main, terminal = pty.openpty()
    pipe = subprocess.PIPE
    process = gloveport.start(
        "serve", env={**os.environ, **environ}, stdin=terminal, stdout=pipe, stderr=pipe, text=True
    )
    try:
        os.close(terminal)
        assert "waiting for an MCP client on standard input" in process.stderr.readline()
    finally:
        os.close(main)
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("command", "closed"),
    [("run", "<&-"), ("serve", "<&- >&- 2>&-")],
)
def test_closed_standard_streams_are_nothing_worse_than_empty(environ, records, tmp_path, command, closed):
    """Their numbers would be given to the next files: a program could write into the audit log."""
    line = f"exec {GLOVEPORT[0]} {command} {closed}"
    (config := tmp_path / "nothing-waits.toml").write_text("[pool]\nforked = 0\nbooted = 0\n")
    environ = {**os.environ, **environ, "GLOVEPORT_CONFIG": str(config)}
    ended = subprocess.run(["bash", "-c", line], check=False, env=environ, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, "")
    begun = Path(environ["GLOVEPORT_STATE"], "audit").exists()  # a server whose client is gone at once opens no log
    assert begun or command == "serve"
    assert all(record.kind for record in (records() if begun else ()))


def test_the_children_of_a_process_whose_parent_ignores_sigchld_are_its_own_to_reap(environ, tmp_path):
    """Else the kernel does it, and a process id that is signalled later is another's. Here a command tells a secret."""
    (config := tmp_path / "gloveport.toml").write_text(
        '[api.x]\nhosts = ["api.x.test"]\nauth = [{ kind = "bearer", secret = "command:echo of-the-owner" }]\n'
    )
    command = ["env", "--ignore-signal=CHLD", *GLOVEPORT, "doctor", "--json", "--config", str(config)]
    ended = subprocess.run(
        command, check=False, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert '"api.x"' in ended.stdout


def test_signals_that_the_parent_blocks_are_heard(environ, tmp_path):
    """As of a thread that leaves them to others. The end of a child, too, is told by a signal."""
    (config := tmp_path / "empty.toml").touch()
    (work := tmp_path / "work").mkdir()
    code = "trap 'echo tidy; exit 9' TERM; echo there; while :; do sleep 0.1; done"
    command = ["env", "--block-signal", *GLOVEPORT, "exec", "--config", str(config), "--", "bash", "-c", code]
    options = {"env": {**os.environ, **environ}, "cwd": work, "text": True}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options) as process:
        try:
            assert process.stdout.readline() == "there\n"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=30)[0] == "tidy\n"
            assert process.returncode == 9
        finally:
            process.kill()
