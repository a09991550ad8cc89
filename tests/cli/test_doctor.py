"""O1: ``gloveport doctor``."""

import json
import os

import pytest

from gloveport.bootstrap.inspection import inspect_secrets
from gloveport.config import Config


@pytest.fixture
def doctor(gloveport, environ):
    return lambda *arguments: gloveport.run("doctor", *arguments, env={**os.environ, **environ})


def test_on_a_sound_host_every_layer_is_named_and_the_exit_code_is_0(doctor):
    ended, as_json = doctor(), doctor("--json")
    assert (ended.returncode, ended.stderr, as_json.returncode) == (0, "", 0)
    states = {check["name"]: check["state"] for check in json.loads(as_json.stdout)}
    assert {"bubblewrap", "namespaces", "seccomp", "landlock", "capabilities", "cgroups", "audit"} <= states.keys()
    assert set(states.values()) <= {"enforced", "weaker"}
    lines = ended.stdout.splitlines()
    assert all(
        any(line.split(name)[1].split()[0] == state for line in lines if line.startswith(f"{name} "))
        for name, state in states.items()
    )
    assert "\x1b" not in ended.stdout


def test_a_missing_layer_is_named_with_its_repair_and_the_exit_code_is_4(doctor, tmp_path):
    """T3."""
    (tmp_path / "gloveport.toml").write_text('[sandbox]\nbubblewrap = "/nonexistent/bwrap"\n')
    for arguments in ([], ["--json"]):
        ended = doctor("--config", str(tmp_path / "gloveport.toml"), *arguments)
        assert ended.returncode == 4
        assert "/nonexistent/bwrap" in ended.stdout
        assert "Traceback" not in ended.stderr
    missing = [check for check in json.loads(ended.stdout) if check["state"] == "missing"]
    assert missing
    assert all(check["repair"] for check in missing)


@pytest.mark.anyio
async def test_a_secret_that_can_be_guessed_is_named_and_not_shown():
    """N6: whoever sees a text scrubbed has guessed a secret; against a random one that is hopeless."""
    auth = [{"kind": "basic", "username": "me", "secret": "env:MADE_UP"}, {"kind": "bearer", "secret": "env:RANDOM"}]
    api = {"weak": {"hosts": ["weak.test"], "auth": auth[:1]}, "sound": {"hosts": ["sound.test"], "auth": auth[1:]}}
    environ = {"MADE_UP": "Summer2026!", "RANDOM": "x7Kp2mQ9vB4nT1zR"}
    weak, sound = await inspect_secrets(Config.model_validate({"api": api}), environ)
    assert (weak.state, sound.state) == ("weaker", "enforced")
    assert "env:MADE_UP" in weak.detail
    assert "Summer" not in f"{weak}"


@pytest.mark.anyio
async def test_a_secret_of_several_lines_is_sound_for_a_variable_and_not_for_a_header():
    """T4: also where both name the same."""
    secret = "env:KEY"
    given = {
        "api": {"a": {"hosts": ["a.test"], "auth": [{"kind": "bearer", "secret": secret}]}},
        "servers": {"s": {"command": ["true"], "secret_env": {"KEY": secret}}},
    }
    environ = {"KEY": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIH0x9fQ2\n-----END PRIVATE KEY-----"}
    api, server = await inspect_secrets(Config.model_validate(given), environ)
    assert ("one line" in api.repair, server.state) == (True, "enforced")
