"""``gloveport run`` as a person, or a shell script, uses it."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def run(gloveport, environ):
    """Run ``gloveport run`` to its end."""
    return lambda *arguments, **options: gloveport.run("run", *arguments, env={**os.environ, **environ}, **options)


@pytest.fixture
def start(gloveport, environ):
    """Start ``gloveport run``."""
    started = []

    def call(*arguments, **options):
        pipe = subprocess.PIPE
        options = {"stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL} | options
        started.append(gloveport.start("run", *arguments, env={**os.environ, **environ}, text=True, **options))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


def test_output_stays_apart_and_the_value_comes_last(run):
    ended = run("-c", "import sys\nprint('out', end='')\nprint('err', file=sys.stderr)\n{'a': 'é'}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, 'out\n{"a": "é"}\n', "err\n")


@pytest.mark.parametrize(
    ("name", "code", "output"),
    [
        ("a.ts", "const x: string = 'ts'; console.log(x)", "ts\n"),
        ("a.sh", "echo sh", "sh\n"),
    ],
)
def test_the_language_is_known_by_the_file_s_name(run, tmp_path, name, code, output):
    (tmp_path / name).write_text(code)
    assert run(str(tmp_path / name)).stdout == output


def test_a_program_comes_from_standard_input_too(run):
    for arguments, code in ((["-", "-l", "shell"], "echo $((6 * 7))"), ([], "print(6 * 7)")):
        assert run(*arguments, input=code).stdout == "42\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-c", "1/0"], 1, "ZeroDivisionError: division by zero"),
        (["-l", "shell", "-c", "exit 7"], 1, "exit code 7"),
        (["-c", "x = 'x' * 10**9", "--memory", "64MiB"], 1, "hint: hold less in memory"),
        (
            ["-c", "while True: pass", "--timeout", "0.2"],
            124,
            "gloveport: timeout (wall_seconds)\nhint: give a longer --timeout, ",
        ),
        (["-c", "#" * 10, "--config", "CONFIG"], 3, "code_too_large"),
        (["-l", "ruby", "-c", "1"], 2, "--language: should be 'python', 'typescript', 'javascript' or 'shell'"),
        (["--timeout", "-1", "-c", "1"], 2, "--timeout: should be greater than 0"),
        (["--memory", "lots", "-c", "1"], 2, "--memory: "),
        (["-c", "1", "file"], 2, "not both"),
        (["-c", "print(1)", "--out", "/dev/null"], 2, "--out /dev/null: File exists"),
        (["/nonexistent.py"], 2, "/nonexistent.py can't be read: No such file or directory"),
        (["/"], 2, "Is a directory"),
        (["/usr/bin/env"], 2, "is no UTF-8 text"),
    ],
    ids=str,
)
def test_every_way_to_fail_has_its_exit_code_and_its_reason(run, tmp_path, arguments, code, said):
    (tmp_path / "gloveport.toml").write_text("[policy.limits]\ncode_bytes = 5\n")
    ended = run(*(str(tmp_path / "gloveport.toml") if word == "CONFIG" else word for word in arguments))
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr
    assert 'File "/' not in ended.stderr
    assert ended.stdout == ""


def test_code_whose_bytes_are_no_utf_8_is_a_usage_error(run):
    ended = run("-c", os.fsdecode(b"'\xff'"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "gloveport: CODE is no UTF-8 text: character 1 is wrong\nhint: gloveport run --help\n"


def test_where_no_sandbox_can_be_built_the_exit_code_is_4(run, tmp_path):
    """T3."""
    (tmp_path / "gloveport.toml").write_text('[sandbox]\nbubblewrap = "/nonexistent/bwrap"\n')
    ended = run("-c", "print('ran')", "--config", str(tmp_path / "gloveport.toml"))
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "/nonexistent/bwrap" in ended.stderr
    assert "hint: " in ended.stderr


def test_nothing_runs_when_it_can_not_be_written_down(run, environ, tmp_path):
    """A1."""
    (tmp_path / "state").write_text("a file where a directory should be")
    ended = run("-c", "print('ran')")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "audit log" in ended.stderr


def test_json_is_the_whole_result(run, tmp_path):
    (program := tmp_path / "a.py").write_text("print('out'); 1/0")
    ended = run("--json", str(program))
    result = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert (result["status"], result["stdout"]["text"], result["error"]["type"]) == (
        "error",
        "out\n",
        "ZeroDivisionError",
    )
    assert result["language"] == "python"
    assert ended.stderr == ""


def test_output_comes_while_the_program_runs(start):
    process = start("-c", "import time; print('first', flush=True); time.sleep(60)")
    assert process.stdout.readline() == "first\n"
    assert process.poll() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=str)
def test_a_signal_kills_the_program_and_is_told_by_the_exit_code(start, records, is_running, eventually, number, code):
    """E5."""
    word = f"77{time.time_ns()}"
    process = start("-l", "shell", "-c", f"sleep {word} & sleep {word}; true")
    eventually(lambda: is_running(word))
    process.send_signal(number)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == code
    assert not is_running(word)
    assert records()[-1].fields["status"] == "cancelled"


def test_a_reader_that_goes_ends_the_program_silently(start):
    """``gloveport run … | head -1``"""
    process = start("-l", "shell", "-c", "yes")
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == ""


def test_a_reader_that_sleeps_does_not_keep_the_limits_from_being_enforced(start, is_running, eventually):
    """E4: the clock runs though nobody takes the output."""
    word = f"78{time.time_ns()}"
    process = start("-l", "shell", "--timeout", "2", "-c", f"sleep {word} & echo; yes | head -c 1000000; wait")
    assert os.read(process.stdout.fileno(), 1) == b"\n"
    eventually(lambda: not is_running(word))
    assert process.poll() is None
    output, _ = process.communicate(timeout=30)
    assert len(output) == 1_000_000
    assert process.returncode == 124


def test_more_output_than_an_answer_shows_is_printed_whole(run):
    ended = run("-c", "print('é' * 100_000)")
    assert (ended.stdout, ended.stderr) == ("é" * 100_000 + "\n", ""), "nor is there a hint to print less"


def test_a_limit_that_can_not_be_had_is_told(run):
    ended = run("-c", "1", "--memory", "1TiB", "--timeout", "5000")
    assert (ended.returncode, ended.stdout) == (0, "1\n")
    assert ended.stderr.splitlines() == [
        "gloveport: --timeout 5000 is lowered to 300 s, as policy.limits.wall_seconds says",
        "gloveport: --memory 1048576 MiB is lowered to 512 MiB, as policy.limits.memory_bytes says",
    ]


def test_no_escape_sequence_reaches_a_terminal(gloveport, environ):
    code = "import sys\nprint('\\x1b]0;title\\x07a\\x1b[31mb')\nsys.stdout.flush()\nraise ValueError('\\x1b[2Jc')"
    main, terminal = pty.openpty()
    try:
        environ = {**os.environ, **environ}
        process = gloveport.start(
            "run", "-c", code, env=environ, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
        )
        process.wait(timeout=30)
        shown = os.read(main, 1 << 16).decode()
    finally:
        os.close(terminal)
        os.close(main)
    assert "ab\r\n" in shown
    assert "ValueError: c" in shown
    assert "\x1b" not in shown


def test_where_there_is_no_terminal_bytes_come_as_they_are(run, tmp_path):
    (program := tmp_path / "a.mjs").write_text(r"console.log('\x1b[31mred')")
    assert run(str(program)).stdout == "\x1b[31mred\n"


def test_a_full_disk_is_named(start):
    with Path("/dev/full").open("w") as full:
        process = start("-c", "print('x')", stdout=full)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr == "gloveport: the output can't be written: No space left on device\n"


def test_a_hard_limit_that_would_start_a_core_handler_is_named(environ):
    """P12: who may raise it runs the program."""
    command = 'ulimit -c 0; exec "$@"'
    line = [
        "/usr/bin/bash",
        "-c",
        command,
        "bash",
        str(Path(sys.executable).with_name("gloveport")),
        "run",
        "-c",
        "1 + 1",
    ]
    done = subprocess.run(line, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
    refused = "launch: [Errno 1] the hard limit of core files is 0, and has to be 1 or more: `ulimit -Hc 1`"
    assert done.stdout == "2\n" or refused in done.stderr


def test_what_a_program_leaves_is_put_where_out_says(run, tmp_path):
    """E3: in the place of what has such a name, and told by name."""
    out = tmp_path / "new" / "out"
    ended = run(
        "-l", "shell", "-c", "mkdir /out/d; printf 1 > /out/d/a.txt; printf xxxxxxxxx > /out/b", "--out", str(out)
    )
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.splitlines() == [f"gloveport: {out}/b (9 bytes)", f"gloveport: {out}/d/a.txt (1 bytes)"]
    assert {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()} == {
        "d/a.txt": b"1",
        "b": b"x" * 9,
    }
    run("-c", "open('/out/b', 'w').write('again')", "--out", str(out))
    assert (out / "b").read_text() == "again"


def test_what_a_program_leaves_without_out_is_told_to_be_lost(run):
    ended = run("-c", "open('/out/a', 'w').write('1'); None")
    assert "1 files in /out are not kept" in ended.stderr
    assert "hint: --out DIR" in ended.stderr


def test_nothing_that_a_program_leaves_lands_outside_of_out(run, tmp_path):
    """Names are the program's: what can't be one here is escaped; a link that lies here is replaced, not followed."""
    out, aside = tmp_path / "out", tmp_path / "aside"
    out.mkdir()
    aside.mkdir()
    (aside / "kept").write_text("kept")
    (out / "link").symlink_to(aside / "kept")
    (out / "directory").symlink_to(aside)
    code = r"""
import os
for name in (b'..\\x', b'a\nb', b'\xff', b'link', b'.bashrc'):
    open(b'/out/' + name, 'w').write('x')
os.symlink('/etc/passwd', '/out/passwd')
None
"""
    ended = run("-c", code, "--out", str(out))
    assert (aside / "kept").read_text() == "kept"
    assert not (out / "link").is_symlink()
    assert {path.name for path in out.iterdir()} == {"..\\x", "a\\nb", "\\xff", "link", "directory"}
    assert f"{out}/.bashrc is not written: it would run something later" in ended.stderr
    assert "/out/passwd: a link" in ended.stderr
    nested = run("-c", "import os; os.mkdir('/out/directory'); open('/out/directory/a', 'w'); None", "--out", str(out))
    assert list(aside.iterdir()) == [aside / "kept"]
    assert "Not a directory" in nested.stderr or "symbolic links" in nested.stderr


def test_nothing_that_a_program_leaves_runs_when_its_owner_calls_git(run, tmp_path):
    """P40: `--out .` is usual, and a repository's configuration names programs; a directory may become one."""
    runs = "[core]\\n\\tfsmonitor = touch pwned; false\\n\\tworktree = .\\n"
    layouts = {
        ".git": ["config", "hooks/post-checkout"],
        "bare": ["HEAD", "config", "objects/x", "refs/x"],
        ".": [".git"],
    }
    for number, (place, names) in enumerate(layouts.items()):
        out = tmp_path / f"{number}"
        subprocess.run(["git", "init", "-q", str(out)], check=True)
        before = (out / ".git/config").read_bytes()
        code = (
            f"import os\nfor name in {names}:\n    path = os.path.join('/out', {place!r}, name)\n"
            f"    os.makedirs(os.path.dirname(path), exist_ok=True)\n"
            f"    open(path, 'w').write('ref: refs/heads/main' if name == 'HEAD' else '{runs}')\nNone"
        )
        ended = run("-c", code, "--out", str(out))
        assert ended.returncode == 0, ended.stderr
        assert "is not written: it would run something later" in ended.stderr
        for where in (out, out / place):
            subprocess.run(["git", "-C", str(where), "status"], check=False, capture_output=True)
        assert (out / ".git/config").read_bytes() == before
        assert not [*out.rglob("pwned")], place
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    ended = run("-c", "open('/out/config', 'w').write('x'); None", "--out", str(bare))
    assert f"{bare}/config is not written" in ended.stderr
    home = tmp_path / ".config"
    run("-c", "import os; os.mkdir('/out/git'); open('/out/git/config', 'w').write('x'); None", "--out", str(home))
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_what_can_not_be_written_to_out_leaves_nothing_there(run, tmp_path):
    """And what can be is there; whoever goes on only after a success does not go on without the rest."""
    out = tmp_path / "out"
    (out / "b").mkdir(parents=True)
    ended = run("-c", "for name in 'abc': open(f'/out/{name}', 'w').write('x')\nNone", "--out", str(out))
    assert f"{out}/b is not written: Is a directory" in ended.stderr
    assert ended.returncode == 1
    assert [path.name for path in sorted(out.iterdir()) if path.is_file()] == ["a", "c"]
    assert not [*(out / "b").iterdir()]


def test_no_setting_of_a_home_is_a_file_that_a_program_leaves(gloveport, environ, tmp_path):
    """P40: a desktop starts `.config/autostart`, a session `.xprofile`, any Python `usercustomize` of `.local`."""
    home = tmp_path / "home"
    (home / ".cache/results").mkdir(parents=True)
    names = [".config/autostart/a.desktop", ".local/lib/a.pth", ".xprofile", "results/.hidden", "visible"]
    code = (
        f"import os\nfor name in {names}:\n    path = os.path.join('/out', name)\n"
        "    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, 'w').write('x')\nNone"
    )
    environ = {**os.environ, **environ, "HOME": str(home)}
    ended = gloveport.run("run", "-c", code, "--out", ".", cwd=home, env=environ)
    assert ended.stderr.count("is not written: it would run something later") == 3, ended.stderr
    assert {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()} == {"results/.hidden", "visible"}
    above = "import os; os.makedirs('/out/home'); open('/out/home/.xprofile', 'w').write('x'); None"
    gloveport.run("run", "-c", above, "--out", "..", cwd=home, env=environ)
    assert not (home / ".xprofile").exists()
    chosen = "open('/out/.hidden', 'w').write('x'); None"
    gloveport.run("run", "-c", chosen, "--out", ".cache/results", cwd=home, env=environ)
    assert (home / ".cache/results/.hidden").read_text() == "x"


def test_files_come_in_by_file_under_their_own_or_another_name(run, tmp_path):
    (tmp_path / "a.csv").write_text("1,2")
    code = "print(open('a.csv').read(), open('d/b').read())"
    ended = run("-c", code, "--file", str(tmp_path / "a.csv"), "--file", f"{tmp_path}/a.csv=d/b")
    assert (ended.returncode, ended.stdout) == (0, "1,2 1,2\n")
    missing = run("-c", "1", "--file", str(tmp_path / "nothing"))
    assert missing.returncode == 2
    assert "No such file or directory" in missing.stderr
    refused = run("-c", "1", "--file", f"{tmp_path}/a.csv=../b")
    assert refused.returncode == 3
    assert "is no path below the program's directory" in refused.stderr
