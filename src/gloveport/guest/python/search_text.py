"""Searches files for lines, for hosts without ripgrep. Runs in a sandbox, which limits its memory and its time.

Reads from standard input, separated by NULs: {"expression", "ignore_case", "context", "multiline"} as JSON, and the
names of files. Writes matches, the lines around them and a summary as ``rg --json`` does. Like ripgrep, it skips binary
files, and stops in a file where a NUL comes late. It searches the first megabyte of a line; where matches may span
lines, the first 16 of a file.
"""

import base64
import bisect
import collections
import itertools
import json
import os
import re
import stat
import sys

LINE_BYTES = 1 << 20
WHOLE_BYTES = 1 << 24
LOOKED_AT = 1 << 16
BOM = b"\xef\xbb\xbf"


def main():
    """See the module."""
    head, *names = sys.stdin.buffer.read().split(b"\0")
    question = json.loads(head)
    try:
        flags = re.IGNORECASE if question["ignore_case"] else 0
        flags |= re.MULTILINE if question["multiline"] else 0
        expression = re.compile(question["expression"], flags)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    for name in names:
        try:
            search_file(expression, name, question["context"], question["multiline"])
        except OSError as error:
            sys.stderr.write(f"{os.fsdecode(name)!a}: {error.strerror}\n")
        sys.stdout.flush()  # the matches so far count, even if the next file takes all the time left
    print('{"type":"summary"}')
    return 0


def search_file(expression, name, context, multiline):
    """Write the matches in one file. Anything but a regular file is skipped; a FIFO does not block."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=LOOKED_AT) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or b"\0" in file.peek():
            return
        print(json.dumps({"type": "begin", "data": {"path": text_or_base64(name)}}, separators=(",", ":")))
        if multiline:
            search_whole(expression, name, file.read(WHOLE_BYTES), context)
            return
        before = collections.deque(maxlen=context)
        after = 0
        for number, line in enumerate(lines(file), 1):
            if b"\0" in line:
                return
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
            if found := expression.search(text):
                for early in before:
                    write("context", name, *early)
                before.clear()
                write("match", name, number, line, [len(encode(text[:end])) for end in found.span()])
                after = context
            elif after:
                write("context", name, number, line)
                after -= 1
            elif context:
                before.append((number, line))


def search_whole(expression, name, data, context):
    """Write the matches in a text, which may span lines: the lines of matches that touch come as one."""
    if b"\0" in data:
        return
    text = data.removeprefix(BOM).replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")
    rows = [f"{row}\n" for row in text.split("\n")]  # splitlines splits at further characters, too
    rows[-1:] = [rows[-1][:-1]] if rows[-1] != "\n" else []
    starts = [*itertools.accumulate(map(len, rows), initial=0)][:-1]
    blocks = []
    for found in expression.finditer(text):
        if found.start() == len(text) and not (rows and text[-1] != "\n"):  # behind the last line
            break
        ends = found.start(), max(found.start(), found.end() - 1)
        first, last = (bisect.bisect(starts, place) - 1 for place in ends)
        if blocks and first <= blocks[-1][1] + 1:
            blocks[-1][1] = max(last, blocks[-1][1])
        else:
            blocks.append([first, last, found.span()])
    next_row = 0
    for number, (first, last, span) in enumerate(blocks):
        for row in range(max(next_row, first - context), first):
            write("context", name, row + 1, encode(rows[row]))
        matched, places = "".join(rows[first : last + 1]), [len(encode(text[starts[first] : end])) for end in span]
        write("match", name, first + 1, encode(matched), places)
        following = blocks[number + 1][0] if number + 1 < len(blocks) else len(rows)
        next_row = min(last + 1 + context, following)
        for row in range(last + 1, next_row):
            write("context", name, row + 1, encode(rows[row]))


def lines(file):
    """The lines of a file; long ones are cut."""
    first = True
    while line := file.readline(LINE_BYTES):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LINE_BYTES)
        yield line.removeprefix(BOM) if first else line
        first = False


def write(kind, name, number, line, span=None):
    """Write one line as ripgrep does."""
    data = {"path": text_or_base64(name), "lines": text_or_base64(line), "line_number": number}
    data["submatches"] = [{"start": span[0], "end": span[1]}] if span else []
    print(json.dumps({"type": kind, "data": data}, separators=(",", ":")))


def text_or_base64(value):
    """Text, or Base64 where it is no UTF-8."""
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(value).decode()}


def encode(text):
    """The bytes from which a text was decoded."""
    return text.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.exit(main())
