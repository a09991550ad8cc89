"""Names that hinder a reader, found by a program: STYLE is in CONTRIBUTING.md, under Rules."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from tests.test_architecture import parse

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


@pytest.fixture(scope="module")
def modules():
    """The functions and classes of each module, by its path."""
    return {path.relative_to(ROOT): [*definitions(parse(path))] for path in sorted(ROOT.rglob("*.py"))}


def definitions(node):
    """Those in its statements, at any depth: no expression has one."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for statement in getattr(node, part, ()):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield statement
            yield from definitions(statement)


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in IRREGULAR_PARTICIPLES or (
        word.endswith("ed") and "_" not in word and word not in VERBS_THAT_END_LIKE_PARTICIPLES
    )


def test_no_function_is_named_by_a_participle_alone(modules):
    """``_opened(path)`` leaves open who opens what; ``_open_root(path)`` says it. A property may be ``closed``."""
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_participle(node.name)
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert not found


def test_no_public_class_has_the_name_of_another_packages_class(modules):
    """What the guest has is named after its counterpart on the host."""
    found = defaultdict(set)
    for path, nodes in modules.items():
        if path.parts[0] != "guest":
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    found[node.name].add(path.parts[0])
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
