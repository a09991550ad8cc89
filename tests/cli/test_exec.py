"""``gloveport exec`` without a terminal, as scripts and other programs use it."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.environments.index import make_wheel, write_index


@pytest.fixture
def work(tmp_path):
    """The directory of a project."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def told(environ, tmp_path):
    """The environment of the command."""
    return {**os.environ, **environ, "GLOVEPORT_CONFIG": str(config_file(tmp_path, ""))}


def config_file(tmp_path, text):
    file = tmp_path / "gloveport.toml"
    file.write_text(text)
    return file


@pytest.fixture
def run(gloveport, told, work):
    """Run ``gloveport exec`` in the project's directory, to its end."""
    return lambda *arguments, **options: gloveport.run("exec", *arguments, env=told, cwd=work, **options)


@pytest.fixture
def start(gloveport, told, work):
    """Start ``gloveport exec`` in the project's directory."""
    started = []

    def call(*arguments, **options):
        pipe = subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe} | options
        started.append(gloveport.start("exec", *arguments, env=told, cwd=work, **options))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("umask", "file", "directory"), [("077", 0o600, 0o700), ("027", 0o640, 0o750), ("0", 0o644, 0o755)]
)
def test_a_program_has_the_umask_of_its_owner_and_lets_nobody_else_write(told, work, umask, file, directory):
    gloveport = Path(sys.executable).with_name("gloveport")
    command = [
        "sh",
        "-c",
        f"umask {umask}; exec {gloveport} exec -- sh -c 'mkdir made; echo 1 > made/new; cat made/new'",
    ]
    ended = subprocess.run(command, cwd=work, env=told, capture_output=True, text=True, check=False)
    assert ended.stdout == "1\n", ended.stderr
    modes = [stat.S_IMODE((work / name).stat().st_mode) for name in ("made/new", "made")]
    assert modes == [file, directory]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--", "{loop}"], 127, "No such file or directory"),
        (["--workspace", "{loop}", "--", "true"], 2, "Too many levels of symbolic links"),
    ],
)
def test_a_link_that_leads_back_to_itself_is_named_in_a_plain_message(run, work, arguments, code, problem):
    loop = work.parent / "loop"
    loop.symlink_to("loop")
    ended = run(*(one.format(loop=loop) for one in arguments))
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    assert problem in ended.stderr


def test_without_a_configuration_a_program_has_this_directory_and_nothing_else(run, work, records):
    """E12, P1, P2, P13: what it may write, what it finds of the host, and what is written down."""
    (work / "file").write_text("inside\n")
    (work.parent / "beside").write_text("outside\n")
    (work / ".git/hooks").mkdir(parents=True)
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    script = (
        "cat file; echo made > made; ls ..; cat ../beside; cat /etc/shadow; echo x > .git/hooks/pre-commit;"
        "exec 3<>/dev/tcp/1.1.1.1/80"
    )
    ended = run("--", "bash", "-c", script)
    assert ended.stdout.startswith("inside\n")
    assert "outside" not in ended.stdout
    assert ended.stderr.count("No such file") == 2
    assert "Read-only file system" in ended.stderr
    assert "Network is unreachable" in ended.stderr
    assert ended.returncode == 1
    assert (work / "made").read_text() == "made\n"
    assert (work / "made").stat().st_uid == work.stat().st_uid
    written = {record.kind: record for record in records()}
    admitted, over = written["command.admitted"], written["command.ended"]
    assert admitted.fields["command"].startswith("bash -c 'cat file; ")
    assert (over.fields["exit_code"], over.fields["of"]) == (1, admitted.seq)


def test_input_output_and_errors_are_the_callers_and_come_as_they_are(start):
    every = bytes(range(256)) * 1000 + b"no end of line"
    process = start("--", "bash", "-c", "tee /dev/stderr")
    assert process.communicate(every, timeout=30) == (every, every)


def test_a_line_comes_as_soon_as_it_was_written(start):
    """So that a server over standard streams can be one of these programs."""
    process = start("cat")
    for line in (b"one\n", b"two\n", b"no line end yet"):
        process.stdin.write(line)
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == line


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exec nix", 127)],
)
def test_it_ends_as_the_program_has_ended(run, script, code):
    assert run("bash", "-c", script).returncode == code


def test_options_of_the_program_are_its_own(run):
    assert run("--no-network", "bash", "-c", 'echo "$@"', "--", "--workspace", "--api").stdout == "--workspace --api\n"


def test_it_begins_where_the_caller_is_in_the_workspace_that_was_named(gloveport, told, work):
    (work / "below").mkdir()
    script = ("--workspace", work, "--", "bash", "-c", "basename $PWD; ls ..")
    ended = gloveport.run("exec", *script, env=told, cwd=work / "below")
    assert ended.stdout == "below\nbelow\n"
    assert gloveport.run("exec", *script, env=told, cwd="/").stdout.startswith("work")


def test_who_wants_only_a_line_of_endless_output_gets_it_and_ends_it(start):
    """A program waits for a slow reader, as it would in a pipe; and is told when nobody reads any more."""
    process = start("yes")
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(30) == 128 + signal.SIGPIPE


def test_a_reader_who_takes_nothing_makes_the_program_wait_and_not_us_grow(start, eventually):
    """P8: what nobody reads is held in no memory of ours."""
    process = start("bash", "-c", "while :; do echo $SECONDS$RANDOM$RANDOM$RANDOM$RANDOM; done")
    process.stdout.read(100_000)
    (engine,) = children(process.pid)
    before = resident(engine)

    def is_still():
        used = cpu_ticks(engine)
        return cpu_ticks(engine) == used

    eventually(is_still)
    assert resident(engine) - before < 8 << 20


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_ticks(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_with_its_caller_the_program_ends_and_leaves_nothing(start, is_running, eventually, number):
    """P9: though it takes no notice, and has started others that have left its session."""
    word = f"{os.getpid()}9{int(number)}"
    process = start("bash", "-c", f"trap '' TERM HUP INT; setsid sleep {word} & echo there; sleep {word}; sleep {word}")
    assert process.stdout.readline() == b"there\n"
    eventually(lambda: is_running(word))
    os.kill(process.pid, number)
    assert process.wait(30) in {128 + number, -number}
    eventually(lambda: not is_running(word))


def test_a_program_may_end_in_its_own_way_when_its_caller_is_told_to(start):
    process = start("bash", "-c", "trap 'echo tidy; exit 9' TERM; echo there; while :; do sleep 0.1; done")
    assert process.stdout.readline() == b"there\n"
    os.kill(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == b"tidy\n"
    assert process.returncode == 9


def test_a_program_under_nohup_goes_on_when_the_terminal_is_closed(told, work):
    gloveport = Path(sys.executable).with_name("gloveport")
    command = ("nohup", gloveport, "exec", "bash", "-c", "echo there; read -r line; echo $line")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=told, cwd=work, **pipes) as process:
        assert process.stdout.readline() == b"there\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate(b"on\n", timeout=30) == (b"on\n", b"")
    assert process.returncode == 0


@pytest.mark.parametrize("program", ["echo some", "yes"])
def test_output_that_a_full_disk_does_not_take_is_not_lost_in_silence(start, program):
    with Path("/dev/full").open("wb") as full:
        process = start("sh", "-c", program, stdout=full)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (1, b"gloveport: the output can't be written: No space left on device\n")


def test_a_signal_before_the_program_begins_ends_all(start):
    process = start("bash", "-c", "echo began")
    os.kill(process.pid, signal.SIGINT)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode in {128 + signal.SIGINT, 0} | {-signal.SIGINT}
    assert (process.returncode == 0) == (stdout == b"began\n")


def test_a_state_directory_that_can_not_be_written_is_named_with_what_to_do(run, told, tmp_path):
    """T3."""
    told["GLOVEPORT_STATE"] = str(tmp_path / "file")
    (tmp_path / "file").touch()
    ended = run("--", "echo", "ran")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{tmp_path}/file/workspaces/" in ended.stderr
    assert ended.stderr.endswith(
        "Not a directory\nhint: name a directory that this user can write by GLOVEPORT_STATE\n"
    )


def test_the_state_directory_may_be_reached_by_a_symbolic_link(run, told, tmp_path):
    """As the home directory of many a user is."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    told["GLOVEPORT_STATE"] = str(tmp_path / "home/state")
    ended = run("--", "echo", "ran")
    assert (ended.stdout, ended.stderr) == ("ran\n", "")
    assert (tmp_path / "disk/state/workspaces").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root files are shown with another owner")
def test_a_file_system_without_id_mapped_mounts_is_named_with_what_to_do(environ, tmp_path):
    """T3: as the overlay of most containers."""
    script = 'mount -t ramfs ramfs "$1" && cd "$1" && exec "$2" -P -c "$3" exec -- echo ran'
    (project := tmp_path / "project").mkdir()
    words = ["sh", "-c", script, "sh", project, sys.executable, "from gloveport.cli.main import main; main()"]
    environment = {**os.environ, "GLOVEPORT_STATE": environ["GLOVEPORT_STATE"]}
    ended = subprocess.run(
        ["unshare", "--mount", *words], check=False, env=environment, capture_output=True, text=True, timeout=100
    )
    assert (ended.returncode, ended.stdout) == (4, "")
    assert f"the file system of {project}" in ended.stderr
    assert "in a container, whose overlay has none, on a volume" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else can close a directory to the owner of the workspace")
def test_a_directory_that_is_closed_to_the_owner_is_named_with_what_to_do(run, work):
    closed = work / "closed"
    closed.mkdir(mode=0o700)
    (closed / ".bashrc").touch()
    os.chown(work, 54_321, 54_321)
    ended = run("ls")
    assert ended.returncode == 4
    assert "closed/.bashrc" in ended.stderr
    assert "chown" in ended.stderr.splitlines()[-1]


def test_its_limits_end_it_and_are_named(run, told, tmp_path):
    """E4, T5: ``exec.limits``."""
    config_file(tmp_path, "[exec.limits]\nwall_seconds = 0.5\nmemory_bytes = '64MiB'\n")
    slow = run("sleep", "60")
    assert (slow.returncode, slow.stderr) == (124, "gloveport: killed (wall_seconds)\n")


def test_a_home_is_no_workspace(run, tmp_path, gloveport, told):
    ended = gloveport.run("exec", "true", env=told, cwd="/")
    assert ended.returncode == 2
    assert "hint:" in ended.stderr


def test_a_program_has_the_environment_that_is_named(run, told, tmp_path):
    """E8."""
    index = write_index(tmp_path / "simple", "tooled", make_wheel("tooled"))
    config_file(tmp_path, f"packages.indexes = ['{index}']\n[environments.one]\npython = ['tooled']\n")
    ended = run("--env", "one", "--", "python3", "-c", "import tooled; print(tooled.VERSION)")
    assert ended.stdout == "1.0\n", ended.stderr
    assert ended.stderr.startswith("one: resolving 1 requirements\n")
    assert run("--env", "one", "true").stderr == ""  # it is there
    ended = run("--env", "../one", "true")
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, "hint: There are: one.")


BEFORE_THE_LOOP = """
import sys
import gloveport.bootstrap.foreground_plan
from gloveport.sandbox.launch.launcher import Launcher
with Launcher.open() as launcher:
    launcher.prepare()
print([name for name in sys.modules if name.startswith(("asyncio", "anyio."))])
"""


def test_a_sandbox_is_begun_before_an_event_loop_is_imported():
    """To import one takes a fifth of the start, beside which the sandbox starts."""
    said = subprocess.run([sys.executable, "-c", BEFORE_THE_LOOP], capture_output=True, text=True, check=True)
    assert said.stdout == "['anyio._lazyimport']\n"


def test_no_program_that_a_command_has_left_prints_a_secret_later(run, gloveport, told, work, tmp_path):
    """P30: the directory is no configured workspace, but an active environment in it comes first on PATH."""
    (work / ".venv/bin").mkdir(parents=True)
    code = f"printf '#!/bin/sh\\ntouch {tmp_path}/ran; echo x' > .venv/bin/tool; chmod 755 .venv/bin/tool"
    assert run("--", "sh", "-c", code).returncode == 0
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").write_text("#!/bin/sh\necho of-the-owner")
    (tmp_path / "bin/tool").chmod(0o755)
    (tmp_path / "link").symlink_to(work)
    text = '[api.x]\nhosts = ["api.x.test"]\nauth = [{ kind = "bearer", secret = "command:tool" }]\n'
    config = config_file(tmp_path, text)
    for place in (work, tmp_path / "link"):
        environ = {**told, "PATH": f"{place}/.venv/bin:{tmp_path}/bin:{told['PATH']}"}
        ended = gloveport.run("doctor", "--json", "--config", str(config), env=environ, cwd=tmp_path)
        assert '"api.x' in ended.stdout
        assert not (tmp_path / "ran").exists(), place
