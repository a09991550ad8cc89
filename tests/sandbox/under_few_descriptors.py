"""Runs programs under a low hard limit of descriptors, which nobody can raise again:

    python under_few_descriptors.py STATE-DIRECTORY LIMIT

The first ones put as many descriptors in flight as they may, and keep them there. Meanwhile others are run; what they
print is printed as JSON, what the first ones found goes to standard error.
"""

import json
import resource
import sys

import anyio

from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.model import Policy, Request
from gloveport.model.reading import read_value

ATTACK = """
import errno, os, socket, sys
pairs = [socket.socketpair() for _ in range(8)]
spare = [os.dup(0) for _ in range(200)]
for ours, _ in pairs:
    ours.setblocking(False)
    try:
        while True:
            socket.send_fds(ours, [b"x"], spare)
    except OSError as error:
        ended = errno.errorcode[error.errno]

import time
time.sleep(3)
ended
"""


async def main(state: str) -> None:
    """See the module."""
    config = read_value(
        Config, {"policy": read_value(Policy, {"limits": {"open_files": 4096}}), "pool": {"forked": 1, "booted": 0}}
    )
    async with app.assemble(config, {"GLOVEPORT_STATE": state}) as engine, anyio.create_task_group() as tasks:

        async def attack() -> None:
            result = await engine.execute(Request(language="python", code=ATTACK), caller="attack")
            sys.stderr.write(f"{result.value}\n")

        said = []
        for _ in range(2):
            tasks.start_soon(attack)
        for language, code in (("python", "print('well')"), ("shell", "echo well"), ("python", "print('well')")):
            await anyio.sleep(0.5)
            said.append((await engine.execute(Request(language=language, code=code), caller="test")).stdout.text)
        sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    hard = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    anyio.run(main, sys.argv[1])
