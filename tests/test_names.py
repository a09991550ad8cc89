"""Names that hinder a reader, found by a program: STYLE is in CONTRIBUTING.md, under Rules."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

import gloveport

ROOT = Path(gloveport.__file__).parent
_IRREGULAR = (
    "begun bound bought broken brought built caught chosen done drawn driven eaten fallen fed felt fled flown found "
    "forgotten frozen given gone grown heard held hidden kept known laid led left lost made meant met paid said seen "
    "sent shown spent spoken stolen stood struck sung sunk swept sworn taken taught thought thrown told torn "
    "understood woken won worn written"
)
IRREGULAR_PARTICIPLES = frozenset(_IRREGULAR.split())
VERBS_THAT_END_LIKE_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"})


DEFINITION = re.compile(r"((?:^ *@.*\n)*)^ *(?:async )?(def|class) (\w+)", re.MULTILINE)
"""Its decorators, whether it is a function or a class, and its name. To parse it all takes five times as long."""


@pytest.fixture(scope="module")
def modules():
    """The functions and classes of each module, by its path."""
    return {path.relative_to(ROOT): DEFINITION.findall(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in IRREGULAR_PARTICIPLES or (
        word.endswith("ed") and "_" not in word and word not in VERBS_THAT_END_LIKE_PARTICIPLES
    )


def test_no_function_is_named_by_a_participle_alone(modules):
    """``_opened(path)`` leaves open who opens what; ``_open_root(path)`` says it. A property may be ``closed``."""
    found = [
        f"{path}: {name}"
        for path, definitions in modules.items()
        for decorators, kind, name in definitions
        if kind == "def" and is_participle(name) and "property" not in decorators
    ]
    assert not found


def test_no_public_class_has_the_name_of_another_packages_class(modules):
    """What the guest has is named after its counterpart on the host."""
    found = defaultdict(set)
    for path, definitions in modules.items():
        if path.parts[0] != "guest":
            for _, kind, name in definitions:
                if kind == "class":
                    found[name].add(path.parts[0])
    assert not {name: packages for name, packages in found.items() if len(packages) > 1}


FILES_OF_ONE_NAME = {
    "errors": "errors.py has those of every layer, workspace/errors.py those that clients know by a code of their own",
    "foreground": "bootstrap/ makes what workspace_service/ has, under the same name",
    "hub": "model/ has the values of a package, under its name",
    "workspace": "model/ has the values of a package, and bootstrap/ makes one, under its name",
    "log": "workspace/git/ has a module for each command of git's, under its name",
}
"""What several packages may call a file, and why."""


def test_no_file_has_the_name_of_another_packages_file(modules):
    """One name, one thing: whoever searches for a file finds one. What the guest has is named after its counterpart."""
    found = defaultdict(list)
    for path in modules:
        if path.parts[0] != "guest" and path.stem != "__init__":
            found[path.stem].append(str(path))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in FILES_OF_ONE_NAME} == {}
    assert set(FILES_OF_ONE_NAME) <= set(twice), "an exception that nothing needs any more"
