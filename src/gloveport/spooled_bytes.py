"""Keeps a few bytes in memory, more in a file without a name: a dead process leaves nothing behind."""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from gloveport.late_libraries import tempfile


def describe_failure(directory: Path, error: OSError) -> str:
    """What to tell whoever wrote output that could not be stored in this directory."""
    return f"output can't be stored in {directory}: {error.strerror}, tell the owner"


class SpooledBytes(Struct, eq=False, kw_only=True):
    """Bytes that are appended and read by offset.

    Attributes:
        directory: Where the nameless file is made.
    """

    directory: Path
    most_in_memory: int
    _memory: bytearray = field(default_factory=bytearray)
    _file: BinaryIO | None = None

    def append(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            OSError: The disk is full. Part of them may be kept.
        """
        if self._file is None:
            if len(self._memory) + len(data) <= self.most_in_memory:
                self._memory += data
                return
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(tempfile.TemporaryFile(dir=self.directory, buffering=0))
                _write(file, self._memory)
                stack.pop_all()
            self._file, self._memory = file, bytearray()
        _write(self._file, data)

    def read(self, offset: int, most: int) -> bytes:
        """At most so many bytes from ``offset`` on."""
        if self._file is None:
            return bytes(self._memory[offset : offset + most])
        return os.pread(self._file.fileno(), most, offset)

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()
        self._memory.clear()


def _write(file: BinaryIO, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
