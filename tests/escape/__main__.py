"""The hostile programs against this host, as a table: ``python -m tests.escape [--json] [--cold | --once] [NAME…]``.

As whoever starts it and, when that is root, once more as an ordinary user. Exits with 1 when one got through.
``--cold`` leaves out sandboxes that wait for their program, for hosts where none can. With ``--once`` each program is
run once: by turns as either user, in a sandbox that is built for it or in one that has waited. Chance says whose turn
it is.
"""

import json
import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_UID = 65533
_SECONDS = 280
_TEMPERATURES = 2
"""A sandbox is built for its program, or has waited."""


def run(module: list[str], names: list[str]) -> list[dict[str, str | bool]]:
    """Run one battery. What it prints, and an end that is not well, is a verdict too."""
    reading, writing = os.pipe()
    canary = f"canary-{secrets.token_hex(16)}"
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", *module, str(writing), *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[writing],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "GLOVEPORT_CANARY": canary},
        text=True,
    )
    os.close(writing)
    with os.fdopen(reading) as file:
        verdicts = [json.loads(line) for line in file]
    said, _ = process.communicate(timeout=_SECONDS)
    if said or process.returncode != 0:
        verdicts.append(
            {
                "case": "the battery itself",
                "identity": module[0].rpartition(".")[2],
                "temperature": "both",
                "tries": "nothing may be printed but by the runner, and the runner must end well",
                "proves": "A4",
                "expected": "silence and 0",
                "outcome": f"{process.returncode}: {said[-2000:]}",
                "held": False,
            }
        )
    return verdicts


def table(title: str, verdicts: list[dict[str, str | bool]]) -> Table:
    """Verdicts, one a row."""
    rows = Table(title=title, show_lines=False)
    for column in ("as", "sandbox", "case", "tries", "expected", "outcome", "held"):
        rows.add_column(column, overflow="fold")
    for verdict in verdicts:
        texts = (str(verdict[name]) for name in ("identity", "temperature", "case", "tries", "expected", "outcome"))
        rows.add_row(*map(escape, texts), "yes" if verdict["held"] else "[bold red]NO[/]")
    return rows


def main() -> int:
    """See the module."""
    names = [name for name in sys.argv[1:] if name != "--json"]
    batteries = [["tests.escape.battery"]]
    if os.geteuid() == 0:
        batteries.append(["tests.ordinary", str(ORDINARY_UID), *batteries[0]])
    shares: list[list[str]] = [[] for _ in batteries]
    if "--once" in names:
        names.remove("--once")
        count = _TEMPERATURES * len(batteries)
        turn = secrets.randbelow(count)
        shares = [[f"--share={(turn + _TEMPERATURES * place) % count}/{count}"] for place, _ in enumerate(batteries)]
    words = [[*share, *names] for share in shares]
    with ThreadPoolExecutor() as threads:  # at the same time: much of it is waiting for limits
        verdicts = [verdict for found in threads.map(run, batteries, words) for verdict in found]
    console = Console(width=None if sys.stdout.isatty() else 200)
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps(verdicts))
    else:
        console.print(table("hostile programs", verdicts))
        if failed := [verdict for verdict in verdicts if not verdict["held"]]:
            console.print(table("of them, not held", failed))  # at the end: of long output CI shows the end alone
        console.print(f"{len(verdicts) - len(failed)} of {len(verdicts)} held")
    return 0 if verdicts and all(verdict["held"] for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
