"""Extracts the text of a document from standard input: ``document_text.py pdf|notebook MOST_BYTES FIRST LAST``.

A line of JSON comes first: ``pages`` of the document (cells of a notebook), and the ``last`` that is in the text. Pages
from FIRST to LAST, 0 for the end, as far as there is time and room for them.

Runs in a sandbox: documents are hostile, and their parsers have bugs. Exit code 3: there is no pypdf; 4: a password is
needed; 5: it is no such document.
"""

import io
import json
import re
import sys
import time

PACKAGES = "/opt/data"
SECONDS = 7  # of processor time; the caller waits for ten
OUTPUT_CHARACTERS = 4000  # of one output of a cell
DATA = re.compile(r"data:([\w/+.-]{1,100});base64,[A-Za-z0-9+/=\s]{100,}")
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")


def main():
    """See the module."""
    kind, most, first, last = sys.argv[1], *map(int, sys.argv[2:])
    data = sys.stdin.buffer.read()
    count, parts = {"pdf": pdf_pages, "notebook": notebook_cells}[kind](data)
    pieces, size, at = [], 0, first - 1
    for number in range(first, min(last or count, count) + 1):
        part = f"{parts(number)}\n".encode(errors="replace")
        if pieces and (size + len(part) > most or time.process_time() > SECONDS):
            break
        pieces.append(part[: most - size])
        size += len(part)
        at = number
    head = json.dumps({"pages": count, "last": at}).encode()
    sys.stdout.buffer.write(b"\n".join([head, b"".join(pieces)]))


def pdf_pages(data):
    """The number of pages of a PDF, and a function that gives the text of one."""
    sys.path.append(PACKAGES)
    try:
        import pypdf
        from pypdf.errors import DependencyError
    except ImportError:
        sys.exit(3)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            sys.exit(4)
        count = len(reader.pages)
    except DependencyError:  # for a cipher that is not installed
        sys.exit(4)
    except Exception:
        sys.exit(5)

    def text(number):
        try:
            page = reader.pages[number - 1].extract_text().strip()
        except Exception as error:
            page = f"[this page can't be read: {type(error).__name__}]"
        return f"--- page {number} of {count} ---\n{page or '[no text: perhaps a picture of one]'}"

    return count, text


def notebook_cells(data):
    """The number of cells of a notebook, and a function that gives the text of one."""
    try:
        notebook = json.loads(data)
        sheets = [notebook, *notebook.get("worksheets", ())]  # of nbformat 3
        cells = [cell for sheet in sheets for cell in sheet.get("cells", ())]
        if "nbformat" not in notebook:
            sys.exit(5)
    except (ValueError, RecursionError, AttributeError, TypeError):
        sys.exit(5)

    def text(number):
        try:
            return "\n".join(cell_lines(number, cells[number - 1]))
        except (AttributeError, TypeError, ValueError) as error:
            return f"--- cell {number} ---\n[this cell can't be read: {type(error).__name__}]"

    return len(cells), text


def cell_lines(number, cell):
    """A cell: its kind, source and outputs."""
    count = cell.get("execution_count", cell.get("prompt_number"))
    run = f", run {count}" if isinstance(count, int) else ""
    yield f"--- cell {number}: {cell.get('cell_type')}{run} ---"
    yield plain(cell.get("source", cell.get("input", "")))
    for name in cell.get("attachments", ()):
        yield f"[attachment: {name}]"
    for output in cell.get("outputs", ()):
        yield f"--- output of cell {number} ---"
        yield from output_lines(output)


def output_lines(output):
    """The lines of one output. Of several forms the text is taken; pictures are named."""
    if output.get("output_type") in {"error", "pyerr"}:
        trace = plain(output.get("traceback") or [], "\n")
        yield shorten(trace or f"{output.get('ename')}: {output.get('evalue')}")
        return
    if "text" in output and "data" not in output:
        yield shorten(plain(output["text"]))
        return
    forms = output.get("data", output)
    for name, value in forms.items():
        if name.startswith("image/"):
            yield f"[{name}, {len(plain(value))} characters]"
    text = next(
        (forms[name] for name in ("text/markdown", "text/plain", "text/html", "text/latex") if name in forms), ""
    )
    if text:
        yield shorten(plain(text))


def plain(text, between=""):
    """Text, which a notebook may have as a list of lines, without terminal escapes and pictures."""
    joined = text if isinstance(text, str) else between.join(map(str, text))
    return DATA.sub(r"data:\1;base64,[left out]", ESCAPES.sub("", joined)).rstrip("\n")


def shorten(text):
    """The beginning and the end of a long output."""
    left_out = len(text) - OUTPUT_CHARACTERS
    if left_out <= 0:
        return text
    half = OUTPUT_CHARACTERS // 2
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


if __name__ == "__main__":
    main()
