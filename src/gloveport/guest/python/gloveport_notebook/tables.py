"""Renders tables as text of bounded rows and columns, with shape and types; a table that is cut is also saved as CSV.

Tables are the frames of pandas and polars, and lists of dicts. Standard library only.
"""

import csv
import os

from gloveport_notebook import files

ROWS, COLUMNS, CELL_CHARACTERS = 20, 16, 60
MOST_TYPES = 40
SPARE_BYTES = 1 << 16


class FullError(Exception):
    """There is no room for the file."""


def describe(value):
    """A table as text; None for any other value."""
    root = type(value).__module__
    root = root.partition(".")[0] if type(root) is str else ""
    if root == "pandas" and type(value).__name__ in {"DataFrame", "Series"}:
        return describe_pandas(value)
    if root == "polars" and type(value).__name__ in {"DataFrame", "Series"}:
        return describe_polars(value)
    if is_rows(value):
        return describe_rows(value)
    return None


def is_rows(value):
    """Whether a value is a list of dicts with names as keys."""
    return (
        type(value) in (list, tuple)
        and len(value) > 0
        and all(type(row) is dict and row and all(type(key) is str for key in row) for row in value[:100])
    )


def describe_pandas(table):
    """A frame or a series of pandas'."""
    frame = table.to_frame() if type(table).__name__ == "Series" else table
    rows, columns = frame.shape
    kinds = [f"{name} {kind}" for name, kind in zip(frame.columns[:MOST_TYPES], frame.dtypes, strict=False)]
    text = frame.to_string(max_rows=ROWS, max_cols=COLUMNS, max_colwidth=CELL_CHARACTERS, show_dimensions=False)
    has_names = type(frame.index).__name__ != "RangeIndex"
    return tell(text, rows, columns, kinds, lambda file: frame.to_csv(file, index=has_names))


def describe_polars(table):
    """A frame or a series of polars': its text has shape and types, and is bounded."""
    frame = table.to_frame() if type(table).__name__ == "Series" else table
    rows, columns = frame.shape
    kinds = [f"{name} {kind}" for name, kind in zip(frame.columns[:MOST_TYPES], frame.dtypes, strict=False)]
    is_whole = rows <= 8 and columns <= 8
    return tell(str(table), rows, columns, kinds, frame.write_csv, is_whole=is_whole)


def describe_rows(rows):
    """A list of dicts."""
    names = list(dict.fromkeys(name for row in rows[:10_000] for name in row if type(row) is dict))
    kinds = [f"{name} {kind_of(rows, name)}" for name in names[:MOST_TYPES]]
    sample = rows if len(rows) <= ROWS else [*rows[: ROWS // 2], *rows[-ROWS // 2 :]]
    lines = [
        [cell(name) for name in names[:COLUMNS]],
        *([cell(row.get(name, "")) for name in names[:COLUMNS]] for row in sample),
    ]
    if len(rows) > ROWS:
        lines.insert(1 + ROWS // 2, ["…"] * len(lines[0]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines)

    def write(file):
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if type(row) is dict)

    return tell(text, len(rows), len(names), kinds, write)


def kind_of(rows, name):
    """The types of a column."""
    kinds = dict.fromkeys(type(row[name]).__name__ for row in rows[:1000] if type(row) is dict and name in row)
    return "/".join(kinds)


def cell(value):
    """A cell's text."""
    text = " ".join(str(value)[: 2 * CELL_CHARACTERS].split())
    return text if len(text) <= CELL_CHARACTERS else f"{text[: CELL_CHARACTERS - 1]}…"


def tell(text, rows, columns, kinds, write, is_whole=None):
    """A table's text and a line about it. A table that is cut is written to a file by ``write``."""
    is_whole = rows <= ROWS and columns <= COLUMNS if is_whole is None else is_whole
    shape = f"{rows} rows x {columns} columns"
    types = ", ".join(kinds) + (f", and {columns - MOST_TYPES} more" if columns > MOST_TYPES else "")
    line = f"[{shape}: {types}]"
    if is_whole:
        return f"{text}\n{line}"
    from_display = keep_whole(write, f"table, {shape}: {types}")
    return f"{text}\n{line}\n[{from_display}]"


def keep_whole(write, about):
    """Write the whole table to a file; returns the line about the file."""

    def write_csv(path):
        space = os.statvfs(files.OUT)
        with open(path, "w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            write(BoundedFile(file, space.f_bavail * space.f_frsize - SPARE_BYTES))

    try:
        path = files.keep("table", "csv", write_csv, about)
    except FullError:
        return f"it is too large for {files.OUT}: write what is needed of it there, or compress it"
    except Exception as error:
        return f"it can't be written as CSV: {type(error).__name__}"
    return f"all of it: {path}" if path else "all of it was not kept: there are too many files"


class BoundedFile:
    """A file that takes at most ``remaining_bytes``."""

    def __init__(self, file, remaining_bytes):
        self.file = file
        self.remaining_bytes = remaining_bytes

    def write(self, text):
        """Take the next piece."""
        text = text.decode() if isinstance(text, bytes) else text
        self.remaining_bytes -= len(text.encode("utf-8", "backslashreplace"))
        if self.remaining_bytes < 0:
            raise FullError
        return self.file.write(text)

    def flush(self):
        """See ``io.IOBase``."""
        self.file.flush()
