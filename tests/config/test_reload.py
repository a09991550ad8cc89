"""A new configuration while the old one is in use."""

import os

import pytest
from msgspec.structs import replace

from gloveport.config import load
from gloveport.config.loading.reload import reload
from gloveport.config.sources.trust import trust
from gloveport.errors import ConfigError

ONE = '[api.one]\nhosts = ["one.example.com"]\n'
TWO = '[api.two]\nhosts = ["two.example.com"]\n'


def loaded(home):
    return load(None, cwd=home.project, environ=home.environ)


def again(home, old):
    return reload(old, None, cwd=home.project, environ=home.environ)


def test_apis_and_what_holds_for_all_of_them_change_at_once(home):
    """N2: hot reload."""
    home.user_file.write_text(ONE)
    old = loaded(home)
    home.user_file.write_text(f"egress.user_agent = 'x/1'\n{TWO}[proxy]\nurl = 'http://proxy.test:3128'\n")
    new = again(home, old)
    assert list(new.loaded.config.api) == ["two"]
    assert new.loaded.config.egress.user_agent == "x/1"
    assert new.loaded.config.proxy.url == "http://proxy.test:3128"
    assert new.loaded.origins["api.two.hosts"] == f"{home.user_file}:3"
    assert new.postponed == ()


def test_everything_else_waits_for_a_restart_and_is_named(home):
    """N2, T3: a limit is never half in force."""
    home.user_file.write_text("policy.limits.processes = 10\n")
    old = loaded(home)
    home.user_file.write_text(f"policy.limits.processes = 20\naudit.max_file_bytes = 5000\n{ONE}")
    new = again(home, old)
    assert new.postponed == ("policy.limits.processes", "audit.max_file_bytes")
    assert new.loaded.config.policy.limits.processes == 10
    assert new.loaded.config.audit == old.config.audit
    assert new.loaded.origins["policy.limits.processes"] == f"{home.user_file}:1"
    assert new.loaded.origins["audit.max_file_bytes"] == "default"
    assert list(new.loaded.config.api) == ["one"]
    assert again(home, new.loaded).postponed == new.postponed


def test_a_new_configuration_with_a_fault_is_refused_whole(home):
    """N2, T3: the old one goes on counting."""
    home.user_file.write_text(ONE)
    old = loaded(home)
    home.user_file.write_text(f"{TWO}activ = true\n")
    with pytest.raises(ConfigError, match=r":3: api\.two\.activ: unknown key"):
        again(home, old)
    home.user_file.write_text(f"policy.limits.cpus = 0\n{TWO}")
    with pytest.raises(ConfigError, match=r"policy\.limits\.cpus"):
        again(home, old)


def test_a_project_file_that_an_agent_writes_keeps_no_other_file_from_counting(home):
    """P17, N2."""
    home.user_file.write_text(ONE)
    old = loaded(home)
    home.user_file.write_text(TWO)
    for plant in (
        lambda: home.project_file.write_text("[api.evil]\nhosts = ['evil.example.com']\n"),
        lambda: os.mkfifo(home.project_file),
        lambda: home.project_file.symlink_to(home.user_file),
        lambda: home.project_file.write_bytes(b" " * (1 << 20)),
    ):
        plant()
        new = again(home, old).loaded
        assert (list(new.config.api), str(home.project_file) in new.refusal) == (["two"], True)
        home.project_file.unlink()
    assert again(home, new).loaded.refusal == ""


def test_a_project_file_counts_on_as_it_was_trusted(home):
    """P17, N2."""
    home.user_file.write_text(ONE)
    home.project_file.write_text("egress.user_agent = 'trusted/1'\n")
    trust(home.project, environ=home.environ)
    old = loaded(home)
    home.project_file.write_text("egress.user_agent = 'evil/1'\n")
    home.user_file.write_text(TWO)
    for _ in range(2):
        old = again(home, old).loaded
        assert (list(old.config.api), old.config.egress.user_agent) == (["two"], "trusted/1")
        assert "has changed since it was trusted" in old.refusal
    trust(home.project, environ=home.environ)
    new = again(home, old).loaded
    assert (new.config.egress.user_agent, new.refusal) == ("evil/1", "")


def test_a_new_secret_is_refused_where_a_toolchain_of_before_shows_it(home):
    """T4: commands that begin now still see the old toolchain."""
    home.user_file.write_text(ONE)
    old = loaded(home)
    workspace = old.config.workspace.model_copy(update={"toolchains": (home.base / "tools",)})
    old = replace(old, config=old.config.model_copy(update={"workspace": workspace}))
    home.user_file.write_text(f"{ONE}[[api.one.auth]]\nkind = 'bearer'\nsecret = 'file:{home.base}/tools/key'\n")
    with pytest.raises(ConfigError, match=r"until Gloveport is restarted: .*workspace\.toolchains"):
        again(home, old)


def test_a_new_secret_is_refused_where_a_mount_of_before_shows_it(home):
    """T4: sandboxes that are made now still have the old mount."""
    shown = home.base / "shown"
    shown.mkdir()
    home.user_file.write_text(f"policy.mounts = [{{ source = '{shown}', target = '/data' }}]\n{ONE}")
    old = loaded(home)
    home.user_file.write_text(f"{ONE}[[api.one.auth]]\nkind = 'bearer'\nsecret = 'file:{shown}/key'\n")
    loaded(home)  # as a fresh start it would be sound
    with pytest.raises(ConfigError, match="until Gloveport is restarted") as caught:
        again(home, old)
    assert "restart Gloveport" in caught.value.hint
    home.user_file.write_text(f"{ONE}[proxy]\nurl = 'http://proxy.test:3128'\nsecret = 'file:{shown}/key'\n")
    with pytest.raises(ConfigError, match="until Gloveport is restarted"):
        again(home, old)
