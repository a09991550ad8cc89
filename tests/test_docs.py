"""Documents that can rot fail the build."""

import importlib
import re
from pathlib import Path

from gloveport.config.reference.document import reference

ROOT = Path(__file__).parent.parent
SECURITY = (ROOT / "docs/security.md").read_text()
TESTS = {
    path: path.read_text(errors="replace")
    for path in (ROOT / "tests").rglob("*")
    if path.suffix in {".py", ".ts", ".sh"} and path != Path(__file__)
}
PROMISES = re.findall(r"^\| (P\d+) \|", SECURITY, re.MULTILINE)
REQUIREMENTS = re.findall(r"\b[TENHWAO]\d+\b", SECURITY.partition("## Requirements")[2].partition(". Of ")[0])


def test_promises_are_numbered_without_a_gap():
    assert [f"P{number}" for number in range(1, len(PROMISES) + 1)] == PROMISES


def test_every_promise_and_every_requirement_that_is_built_has_a_test_that_names_it():
    named = {word for text in TESTS.values() for word in re.findall(r"\b[A-Z]\d+\b", text)}
    assert [identifier for identifier in (*PROMISES, *REQUIREMENTS) if identifier not in named] == []


def test_what_tries_each_shared_thing_of_the_kernel_is_there_and_each_attack_of_the_siege_is_named():
    table = SECURITY.partition("## What all of a host shares")[2].partition("## Requirements")[0]
    siege = {path.name for path in (ROOT / "bench/siege/cases").iterdir()}
    escape = {path.name for path in (ROOT / "tests/escape/cases").iterdir()}
    named = set(re.findall(r"`([a-z0-9_]+\.(?:py|sh))`", table))
    assert named <= siege | escape
    assert siege <= named
    for test in re.findall(r"\btests/[a-z0-9_/]+\.py", table):
        assert (ROOT / test).exists(), test


def test_the_page_of_the_configuration_is_current():
    assert (ROOT / "docs/config.md").read_text() == reference(), "run `make docs`"


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_lines_have_at_most_a_hundred_columns():
    """Rows of tables, headings and what is generated for machines are as wide as they are."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        lines = page.read_text().splitlines()
        long = [line for line in lines if len(line) > 100 and not line.startswith(("|", "#", "<!--"))]
        assert not long, f"{page}: {long}"


def test_make_targets_that_are_written_about_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"(?:^|`)make ([a-z]+)\b", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_bounds_of_quotations_are_those_of_the_code():
    """P14: what quotes somebody never grows with what he chose to send."""
    table = (ROOT / "docs/audit.md").read_text().partition("## How long a quotation may be")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| (\d+)[^|]*\| `([a-z0-9_/]+)\.py` `(\w+)` \|$", table, re.MULTILINE)
    assert len(rows) == table.count("\n| ") - 1
    for number, module, constant in rows:
        found = vars(importlib.import_module(f"gloveport.{module.replace('/', '.')}"))[constant]
        assert found == int(number), f"{module}.{constant}"
