"""What is answered without the SDK is what the SDK would have answered."""

import json

import pytest


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "short.txt").write_text("one\ntwo\r\nthrée\n")
    (root / "long.txt").write_text("0123456789abcdef\n" * 20_000)
    (root / "binary").write_bytes(b"\0\1")
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "short.txt"},
        {"path": "short.txt", "start_line": 2, "max_lines": 1, "encoding": "utf-8"},
        {"path": "long.txt", "max_bytes": 40},
        {"path": "binary"},
        {"path": "missing"},
        {"path": "../x"},
        {"path": "."},
        {"path": ""},
        {"path": "short.txt", "start": 1},
        {"path": "short.txt", "start_line": "x"},
        {},
    ],
    ids=json.dumps,
)
def test_both_ways_to_a_file_answer_the_same(stdio, project, arguments):
    """W1, O4: the one with something in ``_meta`` goes through the SDK."""
    server = stdio("--workspace", str(project))
    server.shake_hands()
    answers = []
    for number, meta in ((1, {}), (2, {"_meta": {"example.com/x": 1}})):
        server.send("tools/call", {"name": "read_file", "arguments": arguments, **meta}, number)
        answers.append(json.loads(server.process.stdout.readline())["result"])
    assert answers[0] == answers[1]
