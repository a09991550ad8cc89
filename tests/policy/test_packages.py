"""P45: what a program may ask for, by its own text and the operator's rules."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.config.checks.cross_checks import rule_faults
from gloveport.model import Allow, Ask, Deny
from gloveport.model.packages import Install, LockedPackage, PackageRules
from gloveport.policy.npm_requests import MetadataError, normalize_npm_requirement, read_imports, with_imports_of_npm
from gloveport.policy.package_requests import (
    _find_blocks,
    decide_install,
    find_likeness,
    name_of,
    read_metadata,
    refuse_names,
)

BLOCK = "# /// script\n# dependencies = [%s]\n# ///\n"


def test_a_block_is_read_as_pep_723_has_it():
    block = ["# /// script", '# requires-python = ">=3.11"', "# dependencies = [", '#   "B_b.b>=2",', "#", '#   "a",']
    source = "\n".join(["x = 1", *block, "# ]", "# ///", ""])
    assert read_metadata(source) == ("a", "b-b-b>=2")
    assert read_metadata("import requests") == ()
    for wrong in (
        "# /// script\n# x = 1\n",
        2 * (BLOCK % '"a"'),
        BLOCK % '"a" "b"',
        BLOCK % '"a @ https://evil.test/a.whl"',
        BLOCK % '"../a"',
        BLOCK % r"""'a; os_name == "\nb\n#"'""",
        BLOCK % r"""'a; os_name == "\x22\x27"'""",
        BLOCK % ", ".join(['"a"'] * 65),
        BLOCK % f'"{"a" * 201}"',
        BLOCK % "1",
        BLOCK % f"], x = {'1' * 5000}",
        BLOCK % f"]\n# {'a.' * 600}a = [1",
        BLOCK % f'"a"]\n# # {"x" * 20_000}\n# x = [',
    ):
        with pytest.raises(MetadataError):
            read_metadata(wrong)


_PEP_723 = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_LINES = ["# /// script", "# /// x", "# ///", "#", "# a", "", "# /// ", "#x", " # ///", "x = 1"]


@given(st.lists(st.sampled_from(_LINES), max_size=12))
def test_blocks_are_those_of_the_expression_of_pep_723(lines):
    source = "\n".join(lines)
    found = [(block["type"], re.sub("(?m)^# ?", "", block["content"])) for block in _PEP_723.finditer(f"{source}\n")]
    assert list(_find_blocks(source)) == found


@pytest.mark.parametrize("line", ["# /// script", "# /// script\n#", "# /// x\n# /// script"])
def test_a_program_of_many_beginnings_is_read_in_linear_time(line):
    """P38: by the expression of PEP 723 a program of 256 KiB takes a minute, in which the server does nothing else."""
    began = time.process_time()
    with pytest.raises(MetadataError):
        read_metadata(f"{line}\n" * (256 * 1024 // len(line)))
    assert time.process_time() - began < 5  # 0.05


def test_a_block_of_long_keys_is_read_in_bounded_time():
    """P38: the standard library's parser takes quadratic time for the parts of a key."""
    keys = "".join(f"# {'a.' * 490}a{number} = 1\n" for number in range(16))
    began = time.process_time()
    assert read_metadata(BLOCK % f'"a"]\n{keys}# y = [') == ("a",)
    assert time.process_time() - began < 5  # 0.1


def test_what_looks_like_a_well_known_name_is_told():
    for name, other in {
        "reqeusts": "requests",
        "request": "requests",
        "requestss": "requests",
        "pythondateutil": "python-dateutil",
        "requests": "",
        "my-own-tools": "",
        "npm:raect": "npm:react",
        "npm:@tanstak/react-query": "npm:@tanstack/react-query",
        "npm:zod": "",
        "npm:reqeusts": "",
        "lodahs": "",
    }.items():
        assert find_likeness(name) == other, name


def test_imports_from_npm_are_found_wherever_a_program_has_them_and_nowhere_else():
    source = """
        import { z } from "npm:zod@^4";  import x from 'npm:@scope/name@1.2 || 2/sub/path.js'
        export * from "npm:csv-parse/sync"; const y = await import( "npm:zod@^4" ); import "npm:/pad";
        // import "npm:comment"
        /* import "npm:comment" */ const text = 'import "npm:text"' + `import "npm:t"` + "\\" import 'npm:after'";
        import plain from "zod"; import fs from "node:fs";
    """
    found = ("npm:@scope/name@1.2 || 2", "npm:csv-parse", "npm:pad", "npm:zod@^4")
    assert read_imports(source) == found
    assert [name_of(one) for one in found] == ["npm:@scope/name", "npm:csv-parse", "npm:pad", "npm:zod"]
    assert read_imports("import 'zod'") == ()
    for wrong in (
        "jsr:std/path",
        "jsr:@std",
        "jsr:@std/../fs",
        "jsr:@std/PATH",
        "npm:fs",
        "npm:ZOD",
        "npm:zod@git+ssh://x",
        "npm:../zod",
        "npm:@a",
        "npm:",
        "npm:a@b@c",
    ):
        with pytest.raises(MetadataError):
            read_imports(f'import "{wrong}"')
    with pytest.raises(MetadataError, match="two versions"):
        read_imports('import "npm:zod@3"; import "npm:zod@4"')
    with pytest.raises(MetadataError, match="more than 64"):
        read_imports("".join(f"import 'npm:a{number}';" for number in range(65)))
    for hostile in (
        "from " * 50_000,
        "import(" * 50_000,
        "/*" * 50_000,
        "`${" * 50_000,
        "import" + " " * 100_000,
        '"\\' * 50_000,
    ):
        assert read_imports(f"{hostile} npm:") == (), hostile[:20]
    assert normalize_npm_requirement(" zod@latest ") == "npm:zod"


def test_packages_of_jsr_have_the_names_that_they_have_in_its_registry_for_npm():
    source = "import a from 'jsr:@std/path@^1/posix'; // jsr:@std/no\nawait import(\"jsr:/@a/b\"); 'jsr:@std/text'"
    assert read_imports(source) == ("npm:@jsr/a__b", "npm:@jsr/std__path@^1")
    spelled = (
        "import a from 'npm:@jsr/std__path@^1/posix'; // jsr:@std/no\nawait import(\"npm:@jsr/a__b\"); 'jsr:@std/text'"
    )
    assert with_imports_of_npm(source) == spelled
    assert normalize_npm_requirement("jsr:@std/path@1") == "npm:@jsr/std__path@1"
    assert refuse_names(PackageRules(allow=("npm:@jsr/std__*",)), ["npm:@jsr/std__path"]) is None
    assert refuse_names(PackageRules(allow=("npm:@std/*",)), ["npm:@jsr/std__path"]) is not None


def decide(rules, *versions, asked=("a",)):
    packages = tuple(LockedPackage(name=name, version=version) for name, version in versions)
    return decide_install(PackageRules(**rules), Install(requested_names=asked, packages=packages))


def test_deny_comes_before_allow_and_allow_before_ask_and_what_none_names_is_denied():
    assert isinstance(decide({"allow": ["a"]}, ("a", "1")), Allow)
    assert isinstance(decide({"allow": ["a<2"], "ask": ["*"]}, ("a", "1")), Allow)
    assert isinstance(decide({"allow": ["a<2"], "ask": ["*"]}, ("a", "2")), Ask)
    assert isinstance(decide({"allow": ["a<2"]}, ("a", "2")), Deny)
    assert isinstance(decide({"allow": ["*"], "deny": ["a"]}, ("a", "1")), Deny)
    assert isinstance(decide({"allow": ["*"], "deny": ["b>3"]}, ("a", "1"), ("b", "4")), Deny)
    assert isinstance(decide({"allow": ["*"], "deny": ["b>3"]}, ("a", "1"), ("b", "3")), Allow)
    assert isinstance(decide({"allow": ["*"]}, ("b", "1")), Deny), "what was asked for is not in the lock"
    assert isinstance(decide({}, ("a", "1")), Deny)
    of_npm = ("npm:@a/b", "1.0.0-rc"), ("npm:c", "2.0.0-next.1")
    for rules, decision in (
        ({"allow": ["*"]}, Deny),
        ({"allow": ["npm:*"]}, Allow),
        ({"allow": ["npm:@a/*<2"]}, Allow),
        ({"allow": ["npm:@a/*>=2"]}, Deny),
        ({"allow": ["npm:*"], "deny": ["b", "c"]}, Allow),
        ({"allow": ["npm:*"], "deny": ["npm:c>3"]}, Deny),  # nobody can tell whether that version is meant
    ):
        assert isinstance(decide(rules, *of_npm, asked=("npm:@a/b",)), decision), rules
    assert refuse_names(PackageRules(allow=("requets",)), ["requets"]) is None, "a rule that has the very name"
    assert refuse_names(PackageRules(allow=("*",)), ["requets"]).code == "package_resembles"


def test_faults_of_environments_are_told_with_their_keys():
    data = {
        "packages": {"allow": ["a>>1"]},
        "environments": {
            "one": {"python": ["a @ https://x"], "default": True},
            "two": {"python": ["a"], "lock": "/x", "default": True},
        },
    }
    assert [fault.keys[0] for fault in rule_faults(data, own=())] == [
        ("packages", "allow", 0),
        ("environments", "one", "python", 0),
        ("environments", "two", "lock"),
        ("environments", "two", "default"),
    ]
