"""The interface by which tools that only read run a program, in a sandbox that can write to nothing of the host."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class ProgramOutput(Struct, frozen=True, kw_only=True):
    """What came of one program.

    Attributes:
        exit_code: 128 + the signal where one has ended it; None where a limit has.
        stdout: Its first bytes, as many as were asked for.
        stderr: Likewise, at most 64 KiB.
        truncated: Whether it had more to say on its standard output. It was ended then.
        timed_out: Whether it was ended because its time was over.
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
        """Run it.

        Args:
            argv: Its path, or its name where it is found along the PATH of sandboxes, and its arguments.
            variables: Environment besides the clean one. HOME is no place to find anything in.
            stdin: What it reads.
            seconds: It is ended after so long.
            most_bytes: It is ended when it has said more.

        Raises:
            WorkspaceError: SANDBOX_UNAVAILABLE.
        """
