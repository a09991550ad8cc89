"""Locks of npm packages, which are text from a sandbox; and whose registry is asked."""

import json

import pytest

from gloveport.environments.npm_locks import read_npm_lock, read_package_lock
from gloveport.environments.registries import PUBLIC_REGISTRY, find_registries
from gloveport.errors import Denied

DIGEST = f"sha512-{'A' * 86}=="


def lock(npm=None, specifiers=None, uploaded=None, **more):
    told = {"version": "5", "npm": {"a@1.0.0": {"integrity": DIGEST}}, "specifiers": {"npm:a@*": "1.0.0"}, **more}
    told |= {} if npm is None else {"npm": npm}
    told |= {} if specifiers is None else {"specifiers": specifiers}
    return json.dumps({"lock": told, "uploaded": uploaded or {}}).encode()


def test_a_package_lock_has_names_versions_and_digests():
    packages = {
        "": {"dependencies": {"evil": "*"}},
        "node_modules/a/node_modules/@s/b": {"version": "1.0.0", "integrity": f"sha1-AAAA {DIGEST}"},
        "node_modules/alias": {"name": "real", "version": "2.0.0", "integrity": DIGEST},
        "node_modules/old": {"version": "1.0.0", "integrity": "sha1-AAAA"},
        "node_modules/here": {"resolved": "file:../here"},
    }
    found = read_package_lock(json.dumps({"packages": packages}).encode())
    assert dict(found.integrity) == {"@s/b@1.0.0": DIGEST, "real@2.0.0": DIGEST}
    assert json.loads(found.to_seed({"a": "^1"}))["packages"][""] == {"dependencies": {"a": "^1"}}
    for wrong in (b"", b"[]", b"{}", b"\xff", b'{"packages": 1}', b'{"packages": [1]}', b'{"packages": {"a": 1}}'):
        with pytest.raises(Denied, match="no package-lock"):
            read_package_lock(wrong)


def test_a_lock_tells_versions_ages_and_what_was_asked_for():
    npm = {name: {"integrity": DIGEST} for name in ("@s/b@2.0.0-rc.1_a@1.0.0", "@s/b@2.0.0-rc.1_a@2.0.0", "a@1.0.0")}
    told = lock(npm, {"npm:@s/b@^2": "2.0.0-rc.1_a@1.0.0"}, {"a@1.0.0": "2020-01-01T00:00:00.5+01:00"})
    found = read_npm_lock(told)
    assert [(one.name, one.version, one.uploaded) for one in found.packages] == [
        ("npm:@s/b", "2.0.0-rc.1", ""),
        ("npm:a", "1.0.0", "2019-12-31T23:00:00+00:00"),
    ]
    assert (dict(found.requirements), dict(found.direct)) == ({"@s/b": "npm:@s/b@^2"}, {"@s/b": "2.0.0-rc.1"})
    for wrong in (
        b"",
        b"[]",
        b"\xff",
        b'{"lock": 1, "uploaded": {}}',
        lock({"a@1.0.0": {}}),
        lock({"a@1.0.0": {"integrity": "sha1-AAAA"}}),
        lock({"../a@1.0.0": {"integrity": DIGEST}}),
        lock({"a@1/../..": {"integrity": DIGEST}}),
        lock({f"a{number}@1.0.0": {"integrity": DIGEST} for number in range(1001)}),
        lock(specifiers={"jsr:a@*": "1.0.0"}),
        lock(specifiers={"npm:node:fs@*": "1.0.0"}),
        lock(version="6"),
        lock(remote={"https://evil.test/x.ts": "0"}),
        lock(jsr={}),
    ):
        with pytest.raises(Denied, match="lock"):
            read_npm_lock(wrong)


def test_the_registries_of_the_users_npm_are_taken_over_without_their_tokens(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert find_registries(None, {}, {**home, "npm_config_userconfig": "/dev/null"}).url == PUBLIC_REGISTRY
    text = "registry = https://me:hunter2@a.test/npm/\n@acme:registry=https://b.test/\n; @no:registry=https://c.test\n"
    (tmp_path / ".npmrc").write_text(f"{text}//b.test/:_authToken=hunter3\n")
    found = find_registries(None, {}, home)
    assert (found.url, dict(found.scopes)) == ("https://a.test/npm", {"@acme": "https://b.test"})
    assert found.hosts == ("a.test", "b.test")
    assert "[api.NAME]" in found.warnings[0]
    assert "hunter" not in f"{found} {found.to_npmrc()}"
    assert find_registries(None, {}, {**home, "npm_config_registry": "http://d.test:81"}).hosts[0] == "http://d.test:81"
    configured = find_registries("https://e.test/", {"@x": "https://f.test/x/"}, home)
    assert configured.to_npmrc() == "registry=https://e.test/\n@x:registry=https://f.test/x/\n"
