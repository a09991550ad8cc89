"""T2, E9, E4, T4: each hostile program in ``cases`` is held, as root or as an ordinary user, in a sandbox built
for it or in one that waited, and leaves nothing. It is run in one of the four, in another the next time; all four are
what ``make escape`` runs, and CI.

``header`` says how a program states what is expected of it; ``battery`` runs them. Adding one needs no code.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted(path.name for path in (Path(__file__).parent / "cases").iterdir())


@pytest.fixture(scope="session")
def verdicts(request) -> dict[str, list[dict[str, str]]]:
    """What came of every program that is asked for, by its name."""
    chosen = {item.callspec.params["case"] for item in request.session.items if item.path == Path(__file__)}
    names = [] if chosen == {*CASES} else chosen
    command = [sys.executable, "-m", "tests.escape", "--json", "--once", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = defaultdict(list)
    for verdict in json.loads(done.stdout):
        found[verdict["case"]].append(verdict)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_attack_is_held(verdicts, case):
    """The runner itself says nothing and ends well."""
    for verdict in verdicts[case] + [one for name in verdicts.keys() - {*CASES} for one in verdicts[name]]:
        kind = f"{verdict['identity']}, {verdict['temperature']}"
        assert verdict["held"], f"{kind}: {verdict['tries']}\n{verdict['expected']} became\n{verdict['outcome']}"
    assert verdicts[case], "it was not run"
