"""Two hosts that only know each other: on one the names of registries lead to the other, which stands in for them."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.far_side import authority
from tests.projects.stand_ins import crates, golang, maven

HOSTS: Final = frozenset({*crates.HOSTS, *golang.HOSTS, *maven.HOSTS})
_PROGRAMS: Final = ("unshare", "nsenter", "ip", "mount")
# An ordinary user is root of a user namespace that owns both hosts, and the same user as before in one below it.
_ROOT: Final = os.geteuid() == 0
_UNSHARE: Final = ("unshare",) if _ROOT else ("unshare", "--user", "--map-root-user")
_NSENTER: Final = ("nsenter",) if _ROOT else ("nsenter", "--user", "--preserve-credentials")
_AS_BEFORE: Final = () if _ROOT else ("unshare", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}", "--")

# Public addresses, for the guard lets nothing else be dialled: of a service that swallows what comes (RFC 7535).
_HERE, _FAR = "192.31.196.1", "192.31.196.2"
_CONNECT: Final = f"""
set -e
ip link set lo up
ip link add here type veth peer name far netns $1
ip address add {_HERE}/30 dev here
ip link set here up
nsenter --target $1 --net ip address add {_FAR}/30 dev far
nsenter --target $1 --net ip link set far up
mount --bind $2 /etc/hosts
echo connected
read end
"""


@dataclass(frozen=True)
class StandInHost:
    """The host whose names lead to the stand-ins.

    Attributes:
        enter: A command line that runs what follows on it.
        environ: What its owner's tools are told: whom to trust.
    """

    enter: Sequence[str]
    environ: dict[str, str]


def lacking() -> list[str]:
    """What is not there to make such a host of."""
    if lacking := [one for one in _PROGRAMS if shutil.which(one) is None]:
        return lacking
    command = [*_UNSHARE, "--net", "--mount", *_AS_BEFORE, "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return [f"namespaces ({tried.stderr.strip()})"] if tried.returncode else []


@contextlib.contextmanager
def stand_in_host(directory: Path) -> Iterator[StandInHost]:
    """Both hosts, network namespaces that end with the context.

    Args:
        directory: For names and keys; it is made.
    """
    directory.mkdir()
    trusted = authority.make(directory)
    names = directory / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{_FAR} {name}\n" for name in sorted(HOSTS)))
    server = [*_UNSHARE, "--net", sys.executable, "-m", "tests.projects.stand_ins", str(trusted.pair(*HOSTS))]
    with _running(server) as (far, verifier):
        owner = () if _ROOT else (*_NSENTER, "--target", str(far), "--")
        script = ["sh", "-c", _CONNECT, "sh", str(far), str(names)]
        with _running([*owner, "unshare", "--net", "--mount", *script]) as (here, _):
            yield StandInHost(
                enter=(*_NSENTER, "--target", str(here), "--net", "--mount", "--", *_AS_BEFORE),
                environ={"SSL_CERT_FILE": trusted.ca_file, "GOSUMDB": verifier},
            )


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A process that says a line when it is ready, and ends with its standard input: its id, and the line."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{command} did not start")
        yield process.pid, line
