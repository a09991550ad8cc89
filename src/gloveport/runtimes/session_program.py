"""Prepares the program of a session's sandbox: a supervisor that keeps an interpreter of each language."""

from collections.abc import Mapping
from typing import Final

from gloveport.model import MIB, Grant, Language, Program, SessionSetup
from gloveport.runtimes import Runtime

_MOST_CHECKPOINT_BYTES: Final = 64 * MIB
_ANY_PYTHON: Final = "import asyncio"
"""A program that stands for later ones, whatever the first one imports."""


def prepare_session(
    runtimes: Mapping[Language, Runtime],
    first: tuple[Language, str],
    grant: Grant,
    types: str,
    *,
    counts_memory: bool,
) -> Program:
    """Prepare the program of a session. Pure.

    It is a Python program, so that a waiting sandbox for Python can run it. ``first`` has language and text of the
    first call, ``types`` the declarations of the APIs that it uses.
    """
    language, source = first
    text = f"{_ANY_PYTHON}\n{source}" if language == "python" else _ANY_PYTHON
    program = runtimes["python"].prepare(text, grant)
    limits = grant.limits
    others = {name: one for name, one in runtimes.items() if name in grant.languages}
    shell, deno = others.get("shell"), others.get("typescript") or others.get("javascript")
    # Without a cgroup, a limit on address space bounds memory; not for Deno, which reserves far more than it uses.
    address_bytes = int(limits.memory_bytes)
    reserved_bytes = 0 if counts_memory or deno is None else deno.prepare("", grant).reserved_bytes
    setup = SessionSetup(
        first=language,
        file_bytes=min(_MOST_CHECKPOINT_BYTES, address_bytes // 8, int(limits.file_bytes)),
        rlimits={"RLIMIT_AS": (address_bytes, address_bytes)} if reserved_bytes else {},
        shell=shell.setup_session(grant) if shell else None,
        deno=deno.setup_session(grant, types) if deno else None,
    )
    return program.model_copy(update={"source": "", "session": setup, "reserved_bytes": reserved_bytes})
