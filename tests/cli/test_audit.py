"""The command: what it prints, to whom, and how it exits."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import Gloveport
from typer.testing import CliRunner, Result

from gloveport.audit.log import AuditLog
from gloveport.cli.audit import app

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202edenied\u2028\ud800\x9b31m[bold red]\x7f"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def gloveport_audit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fill(directory: Path, count: int = 5) -> None:
    with AuditLog.open(directory, max_file_bytes=900) as log:
        for number in range(count):
            log.append(
                "run.ended", {"run": f"r{number}", "caller": "local", "outcome": "ok" if number % 2 else "error"}
            )


def test_a1_verify_says_verified_and_where_the_log_ends(directory: Path):
    """A1: exit code 0, and the head to take elsewhere."""
    fill(directory)
    head = json.loads((directory / "head").read_text())
    done = gloveport_audit("verify", "--directory", directory)
    assert done.exit_code == 0
    assert done.stdout.startswith("verified: 5 records in ")
    assert f"seq 5, hash {head['hash']}" in done.stdout


def test_a1_verify_prints_one_problem_a_line_and_a_summary(directory: Path):
    """A1: exit code 1."""
    fill(directory)
    path = directory / "audit-000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0].replace(b"local", b"other") + b"".join(lines[2:]))
    done = gloveport_audit("verify", "--directory", directory)
    assert done.exit_code == 1
    altered, removed, summary = done.stdout.splitlines()
    assert altered == "audit-000001.jsonl:1: altered: seq 1: its bytes do not match its hash"
    assert removed.startswith("audit-000001.jsonl:2: removed: seq 2: missing between ")
    assert summary.startswith("not verified: 2 problems in 4 lines")


def test_verify_prints_json_for_machines(directory: Path):
    fill(directory)
    good = json.loads(gloveport_audit("verify", "--json", "--directory", directory).stdout)
    assert good["verified"] is True
    assert good["head"]["seq"] == 5
    (directory / "head").unlink()
    done = gloveport_audit("verify", "--json", "--directory", directory)
    assert done.exit_code == 1
    bad = json.loads(done.stdout)
    assert (bad["verified"], bad["head"]) == (False, None)
    assert [(problem["kind"], problem["file"]) for problem in bad["problems"]] == [("head", "head")]


def test_an_unfinished_line_is_mentioned_and_is_no_problem(directory: Path):
    fill(directory, 1)
    with (directory / "audit-000001.jsonl").open("ab") as file:
        file.write(b'{"seq"')
    done = gloveport_audit("verify", "--directory", directory)
    assert done.exit_code == 0
    assert "6 bytes of an unfinished line follow" in done.stdout


@pytest.mark.parametrize("command", ["verify", "tail", "query", "export"])
def test_what_can_not_be_read_exits_with_2_and_a_hint(directory: Path, command: str):
    done = gloveport_audit(command, "--directory", directory)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["query", "--since", "yesterday"], ["query", "--limit", "0"], ["tail", "-n", "-1"], ["export", "--format", "x"]],
)
def test_a_wrong_option_exits_with_2(directory: Path, arguments: list[str]):
    fill(directory)
    assert gloveport_audit(*arguments, "--directory", directory).exit_code == 2


def test_the_usual_directory_is_read_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path))
    fill(tmp_path / "audit")
    assert gloveport_audit("verify").exit_code == 0


def test_tail_prints_the_last_records(directory: Path):
    fill(directory)
    done = gloveport_audit("tail", "-n", "2", "--directory", directory)
    assert done.exit_code == 0
    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()] == [
        "4 run.ended run=r3 caller=local outcome=ok",
        "5 run.ended run=r4 caller=local outcome=error",
    ]


def test_json_is_the_line_as_it_stands_in_the_file(directory: Path):
    fill(directory)
    stored = b"".join(path.read_bytes() for path in sorted(directory.glob("*.jsonl"))).decode()
    assert gloveport_audit("export", "--directory", directory).stdout == stored
    assert gloveport_audit("query", "--json", "--directory", directory).stdout == stored
    assert gloveport_audit("tail", "-n", "5", "--json", "--directory", directory).stdout == stored


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (["--kind", "run"], [1, 2, 3, 4, 5]),
        (["--kind", "ru"], []),
        (["--run", "r1"], [2]),
        (["--caller", "nobody"], []),
        (["--outcome", "error"], [1, 3, 5]),
        (["--outcome", "error", "--limit", "2"], [3, 5]),
        (["--since", "2020-01-01"], [1, 2, 3, 4, 5]),
        (["--until", "2020-01-01T00:00:00+02:00"], []),
    ],
)
def test_a1_query_prints_what_matches(directory: Path, options: list[str], seqs: list[int]):
    """A1: each condition has its option."""
    fill(directory)
    done = gloveport_audit("query", "--json", *options, "--directory", directory)
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == seqs


@pytest.mark.parametrize(
    "command", [["tail"], ["tail", "--json"], ["query"], ["export"], ["export", "--format", "csv"]]
)
def test_what_a_program_had_logged_never_reaches_the_terminal_raw(directory: Path, command: list[str]):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("run.denied", {"reason": HOSTILE, HOSTILE: [HOSTILE], "nested": {HOSTILE: HOSTILE}})
    done = gloveport_audit(*command, "--directory", directory)
    assert done.exit_code == 0
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) == (2 if "csv" in command else 1)


def test_a_logged_text_can_not_pass_for_another_field(directory: Path):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("run.denied", {"reason": "ok outcome=allow", "a=b c": 1})
    line = gloveport_audit("tail", "--directory", directory).stdout
    assert 'reason="ok outcome=allow" "a=b c"=1' in line


def test_a_long_value_is_shortened_for_a_person_only(directory: Path):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("a", {"text": "x" * 5000})
    assert len(gloveport_audit("tail", "--directory", directory).stdout) < 400
    assert "x" * 5000 in gloveport_audit("tail", "--json", "--directory", directory).stdout


def test_csv_flattens_and_defuses(directory: Path):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("a", {"usage": {"wall_ms": 5, "deep": {"er": None}}, "list": [1, "=x"], "ok": True, "empty": {}})
        log.append("b", {"text": "=cmd()", "minus": -5, "usage.wall_ms": "other", "@name": "+1"})
    table = csv.DictReader(io.StringIO(gloveport_audit("export", "--format", "csv", "--directory", directory).stdout))
    first, second = table
    assert (first["seq"], first["kind"], first["prev"]) == ("1", "a", "0" * 64)
    assert (first["usage.wall_ms"], first["usage.deep.er"], first["list"]) == ("5", "", '[1, "=x"]')
    assert (first["ok"], first["empty"], first["text"]) == ("true", "{}", "")
    assert (second["text"], second["minus"], second["'@name"]) == ("'=cmd()", "-5", "'+1")
    assert (second["usage.wall_ms"], second["usage\\.wall_ms"]) == ("", "other")
    assert second["hash"] == json.loads((directory / "head").read_text())["hash"]


def test_no_formula_begins_where_a_spreadsheet_divides_at_semicolons_or_folds_letters(directory: Path):
    """P14: in many countries a spreadsheet takes `;` for the separator, in others a wide one for an equals sign."""
    texts = ["x;=cmd();y", 'x;"=cmd();y', "x; =cmd();y", "\uff1dcmd()", ["x;-cmd();y"], "fine; really"]
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        for text in texts:
            log.append("a", {"text": text})
    exported = gloveport_audit("export", "--format", "csv", "--directory", directory).stdout
    for delimiter in ",;":
        for row in csv.reader(io.StringIO(exported), delimiter=delimiter):
            assert not [cell for cell in row if cell.lstrip(' "').startswith(("=", "-", "\uff1d"))], row
    assert "fine; really" in exported


@pytest.mark.parametrize("command", [["tail"], ["query", "--limit", "1"], ["export"], ["export", "--format", "csv"]])
def test_a_damaged_line_goes_to_standard_error_and_makes_the_exit_code_1(directory: Path, command: list[str]):
    fill(directory, 3)
    path = directory / "audit-000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"r0"', b'"r9"'))
    done = gloveport_audit(*command, "--directory", directory)
    assert done.exit_code == 1
    assert done.stderr.count("is no record or was altered") == 1
    assert "r9" not in done.stdout
    assert "r2" in done.stdout


def test_follow_prints_records_as_they_are_written_until_it_is_interrupted(gloveport, directory: Path):
    with AuditLog.open(directory, max_file_bytes=700) as log:
        log.append("a", {"n": 0})
        command = ("audit", "tail", "--follow", "--json", "-n", "1", "--directory", directory)
        with gloveport.start(*command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for number in range(6):
                assert json.loads(process.stdout.readline())["n"] == number
                log.append("a", {"n": number + 1})
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == ""
        assert process.returncode == 0


def on_a_terminal(gloveport: Gloveport, *arguments: str | Path, **environment: str) -> bytes:
    ours, theirs = pty.openpty()
    with gloveport.start(*arguments, stdout=theirs, stderr=theirs, env=os.environ | environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # EIO: the other side is closed
                break
    os.close(ours)
    assert process.returncode == 0
    return shown


def test_a_terminal_gets_a_table_without_a_logged_escape_or_markup(gloveport, directory: Path):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("run.denied", {"caller": HOSTILE, "run": "[blink]", "reason": HOSTILE})
    query = ("audit", "query", "--directory", directory)
    shown = on_a_terminal(gloveport, *query, COLUMNS="900", TERM="xterm").decode()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)  # the table's own colours
    assert "caller" in shown
    assert "[bold red]" in shown
    assert "[blink]" in shown
    assert all(line.isprintable() for line in shown.replace("\r\n", "\n").split("\n"))


def test_a_terminal_without_the_character_does_not_end_the_output(directory: Path):
    with AuditLog.open(directory, max_file_bytes=1 << 20) as log:
        log.append("a", {"text": "日本"})
        log.append("b", {})
    command = [sys.executable, "-c", "from gloveport.cli.audit import app; app()", "tail", "--directory", directory]
    done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}, check=True)
    assert len(done.stdout.splitlines()) == 2
