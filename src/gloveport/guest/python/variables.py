"""Describes the variables of a session in a few words each, and tells which of them a call has changed.

It runs no code of the program's but the shape attributes of arrays and tables: a ``repr`` might never end. So values
are compared by type, size and, if they are plain, the beginning of their text. A change inside a large value that
alters none of these goes unnoticed. Standard library only.
"""

import sys
import time
import types

PREVIEW_CHARACTERS = 80
MOST_NAMES = 1000
LONGEST_SECONDS = 1.0
PLAIN = (bool, int, float, complex, str, bytes, type(None))
SIZED = (list, tuple, dict, set, frozenset, bytearray)
LARGE_BITS = 200
SHAPED = ("numpy", "pandas", "polars", "torch", "scipy", "xarray", "pyarrow")
"""Packages whose objects are asked for their shape."""


def describe(value):
    """``{"type", "shape", "bytes", "preview"}`` of a value; unknown members are left out."""
    kind = type(value)
    module = kind.__module__ if type(kind.__module__) is str else ""
    description = {"type": kind.__qualname__ if type(kind.__qualname__) is str else "object"}
    if kind in PLAIN:
        description["preview"] = preview(value)
        if kind in (str, bytes):
            description["shape"] = f"{len(value)}"
    elif kind in SIZED:
        description["shape"] = f"{len(value)}"
        description["bytes"] = sys.getsizeof(value)
        description["preview"] = preview_of_items(value)
    elif isinstance(value, types.FunctionType):
        code = value.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        description["preview"] = f"({', '.join(names)})"[:PREVIEW_CHARACTERS]
    elif module.partition(".")[0] in SHAPED:
        description |= describe_shaped(value)
    return description


def preview(value):
    """The beginning of a plain value's text."""
    if type(value) is int and value.bit_length() > LARGE_BITS:
        return f"{value.bit_length()} bits"
    text = repr(value[:PREVIEW_CHARACTERS] if type(value) in (str, bytes) else value)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def preview_of_items(value):
    """The first plain items of a container."""
    if type(value) is bytearray:
        return preview(bytes(value[:PREVIEW_CHARACTERS]))
    texts, size = [], 0
    try:
        for item in value:
            text = preview(item) if type(item) in PLAIN else type(item).__name__
            if type(value) is dict:
                inner = value[item]
                text += f": {preview(inner) if type(inner) in PLAIN else type(inner).__name__}"
            texts.append(text)
            size += len(text) + 2
            if size > PREVIEW_CHARACTERS:
                break
    except RuntimeError:  # a thread changes it just now
        pass
    text = ", ".join(texts)
    return text if len(text) <= PREVIEW_CHARACTERS else f"{text[: PREVIEW_CHARACTERS - 1]}…"


def describe_shaped(value):
    """The shape and size of arrays and tables, by their own attributes."""
    description = {}
    try:
        shape = getattr(value, "shape", None)
        if type(shape) is tuple or shape.__class__.__name__ == "Size":
            description["shape"] = " x ".join(str(int(length)) for length in shape)
        size = getattr(value, "nbytes", None)
        if type(size) is int:
            description["bytes"] = size
        dtype = getattr(value, "dtype", None)
        columns = getattr(value, "columns", None)
        if columns is not None:
            description["preview"] = ", ".join(str(name) for name in list(columns[:12]))[:PREVIEW_CHARACTERS]
        elif dtype is not None:
            description["preview"] = str(dtype)[:PREVIEW_CHARACTERS]
    except Exception:
        pass
    return description


class Variables:
    """The variables of one namespace, and how they were at the last look."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.hidden = set(namespace)
        self.states = {}

    def names(self):
        """The names that the program has made: no modules, and none that begins with an underscore."""
        found = []
        for name, value in list(self.namespace.items()):
            is_own = type(name) is str and not name.startswith("_") and name not in self.hidden
            if is_own and not isinstance(value, types.ModuleType):
                found.append(name)
        return found

    def changes(self, seconds):
        """What has changed since the last time: ``{"changed": [{"name", …}], "removed": [name], "is_complete"}``."""
        # Processor time, since other processes may run in between; a value that waits uses none, hence the clock, too.
        deadline, latest = time.thread_time() + seconds, time.monotonic() + LONGEST_SECONDS
        changed, names, is_complete = [], self.names(), True
        for name in names[-MOST_NAMES:]:
            if time.thread_time() > deadline or time.monotonic() > latest:
                is_complete = False
                break
            value = self.namespace.get(name)
            description = describe(value)
            state = id(value), description
            if self.states.get(name) != state:
                self.states[name] = state
                changed.append({"name": name, **description})
        present = set(names)
        removed = [name for name in self.states if name not in present]
        for name in removed:
            del self.states[name]
        return {"changed": changed, "removed": removed, "is_complete": is_complete and len(names) <= MOST_NAMES}

    def list(self):
        """All of them: ``[{"name", …}]``."""
        return [{"name": name, **describe(self.namespace.get(name))} for name in self.names()[-MOST_NAMES:]]
