"""Where no process inside bubblewrap can make namespaces, the walls are the same, and starts are slower."""

import json
from pathlib import Path

import pytest

from gloveport.bootstrap.inspection import inspect, require
from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model.reading import read_value
from gloveport.sandbox.detection import host, restrictions
from gloveport.sandbox.launch import apparmor

SCRIPT = Path(__file__).with_name("without_forks.py")


@pytest.fixture(scope="module")
def refused(gloveport, tmp_path_factory):
    """What is found there, and what is logged."""
    done = gloveport.run_script(SCRIPT, str(tmp_path_factory.mktemp("refused")), timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"log": done.stderr}


def test_programs_run_in_sandboxes_that_are_built_for_them(refused):
    """T3, P12."""
    assert refused["said"] == ["well\n"] * 3
    assert set(refused["waiting"]) == {0}


def test_doctor_tells_that_nothing_can_be_forked_and_calls_nothing_else_missing(refused):
    """O1."""
    state, detail, repair = refused["checks"]["fork server"]
    assert state == "weaker"
    assert detail.startswith("sandboxes can't be forked; each is built for its program")
    assert detail.endswith("no process inside bubblewrap can make namespaces: Operation not permitted")
    assert repair
    assert {name for name, (state, *_) in refused["checks"].items() if state == "missing"} == set()


def test_the_start_says_so_once(refused):
    (line,) = refused["log"].splitlines()
    assert line.startswith("sandboxes can't be forked; each is built for its program")


def test_a_workspace_is_refused_before_it_is_served(refused):
    """T3: what is kept from commands is kept by the fork server alone."""
    assert refused["serving a workspace"].startswith("missing fork server: sandboxes can't be forked")
    assert refused["workspace"] == "no process inside bubblewrap can make namespaces: Operation not permitted"


# --- The bubblewrap that AppArmor has a profile for ------------------------------------------------------------------


def test_our_profile_is_for_our_copy_alone_and_replaces_none(tmp_path):
    repair = apparmor.repair(Path("/usr/bin/bwrap"))
    assert "/etc/apparmor.d/gloveport-bwrap" in repair
    (profile,) = (word for word in repair.split() if word.endswith(".apparmor"))
    heads = [line.split() for line in Path(profile).read_text().splitlines() if line.startswith("profile ")]
    assert heads == [["profile", "gloveport-bwrap", str(apparmor.BUBBLEWRAP), "flags=(unconfined)", "{"]]


@pytest.fixture
def refused_bubblewrap(tmp_path):
    """One that may make no namespaces."""
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\n[ $1 != --version ] || exec echo bubblewrap 0.9.0\n"
        "echo bwrap: setting up uid map: Permission denied >&2; exit 1\n"
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("restricted", ["0", "1"])
@pytest.mark.anyio
async def test_where_bubblewrap_gets_no_namespaces_the_refusal_says_what_to_do(
    monkeypatch, tmp_path, environ, refused_bubblewrap, restricted
):
    """T3: stock Ubuntu 24.04, where nothing can be built. Never the distribution's profile, which forbids forks; and
    where it is not that, never "ask doctor", which says this itself."""
    (tmp_path / "restricted").write_text(f"{restricted}\n")
    monkeypatch.setattr(apparmor, "_RESTRICTED", tmp_path / "restricted")
    checks = await inspect(read_value(Config, {"sandbox": {"bubblewrap": refused_bubblewrap}}), environ)
    (failed,) = [check for check in checks if check.name == "sandbox"]
    repair = restrictions.repair(None) or {"0": apparmor.UNKNOWN, "1": apparmor.repair(refused_bubblewrap)}[restricted]
    assert (failed.state, failed.repair) == ("missing", repair)
    assert "setting up uid map: Permission denied" in failed.detail
    with pytest.raises(SandboxError) as caught:
        require([failed])
    assert caught.value.hint == repair


def test_a_copy_is_preferred_that_root_alone_can_replace(monkeypatch):
    monkeypatch.setattr(apparmor, "BUBBLEWRAP", Path("/usr/bin/env"))
    assert host.find_bubblewrap(None) == Path("/usr/bin/env").resolve()


def test_a_copy_that_others_could_replace_is_refused(monkeypatch, tmp_path):
    """T3: whoever could, would run as whoever starts Gloveport, with namespaces that the host keeps from others."""
    copy = tmp_path / "bwrap"
    copy.write_text("#!/bin/sh\n")
    copy.chmod(0o755)
    monkeypatch.setattr(apparmor, "BUBBLEWRAP", copy)
    with pytest.raises(SandboxError, match="could be replaced") as caught:
        host.find_bubblewrap(None)
    assert caught.value.hint


def test_a_copy_that_the_distribution_has_left_behind_is_told(monkeypatch, tmp_path):
    """One that has a hole must not be kept because nobody looks at it."""
    copy, distributed = tmp_path / "copy", tmp_path / "bwrap"
    copy.write_text("old")
    distributed.write_text("old")
    monkeypatch.setattr(apparmor, "BUBBLEWRAP", copy)
    monkeypatch.setattr(apparmor, "_DISTRIBUTED", distributed)
    assert apparmor.repair_of_copy(copy) == ""
    distributed.write_text("new")
    assert apparmor.repair_of_copy(copy) == f"sudo install -D {distributed} {copy}"
    assert apparmor.repair_of_copy(distributed) == ""
