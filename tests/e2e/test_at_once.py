"""What is answered without the SDK is what the SDK would have answered, and is written down as it would have been."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gloveport.audit import read

CALLS = (
    {"path": "short.txt"},
    {"path": "short.txt", "start_line": 2, "max_lines": 1, "encoding": "utf-8"},
    {"path": "long.txt", "max_bytes": 40},
    {"path": "binary"},
    {"path": "missing"},
    {"path": "../x"},
    {"path": "away"},
    {"path": "n" * 300},
    {"path": "d/" * 3000},
    {"path": "."},
    {"path": ""},
    {"path": "short.txt", "start": 1},
    {"path": "short.txt", "start_line": "x"},
    {"path": "short.txt", "start_line": "2"},
    {"path": "short.txt", "encoding": " null"},
    {"path": "null"},
    {"path": "[1]"},
    {"path": "\u00a0{}"},
    {},
)


PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT, "clientCapabilities": {}}
both_eras = pytest.mark.parametrize(
    "envelope", [{}, {f"{PREFIX}{name}": value for name, value in ENVELOPE.items()}], ids=["handshake", "none"]
)
"""What each request says of its client where no handshake has."""


@both_eras
def test_both_ways_to_a_file_answer_the_same(stdio, tmp_path, envelope):
    """W1, O4: the one with something in ``_meta`` goes through the SDK."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "short.txt").write_text("one\ntwo\r\nthrée\n")
    (root / "long.txt").write_text("0123456789abcdef\n" * 20_000)
    (root / "binary").write_bytes(b"\0\1")
    (root / "away").symlink_to("/etc/passwd")
    server = stdio("--workspace", str(root))
    if not envelope:
        server.shake_hands()
    for place, arguments in enumerate(CALLS):
        answers = []
        for number, meta in ((2 * place + 1, {}), (2 * place + 2, {"gloveport/structured": False})):
            call = {"name": "read_file", "arguments": arguments, "_meta": {**envelope, **meta}}
            server.send("tools/call", call, number)
            answers.append(json.loads(server.process.stdout.readline())["result"])
        assert answers[0] == answers[1], arguments


ASKED = (
    ("search_text", {"query": "one"}),
    ("search_text", {"query": "(", "regex": True}),
    ("search_text", {"query": "o", "include_globs": ["*.txt"], "context_lines": 1, "max_results": 1}),
    ("search_text", {"query": "one", "path": "missing"}),
    ("search_text", {"query": ""}),
    ("search_text", {"query": "one", "more": 1}),
    ("git_status", {}),
    ("git_status", {"path": "../x"}),
    ("git_diff", {}),
    ("git_log", {"max_count": 1}),
    ("git_show", {"rev": "-x"}),
    ("git_show", {}),
    ("git_blame", {"path": "short.txt"}),
)


def repository(root):
    """A small one."""
    root.mkdir()
    (root / "short.txt").write_text("one\ntwo\n")
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/bin:/bin"}
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(("git", *names, *arguments), cwd=root, env=own, check=True)
    (root / "short.txt").write_text("one\nTWO\n")


def test_both_ways_to_what_runs_a_program_answer_the_same(stdio, tmp_path):
    """W1, O4"""
    repository(tmp_path / "project")
    server = stdio("--workspace", str(tmp_path / "project"))
    server.shake_hands()
    for place, (name, arguments) in enumerate(ASKED):
        answers = []
        for number, meta in ((2 * place + 1, {}), (2 * place + 2, {"_meta": {"gloveport/structured": False}})):
            server.send("tools/call", {"name": name, "arguments": arguments, **meta}, number)
            answers.append(server.answer(number)["result"])
        assert answers[0] == answers[1], (name, arguments)


COMMANDS = (
    {"cmd": "echo one; echo two >&2; exit 3"},
    {"cmd": "[ -f short.txt ] && cat", "stdin": "read\n", "env": {"A": "b"}, "timeout_ms": "5000"},
    {"cmd": "cd src", "workdir": "."},
    {"cmd": "pwd", "workdir": "sub"},
    {"cmd": "pwd", "cwd": ".", "verbosity": "preview"},
    {"cmd": "seq 3000", "max_output_bytes": 100},
    {"cmd": "cat", "keep_stdin": True, "yield_time_ms": 0},
    {"cmd": "curl https://pypi.org/"},
    {"cmd": "sudo true"},
    {"cmd": "true", "cwd": "/etc"},
    {"cmd": "true", "cwd": "a", "workdir": "b"},
    {"cmd": "true\0"},
    {"cmd": "true", "env": {"A=": "b"}},
    {"cmd": "true", "env": '{"A": "b"}'},
    {"cmd": "true", "session": "none"},
    {"cmd": "true", "environment": "none"},
    {"cmd": "true", "more": 1},
    {"cmd": ""},
    {},
)


CHANGING = re.compile(r'(?<="elapsed_ms": )\d+|\d+ ms|\d+\.\ds|command-[0-9a-f]{16}|(?<![\w-])[\w-]{24}(?![\w-])')
"""Times, and names that nobody can guess."""


def test_both_ways_to_a_command_answer_the_same(stdio, tmp_path, environ):
    """W1, W5, T6: and both write down the same."""
    repository(tmp_path / "project")
    (tmp_path / "project/sub").mkdir()
    server = stdio("--workspace", str(tmp_path / "project"))
    server.shake_hands()
    told = []
    for place, arguments in enumerate(COMMANDS):
        answers = []
        for number, meta in ((2 * place + 1, {}), (2 * place + 2, {"_meta": {"gloveport/structured": False}})):
            before = len(records(environ))
            server.send("tools/call", {"name": "exec_command", "arguments": arguments, **meta}, number)
            result = server.answer(number)["result"]
            written = [[one.kind, told_of(one)] for one in records(environ)[before:] if one.kind != "command.ended"]
            answers.append(CHANGING.sub("0", json.dumps([result, written], sort_keys=True)))
        assert answers[0] == answers[1], arguments
        told += [kind for kind, _ in written]
    assert {*told} == {"command.admitted", "command.denied"}


def test_a_call_that_is_wanted_no_more_is_ended_and_not_answered(stdio, tmp_path, is_running, eventually):
    """E6, W1: as one that went through the SDK; and so at the end of the server."""
    root = tmp_path / "project"
    root.mkdir()
    mark = f"needle{os.getpid()}"
    word = f"--glob={mark}"
    (root / "large").write_text(("ab-cd-" * 500 + "\n") * 10_000)  # takes seconds of a processor
    server = stdio("--workspace", str(root))
    server.shake_hands()
    slow = {"query": r"[^z]{300,500}(\w\W?){100,200}[0-9]", "regex": True, "include_globs": ["large", mark]}
    search = {"name": "search_text", "arguments": slow}
    for request, end in ((7, "cancel"), ("seven", "cancel"), (8, "close")):
        server.send("tools/call", search, request)
        eventually(lambda: is_running(word))
        if end == "cancel":
            server.send("notifications/cancelled", {"requestId": request})
            eventually(lambda: not is_running(word))
            server.send("ping", {}, 100)
            assert json.loads(server.process.stdout.readline())["id"] == 100
    code, out, _ = server.end()
    assert (code, out) == (0, "")
    eventually(lambda: not is_running(word))


def test_calls_at_work_hold_up_nobody_and_may_have_the_same_id(stdio, tmp_path):
    """W1, A4"""
    repository(tmp_path / "project")
    server = stdio("--workspace", str(tmp_path / "project"))
    server.shake_hands()
    for _ in range(8):
        server.send("tools/call", {"name": "git_status", "arguments": {}}, 5)
    server.send("ping", {}, 6)
    answers = [json.loads(server.process.stdout.readline()) for _ in range(9)]
    assert sorted(answer["id"] for answer in answers) == [5] * 8 + [6]
    server.send("notifications/cancelled", {"requestId": [5]})
    server.send("ping", {}, 7)
    assert server.answer(7)["result"] == {}


PATCHES = (
    "*** Update File: a.txt\n@@\n-one\n+ONE\n",
    "*** Add File: new/b.txt\n+b\n*** Delete File: c.txt\n",
    "*** Update File: a.txt\n*** Move to: d.txt\n@@\n two\n+three\n",
    "*** Update File: a.txt\n@@\n-not there\n+x\n",
    "*** Update File: missing.txt\n@@\n-x\n+y\n",
    "*** Add File: .git/config\n+x\n",
    "*** Add File: ../x\n+x\n",
    "*** Add File: ignored.log\n+x\n",
    "*** Add File: link\n+x\n",
    f"*** Add File: d/{'n' * 300}\n+x\n",
    f"*** Add File: {'d/' * 1000}x\n+x\n",
    f"*** Add File: {'e/' * 30}x\n+x\n",
    f"*** Add File: {'d/' * 3000}x\n+x\n",
    "*** Frobnicate: a.txt\n",
    f"*** Add File: long.txt\n{'+x' * 9000}\n",
    "",
)


@both_eras
def test_both_ways_to_write_do_and_answer_the_same(stdio, tmp_path, environ, envelope):
    """W3, W5, T6: and both leave the same in the audit log and in the workspace, nothing else in it."""
    seen = []
    for meta in ({}, {"gloveport/structured": False}):
        root = tmp_path / "project"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for name, text in (("a.txt", "one\ntwo\n"), ("c.txt", "c\n"), (".gitignore", "*.log\n")):
            (root / name).write_text(text)
        (root / "link").symlink_to("a.txt")
        before = len(records(environ))
        server = stdio("--workspace", str(root))
        if not envelope:
            server.shake_hands()
        trees = []
        for number, patch in enumerate(PATCHES, 1):
            given = f"*** Begin Patch\n{patch}*** End Patch"
            call = {"name": "apply_patch", "arguments": {"patch": given}, "_meta": {**envelope, **meta}}
            server.send("tools/call", call, number)
            answer = json.loads(server.process.stdout.readline())["result"]
            look = {"name": "read_file", "arguments": {"path": "."}, "_meta": envelope}
            server.send("tools/call", look, 100 + number)  # before that is answered, all of the write is done
            server.answer(100 + number)
            trees.append((answer, tree(root)))
        assert server.end()[0] == 0
        told = [(one.kind, told_of(one)) for one in records(environ)[before:] if one.kind.startswith("write.")]
        seen.append((trees, told))
    now, later = seen
    for one, other in zip(now[0], later[0], strict=True):
        assert one == other
    assert now[1] == later[1]
    assert [kind for kind, _ in now[1]].count("write.admitted") >= 3


def told_of(record):
    """What a record says, but for numbers."""
    return {name: value for name, value in record.fields.items() if name != "of"}


def records(environ):
    """All that is written down so far."""
    place = Path(environ["GLOVEPORT_STATE"]) / "audit"
    return [*read.records(place)] if place.is_dir() else []


def tree(root):
    """All files of a directory, with what they hold."""
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_who_writes_while_another_server_does_waits_for_it_and_holds_up_nobody(stdio, tmp_path, environ):
    """W3: reading goes on."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    server = stdio("--workspace", str(root))
    server.shake_hands()
    write = {"name": "apply_patch", "arguments": {"patch": f"*** Begin Patch\n{PATCHES[0]}*** End Patch"}}
    server.send("tools/call", {"name": "apply_patch", "arguments": {**write["arguments"], "dry_run": True}}, 1)
    server.answer(1)
    (journal,) = Path(environ["GLOVEPORT_STATE"]).glob("workspaces/*/journal/journal")
    with journal.open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        server.send("tools/call", write, 2)
        server.send("tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}}, 3)
        assert json.loads(server.process.stdout.readline())["id"] == 3
    assert server.answer(2)["result"]["structuredContent"]["ok"] is True
    assert (root / "a.txt").read_text() == "ONE\n"
