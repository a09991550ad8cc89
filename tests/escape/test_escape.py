"""T2, E9, E4, T4: each hostile program in ``cases`` is held, as root and as an ordinary user, in a sandbox built
for it and in one that waited, and leaves nothing.

``header`` says how a program states what is expected of it; ``battery`` runs them. Adding one needs no code.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted(path.name for path in (Path(__file__).parent / "cases").iterdir())
TEMPERATURES = ("cold", "warm")
_KEY = ("identity", "temperature", "case")
IDENTITIES = ("root", "user") if os.geteuid() == 0 else ("user",)


@pytest.fixture(scope="session")
def verdicts() -> dict[tuple[str, ...], dict[str, str]]:
    """What came of every program, by ``_KEY``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.escape", "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return {tuple(verdict[name] for name in _KEY): verdict for verdict in json.loads(done.stdout)}


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("case", CASES)
def test_the_attack_is_held(verdicts, identity, temperature, case):
    verdict = verdicts[identity, temperature, case]
    assert verdict["held"], f"{verdict['tries']}\nexpected: {verdict['expected']}\noutcome: {verdict['outcome']}"


def test_the_runner_itself_says_nothing_and_ends_well(verdicts):
    assert [verdict["outcome"] for (*_, case), verdict in verdicts.items() if case not in CASES] == []


def test_there_are_enough_of_them_in_every_language():
    by_language = {suffix: sum(name.endswith(suffix) for name in CASES) for suffix in (".py", ".ts", ".sh")}
    assert len(CASES) >= 60
    assert all(count >= 10 for count in by_language.values()), by_language
