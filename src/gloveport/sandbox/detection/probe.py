"""Probes what this host enforces, layer by layer: by building a sandbox and asking the kernel, not by versions."""

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Final, Literal, TypeAlias

from gloveport.errors import SandboxError
from gloveport.model import Program, Value
from gloveport.sandbox.base import IsolationReport
from gloveport.sandbox.detection import restrictions
from gloveport.sandbox.detection.host import BUBBLEWRAP_HINT
from gloveport.sandbox.launch import apparmor
from gloveport.sandbox.launch.bubblewrap_process import ASK_DOCTOR
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool import zygote_process
from gloveport.sandbox.run.calling_process import can_supervise
from gloveport.sandbox.run.capture import Capture

FORK_SERVER: Final = "fork server"

_OLDEST = (0, 8)  # the first with --disable-userns
_SYSCTL = Path("/proc/sys")
_SAID_BYTES = 4096


State: TypeAlias = Literal["enforced", "weaker", "missing"]


class Check(Value):
    """The result of one check of a layer or part."""

    name: str
    state: State
    """``weaker``: the policy accepts the weaker state. ``missing``: no program is run until it is repaired."""

    detail: str
    repair: str = ""
    """The command, or the setting, that repairs it."""


def make_check(name: str, state: State, detail: str, repair: str = "") -> Check:
    """See ``Check``."""
    return Check(name=name, state=state, detail=detail, repair=repair)


def bubblewrap_version(sandbox: Bubblewrap) -> Check:
    """Whether bubblewrap is new enough to close user namespaces behind it."""
    try:
        version_text = subprocess.run(  # noqa: S603 - the operator's or the distribution's bubblewrap
            [sandbox.program, "--version"], capture_output=True, check=True, text=True, timeout=10, env={}, cwd="/"
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return make_check("bubblewrap", "missing", str(error), BUBBLEWRAP_HINT)
    if not version_text.startswith("bubblewrap "):
        detail = f"{sandbox.program} is something else"
        return make_check("bubblewrap", "missing", detail, "correct or remove sandbox.bubblewrap")
    numbers = tuple(map(int, re.findall(r"\d+", version_text)[:2]))
    if numbers < _OLDEST:
        detail = f"{version_text} at {sandbox.program}; {_OLDEST[0]}.{_OLDEST[1]} or newer is needed"
        return make_check(
            "bubblewrap", "missing", detail, "install a newer bubblewrap and name it in sandbox.bubblewrap"
        )
    if repair := apparmor.repair_of_copy(sandbox.program):
        detail = f"{version_text} at {sandbox.program}, which is a copy of another than the distribution's now"
        return make_check("bubblewrap", "weaker", detail, repair)
    return make_check("bubblewrap", "enforced", f"{version_text} at {sandbox.program}")


async def walls(sandbox: Bubblewrap, plan: Plan) -> list[Check]:
    """Build one sandbox and report the walls that its first process found in force."""
    try:
        found, is_supervised = await _find_walls(sandbox, plan)
    except SandboxError as error:
        repair = error.hint if error.hint != ASK_DOCTOR else _repair(sandbox)
        return [make_check("sandbox", "missing", error.args[0], repair)]
    checks = [
        make_check("namespaces", "enforced", "user, mount, pid, network, ipc, uts, cgroup; no further ones"),
        make_check("seccomp", "enforced", "system call filter in force"),
        make_check("capabilities", "enforced", "none, and no new privileges"),
        _landlock(found.landlock),
        core_dumps(),
    ]
    if not is_supervised:
        of_user = "sudo sysctl -w kernel.yama.ptrace_scope=1"
        repair = of_user if sandbox.uids is None else "start the container with --cap-add SYS_PTRACE"
        detail = "commands of a workspace can't connect to anything, nor watch files: nobody may see their calls"
        checks.append(make_check("supervision", "weaker", detail, repair))
    if sandbox.uids is not None:
        last = sandbox.uids.first + sandbox.uids.count - 1
        detail = f"started as root; each sandbox runs as its own uid of {sandbox.uids.first} to {last}"
        checks.append(make_check("uid", "enforced", detail))
    return checks


async def _find_walls(sandbox: Bubblewrap, plan: Plan) -> tuple[IsolationReport, bool]:
    """Build a sandbox; return what its first process found, and whether its system calls can be supervised.

    A host that is short of memory ends sandboxes first: a failure counts if it comes again, since a server would refuse
    everything until it is started anew.
    """
    with contextlib.suppress(SandboxError):
        async with sandbox.start(plan) as child:
            return child.walls, can_supervise(child.inner)
    async with sandbox.start(plan) as child:
        return child.walls, can_supervise(child.inner)


async def fork_server(sandbox: Bubblewrap, plan: Plan, *, needed: bool) -> Check:
    """Whether sandboxes can be forked: processes below bubblewrap must make namespaces, which is really tried.
    ``needed`` is whether something is configured that only forked sandboxes can do.
    """
    try:
        async with zygote_process.start(sandbox, plan) as server, server.fork():
            pass
    except SandboxError as error:
        without = "a workspace needs that" if needed else "each is built for its program: as strong, but slower"
        detail = f"sandboxes can't be forked; {without}: {error.args[0]}"
        return make_check(FORK_SERVER, "missing" if needed else "weaker", detail, error.hint)
    return make_check(FORK_SERVER, "enforced", "sandboxes are forked ahead of their programs")


async def failure_of(sandbox: Bubblewrap, plan: Plan, program: Program) -> str:
    """Run a program that prints a line; returns what went wrong, empty if nothing did.

    Raises:
        SandboxError: There is no sandbox to run it in.
    """
    with contextlib.ExitStack() as stack:
        stdout, stderr = (
            stack.enter_context(
                contextlib.closing(Capture(shown_bytes=_SAID_BYTES, stored_bytes=_SAID_BYTES, directory=Path("/")))
            )
            for _ in range(2)
        )
        async with sandbox.start(plan) as child:
            outcome = await child.run(program, value_bytes=_SAID_BYTES, stdout=stdout, stderr=stderr)
        if outcome.exit_code == 0 and stdout.page(0)[0] == "hello\n":
            return ""
        error_lines = stderr.page(0)[0].strip().splitlines() or [""]
        return f"a program that should say hello ended with exit code {outcome.exit_code}: {error_lines[0][:200]}"


def core_dumps() -> Check:
    """Whether a crash inside can start a host program on a dump of the sandbox's memory."""
    pattern = (_SYSCTL / "kernel/core_pattern").read_text().strip()
    if pattern.startswith("@"):
        detail = f"the kernel sends crashes to the socket {pattern}, perhaps whatever the limit; they hold no memory"
        return make_check("core dumps", "weaker", detail, "sudo sysctl -w kernel.core_pattern=core")
    return make_check("core dumps", "enforced", "none is written, and no handler of the host is started")


def _landlock(version: int) -> Check:
    if version >= 6:
        return make_check("landlock", "enforced", f"ABI {version}: files, signals and abstract sockets")
    detail = f"ABI {version}: files, but not signals and abstract sockets, which the namespaces close as well"
    return make_check("landlock", "weaker", detail, "boot Linux 6.12 or newer")


def _repair(sandbox: Bubblewrap) -> str:
    """The known reasons why a host, or a container, has no sandboxes."""
    repairs = {
        "kernel/unprivileged_userns_clone": "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        "user/max_user_namespaces": "sudo sysctl -w user.max_user_namespaces=15000",
    }
    for name, repair in repairs.items():
        path = _SYSCTL / name
        if path.exists() and path.read_text().strip() == "0":
            return repair
    if repair := restrictions.repair(None if sandbox.uids is None else sandbox.uids.first):
        return repair
    return apparmor.repair(sandbox.program) if apparmor.is_restricting() else apparmor.UNKNOWN
