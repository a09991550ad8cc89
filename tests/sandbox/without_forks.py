"""What is left where no process inside bubblewrap can make namespaces, as under Ubuntu's AppArmor profile for it:

    python without_forks.py DIRECTORY

A system call filter of this process and all below it makes the kernel refuse what that profile makes it refuse: new
namespaces without a new user namespace. What is found is printed as JSON.
"""

import ctypes
import json
import logging
import struct
import sys
from pathlib import Path

import anyio

from gloveport.bootstrap import app
from gloveport.bootstrap.inspection import inspect, require, warn_of_cold_start
from gloveport.bootstrap.workspace import open_workspace
from gloveport.config import Config
from gloveport.engine.caller import Transport
from gloveport.errors import SandboxError
from gloveport.model import Request
from gloveport.model.reading import read_value

CLONE = {"x86_64": 56}["x86_64"]
NEW_MOUNTS_OR_PROCESSES, NEW_USER, EPERM = 0x20020000, 0x10000000, 1
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, FLAGS = 0, 16  # where they lie in struct seccomp_data
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | EPERM
FILTER = (
    (LOAD, 0, 0, NUMBER),
    (EQUAL, 0, 3, CLONE),
    (LOAD, 0, 0, FLAGS),
    (ANY_BIT, 0, 1, NEW_MOUNTS_OR_PROCESSES),
    (ANY_BIT, 0, 1, NEW_USER),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, REFUSE),
)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2

PROGRAMS = {"python": "print('well')", "shell": "echo well", "typescript": "console.log('well')"}


def refuse_namespaces() -> None:
    """From now on, for good."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in FILTER))
    program = struct.pack("HxxxxxxP", len(FILTER), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


async def main(directory: Path) -> None:
    """See the module."""
    environ = {"GLOVEPORT_STATE": str(directory / "state")}
    config = read_value(Config, {"pool": {"forked": 2, "booted": 1}})
    root = directory / "root"
    root.mkdir()
    with_workspace = config.model_copy(update={"workspace": config.workspace.model_copy(update={"root": root})})
    found: dict[str, object] = {}
    async with app.assemble(config, environ) as engine:
        checks = await inspect(config, environ)
        require(checks)
        warn_of_cold_start(checks)
        found["checks"] = {check.name: [check.state, check.detail, check.repair] for check in checks}
        with anyio.fail_after(60):  # by now every fork server has been tried as well
            await next(stock for stock in engine.sandbox.stocks if not stock.maker.program.forked).wait_filled()
        found["said"] = [
            (await engine.execute(Request(language=language, code=code), caller="test")).stdout.text
            for language, code in PROGRAMS.items()
        ]
        found["waiting"] = [stock.waiting for stock in engine.sandbox.stocks if stock.maker.program.forked]
        transport: Transport = "stdio"
        try:
            async with open_workspace(engine, with_workspace, environ, transport):
                found["workspace"] = "opened"
        except SandboxError as error:
            found["workspace"] = error.args[0]
        try:
            require(await inspect(with_workspace, environ))
        except SandboxError as error:
            found["serving a workspace"] = error.args[0]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    refuse_namespaces()
    anyio.run(main, Path(sys.argv[1]))
