"""Which directories can't be a workspace."""

import os
import pwd
import sys
from pathlib import Path

import pytest
from tests.cases import for_each

import gloveport
from gloveport.config import Config, environ_outside, load, refuse_as_workspace
from gloveport.errors import ConfigError
from gloveport.model.reading import read_value

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def work(tmp_path):
    """A directory that can be a workspace, beside the state directory."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def ask(root, *believed, environ=None, **tables):
    config = read_value(Config, tables)
    refuse_as_workspace(Path(root), config, {"GLOVEPORT_STATE": "/nonexistent/state", **(environ or {})}, believed)


def refusal(root, *believed, environ=None, **tables):
    with pytest.raises(ConfigError) as refused:
        ask(root, *believed, environ=environ, **tables)
    assert refused.value.hint
    return refused.value.args[0]


def secret(where):
    return {"api": {"x": {"hosts": ["x.test"], "auth": [{"kind": "bearer", "secret": where}]}}}


def test_a_directory_of_a_project_is_one(work):
    """W2"""
    ask(work)
    assert "expected a directory" in refusal(work / "missing")


def test_a_directory_whose_path_is_not_utf8_is_none(work):
    (name := work / "\udcff").mkdir()
    assert "expected a path in UTF-8" in refusal(name)


def test_what_holds_more_than_a_project_is_no_workspace():
    """W2, T1"""
    for root in ("/", "/home", "/proc/self", "/run", "/home/somebody", "/var", "/tmp"):
        assert refusal(root).startswith("workspace: expected")


@for_each(
    "root",
    [
        *("/usr", "/usr/local", "/usr/local/bin", "/usr/share/doc", "/etc", "/etc/profile.d", "/boot", "/bin", "/lib"),
        *("/lib64", "/sbin", "/var/lib", "/var/lib/dpkg", "/var/spool/cron", "/dev/shm", "/sys/fs"),
    ],
)
def test_what_this_host_runs_is_no_workspace(root):
    """W2, T1: a command would write what root or an administrator runs next."""
    assert refusal(root).startswith("workspace: expected")


@for_each("name", ["bin", "bin/tools", ".local", ".local/bin", ".ssh", ".config/systemd"])
def test_the_programs_and_credentials_of_a_home_are_no_workspace(name):
    """W2, T1: what lies there is found on PATH."""
    for home in ("/root", "/home/of-a-directory-service", pwd.getpwuid(os.geteuid()).pw_dir):
        assert refusal(f"{home}/{name}").startswith("workspace: expected")


def test_what_overlaps_the_state_or_the_audit_log_is_no_workspace(work):
    """T1: the audit log would be written by commands."""
    state = {"GLOVEPORT_STATE": str(work / "state")}
    for root in (work, work / "state", work / "state/audit"):
        assert "(the state directory)" in refusal(root, environ=state)
    for root in (work, work / "logs", work / "logs/below"):
        assert "(audit.directory)" in refusal(root, audit={"directory": work / "logs"})


def test_gloveports_own_code_is_no_workspace():
    """T1, W2: a command in its checkout wrote a .pth file that the next start ran outside of the sandbox."""
    package, prefix = Path(gloveport.__file__).parent, Path(sys.prefix)
    for root in (CHECKOUT, package, package.parent, package / "config", prefix, prefix / "lib"):
        assert "(Gloveport's own code)" in refusal(root)
    with pytest.raises(ConfigError) as refused:
        ask(CHECKOUT)
    assert "another clone" in refused.value.hint


def test_where_python_imports_from_is_no_workspace(work, monkeypatch):
    """T1: `python -m gloveport` imports from the working directory, before it imports anything of ours."""
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert "imports from" in refusal(work)


@pytest.mark.parametrize("key", ["sandbox.bubblewrap", "runtimes.python", "runtimes.deno", "runtimes.bash"])
def test_a_directory_with_a_program_that_gloveport_runs_is_no_workspace(work, key):
    """T1: whether the program is there, or will be when a command has written it."""
    table, _, name = key.partition(".")
    assert f"{work}/bin/it ({key})" in refusal(work, **{table: {name: work / "bin/it"}})


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("file:WORK/key", "the file of a secret"),
        ("json:WORK/keys.json#/x", "the file of a secret"),
        ("command:WORK/getkey now", "the command of a secret"),
        ("command:sh WORK/getkey", "the command of a secret"),
    ],
)
def test_a_directory_with_a_secret_or_the_command_that_prints_it_is_no_workspace(work, where, what):
    """T1, T4: whether of an API, a server, the language model or the proxy."""
    where = where.replace("WORK", str(work))
    assert f"({what})" in refusal(work, **secret(where))
    assert f"({what})" in refusal(work, sampling={"secret": where})
    assert f"({what})" in refusal(work, proxy={"url": "http://proxy.test:3128", "secret": where})
    assert f"({what})" in refusal(work, servers={"s": {"url": "https://x.test", "secret_env": {"A": where}}})


def test_a_directory_with_authorities_is_no_workspace(work):
    """T1: a command would choose who is believed."""
    api = {"x": {"hosts": ["x.test"], "ca_file": f"{work}/ca.pem"}}
    assert "(api.x.ca_file)" in refusal(work, api=api)
    servers = {"s": {"url": "https://x.test", "ca_file": f"{work}/ca.pem"}}
    assert "(servers.s.ca_file)" in refusal(work, servers=servers)


@pytest.mark.parametrize(
    ("server", "key"),
    [
        ({"command": ["WORK/serve"]}, "command"),
        ({"command": ["node", "WORK/serve.js"]}, "command"),
        ({"command": ["uv", "--directory=WORK/s", "run", "s"]}, "command"),
        ({"command": ["node", "serve.js"], "directory": "WORK"}, "directory"),
        ({"command": ["npx", "s"], "directory": "WORK/below"}, "directory"),
        ({"command": ["node", "work/serve.js"], "directory": "BESIDE"}, "command"),
        ({"command": ["serve"], "env": {"PATH": "WORK/bin:/usr/bin"}}, "command"),
        ({"command": ["serve"], "env": {"PYTHONPATH": "/srv/lib:WORK/later"}}, "env.PYTHONPATH"),
        ({"command": ["serve"], "env": {"NODE_OPTIONS": "--import=file://WORK/later.mjs"}}, "env.NODE_OPTIONS"),
        ({"command": ["serve"], "env": {"RUBYOPT": "-w -IWORK/later"}}, "env.RUBYOPT"),
    ],
)
def test_a_directory_with_something_of_another_server_is_no_workspace(work, server, key, tmp_path_factory):
    """T1: servers run outside of the sandbox, with the rights of Gloveport."""
    (work / "serve.js").touch()
    (work / "bin").mkdir()
    (work / "bin/serve").touch(mode=0o755)
    beside = tmp_path_factory.mktemp("beside")
    (beside / "work").symlink_to(work)

    def placed(value):
        match value:
            case dict():
                return {name: placed(inner) for name, inner in value.items()}
            case list():
                return [placed(inner) for inner in value]
        return value.replace("WORK", str(work)).replace("BESIDE", str(beside))

    assert f"(servers.s.{key})" in refusal(work, servers={"s": placed(server)})


@pytest.mark.parametrize(
    "command",
    [
        ["npx", "-y", "server-filesystem", "WORK"],
        ["npx", "server-filesystem", "/srv/other", "WORK/below"],
        ["mcp-server-sqlite", "--db-path", "WORK/data.db"],
        ["mcp-server-sqlite", "--readonly", "--db-path=WORK/new.db"],
    ],
)
def test_a_directory_with_the_data_of_another_server_is_a_workspace(work, command):
    """T1, W2: what a server reads is not what it runs."""
    (work / "data.db").touch()
    env = {"ROOT": f"{work}", "NODE_OPTIONS": "--max-old-space-size=100", "PYTHONPATH": "/srv/lib"}
    ask(work, servers={"s": {"command": [word.replace("WORK", str(work)) for word in command], "env": env}})


def test_a_directory_below_that_of_a_server_is_no_workspace_unless_that_holds_everybodys(work):
    """T1, W2: a server whose root is /srv or a home is not all that lies there."""
    (work / "below").mkdir()
    for server in ({"command": ["uv", "--directory", f"{work}"]}, {"command": ["x"], "directory": f"{work}"}):
        assert "(servers.s." in refusal(work / "below", servers={"s": server})
    home = pwd.getpwuid(os.geteuid()).pw_dir
    for broad in ("/", "/tmp", home):
        ask(work, servers={"s": {"command": ["npx", "server-filesystem", broad], "directory": broad}})


def test_nothing_that_runs_outside_is_looked_up_in_the_workspace(work, monkeypatch):
    """P30: neither programs, nor the indexes from which packages come, which builds may then reach."""
    monkeypatch.chdir(work)
    own = {"XDG_CONFIG_HOME": "/home/ada/.config", "PYTHONPATH": f"{work}"}
    theirs = {"PIP_CONFIG_FILE": "pip.conf", "npm_config_userconfig": f"{work}/.npmrc"}
    config = read_value(Config, {"workspace": {"root": str(work)}})
    settings = {"XDG_CONFIG_DIRS": f"{work}/.devenv/profile/etc/xdg:/etc/xdg"}
    environ = {**own, **theirs, **settings, "PATH": f"{work}/.venv/bin:node_modules/.bin:/usr/bin"}
    assert environ_outside(config, environ) == {**own, "XDG_CONFIG_DIRS": "/etc/xdg", "PATH": "/usr/bin"}
    assert environ_outside(Config(), environ) == environ


def test_a_link_that_leads_through_the_workspace_makes_it_none(work, tmp_path):
    """T1: a command could turn it, wherever it leads now."""
    (work / "turned").symlink_to("/usr/bin")
    (tmp_path / "tools").symlink_to("work/turned")
    assert f"{work}/turned (sandbox.bubblewrap)" in refusal(work, sandbox={"bubblewrap": tmp_path / "tools/bwrap"})


def test_a_directory_with_a_link_on_the_way_to_the_state_directory_is_none(work, tmp_path):
    """T1: commands could lead the next start to a state of their own, with approvals in it."""
    (tmp_path / "elsewhere").mkdir()
    (work / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "home").symlink_to(work / "link")
    assert "overlaps" in refusal(work, environ={"GLOVEPORT_STATE": str(tmp_path / "home/state")})


def test_a_workspace_that_is_a_link_is_judged_by_where_it_leads(work, tmp_path):
    """T1"""
    (tmp_path / "link").symlink_to(work)
    assert "(sandbox.bubblewrap)" in refusal(tmp_path / "link", sandbox={"bubblewrap": work / "bwrap"})
    (tmp_path / "system").symlink_to("/etc/ssl")
    assert "belongs to /etc" in refusal(tmp_path / "system")


def test_a_loop_of_links_ends(work, tmp_path):
    """T1"""
    (tmp_path / "loop").symlink_to("loop")
    ask(work, sandbox={"bubblewrap": tmp_path / "loop/bwrap"})


def test_the_configuration_that_counts_is_no_part_of_a_workspace(work):
    """T1: a file named by --config counts whatever a command has written to it."""
    file = work / "settings/mine.toml"
    (file.parent / "apis").mkdir(parents=True)
    file.touch()
    (file.parent / "apis/x.toml").write_text('hosts = ["x.test"]')
    loaded = load(file, cwd=work, environ={"GLOVEPORT_STATE": "/nonexistent/state"})
    assert set(loaded.believed) == {file, file.parent / "apis", file.parent / "apis/x.toml"}
    for root in (work, work / "settings", work / "settings/apis"):
        assert "(the configuration)" in refusal(root, *loaded.believed)


def test_where_a_mount_shows_what_commands_could_replace_is_no_workspace(work):
    """P1: by a link, which the next sandbox of an ordinary user's server would follow."""
    (work / "data").mkdir()

    def mounted(source):
        return {"policy": {"mounts": [{"source": str(source), "target": "/data"}]}}

    assert "policy.mounts" in refusal(work, **mounted(work / "data"))
    assert "workspace.toolchains" in refusal(work, workspace={"toolchains": [str(work / "data")]})
    ask(work, **mounted(work))
    ask(work, **mounted(work.parent))
