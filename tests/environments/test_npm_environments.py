"""Environments of npm packages: from a registry of the tests to a program that imports; what a registry may try."""

import contextlib
import json
import tarfile
import tomllib
from pathlib import Path

import pytest
from tests import shared_host
from tests.egress.world import World
from tests.environments.registry import YOUNG, Registry, entry, serve

from gloveport.config import Config
from gloveport.config.checks.cross_checks import rule_faults
from gloveport.model import Request
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def opened(state: Path, *registries: Registry, environments=None, pool=None, scopes=None, **packages):
    """A Gloveport whose packages of npm come from the first, and those of ``scopes`` from the others, in order."""
    names = [f"http://{one.host}:{one.port}" for one in registries]
    of_scopes = dict(zip(scopes or (), names[1:], strict=True))
    config = {
        "policy": {"languages": ["python", "typescript", "javascript"]},
        "pool": pool or {"forked": 0, "booted": 0},
        "environments": environments or {},
        "packages": {"npm_registry": names[0], "npm_scopes": of_scopes, **packages},
        "api": {f"npm{n}": {"hosts": [name], "addresses": ["127.0.0.1"]} for n, name in enumerate(names)},
    }
    async with shared_host.assemble(read_value(Config, config), {"GLOVEPORT_STATE": str(state)}) as engine:
        yield World(engine, state)


@pytest.fixture(scope="module")
def registry():
    ran = "node -e \"require('fs').writeFileSync('ran', '')\""
    scripts = dict.fromkeys(("preinstall", "install", "postinstall", "prepare"), ran)
    with serve(Registry()) as served:
        served.add("honest", manifest={"dependencies": {"helper": "^1.0.0", "fs": "*"}, "scripts": scripts})
        served.add("honest", "2.0.0", uploaded=YOUNG)
        served.add("fs", files={"index.js": "exports.evil = true"})
        served.add(
            "helper",
            files={"index.mjs": "import fs from 'fs'; export const evil = fs.evil; export const NAME = 'helper'"},
            manifest={"exports": {".": "./index.mjs"}, "type": "module"},
        )
        yield served


async def test_packages_of_npm_are_built_in_the_sandbox_once_and_imported_by_either_name(registry, tmp_path):
    """E8, P43: no script of a package runs, and Node's own modules are nobody else's."""
    code = """
        import honest from "honest";
        import { evil, NAME } from "npm:helper@1";
        import fs from "fs";
        console.log("begun");
        const tried = [];
        for (const path of ["/opt/npm/node_modules/honest/index.js", "/opt/npm/ran"]) {
          try { fs.writeFileSync(path, ""); } catch (error) { tried.push(error.name); }
        }
        [honest.VERSION, NAME, evil ?? null, tried, fs.existsSync("/opt/npm/node_modules/honest/ran")]
    """
    pool = {"forked": 0, "booted": 1, "idle_seconds": 60}
    named = {"one": {"npm": ["honest", "helper"]}}
    async with opened(tmp_path / "state", registry, environments=named, pool=pool) as world:
        made = []

        def count_made(_stream, _text) -> None:
            made.append([stock._count for stock in world.engine.sandbox.stocks if stock.is_added])

        asked = Request(language="typescript", code=code, environment="one")
        first = await world.engine.execute(asked, caller="tester", on_output=count_made)
        assert first.status == "ok", first
        assert made[0] == [0], "none is made ahead while the first is held up by it"
        assert first.value == ["1.0.0", "helper", None, ["NotCapable", "NotCapable"], False]
        assert first.environment.startswith("one (")
        installed, asked = world.records("install"), len(registry.asked)
        assert installed[0].fields["packages"] == ["npm:fs==1.0.0", "npm:helper==1.0.0", "npm:honest==1.0.0"]
        assert {one.fields["host"] for one in world.records("fetch.admitted")} == {"registry0.test"}
        code = "const { VERSION } = require('honest'); VERSION"
        assert await world.value("javascript", code, environment="one") == "1.0.0", "by a Deno that has waited, too"
        assert len(registry.asked) == asked, "the second run is a mount"
        code = "const { NAME } = await import('helper');"
        begun = await world.run("typescript", code, environment="one", session="new")
        assert (await world.run("typescript", "NAME", session=begun.session.id)).value == "helper", begun
        missing = await world.run("typescript", "import 'helper'")
        assert 'the environment one has it: environment="one"' in missing.hint, missing
        other = await world.run("python", "1", environment="one")
        assert other.error.type == "environment_of_other_language", other
        store = world.engine.environments.store
        [tree] = store.list_trees()
        assert list(store.verify(tree)) == []
        store.remove(tree)
        was = registry.packages.pop("helper")
        registry.add("helper", files={"index.mjs": "export const NAME = 'another'"})
        refused = await world.run("typescript", "1", environment="one")
        registry.packages["helper"] = was
        assert (refused.status, refused.error.type) == ("denied", "package_refused"), refused
        assert not list((store.root / "work").glob("build-*"))


async def test_the_operators_lock_says_which_versions_and_digests_may_be_had(tmp_path):
    """P44: and nothing else is let in, whatever the registry has."""
    with serve(Registry()) as registry:
        registry.add("locked", "1.0.0", manifest={"dependencies": {"inner": "*"}})
        registry.add("locked", "1.1.0", manifest={"dependencies": {"inner": "*"}})
        registry.add("inner", "1.0.0")
        registry.add("inner", "2.0.0")
        locked = {
            f"node_modules/{name}": {
                "version": "1.0.0",
                "integrity": registry.packages[name]["1.0.0"][0]["dist"]["integrity"],
                **({"dependencies": {"inner": "*"}} if name == "locked" else {}),
            }
            for name in ("locked", "inner")
        }
        without = {name: one for name, one in locked.items() if not name.endswith("inner")}
        changed = {name: {**one, "integrity": f"sha512-{'A' * 86}=="} for name, one in locked.items()}
        named = {}
        for name, packages in {"right": locked, "without": without, "changed": changed}.items():
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps({"lockfileVersion": 3, "packages": {"": {}, **packages}}))
            named[name] = {"npm": ["inner" if name == "without" else "locked@^1"], "npm_lock": str(path)}
        named["none"] = {"npm": ["locked"], "npm_lock": "/nowhere"}
        async with opened(tmp_path / "state", registry, environments=named) as world:
            code = "import { VERSION } from 'locked'; VERSION"
            assert await world.value("typescript", code, environment="right") == "1.0.0"
            [tree] = world.engine.environments.store.list_trees()
            assert [f"{one.name} {one.version}" for one in tree.packages] == ["npm:inner 1.0.0", "npm:locked 1.0.0"]
            for name, refused in {
                "without": "package_not_locked",
                "changed": "package_not_locked",
                "none": "lock_unreadable",
            }.items():
                told = await world.run("typescript", "1", environment=name)
                assert told.error.type == refused, (name, told)


async def test_what_a_registry_may_try_builds_nothing(tmp_path):
    """P43, P44: by each of those who look: Deno, whoever reads the lock, and whoever seals."""
    attacks = {
        "lying": {"integrity": f"sha512-{'A' * 86}=="},
        "young": {"uploaded": YOUNG},
        "ageless": {"uploaded": None},
        "folded": {"extra": [(entry("package/A.js"), b""), (entry("package/a.js"), b"")]},
        "bomb": {"extra": [(entry("package/bomb"), b"0" * (9 << 20))]},
        "many": {"extra": [(entry(f"package/{number}"), b"") for number in range(1000)]},
        "climbing": {"extra": [(entry("package/../../../evil.js"), b"evil")]},
        "absolute": {"extra": [(entry("/opt/environment/evil.js"), b"evil")]},
    }
    links = [(entry("package/etc", tarfile.SYMTYPE, "/etc"), b""), (entry("package/etc/new.js"), b"1")]
    hard = entry("package/hard", tarfile.LNKTYPE, "../../../../etc/passwd"), b""
    programs = {"../../../evil": "index.js", "evil": "../../../../etc/passwd"}
    with serve(Registry()) as registry:
        for name, how in attacks.items():
            registry.add(name, **how)
        registry.add("linked", extra=[*links, hard], manifest={"bin": programs})
        named = {name: {"npm": [name]} for name in [*attacks, "linked"]}
        bounds = {"environment_bytes": 8 << 20, "environment_files": 200}
        async with opened(tmp_path / "state", registry, environments=named, **bounds) as world:
            store = world.engine.environments.store
            told = {}
            for name in attacks:
                result = await world.run("typescript", "1", environment=name)
                assert result.status == "denied", (name, result)
                told[name] = f"{result.error.message} {result.hint}"
            assert [path.name for path in (store.root / "trees").iterdir()] == []
            assert await world.value("typescript", "import 'linked'; 1", environment="linked") == 1
            place = store.path_of(store.list_trees()[0]).resolve()
            assert (place / "node_modules/linked/etc/new.js").read_text() == "1"
            for path in place.rglob("*"):
                assert path.resolve().is_relative_to(place), path
                assert path.name != "hard", path
    said = {
        "lying": "checksum did not match",
        "young": "newer than",
        "ageless": "does not say when npm:ageless 1.0.0",
        "folded": "by case alone",
        "bomb": "more than",
        "many": "more than 600 files",
        "climbing": "not in output directory",
        "absolute": "not in output directory",
    }
    assert {name: text for name, text in told.items() if said[name] not in text} == {}


async def test_a_package_of_a_scope_comes_from_its_registry_alone(tmp_path):
    """P45: nobody outside learns the name, or puts another package under it."""
    with serve(Registry()) as public, serve(Registry(), "registry1.test") as internal:
        internal.add("@acme/secret", "1.0.0", manifest={"dependencies": {"open": "1"}})
        public.add("@acme/secret", "99.0.0")
        public.add("open")
        named = {"one": {"npm": ["@acme/secret"]}}
        async with opened(tmp_path / "state", public, internal, environments=named, scopes=["@acme"]) as world:
            code = "import secret from '@acme/secret'; secret.VERSION"
            assert await world.value("typescript", code, environment="one") == "1.0.0"
        assert not any("acme" in path for path in public.asked)
        assert not any("open" in path for path in internal.asked)


async def test_packages_of_jsr_come_from_its_registry_for_npm_alone(tmp_path):
    """E8."""
    code = "import { N } from 'jsr:@acme/greet@^1/sub'; N"
    with serve(Registry()) as public, serve(Registry(), "registry1.test") as jsr:
        jsr.add("@jsr/acme__greet", files={"sub.js": "export const N = 1"}, manifest={"exports": {"./sub": "./sub.js"}})
        public.add("@jsr/acme__greet", "1.99.0")
        named, rules = {"one": {"npm": ["jsr:@acme/greet@1"]}}, {"allow": ["npm:@jsr/acme__*"]}
        async with opened(tmp_path / "none", public, environments=named, **rules) as world:
            for more in ({}, {"environment": "one"}):
                refused = await world.run("typescript", code, **more)
                assert (refused.status, refused.error.type) == ("denied", "registry_unknown"), refused
        assert public.asked == []
        async with opened(tmp_path / "state", public, jsr, environments=named, scopes=["@jsr"], **rules) as world:
            told = await world.run("typescript", code)
            assert (told.status, told.value) == ("ok", 1), told
            begun = await world.run("typescript", "1", environment="one", session="new")
            assert (await world.run("typescript", code, session=begun.session.id)).value == 1
        assert public.asked == []


async def test_a_program_asks_for_packages_of_npm_by_importing_them(registry, tmp_path):
    rules = {"allow": ["npm:helper"], "ask": ["npm:honest"], "deny": ["npm:zod"]}
    default = {"base": {"npm": ["honest"], "default": True}}
    async with opened(tmp_path / "state", registry, **rules) as world:
        told = await world.run("typescript", 'import { NAME } from "npm:helper@^1"; NAME')
        assert (told.status, told.value) == ("ok", "helper"), told
        assert told.environment.startswith("inline (")
        asked = len(registry.asked)
        for name, code in {
            "npm:helpr": "package_not_allowed",
            "npm:raect": "package_resembles",
            "npm:zod@4": "package_denied",
            "npm:fs": "metadata_unreadable",
            "jsr:@std/path": "package_not_allowed",
        }.items():
            refused = await world.run("typescript", f'import * as x from "{name}"; x')
            assert (refused.status, refused.error.type) == ("denied", code), (name, refused)
        assert len(registry.asked) == asked, "nobody hears of what is not allowed"
        refused = await world.run("javascript", 'await import("npm:honest")')
        assert (refused.status, refused.error.type) == ("denied", "approval_denied"), refused
        assert "2.0.0" not in str(world.records("install")), "what is too young is not even asked about"
        code = """// import "npm:zod"\nconst s = "import 'npm:zod'"; s.length"""
        assert await world.value("typescript", code) == 16
    async with opened(tmp_path / "other", registry, environments=default, **rules) as world:
        code = 'import honest from "npm:honest"; honest.VERSION'
        assert await world.value("typescript", code) == "1.0.0", "the default environment has it: nobody is asked"


def test_the_configuration_names_packages_and_languages_that_there_can_be():
    for table, problem in {
        "npm = ['zod@3', 'zod@4']": "found it twice",
        "npm = ['fs']": "module of Node",
        "npm = ['zod@https://evil.test/x.tgz']": "expected a package of npm",
        "npm = ['zod']\nlanguages = ['python']": "it has no packages for python",
        "npm = ['zod']\ndefault = true\n[environments.two]\nnpm = ['zod']\ndefault = true": "can't both be the default",
    }.items():
        faults = [*rule_faults(tomllib.loads(f"[environments.one]\n{table}"), own=())]
        assert [problem in fault.problem for fault in faults] == [True], (table, faults)
    split = "[environments.one]\nnpm = ['zod']\ndefault = true\n[environments.two]\npython = ['a']\ndefault = true"
    assert [*rule_faults(tomllib.loads(split), own=())] == []
    with pytest.raises(ValueError, match="npm_registry"):
        read_value(Config, {"packages": {"npm_registry": "https://me:secret@registry.test"}})
