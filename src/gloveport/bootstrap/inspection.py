"""Inspects this host, for ``gloveport doctor`` and for a server that starts: what is enforced here."""

import contextlib
import functools
import logging
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from msgspec.structs import asdict

from gloveport.audit.log import AuditLog
from gloveport.bootstrap.host_setup import Host, bubblewrap, cgroups, find_interpreters, system_of
from gloveport.bootstrap.operator_reach import reach_of, whole_grant
from gloveport.config import Config, audit_directory, environ_outside
from gloveport.egress.outbound_session import Gateway
from gloveport.errors import AuditError, ConfigError, GloveportError, SandboxError, find_exhaustion
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.model import LANGUAGES, Language, Program
from gloveport.sandbox.cgroups import cgroup, delegation
from gloveport.sandbox.cgroups.host_share import can_limit_disks
from gloveport.sandbox.detection import probe
from gloveport.sandbox.detection.probe import Check, make_check
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.plan import Network, Plan, System, make_plan
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault
from gloveport.task_group import finish_all, open_task_group
from gloveport.user_directories import state_directory

_log = logging.getLogger(__name__)

_GREETINGS: Mapping[Language, str] = {
    "python": "print('hello')",
    "typescript": "const word: string = 'hello'; console.log(word)",
    "javascript": "console.log('hello')",
    "shell": "echo hello",
}


_HARD_LIMITS = (
    ("descriptors", "open_files", "RLIMIT_NOFILE", "`ulimit -Hn 65536`, or LimitNOFILE=65536 of the unit"),
    ("processes", "processes", "RLIMIT_NPROC", "`ulimit -Hu 4096`, or LimitNPROC=4096 of the unit"),
    ("file sizes", "file_bytes", "RLIMIT_FSIZE", "`ulimit -Hf unlimited`, or LimitFSIZE=infinity of the unit"),
    ("cpu time", "cpu_seconds", "RLIMIT_CPU", "`ulimit -Ht unlimited`, or LimitCPU=infinity of the unit"),
)
"""Name of the check, key of the limits, hard limit of this process, how to raise it."""


async def inspect(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """What this host enforces and lacks, layer by layer, each really tried. A fault becomes a check, not an error."""
    checks: list[Check] = []
    with contextlib.ExitStack() as stack, _failure_as_check(checks):
        launcher = stack.enter_context(Launcher.open())
        tree = cgroups(config, launcher)
        checks += _cgroup_checks(tree)
        backend = bubblewrap(config, launcher, tree)
        checks.append(await anyio.to_thread.run_sync(probe.bubblewrap_version, backend))
        found = await anyio.to_thread.run_sync(find_interpreters, config, environ)
        system = await anyio.to_thread.run_sync(system_of, found.init, tree)
        host = Host(backend=backend, system=system, **asdict(found))
        async with open_task_group() as tasks:
            vault = Vault(Sources(environ_outside(config, environ)))
            gateway = Gateway(vault, tasks, ForwardProxy(settings=config.proxy, vault=vault))
            network = reach_of(config, gateway).network
            await _try_layers(host, config, network, checks)
    checks += _state_checks(state_directory(environ))
    directory = audit_directory(config, environ)
    try:
        AuditLog.open(directory, max_file_bytes=config.audit.max_file_bytes).close()
        checks.append(make_check("audit", "enforced", f"hash-chained log in {directory}"))
    except AuditError as error:
        checks.append(_missing("audit", error))
    return checks


async def inspect_host(host: Host, config: Config, network: Network) -> list[Check]:
    """As ``inspect``, for the host of a starting server: nothing is detected again, and no helper started twice."""
    checks = _cgroup_checks(host.backend.tree)
    with _failure_as_check(checks):
        checks.append(await anyio.to_thread.run_sync(probe.bubblewrap_version, host.backend))
        await _try_layers(host, config, network, checks)
    return checks


@contextlib.contextmanager
def _failure_as_check(checks: list[Check]) -> Iterator[None]:
    """Turn an error into a check of a missing part."""
    try:
        yield
    except (SandboxError, ConfigError) as error:
        checks.append(_missing("sandbox", error))
    except OSError as error:
        text, hint = find_exhaustion(error) or (str(error), "")
        checks.append(_missing("sandbox", SandboxError(text, hint=hint)))


async def _try_layers(host: Host, config: Config, network: Network, checks: list[Check]) -> None:
    """Add the checks of sandboxes and languages."""
    plan = functools.partial(make_plan, grant=whole_grant(config), system=host.system, network=network)
    walls = await probe.walls(host.backend, plan(Program(name="probe")))
    checks += walls
    checks += _limit_checks(config, host.system)
    if all(check.state != "missing" for check in walls):  # else each of these would report the same fault
        checks += await _checks_inside(config, host, plan)


def require(checks: Sequence[Check]) -> None:
    """Refuse to serve on a host that lacks a layer. A language that can't be run is refused per request.

    Raises:
        SandboxError: Names every layer that is missing and what repairs it.
    """
    missing = [check for check in checks if check.state == "missing"]
    runnable = {check.name for check in checks if check.name in LANGUAGES} - {check.name for check in missing}
    layers = [check for check in missing if check.name not in LANGUAGES or not runnable]
    if layers:
        raise SandboxError(
            "\n".join(f"missing {check.name}: {check.detail}" for check in layers),
            hint="; ".join(dict.fromkeys(check.repair for check in layers if check.repair)),
        )


def warn_of_cold_start(checks: Sequence[Check]) -> None:
    """Log why no sandbox is forked ahead of its program, if none is."""
    for check in checks:
        if check.name == probe.FORK_SERVER and check.state != "enforced":
            _log.warning("%s; repair: %s", check.detail, check.repair)


async def _checks_inside(config: Config, host: Host, plan: Callable[[Program], Plan]) -> list[Check]:
    """Checks in sandboxes, if one could be built: each in its own sandbox, all at the same time."""
    has_workspace = config.workspace.root is not None and "workspace" in config.workspace.toolsets
    tried: list[Callable[[], Awaitable[Check]]] = []
    if has_workspace or config.pool.forked:
        tried.append(
            functools.partial(probe.fork_server, host.backend, plan(Program(name="probe")), needed=has_workspace)
        )
    tried += [
        functools.partial(_check_language, language, config, host, plan)
        for language in LANGUAGES
        if language in config.policy.languages
    ]
    if config.policy.languages & {"python", "shell"}:
        tried.append(functools.partial(_data_check, config, host, plan))
    return await finish_all(tried, (SandboxError, OSError))


async def _check_language(language: Language, config: Config, host: Host, plan: Callable[[Program], Plan]) -> Check:
    """Try a language with a program that prints a line."""
    if language in host.missing:
        detail, _, repair = host.missing[language].partition("\nhint: ")
        return make_check(language, "missing", detail, repair)
    program = host.runtimes[language].prepare(_GREETINGS[language], whole_grant(config))
    try:
        failure = await probe.failure_of(host.backend, plan(program), program)
    except SandboxError as error:
        failure = str(error.args[0])
    return make_check(language, "missing" if failure else "enforced", failure or "a program ran")


async def _data_check(config: Config, host: Host, plan: Callable[[Program], Plan]) -> Check:
    """Which data packages programs have, with the first one's native code tried. Never a refusal."""
    data, grant = host.init.data, whole_grant(config)
    state: Literal["enforced", "weaker"] = "weaker" if data.repair else "enforced"
    if data.modules:
        program = host.init.prepare(f"import {data.modules[0]}\nprint('hello')", grant)
        if failure := await probe.failure_of(host.backend, plan(program), program):
            return make_check("data", "weaker", f"{data.detail}, but {failure}", data.repair)
    return make_check("data", state, data.detail, data.repair)


def _cgroup_checks(tree: cgroup.CgroupTree | None) -> list[Check]:
    if tree is not None:
        detail = f"version {tree.version}: memory, processes and processor time of a whole sandbox"
        return [make_check("cgroups", "enforced", detail), _disk_check(tree)]
    try:
        delegation.detect().close()
        reason, repair = "they appeared just now", "run doctor again"
    except SandboxError as error:
        reason, repair = error.args[0], error.hint
    return [
        make_check("cgroups", "weaker", f"each process is limited by itself, a whole sandbox is not: {reason}", repair)
    ]


def _disk_check(tree: cgroup.CgroupTree) -> Check:
    if can_limit_disks(tree):
        return make_check("disks", "enforced", "what all sandboxes read from disks a second is bounded")
    repair = "delegate the controller io"
    if tree.version == 1:
        repair = "mount or delegate the cgroup controller blkio"
    elif os.geteuid() != 0:  # systemd delegates the other controllers to every user
        repair += ": `[Service] Delegate=cpu io memory pids` in /etc/systemd/system/user@.service.d/io.conf, and reboot"
    return make_check("disks", "weaker", "what sandboxes read from disks is not bounded", repair)


def _limit_checks(config: Config, system: System) -> list[Check]:
    """Whether this process may give programs as much as is configured."""
    limits_by_name = {"policy.limits": config.policy.limits, "workspace.limits": config.workspace.limits}
    checks = []
    for name, key, rlimit, repair in _HARD_LIMITS:
        most = system.most_by_rlimit.get(rlimit, sys.maxsize)
        values = {f"{table}.{key}": getattr(limits, key) for table, limits in limits_by_name.items()}
        if detail := [f"{setting} is {value}" for setting, value in values.items() if value > most]:
            text = f"{' and '.join(detail)}, but programs get {most}: this process may have few more"
            checks.append(make_check(name, "weaker", text, f"raise the hard limit: {repair}"))
    return checks


def _state_checks(directory: Path) -> list[Check]:
    """Whether others could replace what lies in the state directory."""
    try:
        status = directory.stat()
    except OSError:  # it is not there yet
        return []
    if status.st_uid not in {0, os.geteuid()}:
        detail = f"{directory} belongs to another user (uid {status.st_uid})"
        return [make_check("state", "weaker", detail, "name a directory of your own by GLOVEPORT_STATE")]
    if not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return []
    return [make_check("state", "weaker", f"other users can write {directory}", f"chmod go-w {directory}")]


def _missing(name: str, error: GloveportError) -> Check:
    return make_check(name, "missing", error.args[0], error.hint)
