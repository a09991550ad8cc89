"""A command writes a copy of git's configuration: what does no harm is kept, and nothing else reaches the owner."""

import os

import anyio
import pytest
from tests.policy.decisions.test_git_config_keys import HOSTILE
from tests.server.workspace.served import opened
from tests.server.workspace.test_commands import begun

pytestmark = pytest.mark.anyio

URL = "https://git.example/owner/project.git"


@pytest.fixture
def config(served):
    """``.git/config`` with a remote and two branches of it that are known; put back as it was afterwards."""
    path = served.root / ".git/config"
    before = path.read_text()
    text = before + f'[remote "origin"]\n\turl = {URL}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n# mine\n'
    path.write_text(text)
    if "begun" not in served.git("tag").stdout:
        served.git("commit", "--allow-empty", "-qm", "x")
        served.git("tag", "begun")
    for name in ("main", "topic"):
        served.git("update-ref", f"refs/remotes/origin/{name}", "HEAD")
    yield path
    path.write_text(before)
    (served.root / ".git/config.lock").unlink(missing_ok=True)


HARMLESS = {
    "git config user.name 'Ann #1' && git config user.email a@b": ("user.name=Ann #1", "user.email=a@b"),
    "git checkout -q -b topic origin/topic && git config user.name Ann": (
        *("branch.topic.remote=origin", "branch.topic.merge=refs/heads/topic", "user.name=Ann"),
    ),
    "git config pull.rebase true; git config pull.ff only": ("pull.rebase=true", "pull.ff=only"),
    "git branch -q a origin/main && git branch -m a b": (
        *("branch.b.remote=origin", "branch.b.merge=refs/heads/main"),
    ),
}


async def test_what_does_no_harm_is_kept_and_told(served, config):
    """W4: and the command, and the next one, see it."""
    text = config.read_text()
    inode = config.stat().st_ino
    for command, lines in HARMLESS.items():
        told = await served.run(command)
        assert (told["exit_code"], "diagnostics" in told) == (0, False), told
        (word,) = told["warnings"]
        assert word.startswith("it wrote to .git/config: ")
        assert config.read_text().startswith(text.removesuffix("# mine\n")), command
        assert {*lines} <= {*served.git("config", "--local", "--list").stdout.splitlines()}
        assert {*lines} <= {*(await served.out("git config --local --list")).splitlines()}
        served.git("switch", "-qf", "-") if "checkout" in command else None
    assert config.stat().st_ino == inode
    assert any("branch.topic.remote = origin" in str(one.fields.get("appeared")) for one in served.records())
    told = await served.run("git branch -D topic b; git config --unset user.name")
    assert "branch.topic.remote removed" in told["warnings"][0]
    assert "[branch" not in config.read_text()
    assert "# mine\n" in config.read_text()


async def test_nothing_of_what_could_run_or_lead_elsewhere_is_kept(served, config):
    """W4, CT-E5: each key by itself; the command sees its own, the owner none."""
    before = config.read_text()
    add = "git config --file $OLDPWD/.git/config --add"  # from elsewhere, for with them git works no more
    cmd = "\n".join(f"{add} {setting} || exit 1" for setting in HOSTILE)
    told = await served.run(f"git remote add evil https://evil.example/x && cd /tmp && {cmd}")
    assert told["exit_code"] == 0, told
    (word,) = told["warnings"]
    assert word.startswith("GIT_CONFIG_REFUSED: of what it wrote to .git/config"), word
    assert word.split(":")[2].startswith(" remote.origin.url, remote.origin.fetch, ")
    assert config.read_text() == before
    told = await served.run("git remote add evil x; git config user.name x; git config branch.main.remote evil")
    assert ["user.name = x" in told["warnings"][0], "remote.evil.url" in told["warnings"][1]] == [True, True]
    assert config.read_text() == before + "[user]\n\tname = x\n"


RAW = {
    "a line in a value": r'printf "[user]\n\tname = \"a\\\n[core]\\\n\tfsmonitor = x\"\n" >> .git/config',
    "an end of line in a branch": "git config user.email $'a\\n[core]\\n\\tfsmonitor = touch x'",
    "a quote in a subsection": r'printf "[branch \"a\\\\\"]\n[core]\"]\n\tremote = origin\n" >> .git/config',
    "a carriage return": r'printf "[user]\r\n\tname = x\r\n" >> .git/config',
    "a NUL": r'printf "[user]\n\tname = a\0b\n" >> .git/config',
    "controls": "git config user.name $'a\\x1b]0;b\\x07'; git config branch.$'x\\u202ey'.merge refs/heads/x",
    "what is no configuration": "echo x >> .git/config",
    "nothing": "> .git/config",
    "no file": "rm /run/gloveport/git/0/config",
    "a pipe": "rm /run/gloveport/git/0/config; mkfifo /run/gloveport/git/0/config",
    "a link": "ln -sf /etc/passwd /run/gloveport/git/0/config",
    "a directory": "rm -rf /run/gloveport/git; mkdir -p /run/gloveport/git/0/config",
    "too much": "head -c 6000000 /dev/zero | tr '\\0' '\\n' >> .git/config",
    "many keys": 'for n in {1..200}; do echo "[branch \\"b$n\\"] remote = ." >> .git/config; done',
    "so much that it fills the file": (
        'n=$(head -c 200 /dev/zero | tr "\\0" x); for i in {1..50}; do git config branch.$n$i.merge refs/heads/$n; done'
    ),
    "a huge name": 'git config user.name "$(head -c 5000 /dev/zero | tr "\\0" x)"',
    "two of one": "git config --add user.name a; git config --add user.name b",
    "true": "printf '[user]\\n\\tname\\n' >> .git/config",
}


async def test_a_copy_that_is_not_read_plainly_is_not_kept(served, config):
    """W4: whatever lies there."""
    before = config.read_bytes()
    for case, attack in RAW.items():
        told = await served.run(attack)
        assert any(word.startswith("GIT_CONFIG_REFUSED") for word in told["warnings"]), (case, told)
        assert "\x1b" not in str(told["warnings"])
        assert config.read_bytes() == before, case


async def test_the_copy_is_mounted_and_can_be_neither_removed_nor_replaced(served, config):
    """W4, P30: nor does a way lead to the file below."""
    before = config.read_bytes()
    for attack in (
        "rm -f .git/config",
        "mv .git/config .git/c",
        "echo x > n && mv n .git/config",
        "ln -sf x .git/config",
        "ln -P .git/config n2",
        "mv .git .g",
        "python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(l.umount2(b\".git/config\", 10) and 1)'",
        "cat /proc/self/fd/*/.git/config",
    ):
        assert (await served.run(attack))["exit_code"] != 0, attack
        assert config.read_bytes() == before
    told = await served.run("stat -c %F .git/config; readlink .git/config; cat .git/config")
    assert told["stdout"].encode() == b"symbolic link\n/run/gloveport/git/0/config\n" + before


async def test_a_command_whose_configuration_others_write_meanwhile_is_still_kept_from_it(served, config):
    """W4: a file that was replaced would lose the mount that keeps it from a command that runs."""
    wait = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo '[core] fsmonitor = x' >> .git/config; echo wrote"
    command_id, _ = await begun(served, wait)
    await served.run("git config user.name Ann")
    after = config.read_bytes()
    assert b"Ann" in after
    await served.run("touch go")
    with anyio.fail_after(30):
        while (told := await served.told("write_stdin", command_id=command_id))["status"] == "running":
            pass
    assert config.read_bytes() == after
    (word,) = told["warnings"]
    assert word.startswith("GIT_CONFIG_REFUSED: ")
    (served.root / "go").unlink()


async def test_what_the_owner_has_set_meanwhile_stays(served, config):
    """W4: of two who change a key the owner is right; who changes another loses nothing."""
    wait = "echo begun; while [ ! -e go ]; do sleep 0.02; done; git config user.name Bot; git config user.email b@b"
    command_id, _ = await begun(served, wait)
    text = config.read_text() + "[user]\n\tname = Owner\n"
    config.write_text(text)
    (served.root / "go").touch()
    with anyio.fail_after(30):
        while (told := await served.told("write_stdin", command_id=command_id))["status"] == "running":
            pass
    assert config.read_text() == text + "\temail = b@b\n"
    assert any("not kept: user.name" in word for word in told["warnings"])
    (served.root / "go").unlink()


async def test_while_somebody_has_the_lock_nothing_is_written(served, config):
    """W4: git itself writes no other way."""
    (served.root / ".git/config.lock").touch()
    before = config.read_bytes()
    told = await served.run("git config user.name Bot")
    assert "File exists" in told["warnings"][0]
    assert config.read_bytes() == before


async def test_a_file_of_several_names_is_not_written(served, config):
    """W4: it may be a file of others."""
    other = served.root / "other"
    os.link(config, other)
    before = config.read_bytes()
    told = await served.run("git config user.name Bot")
    assert "no file of one name" in told["warnings"][0]
    assert config.read_bytes() == before
    other.unlink()


async def test_a_session_keeps_its_own_and_goes_on(served, config):
    """W4: from command to command; what was refused is told once."""
    begun = await served.run("git config alias.x status; git config user.name Ann", session="new")
    session = begun["session"]["id"]
    assert "alias.x" in begun["warnings"][-1]
    told = await served.run(
        "git config alias.x && git branch -q later origin/main && git config user.name", session=session
    )
    assert told["stdout"].splitlines()[0::2] == ["status"] or "Ann" in told["stdout"]
    assert "branch.later.remote = origin" in told["warnings"][0]
    told = await served.run("git config user.name Bob; git config --unset alias.x", session=session)
    assert "user.name = Bob" in told["warnings"][0]
    assert (await served.run("true", session=session)).get("warnings", []) == []
    assert "name = Bob" in config.read_text()
    assert "alias" not in config.read_text()
    await served.call("session", action="close", session=session)


async def test_each_repository_has_a_copy_of_its_own(served, config):
    """W4: those that commands have made as well, and nothing is told where nothing was written."""
    made = "mkdir -p many && cd many && for n in a b c; do git init -q $n; git -C $n config alias.x $n; done"
    await served.run(made)
    told = await served.run("cd many; for n in a b c; do git -C $n config alias.x; git -C $n config user.name $n; done")
    assert told["stdout"].split() == ["a", "b", "c"]
    assert told["warnings"] == [f"it wrote to many/{n}/.git/config: user.name = {n}" for n in "abc"]
    assert "warnings" not in await served.run("git -C many/b config user.name")
    for n in "abc":
        assert f"name = {n}\n" in (served.root / f"many/{n}/.git/config").read_text()
    await served.run("rm -rf many")


async def test_submodules_are_kept_as_the_owner_has_named_them(tmp_path):
    """W4: ``git submodule init`` takes their addresses from a file that commands can't write."""
    modules = '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n[submodule "far"]\n\tpath = far\n\turl = https://o.example/f\n'

    async with opened(tmp_path) as served:
        config = served.root / ".git/config"
        config.write_text(config.read_text() + f'[remote "origin"]\n\turl = {URL}\n')
        served.write(".gitmodules", modules)
        commit = "1" * 40
        for path in ("lib", "far"):
            served.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
        told = await served.run("git submodule init; git config submodule.far.url https://evil.example/f")
        assert "submodule.lib.url = https://git.example/owner/lib.git" in told["warnings"][0], told
        assert "submodule.lib.active = true" in told["warnings"][0]
        assert "submodule.far.url" in told["warnings"][1]
        assert "evil" not in config.read_text()
        assert "https://git.example/owner/lib.git" in config.read_text()
