"""The interface by which read-only tools run a program, in a sandbox that can write nothing on the host."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class ProgramOutput(Struct, frozen=True, kw_only=True):
    """The result of one program.

    Attributes:
        exit_code: 128 + the signal if one killed it; None if a limit did.
        stdout: Its first bytes, as many as requested.
        stderr: Likewise, at most 64 KiB.
        truncated: Whether it wrote more to standard output; it was ended for that.
        timed_out: Whether it was ended by its time limit.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    timed_out: bool


class RunProgram(Protocol):
    """Runs one program, which can start no other, in a sandbox: no network, limits of memory and time."""

    async def __call__(
        self,
        argv: tuple[str, ...],
        *,
        variables: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        seconds: float = 10.0,
        most_bytes: int = 1 << 20,
    ) -> ProgramOutput:
        """Run ``argv``: its path, or its name in the sandboxes' PATH, and its arguments. ``variables`` come to the
        clean environment, whose HOME has no files. It is ended if it writes more than ``most_bytes``.

        Raises:
            WorkspaceError: SANDBOX_UNAVAILABLE.
        """
