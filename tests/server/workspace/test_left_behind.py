"""What a command leaves behind stops no command after it, and takes no protection from what was there before it."""

import functools

import pytest
from tests.server.workspace.served import opened, owned, reopened

from gloveport.workspace.protected import mount_plan, protected_paths, protected_scan

pytestmark = pytest.mark.anyio

LEFT = {
    "many protected names in new directories": "mkdir d{1..150}; touch d{1..150}/.bashrc",
    "many protected names below the owner's": "mkdir src/d{1..150}; touch src/d{1..150}/.envrc",
    "a protected directory with many entries": "mkdir .vim; cd .vim; seq 2000 | xargs touch",
    "many names before those that count": "mkdir a; (cd a; seq 3000 | xargs touch); seq 3000 | xargs touch",
    "many directories": "mkdir a; cd a; seq 2000 | xargs mkdir",
    "many spellings of one name": """python3 - <<'P'
import itertools
for letters in itertools.product(*({c, c.upper()} for c in ".profile")):
    open("".join(letters), "w").close()
P""",
    "many nested repositories": """python3 - <<'P'
import os
for number in range(100):
    for name in ("objects", "refs", "HEAD"): os.makedirs(f"r{number}/.git/{name}")
P""",
    "configuration that takes long to read": """python3 - <<'P'
import os
for number in range(10):
    for name in ("objects", "refs", "HEAD"): os.makedirs(f"r{number}/.git/{name}")
    open(f"r{number}/.git/config", "w").write("[a]\\n" + "\\tclean = x" + " x" * 130000)
P""",
}
FEW = {
    "a repository whose hooks are the owner's files": """mkdir evil; git init -q evil; cd evil
        git config core.hooksPath ../src; git config filter.x.clean ../src/main.py
        git config include.path ../src/main.py
        ln -s ../../../src .git/hooks/pre-commit; ln -s ../../../src/main.py .git/hooks/post-commit""",
    "a file that leads git to the owner's files": "mkdir x y; echo gitdir: ../src > x/.git; echo gitdir: ../y > y/.git",
    "links in place of what is protected": """ln -s src .vscode; ln -s src/main.py .profile; ln -s . .idea
        ln -s .vim .vim; mkdir l; ln -s ../src l/.git""",
    "a path that is too long": """python3 - <<'P'
import os
root, place = os.getcwd(), []
for _ in range(30):
    os.mkdir("x" * 200); os.chdir("x" * 200); place.append("x" * 200)
for name in ("HEAD", "objects", "refs", "hooks"): os.mkdir(name)
os.chdir(root)
os.mkdir("far")
open("far/.git", "w").write("gitdir: ../" + "/".join(place))
P""",
    "names that are no text": r"mkdir $'\xff\xfe' $'a\nb\e[31m'; touch $'\xff\xfe'/.envrc $'a\nb\e[31m'/.envrc",
    "what is neither file nor directory": "mkdir p q; mkfifo p/.git q/.bashrc .zshrc src/.envrc",
    "a directory that nobody may look into": "mkdir z; echo > z/.envrc; chmod 0 z",
    "the owner's directories, which nobody may look into": "chmod 0 src pkg/deep pkg",
    "a git directory that nobody may look into": "chmod 0 .git",
    "files that nobody may read": "touch .envrc; chmod 0 .envrc; git init -q n; chmod 0 n/.git/config n/.git",
    "a root that nobody may look into": "chmod 0 .",
}
"""Of which all that is left at once is no more than is looked at."""

OWNED = (".gitconfig", ".git/config", "pkg/deep/.envrc")


async def works(served, name=""):
    """A command reads and writes what is the owner's to let it write, and nothing that is protected."""
    told = await served.run(
        "chmod 755 src; echo more >> src/main.py && echo x > src/new && echo x > src/config/settings && rm src/new"
    )
    assert told["exit_code"] == 0, (name, told)
    writes = "for path in .gitconfig pkg/deep/.envrc; do echo x >> $path; done; rm -f .git/config"
    told = await served.run(f"echo x >> .git/config; chmod 755 pkg pkg/deep .git; {writes}")
    assert [told["stderr"].count(why) for why in ("Read-only", "busy")] == [2, 1], (name, told)


def prepare(root):
    owned(root)
    for path in ("src/main.py", "src/config/settings", "pkg/deep/.envrc", ".gitconfig"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    for path in root.rglob("*"):
        owned(path)


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Bounds that are met sooner, so that the tests are."""
    search = functools.partial(protected_scan.Search, directories_left=500, names_left=4000, text_left=1 << 18)
    monkeypatch.setattr(protected_paths, "Search", search)
    monkeypatch.setattr(protected_scan, "_MOST_NAMES_OF_ONE", 1000)
    monkeypatch.setattr(mount_plan, "MOST_MOUNTS", 250)


@pytest.mark.parametrize("left", [*([item] for item in LEFT.items()), [*FEW.items()]], ids=[*LEFT, "few names"])
async def test_what_a_command_leaves_behind_stops_no_command_and_unprotects_nothing(tmp_path, left):
    """P30: nor does it after another start of the server, which takes nothing of it for the owner's."""
    async with opened(tmp_path, prepare) as served:
        for name, cmd in left:
            told = await served.run(cmd)
            assert told["exit_code"] == 0, (name, told)
            await works(served, name)
            assert (await served.told("list_dir", path="."))["entries"], name
        assert len((await served.told("check_exec_environment"))["warnings"]) < 100
    async with reopened(tmp_path) as served:
        await works(served, "another start")
        assert (await served.told("read_file", path="src/main.py"))["content"].startswith("more")
    for path in OWNED:
        assert not (tmp_path / "project" / path).read_text().endswith("x\n")


async def test_what_a_command_has_made_is_kept_from_the_next_as_far_as_there_is_room(tmp_path):
    """P30: and beyond that each change is told."""
    async with opened(tmp_path, prepare) as served:
        told = await served.run("mkdir d{1..100}; touch d{1..100}/.bashrc")
        assert any(word.startswith("d1/.bashrc is new") for word in told["warnings"])
        assert "and 76 more like these" in told["warnings"]
        told = await served.run("for i in $(seq 100); do echo x >> d$i/.bashrc && echo no; done")
        assert (told["stdout"], told["stderr"].count("Read-only")) == ("", 100)
        await served.run("mkdir e{1..100}; touch e{1..100}/.bashrc")
        (loose,) = [word for word in (await served.told("check_exec_environment"))["warnings"] if "delete" in word]
        path = loose.rpartition(" ")[2]
        told = await served.run(f"echo x > {path}")
        assert told["exit_code"] == 0
        assert told["warnings"] == [
            f"{path} was changed meanwhile: whoever opens the workspace should look at it first"
        ]


async def test_a_command_that_moves_what_it_has_made_all_the_time_stops_no_other(tmp_path):
    """P30"""
    async with opened(tmp_path, prepare) as served:
        told = await served.told(
            "exec_command",
            cmd="while :; do mkdir -p a b; echo > a/.envrc; mv a/.envrc b/.envrc; mv a c; rm -r b c; done",
            yield_time_ms=0,
        )
        for _ in range(5):
            await works(served)
        await served.told("kill_command", command_id=told["command_id"])


async def test_what_the_owner_makes_between_commands_is_kept_before_what_commands_have_made(tmp_path):
    """P30: and what it names is kept too."""
    async with opened(tmp_path, prepare) as served:
        await served.run("mkdir d{1..150}; touch d{1..150}/.bashrc")
        served.write("z/z/.envrc", "mine")
        served.git("config", "core.hooksPath", "checks")
        served.write("checks/pre-commit", "mine")
        told = await served.run("echo x > z/z/.envrc; echo x > checks/pre-commit")
        assert told["stderr"].count("Read-only") == 2, told
