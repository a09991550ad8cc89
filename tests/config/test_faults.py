"""Every wrong key and value is named at once, in plain words."""

import json
import tempfile
from pathlib import Path

import certifi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.config import Config, load
from gloveport.errors import ConfigError
from gloveport.model.type_shapes import is_table
from gloveport.model.value import fields_of
from gloveport.untrusted_text import is_visible


def faults(text):
    """The lines of the refusal of a file with this text, without the file's name."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "x.toml"
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(file, cwd=Path(directory), environ={"GLOVEPORT_STATE": "/nonexistent/state"})
    head, *lines, hint = str(caught.value).split("\n")
    assert head == ("1 fault" if len(lines) == 1 else f"{len(lines)} faults") + " in the configuration:"
    assert hint == "hint: correct each line above; docs/config.md explains every key"
    return [line.removeprefix(f"{file}:") for line in lines]


def fault(text):
    (line,) = faults(text)
    return line


def config(text):
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "x.toml"
        file.write_text(text)
        return load(file, cwd=Path(directory), environ={"GLOVEPORT_STATE": "/nonexistent/state"}).config


def tables(model=Config, base=()):
    yield base
    for name, field in fields_of(model).items():
        if is_table(field.shape.form):
            yield from tables(field.shape.form, (*base, name))


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)


@given(st.dictionaries(st.tuples(st.sampled_from(list(tables())), KEYS), st.just("1"), min_size=1, max_size=6))
def test_every_unknown_key_is_named_with_its_line_at_any_depth(unknown):
    """T3: an unknown configuration key is a refusal that says where."""
    keys = [(*table, name) for table, name in unknown if name not in field_names(table)]
    text = "".join(".".join(json.dumps(part, ensure_ascii=False) for part in key) + " = 1\n" for key in keys)
    if keys:
        lines = faults(text)
        assert len(lines) == len(keys)
        for number, key in enumerate(keys, 1):
            (line,) = [line for line in lines if line.startswith(f"{number}: ")]
            assert "unknown key; hint: " in line
            assert all(part in line for part in key[:-1])
            if is_visible(key[-1]):
                assert key[-1] in line or json.dumps(key[-1], ensure_ascii=False) in line


def field_names(table):
    model = Config
    for name in table:
        model = fields_of(model)[name].shape.form
    return set(fields_of(model))


def test_all_faults_of_a_file_are_named_at_once():
    """T3: shape and rules, in one pass."""
    lines = faults(
        """\
polcy = 1
[policy]
default_wall_seconds = 400
languages = ["python", "ruby"]
unix_sockets = "no"
[[policy.mounts]]
source = "/etc"
target = "/data"
[[policy.mounts]]
source = 3
[[policy.mounts]]
source = "/usr/share"
target = "/data/below"
[sandbox]
uid_count = 1
"""
    )
    assert [line.split(": ", 2)[:2] for line in sorted(lines, key=lambda line: int(line.split(":")[0]))] == [
        ["1", "polcy"],
        ["3", "policy.default_wall_seconds"],
        ["4", "policy.languages[1]"],
        ["5", "policy.unix_sockets"],
        ["7", "policy.mounts[0].source"],
        ["9", "policy.mounts[1].target"],
        ["10", "policy.mounts[1].source"],
        ["13", "policy.mounts[2].target"],
        ["15", "sandbox.uid_count"],
    ]


@for_each(
    "text, expected",
    [
        ("polcy.x = 1", "1: polcy: unknown key; hint: did you mean policy?"),
        (
            "policy.limits.wall_second = 1",
            "1: policy.limits.wall_second: unknown key; hint: did you mean policy.limits.wall_seconds?",
        ),
        ("memory_bytes = 1", "1: memory_bytes: unknown key; hint: did you mean policy.limits.memory_bytes?"),
        (
            '[[policy.mounts]]\nsource = "/usr/share"\ntarget = "/data"\nwritable = true',
            "4: policy.mounts[0].writable: unknown key; hint: the keys here are: source, target, as_owner",
        ),
        (
            "audit.zzz = 1",
            (
                "1: audit.zzz: unknown key; hint: the keys here are: directory, max_file_bytes, max_bytes, "
                "max_record_bytes, refusals_per_run"
            ),
        ),
        (
            "\n[admission]\nqueue_length = -1",
            (
                "3: admission.queue_length: expected a whole number, at least 0, at most 65536, found -1; "
                "hint: write it without quotes, unit or decimal point"
            ),
        ),
        (
            'sandbox.cgroups = "requires"',
            '1: sandbox.cgroups: expected one of "require", "prefer", found "requires"; hint: did you mean "require"?',
        ),
        (
            "audit = 3",
            (
                "1: audit: expected a table, found 3; hint: its keys are: directory, max_file_bytes, max_bytes, "
                "max_record_bytes, refusals_per_run"
            ),
        ),
    ],
)
def test_a_fault_says_where_what_was_expected_what_was_found_and_what_to_do(text, expected):
    assert fault(text) == expected


@for_each(
    "text, found",
    [
        ('policy.limits.code_bytes = "lots"', 'expected a size, above 0, found "lots"'),
        ('policy.limits.code_bytes = "0.5B"', 'expected a size, above 0, found "0.5B"'),
        ('policy.limits.code_bytes = "12MiX"', 'found "12MiX"; hint: a plain number is bytes; units are KiB, MiB'),
        ("policy.limits.code_bytes = 1.5", "expected a size, above 0, found 1.5"),
        ("policy.limits.code_bytes = true", "expected a size, above 0, found true"),
        ("policy.limits.code_bytes = 0", "expected a size, above 0, found 0"),
        ('policy.limits.wall_seconds = "30s"', 'expected a number, above 0, at most 86400, found "30s"'),
        ("policy.limits.wall_seconds = nan", "found nan"),
        ("policy.limits.wall_seconds = inf", "found inf"),
        ("policy.limits.wall_seconds = 1e999", "found inf"),
        ("policy.limits.wall_seconds = true", "found true"),
        ("policy.limits.wall_seconds = 2024-01-01", "found 2024-01-01"),
        ("policy.limits.processes = 5.0", "found 5.0"),
        ('policy.limits.processes = "5"', 'found "5"'),
        ("policy.unix_sockets = 1", "expected true or false, found 1"),
        ("policy.languages = 2024-01-01", "found 2024-01-01"),
        ('policy.languages = "python"', 'expected an array, each element one of "python"'),
        ("policy.mounts = [1, {}]", "expected a table, found 1"),
        ("[policy.mounts]\nsource = '/usr/share'", "found a table; hint: write [[policy.mounts]], with two brackets"),
        ("policy.limits = []", "expected a table, found an array of 0"),
        ("sandbox = 2024-01-01T00:00:00Z", "expected a table, found 2024-01-01 00:00:00+00:00"),
        ("sandbox.landlock_abi = 0", "at least 1, at most 64, found 0"),
        ("sandbox.first_uid = 0", "at least 1000"),
        ("sandbox.bubblewrap = {}", "expected an absolute path below /, found a table"),
        ("audit.max_file_bytes = 1", "expected a size, at least 4096, found 1"),
    ],
)
def test_a_value_of_the_wrong_shape_is_never_converted(text, found):
    """T3"""
    assert any(found in line for line in faults(text))


@for_each("key", ["sandbox.bubblewrap", "runtimes.python", "runtimes.deno", "runtimes.bash", "audit.directory"])
@for_each(
    "path",
    ["bwrap", "./bwrap", "~/bwrap", "$HOME/bwrap", "", "/", "//bin/x", "/a//b", "/a/", "/a/../b", "/a/./b", "/a\\nb"],
)
def test_a_path_is_absolute_and_has_one_spelling(key, path):
    line = fault(f'{key} = "{path}"')
    assert line.startswith(f"1: {key}: expected an absolute path below /, found ")
    assert 'hint: write the whole path from "/" on' in line


def test_names_that_only_look_like_dots_are_paths():
    assert config('audit.directory = "/a/..b/.c/..."').audit.directory == Path("/a/..b/.c/...")


def test_what_pydantic_says_never_gets_out():
    text = "\n".join(faults("a = 1\npolicy.mounts = [3, {}]\npolicy.limits.cpus = 'x'\nsandbox.bubblewrap = 'x'\n"))
    for word in ("pydantic", "Input", "Extra", "Field", "Value error", "http"):
        assert word not in text


def test_hostile_text_is_shown_escaped_and_shortened():
    line = fault(f'"\\u001b[2J\\n{"k" * 5000}" = 1\n')
    assert line.isprintable()
    assert "\\u001b[2J\\n" in line
    assert len(line) < 320
    line = fault(f'sandbox.cgroups = "\\u202e\\u0007\\U000e0001{"v" * 5000}"\n')
    assert line.isprintable()
    assert '"\\u202e\\u0007\\U000e0001v' in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ('"64MiB"', 64 << 20), ('"64MB"', 64_000_000), ('"1.5 KiB"', 1536)]
)
def test_a_size_is_bytes_or_has_a_unit(text, size):
    """T5"""
    assert config(f"policy.limits.code_bytes = {text}").policy.limits.code_bytes == size


def test_a_file_can_say_everything():
    """T5: each key arrives where it belongs."""
    assert config(
        """\
[policy]
languages = ["python", "shell"]
mounts = [{ source = "/usr/share", target = "/data", as_owner = true }]
unix_sockets = true
ptrace = true
default_wall_seconds = 1.5
[policy.limits]
wall_seconds = 2
cpu_seconds = 3
cpus = 0.5
memory_bytes = "1GiB"
processes = 9
open_files = 32
file_bytes = "1MiB"
scratch_bytes = "2MiB"
out_bytes = "5MiB"
output_bytes = 256
stored_output_bytes = 3
code_bytes = 4
input_bytes = 7
requests = 5
tool_calls = 17
tool_bytes = "3MiB"
[sessions]
idle_seconds = 60
life_seconds = 3600
per_caller = 2
total = 3
[artifacts]
kept_seconds = 60
caller_bytes = "1MiB"
total_bytes = "2MiB"
[admission]
concurrent_runs = 5
queue_length = 0
queue_seconds = 6
[pool]
forked = 3
booted = 1
idle_seconds = 60
forks = 100
[sandbox]
bubblewrap = "/opt/bwrap"
cgroups = "require"
landlock_abi = 4
first_uid = 2_000_000_000
uid_count = 77
memory_share = 0.5
disk_bytes = "1MiB"
[runtimes]
python = "/opt/python3"
deno = "/opt/deno"
bash = "/opt/bash"
[environments.web]
description = "pages"
python = ["requests>=2"]
npm = ["zod@4"]
languages = ["typescript", "python"]
npm_lock = "/package-lock.json"
build = ["docopt==0.6.2"]
allow = ["*"]
default = true
[packages]
allow = ["six"]
ask = ["*"]
deny = ["numpy"]
indexes = ["https://index.test/simple"]
npm_registry = "https://npm.test"
npm_scopes = { "@acme" = "https://acme.test" }
advisories = "https://osv.test"
cooldown_days = 3
environment_bytes = "1GiB"
environment_files = 1000
[skills]
directory = "/srv/skills"
[audit]
directory = "/srv/audit"
max_file_bytes = "1MiB"
max_bytes = "32MiB"
max_record_bytes = 5000
refusals_per_run = 7
[clients]
structured = ["my-*"]
[exec]
clipboard = true
[exec.limits]
wall_seconds = 5
cpu_seconds = 6
cpus = 1.5
memory_bytes = "64MiB"
processes = 9
open_files = 77
file_bytes = "2MiB"
scratch_bytes = "3MiB"
requests = 8
[exec.programs.claude]
home = true
apis = ["here"]
variables = {NAME = "value"}
[egress]
yolo = true
user_agent = "x/1"
redact = ["Jane Doe"]
[proxy]
username = "me"
secret = "env:PROXY"
[api.here]
description = "d"
hosts = ["api.example.com", "*.example.com:8443"]
reference = "https://docs.example.com"
types = "type X = 1;"
active = false
stand_ins = ["HERE_KEY"]
networks = ["10.0.0.0/8", "fd00::/8"]
addresses = ["10.0.0.5", "fd00::5"]
ca_file = "CA_FILE"
[[api.here.rules]]
action = "ask"
methods = ["POST"]
paths = ["/v1/**"]
[[api.here.auth]]
kind = "header"
name = "X-Key"
secret = "env:KEY"
prefix = "Token "
""".replace("CA_FILE", certifi.where())
    ).model_dump(mode="json", exclude={"servers", "sampling", "approvals", "workspace"}) == {
        "policy": {
            "languages": ["python", "shell"],
            "mounts": [{"source": "/usr/share", "target": "/data", "as_owner": True}],
            "unix_sockets": True,
            "ptrace": True,
            "default_wall_seconds": 1.5,
            "limits": {
                "wall_seconds": 2,
                "cpu_seconds": 3,
                "cpus": 0.5,
                "memory_bytes": 1 << 30,
                "processes": 9,
                "open_files": 32,
                "file_bytes": 1 << 20,
                "scratch_bytes": 2 << 20,
                "out_bytes": 5 << 20,
                "output_bytes": 256,
                "stored_output_bytes": 3,
                "code_bytes": 4,
                "input_bytes": 7,
                "requests": 5,
                "tool_calls": 17,
                "tool_bytes": 3 << 20,
            },
        },
        "sessions": {"idle_seconds": 60.0, "life_seconds": 3600.0, "per_caller": 2, "total": 3},
        "artifacts": {"kept_seconds": 60.0, "caller_bytes": 1 << 20, "total_bytes": 2 << 20},
        "admission": {"concurrent_runs": 5, "queue_length": 0, "queue_seconds": 6},
        "pool": {"forked": 3, "booted": 1, "idle_seconds": 60, "forks": 100},
        "sandbox": {
            "bubblewrap": "/opt/bwrap",
            "cgroups": "require",
            "landlock_abi": 4,
            "first_uid": 2_000_000_000,
            "uid_count": 77,
            "memory_share": 0.5,
            "disk_bytes": 1 << 20,
        },
        "runtimes": {"python": "/opt/python3", "deno": "/opt/deno", "bash": "/opt/bash"},
        "environments": {
            "web": {
                "description": "pages",
                "python": ["requests>=2"],
                "npm": ["zod@4"],
                "languages": ["python", "typescript"],
                "lock": None,
                "npm_lock": "/package-lock.json",
                "build": ["docopt==0.6.2"],
                "allow": ["*"],
                "default": True,
            }
        },
        "packages": {
            "allow": ["six"],
            "ask": ["*"],
            "deny": ["numpy"],
            "indexes": ["https://index.test/simple"],
            "npm_registry": "https://npm.test",
            "npm_scopes": {"@acme": "https://acme.test"},
            "advisories": "https://osv.test",
            "cooldown_days": 3,
            "environment_bytes": 1 << 30,
            "environment_files": 1000,
        },
        "skills": {"directory": "/srv/skills"},
        "audit": {
            "directory": "/srv/audit",
            "max_file_bytes": 1 << 20,
            "max_bytes": 1 << 25,
            "max_record_bytes": 5000,
            "refusals_per_run": 7,
        },
        "clients": {"structured": ["my-*"]},
        "exec": {
            "clipboard": True,
            "programs": {"claude": {"home": True, "apis": ["here"], "variables": {"NAME": "value"}}},
            "limits": {
                "wall_seconds": 5.0,
                "cpu_seconds": 6.0,
                "cpus": 1.5,
                "memory_bytes": 64 << 20,
                "processes": 9,
                "open_files": 77,
                "file_bytes": 2 << 20,
                "scratch_bytes": 3 << 20,
                "requests": 8,
            },
        },
        "egress": {"yolo": True, "user_agent": "x/1", "redact": ["Jane Doe"]},
        "proxy": {"url": None, "username": "me", "secret": "env:PROXY", "direct": []},
        "api": {
            "here": {
                "description": "d",
                "hosts": ["api.example.com", "*.example.com:8443"],
                "reference": "https://docs.example.com",
                "types": "type X = 1;",
                "active": False,
                "stand_ins": ["HERE_KEY"],
                "networks": ["10.0.0.0/8", "fd00::/8"],
                "addresses": ["10.0.0.5", "fd00::5"],
                "ca_file": certifi.where(),
                "rules": [{"action": "ask", "methods": ["POST"], "paths": ["/v1/**"]}],
                "auth": [{"kind": "header", "name": "X-Key", "secret": "env:KEY", "prefix": "Token "}],
            }
        },
    }
