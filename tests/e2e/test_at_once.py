"""What is answered without the SDK is what the SDK would have answered."""

import json

CALLS = (
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
)


def test_both_ways_to_a_file_answer_the_same(stdio, tmp_path):
    """W1, O4: the one with something in ``_meta`` goes through the SDK."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "short.txt").write_text("one\ntwo\r\nthrée\n")
    (root / "long.txt").write_text("0123456789abcdef\n" * 20_000)
    (root / "binary").write_bytes(b"\0\1")
    server = stdio("--workspace", str(root))
    server.shake_hands()
    for place, arguments in enumerate(CALLS):
        answers = []
        for number, meta in ((2 * place + 1, {}), (2 * place + 2, {"_meta": {"example.com/x": 1}})):
            server.send("tools/call", {"name": "read_file", "arguments": arguments, **meta}, number)
            answers.append(json.loads(server.process.stdout.readline())["result"])
        assert answers[0] == answers[1], arguments
