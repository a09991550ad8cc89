"""O1: ``gloveport doctor``."""

import contextlib
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile

import pytest
from tests.sandbox.without_forks import ALLOW, EQUAL, LOAD, NUMBER, REFUSE, RETURN

from gloveport.bootstrap.configured_parts import inspect_proxy, inspect_secrets
from gloveport.config import Config
from gloveport.file_descriptors import closing
from gloveport.model.reading import read_value

SETHOSTNAME = {"x86_64": 170}["x86_64"]
FILTER = ((LOAD, 0, 0, NUMBER), (EQUAL, 0, 1, SETHOSTNAME), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW))
HIDING = ("--ro-bind", "/proc/sys", "/proc/sys")
DOCTOR = "from gloveport.cli.main import main; main()"


@pytest.fixture
def doctor(gloveport, environ):
    return lambda *arguments: gloveport.run("doctor", *arguments, env={**os.environ, **environ})


def test_on_a_sound_host_every_layer_is_named_and_the_exit_code_is_0(doctor):
    ended = doctor()
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    for name in ("bubblewrap", "namespaces", "seccomp", "landlock", "capabilities", "cgroups", "audit"):
        [line] = [line for line in lines if line.startswith(f"{name} ")]
        assert line.split()[1] in {"enforced", "weaker"}
    assert "missing" not in ended.stdout
    assert "\x1b" not in ended.stdout


def test_a_missing_layer_is_named_with_its_repair_and_the_exit_code_is_4(doctor, tmp_path):
    """T3."""
    (tmp_path / "gloveport.toml").write_text('[sandbox]\nbubblewrap = "/nonexistent/bwrap"\n')
    config = ("--config", str(tmp_path / "gloveport.toml"))
    told, as_json = doctor(*config), doctor(*config, "--json")
    for ended in (told, as_json):
        assert ended.returncode == 4
        assert "/nonexistent/bwrap" in ended.stdout
        assert "Traceback" not in ended.stderr
    checks = json.loads(as_json.stdout)
    for check in checks:
        [line] = [line for line in told.stdout.splitlines() if line.startswith(f"{check['name']} ")]
        assert line.removeprefix(check["name"]).split()[0] == check["state"]
    missing = [check for check in checks if check["state"] == "missing"]
    assert missing
    assert all(check["repair"] for check in missing)


def test_a_language_that_lacks_its_interpreter_is_named_with_its_repair(doctor, tmp_path):
    (tmp_path / "gloveport.toml").write_text('[runtimes]\ndeno = "/nonexistent/deno"\n')
    checks = json.loads(doctor("--config", str(tmp_path / "gloveport.toml"), "--json").stdout)
    [found] = [check for check in checks if check["name"] == "typescript"]
    assert found["state"] == "missing"
    assert found["detail"].startswith("runtimes.deno: ")
    assert "hint" not in found["detail"]
    assert found["repair"] == "`pip install deno` brings a binary, or set runtimes.deno"


def test_no_colour_is_written_to_a_terminal_where_the_environment_wants_none(gloveport, environ):
    ours, terminal = pty.openpty()
    process = gloveport.start("doctor", stdout=terminal, env={**os.environ, **environ, "NO_COLOR": "1"})
    os.close(terminal)
    told = b""
    with closing(ours), contextlib.suppress(OSError):  # the last process that had the terminal has ended
        while True:
            told += os.read(ours, 4096)
    process.wait()
    assert b"audit " in told
    assert b"\x1b" not in told


@pytest.fixture
def sandbox_in_container(environ):
    """What ``doctor`` finds where bubblewrap has started it with these options, as an engine would. None: nothing."""

    def inspect(*options: str, check: str = "sandbox"):
        with tempfile.TemporaryFile() as file:
            file.write(b"".join(struct.pack("=HBBI", *line) for line in FILTER))
            file.seek(0)
            words = [str(file.fileno()) if word == "FILTER" else word for word in options]
            command = ["bwrap", "--dev-bind", "/", "/", *words, sys.executable, "-c", DOCTOR, "doctor", "--json"]
            environment = {**os.environ, **environ}
            told = subprocess.run(
                command, check=False, env=environment, pass_fds=[file.fileno()], stdout=subprocess.PIPE, timeout=100
            ).stdout
        return next((found for found in json.loads(told) if found["name"] == check), None)

    return inspect


def test_a_container_that_hides_a_part_of_proc_is_told_which_option_shows_it(sandbox_in_container):
    """T3: as each engine does by default; the kernel then mounts no other /proc."""
    found = sandbox_in_container(*HIDING)
    assert (found["state"], "mount proc" in found["detail"]) == ("missing", True)
    assert "--security-opt systempaths=unconfined" in found["repair"]
    assert "SYS_ADMIN" not in found["repair"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lack a capability")
def test_root_of_a_container_is_told_which_capability_it_lacks(sandbox_in_container):
    """T3."""
    found = sandbox_in_container("--cap-drop", "CAP_SYS_ADMIN", "--seccomp", "FILTER")
    assert found["state"] == "missing"
    assert "--cap-add SYS_ADMIN" in found["repair"]
    assert "seccomp" not in found["repair"]  # engines' filters follow the capability


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lack a capability")
@pytest.mark.parametrize("capability", ["CHOWN", "KILL", "SETGID", "SETUID", "SYS_ADMIN"])
def test_a_root_without_a_capability_that_sandboxes_need_is_told_which(environ, tmp_path, capability):
    """T3: as of a unit with another CapabilityBoundingSet=, and before anything is begun that could not be ended."""
    dropped = f"-{capability.lower()}"
    doctor = [["doctor"]] if capability == "CHOWN" else []  # it takes seconds, and asks as the others do
    for words in (["run", "-c", "print(1)"], ["exec", "--", "true"], *doctor):
        command = ["setpriv", "--bounding-set", dropped, "--inh-caps", dropped, sys.executable, "-c", DOCTOR, *words]
        environment = {**os.environ, **environ}
        told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert told.returncode == 4, words
        assert f"a root without CAP_{capability}" in told.stdout + told.stderr, words
        assert "CapabilityBoundingSet=" in told.stdout + told.stderr, words


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has cgroups everywhere")
def test_a_container_whose_cgroups_are_read_only_is_told_so(sandbox_in_container):
    found = sandbox_in_container("--ro-bind", "/sys/fs/cgroup", "/sys/fs/cgroup", check="cgroups")
    assert (found["state"], "Read-only file system" in found["detail"]) == ("weaker", True)
    assert "let the container write its /sys/fs/cgroup" in found["repair"]


@pytest.mark.skipif(os.geteuid() != 0, reason="for root alone sandboxes have users of their own")
def test_root_of_a_rootless_container_is_told_which_user_there_is_not(sandbox_in_container):
    """T3: there a few thousand users are mapped."""
    found = sandbox_in_container("--unshare-user", "--uid", "0", "--cap-add", "ALL")
    assert found["state"] == "missing"
    assert "there is no user 1900000000 (sandbox.first_uid" in found["repair"]
    assert "seccomp" not in found["repair"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lack a capability")
def test_root_that_may_not_see_what_programs_do_is_told_what_fails_then(sandbox_in_container):
    """T3: as root of a container that has CAP_SYS_ADMIN alone."""
    assert sandbox_in_container(check="supervision") is None
    found = sandbox_in_container("--cap-drop", "CAP_SYS_PTRACE", check="supervision")
    assert (found["state"], "can't connect" in found["detail"]) == ("weaker", True)
    assert "--cap-add SYS_PTRACE" in found["repair"]


def test_a_container_that_filters_a_call_that_sandboxes_need_is_told_so(sandbox_in_container):
    """T3."""
    found = sandbox_in_container("--seccomp", "FILTER")
    assert (found["state"], "hostname" in found["detail"]) == ("missing", True)
    assert "--security-opt seccomp=unconfined" in found["repair"]
    assert "/proc" not in found["repair"]


@pytest.mark.anyio
async def test_a_secret_that_can_be_guessed_is_named_and_not_shown():
    """N6: whoever sees a text scrubbed has guessed a secret; against a random one that is hopeless."""
    auth = [{"kind": "basic", "username": "me", "secret": "env:MADE_UP"}, {"kind": "bearer", "secret": "env:RANDOM"}]
    api = {"weak": {"hosts": ["weak.test"], "auth": auth[:1]}, "sound": {"hosts": ["sound.test"], "auth": auth[1:]}}
    environ = {"MADE_UP": "Summer2026!", "RANDOM": "x7Kp2mQ9vB4nT1zR"}
    weak, sound = await inspect_secrets(read_value(Config, {"api": api}), environ)
    assert (weak.state, sound.state) == ("weaker", "enforced")
    assert "env:MADE_UP" in weak.detail
    assert "Summer" not in f"{weak}"


def test_a_proxy_of_the_environment_is_told_and_not_used():
    """P50."""
    config = read_value(Config, {"api": {"a": {"hosts": ["a.test"]}}})
    [check] = inspect_proxy(config, {"https_proxy": "http://me:s3cret@proxy.test:3128/"})
    assert check.repair.endswith('write url = "http://proxy.test:3128" in [proxy]')
    assert "s3cret" not in f"{check}"
    [check] = inspect_proxy(config, {"HTTPS_PROXY": "socks5://me:s3cret@proxy.test"})
    assert "HOST:PORT" in check.repair
    servers = read_value(Config, {"servers": {"far": {"url": "https://far.test/mcp"}}})
    assert len(inspect_proxy(servers, {"HTTPS_PROXY": "http://proxy.test:1"})) == 1
    assert inspect_proxy(config, {}) == inspect_proxy(Config(), {"HTTPS_PROXY": "http://proxy.test:1"}) == []


@pytest.mark.anyio
async def test_a_secret_of_several_lines_is_sound_for_a_variable_and_not_for_a_header():
    """T4: also where both name the same."""
    secret = "env:KEY"
    given = {
        "api": {"a": {"hosts": ["a.test"], "auth": [{"kind": "bearer", "secret": secret}]}},
        "servers": {"s": {"command": ["true"], "secret_env": {"KEY": secret}}},
    }
    environ = {"KEY": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIH0x9fQ2\n-----END PRIVATE KEY-----"}
    api, server = await inspect_secrets(read_value(Config, given), environ)
    assert ("one line" in api.repair, server.state) == (True, "enforced")
