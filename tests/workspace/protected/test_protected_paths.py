"""What commands must not write: found wherever it is, whatever a command puts in its way."""

import contextlib
import functools
import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.cases import for_each

from gloveport.errors import ConfigError
from gloveport.policy.decisions.protected_names import BELOW, DIRECTORIES, FILES, fold_name, kinds_in, protected_part
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import git_directory, mount_plan, protected_paths, protected_scan, protected_state

PARTS = {b".git/config", b".git/hooks"}


def git(root, *arguments):
    """Run git in the workspace, as its owner would."""
    own = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    own |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    allow = ("-c", "safe.directory=*", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *allow, *arguments], cwd=root, env=own, check=True, capture_output=True)


@pytest.fixture
def repository(root):
    """The workspace as a repository with one commit."""
    git(root, "init", "-q", "-b", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    return root


def found(tree, known=protected_paths.NOTHING):
    return protected_paths.find_protected(tree, known)


def test_of_a_repository_its_configuration_and_its_hooks_are_kept_and_pinned(repository, tree):
    """W4, CT-E5"""
    one = found(tree)
    assert one.read_only.keys() >= PARTS
    assert one.repositories == {b".git"}
    assert b".git" in one.pinned
    text = (repository / ".git/config").read_text()
    kept = one.kept_paths("/w")
    assert kept.index(("/w/.git", "pinned")) < kept.index(("/w/.git/config", "copied", text))
    assert ("/w/.git/hooks", "read-only") in kept


def test_of_a_configuration_that_is_large_there_is_no_copy(repository, tree):
    """W4: and none of more than a few."""
    (repository / ".git/config").write_text("[a]\n" + "# x\n" * 5000)
    for number in range(40):
        git(repository, "init", "-q", f"r{number}")
    kept = [one for one in found(tree).kept_paths("/w") if one[0].endswith("/config")]
    assert ("/w/.git/config", "read-only") in kept
    assert (len(kept), sum(one[1] == "copied" for one in kept)) == (41, 32)


def test_a_repository_gets_the_parts_that_it_lacks_from_whom_it_belongs_to(repository, tree):
    """W4: what is not there could be made."""
    for name in ("hooks", "config"):
        subprocess.run(["rm", "-rf", repository / ".git" / name], check=True)
    assert found(tree).read_only.keys() >= PARTS
    assert [*(repository / ".git/hooks").iterdir()] == []
    assert (repository / ".git/config").read_bytes() == b""
    assert (repository / ".git/hooks").stat().st_uid == (repository / ".git").stat().st_uid


def test_what_is_no_repository_gets_nothing(root, tree):
    """W4"""
    (root / ".git").mkdir()
    assert found(tree).repositories == set()
    assert [*(root / ".git").iterdir()] == []


def test_a_configuration_of_the_worktree_is_there_where_git_would_read_it(repository, tree):
    """W4: extensions.worktreeConfig."""
    assert b".git/config.worktree" not in found(tree).read_only
    git(repository, "config", "extensions.worktreeConfig", "true")
    assert b".git/config.worktree" in found(tree).read_only


@pytest.mark.parametrize("name", ["below", "a/b/c", "with ü", "x.git"])
def test_repositories_below_are_kept_too(repository, tree, name):
    """W4"""
    (repository / name).mkdir(parents=True)
    git(repository / name, "init", "-q")
    assert os.fsencode(f"{name}/.git/config") in found(tree).read_only
    assert os.fsencode(name.split("/")[0]) in found(tree).pinned


def test_a_git_directory_is_known_by_what_is_in_it(repository, tree):
    """W4: bare ones, and those that a .git which is a file leads to, however deep."""
    git(repository, "init", "-q", "--bare", "store.git")
    deep = repository / "node_modules/a/b/c/d/e"
    deep.mkdir(parents=True)
    (repository / "out").mkdir()
    git(repository / "out", "init", "-q", "--separate-git-dir", str(deep / "far"))
    one = found(tree)
    assert one.repositories == {b".git", b"store.git", b"node_modules/a/b/c/d/e/far"}
    assert {b"store.git/config", b"out/.git", b"node_modules/a/b/c/d/e/far/hooks"} <= one.read_only.keys()


def test_submodules_are_kept_by_any_name_and_their_checkouts_wherever_they_lie(repository, tree, tmp_path):
    """W4: git status runs git in each of them."""
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q")
    git(source, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "submodule", "add", "-q", "--name", "libs/one", str(source), "vendor/a/b/one")
    one = found(tree)
    assert b".git/modules/libs/one" in one.repositories
    assert {b".git/modules/libs/one/config", b".git/modules/libs/one/hooks", b"vendor/a/b/one/.git"} <= {*one.read_only}
    assert b"vendor/a/b" in one.pinned


def test_a_submodule_that_is_not_there_yet_is_noticed_when_it_comes(repository, tree):
    """W4: where .gitmodules names its place."""
    (repository / ".gitmodules").write_text('[submodule "x"]\n\tpath = vendor/x\n\turl = ../x\n')
    (repository / "vendor/x").mkdir(parents=True)
    before = found(tree)
    git(repository / "vendor/x", "init", "-q")
    words = protected_paths.differences(before, found(tree, before))
    assert any(word.startswith("vendor/x/.git/config is new") for word in words)


def test_what_leads_from_a_worktree_to_its_repository_is_kept(repository, tree):
    """W4: another commondir would be another configuration."""
    git(repository, "worktree", "add", "-q", "trees/wt")
    one = found(tree)
    assert {b".git/worktrees/wt/commondir", b"trees/wt/.git"} <= one.read_only.keys()
    assert (repository / ".git/worktrees/wt/commondir").exists()
    for name in ("objects", "refs"):  # it looks like a repository of its own now, and must not become one
        (repository / ".git/worktrees/wt" / name).mkdir()
    found(tree)
    assert (repository / ".git/worktrees/wt/commondir").exists()


@pytest.mark.parametrize("where", [".git", "below/.git", "store.git"])
def test_what_would_lead_a_repository_to_another_configuration_is_removed_and_told(repository, tree, where):
    """W4: no git puts a commondir there."""
    (repository / "below").mkdir()
    git(repository / "below", "init", "-q")
    git(repository, "init", "-q", "--bare", "store.git")
    before = found(tree)
    for _ in range(2):
        (repository / where / "commondir").write_text("../evil\n")
        after = found(tree, before)
        assert not (repository / where / "commondir").exists()
        (word,) = protected_paths.differences(before, after)
        assert word.startswith(f"removed {where}/commondir")
        before = after


def test_what_the_configuration_names_in_the_workspace_is_kept(repository, tree):
    """W4: hooks elsewhere, more configuration, and programs that git runs."""
    names = ("more", "even-more", "scripts/clean.sh", "tools/diff", "absolute", "quoted file", "scripts/free")
    for name in names:
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("")
    (repository / ".githooks").mkdir()
    (repository / "more").write_text("[include]\n\tpath = even-more\n\tpath = more\n")
    (repository / ".git/config").write_text(
        f"""[core]
    hooksPath = .githooks ; where they are
    fsmonitor = {repository}/absolute
[include] path = ../more
[filter "x"]
    clean = sh \\
scripts/clean.sh %f
[diff "y"]
    command = "'quoted file' --x"
    textconv = !tools/diff
[remote "origin"]
    url = scripts/free
"""
    )
    kept = found(tree).read_only.keys()
    named = {b".githooks", *map(os.fsencode, names)} - {b"scripts/free"}
    assert named <= kept
    assert b"scripts/free" not in kept


@pytest.mark.parametrize(
    "value",
    ["/", ".", "..", "../..", "/etc", "", '"', "'", "\\", "~", "~root", "\x01", "x" * 5000, "../.git", "./../../x"],
)
def test_what_a_configuration_names_outside_or_not_at_all_is_nothing(repository, tree, value):
    """W4: it is what a checkout brings along."""
    lines = [f"{key} = {value}" for key in ("hooksPath", "path", "fsmonitor", "worktree", "command")]
    (repository / ".git/config").write_text("[a]\n" + "\n".join(lines))
    one = found(tree)
    assert one.read_only.keys() >= PARTS
    assert all(path and not path.startswith((b"/", b"..")) for path in one.read_only)


def test_links_are_told_and_what_they_lead_to_is_kept(repository, tree, tmp_path):
    """W4, W2: a link itself can't be."""
    (repository / "our-hooks").mkdir()
    subprocess.run(["rm", "-rf", repository / ".git/hooks"], check=True)
    (repository / ".git/hooks").symlink_to("../our-hooks")
    (repository / ".envrc").symlink_to(tmp_path / "outside")
    one = found(tree)
    assert one.links == {b".git/hooks", b".envrc"}
    assert b"our-hooks" in one.read_only
    assert not one.links & one.read_only.keys()
    (repository / ".profile").symlink_to("x")
    (word,) = protected_paths.differences(one, found(tree, one))
    assert word.startswith(".profile is a new symbolic link")


def test_what_hooks_lead_to_by_links_is_kept(repository, tree):
    """W4: as in the directory of git, so in another that its configuration names."""
    for name in ("scripts/pre-commit", "scripts/post-commit"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("")
    (repository / "more").mkdir()
    (repository / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")
    (repository / "more/post-commit").symlink_to(repository / "scripts/post-commit")
    (repository / "more/away").symlink_to("/etc/passwd")
    git(repository, "config", "core.hooksPath", "more")
    one = found(tree)
    assert {b"more", b"scripts/pre-commit", b"scripts/post-commit"} <= one.read_only.keys()
    assert one.links == set()


def test_what_is_exempt_is_not_kept(repository):
    """W5: by name or by path."""
    (repository / "a").mkdir()
    for name in (".envrc", "a/.envrc", "a/.env"):
        (repository / name).write_text("")
    with Tree.open_tree(repository, frozenset({".env", "a/.envrc"})) as tree:
        assert found(tree).read_only.keys() - PARTS == {b".envrc"}


def test_names_in_other_cases_are_kept_and_those_that_are_no_text(repository, tree):
    """W4: on some file systems they are the same file."""
    (repository / os.fsdecode(b"\xff\xfe") / ".VSCode").mkdir(parents=True)
    (repository / os.fsdecode(b"\xff\xfe") / ".ENVRC").touch()
    one = found(tree)
    assert {b"\xff\xfe/.ENVRC", b"\xff\xfe/.VSCode"} <= one.read_only.keys()
    assert ("/w/\udcff\udcfe/.ENVRC", "read-only") in one.kept_paths("/w")


def test_what_was_known_is_found_again_whatever_is_put_in_its_way(repository, tree, monkeypatch):
    """W4: a command that makes more directories than anybody looks at."""
    (repository / "z/below").mkdir(parents=True)
    git(repository / "z/below", "init", "-q")
    (repository / "z/.envrc").write_text("")
    before = found(tree)
    monkeypatch.setattr(protected_paths, "Search", functools.partial(protected_scan.Search, directories_left=10))
    for number in range(60):
        (repository / f"a{number}").mkdir()
    assert not {b"z/.envrc", b"z/below/.git/config"} <= found(tree).read_only.keys()
    after = found(tree, before)
    assert (after.read_only, after.repositories) == (before.read_only, before.repositories)
    assert after.partial
    assert protected_paths.differences(before, after)[-1].startswith("the workspace has become too large")


def test_a_change_is_told_though_size_and_time_are_put_back(repository, tree):
    """W4: what is new or changed, and what is a repository no more."""
    config = repository / ".git/config"
    before, status, text = found(tree), config.stat(), config.read_bytes()
    config.write_bytes(text[:-1] + b" ")
    os.utime(config, ns=(status.st_atime_ns, status.st_mtime_ns))
    (repository / ".vscode").mkdir()
    (repository / ".git/HEAD").rename(repository / "HEAD")
    words = protected_paths.differences(before, found(tree, before))
    assert [word.partition(":")[0] for word in words] == [
        ".git/config was changed meanwhile",
        ".vscode is new",
        ".git is a repository no more",
    ]


def test_a_file_with_a_second_name_is_told_of(repository, tree):
    """W4: a hard link that was made while nothing was kept."""
    (repository / "innocent").hardlink_to(repository / ".git/config")
    one = found(tree)
    (word,) = protected_paths.differences(one, found(tree, one))
    assert word.startswith(".git/config is a file with several names")


def test_a_checkout_that_names_itself_in_a_circle_is_looked_at_once(root, tree):
    """W4: whoever made it wants the server to hang."""
    for name in ("one", "two"):
        (root / name / ".git").mkdir(parents=True)
    (root / "one/.git/config").write_text("[a]\nworktree = ../../two\npath = config\npath = ../../two/.git/config\n")
    (root / "two/.git/config").write_text("[a]\nworktree = ../../one\npath = ../../one/.git/config\n")
    (root / "three").mkdir()
    (root / "three/.git").write_text("gitdir: ../three")
    (root / "three/config").write_text("[a]\nworktree = .\n")
    assert {b"one/.git/config", b"two/.git/config", b"three/.git"} <= found(tree).read_only.keys()


@pytest.mark.parametrize("name", [".git", ".envrc", ".git/config", ".git/modules"])
def test_what_is_no_file_blocks_nobody(root, tree, name):
    """W2: FIFOs."""
    (root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(root / name)
    found(tree)


@for_each("most", range(12))
def test_what_was_there_before_is_kept_by_however_few_mounts(most):
    """W4: fail closed: where there are too few, directories are kept as a whole, the deepest first."""
    owned = {b".git/config", b".git/hooks", b"a/1/.env", b"a/2/.env", b"a/3/.env", b"b/c/d/.envrc"}
    made = {b"x/.env", b"a/1/.npmrc"}
    one = mount_plan.plan_mounts(owned, made, mount_plan.with_ancestors(owned | made) - owned - made, most)
    assert len(one.read_only) + len(one.pinned) <= max(1, most)
    assert all(
        any(path == place or path.startswith(place + b"/" if place else b"") for place in one.read_only)
        for path in owned
    )
    assert one.whole
    assert one.whole <= one.read_only


def test_of_what_commands_have_made_the_nearest_is_kept_and_no_directory_as_a_whole():
    """W4: what does not lie in what is kept anyhow."""
    made = {b"a/b/.env", b"c/.env", b".PROFILE", b".profile", b".vscode/x"}
    one = mount_plan.plan_mounts({b".vscode"}, made, {b"a", b"a/b", b"c"}, 4)
    assert one == mount_plan.Mounts(
        read_only={b".vscode", b".profile", b"c/.env"}, pinned={b"c"}, loose={b"a/b/.env", b".PROFILE"}
    )


def test_what_commands_have_made_is_known_again_until_somebody_else_changes_it(root, tree, tmp_path):
    """W4: by the next server too, which finds again what was known, whatever lies in the way."""
    (root / ".envrc").touch()
    before = found(tree)
    for name in (".env", ".npmrc"):
        (root / name).touch()
    after = protected_paths.find_protected(tree, before, commands=1)
    assert after.made_by_commands.keys() == {b".env", b".npmrc"}
    (root / ".npmrc").write_text("changed by the owner")
    protected_state.save(tmp_path, after)
    again = protected_paths.find_protected(tree, protected_state.load(tmp_path))
    assert (again.read_only.keys(), again.made_by_commands.keys()) == ({b".env", b".envrc", b".npmrc"}, {b".env"})
    assert protected_state.load(root) == protected_paths.NOTHING


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"read_only": ["\\ud800"], "repositories": [], "made": {}}', "x" * 9]
)
def test_a_state_that_can_not_be_read_is_none(tmp_path, text):
    """W4: then all that is found is the owner's."""
    (tmp_path / "protected.json").write_text(text)
    assert protected_state.load(tmp_path) == protected_paths.NOTHING


def test_a_place_where_nothing_can_be_saved_is_named(tmp_path):
    """Whoever started a program was shown a traceback."""
    (tmp_path / "protected.json").mkdir()
    with pytest.raises(ConfigError, match=rf"can't be saved in {tmp_path}/protected.json: .*Is a directory"):
        protected_state.save(tmp_path, protected_paths.NOTHING)


def test_a_link_in_that_place_is_replaced_and_not_what_it_leads_to(tmp_path):
    """A server of root's would replace any file of the host, even a device."""
    (tmp_path / "other").write_text("text")
    (tmp_path / "protected.json").symlink_to("other")
    protected_state.save(tmp_path, protected_paths.NOTHING)
    assert (tmp_path / "other").read_text() == "text"
    assert not (tmp_path / "protected.json").is_symlink()


def test_what_a_command_has_made_leads_to_nothing_of_the_owners(root, tree):
    """W4: it could keep any file from all commands after it."""
    (root / "src").mkdir()
    (root / "src/main.py").touch()
    before = found(tree)
    git(root, "init", "-q", "evil")
    git(root / "evil", "config", "core.hooksPath", "../src")
    git(root / "evil", "config", "filter.x.clean", "../src/main.py")
    (root / "evil/.git/hooks/pre-commit").symlink_to("../../../src")
    (root / ".vscode").symlink_to("src")
    after = protected_paths.find_protected(tree, before, commands=1)
    assert {b"evil/.git/config", b"evil/.git/hooks"} <= after.read_only.keys()
    assert not {path for path in after.read_only if path.startswith(b"src")}
    assert b"src/main.py" in found(tree).read_only


def test_what_nobody_can_look_into_is_kept_as_a_whole_unless_a_command_made_it_so(root, tree):
    """W4: and what was known is made known again."""
    for name in ("secret", "a/b"):
        (root / name).mkdir(parents=True)
    (root / "a/b/.envrc").touch()
    (root / "secret").chmod(0)
    before = found(tree)
    assert before.closed.keys() == {b"secret"}
    assert ("/w/secret", "read-only") in before.kept_paths("/w")
    (root / "new").mkdir(mode=0)
    (root / "a/b").chmod(0)
    (root / "a").chmod(0)
    root.chmod(0)
    after = protected_paths.find_protected(tree, before, commands=1)
    assert (after.closed.keys(), after.made_by_commands.keys()) == ({b"secret"}, {b"new"})
    assert b"a/b/.envrc" in after.read_only
    (root / "secret").chmod(0o700)
    (root / "new").chmod(0o700)
    assert found(tree, after).closed == {}


def test_a_directory_of_more_names_than_anybody_reads_is_looked_through_for_those_that_count(root, tree, monkeypatch):
    """W4: and what is near the root is found before what is deep."""
    monkeypatch.setattr(protected_scan, "_MOST_NAMES_OF_ONE", 10)
    repository = root / ".jj/repo"
    repository.mkdir(parents=True)
    for number in range(50):
        (root / f"{number}").touch()
        (repository / f"{number}").touch()
    (repository / "config.toml").touch()
    for name in kinds_in("."):
        (root / name).touch()
    one = found(tree)
    assert one.read_only.keys() >= {*map(os.fsencode, kinds_in(".")), b".jj/repo/config.toml"}
    assert one.partial


@pytest.mark.parametrize("name", [".ba\u017fhrc", ".g\u200cit", ".\uff25\uff2e\uff36", ".V\u017fcode"])
def test_a_name_that_some_file_system_takes_for_a_protected_one_is_one(root, tree, name):
    """W4: ext4 without case, HFS+ without the letters that are not seen."""
    (root / name).touch()
    assert os.fsencode(name) in found(tree).read_only
    assert protected_part(f"a/{name}") == f"a/{name}"


@pytest.mark.parametrize(
    "path",
    [
        "GIT~1/hooks/x",
        "git~2/config",
        "a/vscode~1/x",
        "MCP~1.JSO",
        "ENVRC~1",
        ".git./config",
        ".git /config",
        ".env.. ",
    ],
)
def test_nor_is_one_written_by_the_name_that_fat_or_ntfs_give_it(path):
    """P30: a workspace may lie on a stick."""
    assert protected_part(path)


@pytest.mark.parametrize("path", ["git~x", "git~", "~1", "a~1", "README.md~1", "x.~1~", "gitx~1", "..."])
def test_an_ordinary_name_with_a_tilde_or_dots_is_written(path):
    assert protected_part(path) is None


def test_every_protected_name_is_folded_and_documented():
    """W4: and has one reason."""
    text = (Path(__file__).parents[3] / "docs/workspace.md").read_text()
    for name in (*FILES, *DIRECTORIES, *BELOW):
        assert fold_name(name) == name
        assert f"`{name}`" in text, name
    assert not FILES.keys() & DIRECTORIES.keys()


@pytest.mark.parametrize(
    "path",
    [".aws/config", ".ssh/config", "a/.npmrc", ".pypirc", ".docker/config.json", ".kube/config", ".config/git/x"],
)
def test_what_leads_credentials_elsewhere_is_protected(root, tree, path):
    """W4: also where its directory has no name of its own."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).touch()
    assert protected_part(path)
    assert any(os.fsencode(path).startswith(place) for place in found(tree).read_only)


@pytest.mark.parametrize(
    "path",
    [
        *(".hg/hgrc", "a/.hg/requires", ".sl/config", ".github/hooks/x.json", ".config/mise/conf.d/a.toml"),
        *(".jj/workspace-config.toml", ".jj/repo", "a/.jj/repo", ".jj/repo/config.toml", ".JJ/Repo/config-id"),
        *(".jj/repo/store/git_target", "a/.jj/repo/store/git_target"),
    ],
)
def test_what_other_tools_run_from_a_directory_of_theirs_is_protected(root, tree, path):
    """P30."""
    (root / path).parent.mkdir(parents=True)
    (root / path).touch()
    assert protected_part(path)
    assert any(os.fsencode(path).startswith(place) for place in found(tree).read_only)
    assert not protected_part(f"{path.partition('/')[0]}/other")


def test_what_jujutsu_writes_all_the_time_is_not_protected(root, tree):
    for path in (
        ".jj/repo/op_heads/heads/x",
        ".jj/working_copy/tree_state",
        ".jj/repo/store/extra/x",
        "repo/config.toml",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
        assert not protected_part(path)
    assert not found(tree).read_only


@pytest.mark.parametrize("name", ["config", "requires", "sharedpath"])
def test_what_sapling_reads_in_a_git_directory_is_protected(repository, tree, name):
    """P30: it keeps its own files there in a checkout of git, and runs hooks and aliases of this configuration."""
    (repository / ".git/sl").mkdir()
    (repository / ".git/sl" / name).touch()
    assert f".git/sl/{name}".encode() in found(tree).read_only


def test_what_sapling_translates_the_configuration_of_git_to_is_made_anew(repository, tree):
    """P30: it writes these all the time, so they can't be protected, but believes them whoever has written them."""
    (repository / ".git/sl").mkdir()
    (repository / ".git/sl/config-git-repo").write_text("[hooks]\npre-status = touch /tmp/ran\n")
    (repository / "other").mkdir()
    (repository / "other/config-git-repo").touch()
    found(tree)
    assert not list((repository / ".git/sl").iterdir())
    (repository / ".git/sl").rmdir()
    (repository / ".git/sl").symlink_to("../other")
    found(tree)
    assert (repository / "other/config-git-repo").exists()


@pytest.mark.parametrize("git_directory", [".git", ".git/worktrees/one"])
def test_commands_of_a_rebase_that_is_to_go_on_are_told(repository, tree, git_directory):
    """P30: git runs them when its owner continues it, or skips a commit."""
    git(repository, "worktree", "add", "-q", "../one")
    before = found(tree)
    todo = repository / git_directory / "rebase-merge/git-rebase-todo"
    todo.parent.mkdir()
    todo.write_text("pick 1234567 x\n# exec nothing\n")
    assert protected_paths.differences(before, found(tree)) == []
    todo.write_text("pick 1234567 x\n x  touch /tmp/ran\n")
    after = found(tree)
    (word,) = protected_paths.differences(before, after)
    assert word.startswith(f"{git_directory}/rebase-merge/git-rebase-todo has commands that git runs")
    todo.write_text("exec touch /tmp/ran-too\n")
    assert len(protected_paths.differences(after, found(tree))) == 1
    assert protected_paths.differences(after, after) == []


def test_a_directory_that_has_the_name_of_a_file_is_one_like_any_other(root, tree):
    """W4: .env may be an environment of Python."""
    (root / ".env").mkdir()
    (root / ".env/.envrc").touch()
    assert found(tree).read_only.keys() == {b".env/.envrc"}


def test_a_tree_that_changes_meanwhile_is_looked_at_without_harm(repository, tree, tmp_path):
    """W4: nothing outside is kept, read, made or given away."""
    outside = tmp_path / "outside"
    for name in ("HEAD", "objects", "refs"):
        (outside / name).mkdir(parents=True)
    (repository / "sub").mkdir()
    git(repository / "sub", "init", "-q")
    (repository / "link").symlink_to(outside)
    stop = threading.Event()

    def meddle():
        true, other, link = repository / "sub/.git", repository / "sub/git", repository / "link"
        while not stop.is_set():
            for one, two in ((true, other), (link, true), (true, link), (other, true)):
                with contextlib.suppress(OSError):
                    one.rename(two)

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        for _ in range(300):
            one = found(tree)
            assert one.read_only.keys() >= PARTS
    finally:
        stop.set()
        thread.join()
    assert sorted(path.name for path in outside.iterdir()) == ["HEAD", "objects", "refs"]


@for_each(
    "configuration, values",
    [
        (b"[core]\nhooksPath = a b\n", [b"a b"]),
        (b"[core]\n\tHOOKSPATH=a # b\n", [b"a"]),
        (b'[core] hooksPath = "a;b"\n', [b"a;b"]),
        (b"[core]\nhooksPath = a\\\nb\n", [b"ab"]),
        (b"[core]\nhooksPath\n", []),
        (b"[core]\nhooksPath = 'a' \"b c\"\n", [b"'a' b c"]),
        (b"# hooksPath = a\n[core]\nhooksPaths = b", []),
    ],
)
def test_values_are_read_as_git_reads_them(configuration, values):
    """W4"""
    assert git_directory.values(configuration, b"hookspath") == values
