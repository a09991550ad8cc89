"""TypeScript and JavaScript runtime: Deno, whose own permissions are one more wall inside the sandbox."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from gloveport.errors import ConfigError
from gloveport.late_libraries import deno as deno_package
from gloveport.model import GUEST, MIB, OUT, OUT_LINKS, PRIVATE, SCRATCH, Grant, Mount, Program, SessionSetup, Value
from gloveport.model.egress import Placeholder
from gloveport.model.hub import DOOR
from gloveport.model.json_value import JsonValue
from gloveport.model.packages import NPM_PACKAGES
from gloveport.model.value import fields_of
from gloveport.real_paths import real

DENO = "/opt/deno/deno"
"""Deno's path in a sandbox."""

DENO_CONFIG = "deno.json"
"""The file at ``NPM_PACKAGES`` with the packages that programs can import by their names."""

RESERVED_BYTES = 640 * MIB
"""V8's code range and heap cages, writable by mode and untouched; measured 553 MB."""

_REPORT = f"{PRIVATE}/report"
_WRITABLE = (SCRATCH, OUT, *OUT_LINKS)


_ENV: Mapping[str, str] = {"DENO_DIR": f"{PRIVATE}/deno", "DENO_NO_UPDATE_CHECK": "1"}
_OPTIONS = (
    DENO,
    "run",
    "--no-prompt",
    "--no-check",
    "--no-remote",
    "--cached-only",
    "--no-lock",
    "--no-code-cache",  # a fresh sandbox has none, and would lose a written one
)
_WITHOUT_PACKAGES = ("--no-npm", "--no-config")
_WITH_PACKAGES = (f"--config={NPM_PACKAGES}/{DENO_CONFIG}", "--node-modules-dir=manual")
_SYS = "--allow-sys=ca,cpus,gid,homedir,hostname,osRelease,uid,username"
_MOST_NAMED = 12


class Deno(Value):
    """A Deno binary of the host."""

    executable: str
    language: Literal["typescript", "javascript"]
    packages: str = "Deno has the modules of node (node:fs and others)"
    has_npm: bool = False
    """Whether programs have npm packages at ``NPM_PACKAGES``."""

    def prepare(self, source: str, grant: Grant, types: str = "") -> Program:
        """Prepare ``source`` to run, with the permissions of ``grant`` and no others. Pure.

        ``types``: declarations that are put before a TypeScript program.
        """
        name = "program.ts" if self.language == "typescript" else "program.js"
        hub = _hub(grant)
        job = {
            "source": source,
            "name": name,
            "language": self.language,
            "types": types if self.language == "typescript" else "",
            "value_bytes": int(grant.limits.output_bytes),
            "hub": hub,
            "packages": self._packages_path,
        }
        command = (
            *self._options,
            *_files(grant, *self._readable, writable=_REPORT),
            *self._permissions(grant),
            _heap(grant),
            f"{GUEST}/deno/{'run_with_tools.mjs' if hub else 'run.mjs'}",
            _REPORT,
        )
        return Program(
            name=name,
            argv=command,
            waiting=(*command, "wait"),
            text=json.dumps(job),
            report=_REPORT,
            binds=self.binds,
            env=_ENV,
            reserved_bytes=RESERVED_BYTES,
            forked=False,
        )

    @property
    def _packages_path(self) -> str:
        return NPM_PACKAGES if self.has_npm else ""

    @property
    def _readable(self) -> tuple[str, ...]:
        return (NPM_PACKAGES,) if self.has_npm else ()

    @property
    def _options(self) -> tuple[str, ...]:
        return (*_OPTIONS, *(_WITH_PACKAGES if self.has_npm else _WITHOUT_PACKAGES))

    def _permissions(self, grant: Grant) -> list[str]:
        """List Deno's permissions. Many packages read variables and properties of the system, and fail without the
        permission: so a program with packages may see what a Python program sees in the same sandbox.
        """
        allowed = _permissions(grant)
        if not self.has_npm:
            return allowed
        return ["--allow-env", _SYS, *(one for one in allowed if not one.startswith(("--allow-env", "--allow-sys")))]

    @property
    def binds(self) -> tuple[Mount, ...]:
        """The host paths that programs need."""
        return (Mount(source=self.executable, target=DENO),)

    def setup_session(self, grant: Grant, types: str = "") -> Mapping[str, JsonValue]:
        """See ``Runtime``. Programs may use the whole loopback of the sandbox, where servers of the session listen."""
        private = fields_of(SessionSetup)["private"].default
        allowed = self._permissions(grant)
        permissions = [one for one in allowed if not one.startswith(("--allow-net", "--allow-sys"))]
        argv = [
            *self._options,
            *_files(grant, *self._readable, private, writable=private),
            "--allow-net",
            f"{_SYS if self.has_npm else '--allow-sys=ca'},inspector",  # V8's inspector evaluates the calls
            *permissions,
            _heap(grant),
            f"{GUEST}/deno/session.mjs",
            _hub(grant),
            self._packages_path,
        ]
        return {"argv": [*argv], "variables": dict(_ENV), "types": types if self.language == "typescript" else ""}


def in_environment(deno: Deno, name: str, packages: Sequence[str]) -> Deno:
    """Make the Deno of an environment, given one without. ``packages`` are those that programs can import, without
    dependencies.
    """
    listed = ", ".join(packages[:_MOST_NAMED]) + (" and others" if len(packages) > _MOST_NAMED else "")
    return deno.model_copy(update={"has_npm": True, "packages": f"the environment {name} has {listed}"})


def _files(grant: Grant, *readable: str, writable: str) -> tuple[str, str]:
    """Make Deno's permissions for files: the grant's mounts, and the program's own directories."""
    written = (*_WRITABLE, *(mount.target for mount in grant.writable))
    read = (*written, *(mount.target for mount in grant.mounts), *readable)
    return f"--allow-read={','.join(read)}", f"--allow-write={','.join((*written, writable))}"


def _heap(grant: Grant) -> str:
    """Set V8's heap limit above the cgroup's, so that the kernel ends a program that needs too much, and reports it."""
    return f"--v8-flags=--max-old-space-size={grant.limits.memory_bytes // MIB + 1}"


def _hub(grant: Grant) -> str:
    """Return the address of the door to tools, skills and the language model; empty if none of them is granted."""
    return ":".join(map(str, DOOR)) if grant.toolbox.servers or grant.sampling.enabled or grant.skills else ""


def _permissions(grant: Grant) -> list[str]:
    """Make Deno's permissions for outbound access: for tools the one door, for HTTP the network and the placeholders.

    They allow the whole network, which is the sandbox's loopback with its doors: a door refuses with a reason, Deno
    with advice that nobody can follow. ``--no-remote`` keeps code from being loaded over it. ``node:https`` needs the
    other permissions before it trusts a certificate.
    """
    hub, active = _hub(grant), [api for api in grant.egress.apis.values() if api.active]
    if not active and not grant.egress.yolo:
        return [f"--allow-net={hub}"] if hub else []
    placeholders = {auth.name for api in active for auth in api.auth if isinstance(auth, Placeholder)}
    names = sorted(placeholders.union(*(api.stand_ins for api in active)))
    return ["--allow-net", "--allow-sys=ca", f"--allow-env={','.join(('NODE_USE_SYSTEM_CA', *names))}"]


def find(configured: str | None, language: Literal["typescript", "javascript"]) -> Deno:
    """Find Deno: the configured binary, else that of the ``deno`` package. Raises ConfigError if there is no Deno."""
    try:
        path = real(Path(configured or deno_package.find_deno_bin()), strict=True)
    except OSError as error:
        detail = f"runtimes.deno: {error}" if configured else f"Deno's binary is nowhere, not at {error} either"
        raise ConfigError(detail, hint="`pip install deno` brings a binary, or set runtimes.deno") from error
    return Deno(executable=str(path), language=language)
