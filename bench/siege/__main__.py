"""``python -m bench.siege [CASE…] [--seed N] [--scale X]``: hostile runs within the default limits, and their harm.

An honest caller and probes of the host watch. Exits with 1 when one of them is slowed more than three times beyond its
fair share of the processors, or when something stays for a minute. As whoever starts it; when that is root, also as an
ordinary user with cgroups, and as one without. ``--scale 0.05`` takes a twentieth of what can be taken: for a look at
the siege itself.
"""

import argparse
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.siege.case import find_cases
from bench.siege.ordinary import groups_of

_ROOT: Final = Path(__file__).resolve().parents[2]
_SIEGE: Final = "bench.siege.siege"
_BY_ROOT: Final = {
    "root": [_SIEGE],
    "delegated": ["bench.siege.ordinary", "delegated"],
    "user": ["bench.siege.ordinary"],
}
"""Who besieges, when root starts it: root, an ordinary user with cgroups, and one without."""
_HONEST: Final = ("python", "shell", "command")
_HOST: Final = ("fork", "netns", "mounts", "fsync", "read", "disk")


def besiege(identity: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """The verdicts of one siege. That it does not come to its end is one, too."""
    reading, writing = os.pipe()
    module = _BY_ROOT[identity] if os.geteuid() == 0 else [_SIEGE]
    environ = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}
    command = [sys.executable, "-B", "-m", *module, str(writing), *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[writing], cwd=_ROOT, env=environ) as process:
        os.close(writing)
        verdicts = []
        with os.fdopen(reading) as lines:
            for line in lines:
                verdicts.append({"identity": identity, **json.loads(line)})
                print(f"siege: {identity}: {_summary(verdicts[-1])}", file=sys.stderr)
    for directory in groups_of(process.pid):
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()
    if process.returncode:
        faults = [f"it ended with {process.returncode}"]
        verdicts.append({"identity": identity, "case": "(the siege itself)", "faults": faults, "ratios": {}})
    return verdicts


def table(verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """All verdicts, one a row."""
    rows = Table(title="siege: medians during the attack over those of as many runs that only spin")
    for column in ("as", "case", "honest", *_HOST, "after s", "holds", "what"):
        rows.add_column(column, overflow="fold")
    for verdict in verdicts:
        ratios = verdict["ratios"]
        honest = max((ratios[name] for name in _HONEST if name in ratios), default=None)
        figures = ["" if one is None else f"{one:.1f}" for one in (honest, *map(ratios.get, _HOST))]
        what = "; ".join(verdict["faults"]) or verdict.get("said", "")
        holds = "[bold red]NO[/]" if verdict["faults"] else "yes"
        after = f"{verdict.get('after_seconds', 0):.0f}"
        rows.add_row(verdict["identity"], verdict["case"], *figures, after, holds, escape(what))
    return rows


def _summary(verdict: Mapping[str, Any]) -> str:
    figures = ", ".join(f"{name} {ratio:.1f}" for name, ratio in verdict["ratios"].items())
    told = "; ".join(("", *verdict["faults"]))
    return f"{verdict['case']}: {verdict.get('said', '')}; {figures}{told or '; holds'}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="bench.siege", description=__doc__.partition("\n")[0])
    parser.add_argument("case", nargs="*", help="names of files in bench/siege/cases; all when none is named")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="of what is chosen at random")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of what it can a case takes (%(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each attack lasts (%(default)s)")
    parser.add_argument("--as", dest="identity", choices=[*_BY_ROOT], action="append")
    asked = parser.parse_args()
    try:
        find_cases(asked.case)
    except ValueError as error:
        parser.error(str(error))
    print(f"siege: --seed {asked.seed}", file=sys.stderr)
    options = [*asked.case, f"--scale={asked.scale}", f"--seconds={asked.seconds}", f"--seed={asked.seed}"]
    identities = asked.identity or ([*_BY_ROOT] if os.geteuid() == 0 else ["user"])
    verdicts = [verdict for identity in identities for verdict in besiege(identity, options)]
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table(verdicts))
    broken = sum(bool(verdict["faults"]) for verdict in verdicts)
    console.print(f"{len(verdicts) - broken} of {len(verdicts)} held, with --seed {asked.seed}")
    return 1 if broken or not verdicts else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
