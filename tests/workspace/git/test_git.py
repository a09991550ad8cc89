"""The git tools against real repositories, in real sandboxes."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.call_count import counting_calls
from tests.workspace import hostile_repositories
from tests.workspace.sandboxed import careless, fork_server, running

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace.git.blame import git_blame
from gloveport.workspace.git.diff import git_diff
from gloveport.workspace.git.log import git_log
from gloveport.workspace.git.show import git_show
from gloveport.workspace.git.status import git_status

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """A fork server for all tests; each has a directory of its own in its workspace."""
    root = tmp_path_factory.mktemp("git").resolve()
    async with fork_server(root) as running:
        yield root, running


@pytest.fixture
def root(server, request, tmp_path):
    """The workspace of one test."""
    root = server[0] / tmp_path.name
    root.mkdir()
    return root


@pytest.fixture
async def run(server, root):
    """What the tools run git with."""
    async with running(server[1], root.name) as run:
        yield run


@pytest.fixture
def git(root):
    """Plain git of the host, in the workspace."""
    return git_in(root)


def git_in(root):
    environ = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "A. U. Thor"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.com"),
        **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-02T03:04:05+02:00"),
    }

    def call(*arguments):
        done = subprocess.run(("git", *arguments), cwd=root, env=environ, check=True, capture_output=True)
        return done.stdout.decode().strip()

    return call


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """What ``repository`` is a copy of."""
    root = tmp_path_factory.mktemp("committed") / "project"
    root.mkdir()
    git = git_in(root)
    git("init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "r.txt").write_text("".join(f"{number}\n" for number in range(40)))
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return root


@pytest.fixture
def repository(committed, root):
    """A repository with one commit of ``a.txt`` and ``r.txt``."""
    shutil.copytree(committed, root, dirs_exist_ok=True)
    return root


async def test_the_state_of_a_work_tree(repository, run, git):
    """W1, CT-U3, CT-U12: names as they are, and null where there is nothing."""
    (repository / "a.txt").write_text("changed\n")
    git("mv", "r.txt", "new name.txt")
    (repository / 'é\n".txt').write_text("x")
    (repository / "un").mkdir()
    (repository / "un" / "tracked").write_text("x")
    (repository / os.fsdecode(b"caf\xe9")).write_text("x")
    status = await git_status(run)
    assert [tuple(entry.values()) for entry in status["entries"]] == [
        ("a.txt", None, " ", "M"),
        ("new name.txt", "r.txt", "R", " "),
        ("caf\\xe9", None, "?", "?"),
        ("un/", None, "?", "?"),
        ('é\\x0a".txt', None, "?", "?"),
    ]
    head = git("rev-parse", "HEAD")
    facts = {name: value for name, value in status.items() if name != "entries"}
    assert facts == {
        "is_repo": True, "branch": "main", "head": head, "upstream": None, "ahead": 0, "behind": 0, "clean": False,
        "truncated": False, "warnings": [],
    }  # fmt: skip
    assert len((await git_status(run, include_untracked=False))["entries"]) == 2
    assert len((await git_status(run, path="un"))["entries"]) == 1
    assert (await git_status(run, path="r.txt"))["clean"] is False


async def test_no_more_entries_are_read_than_are_told(repository, run):
    """W1, P38: git may list a million files, while nobody else is answered."""
    for number in range(100):
        (repository / f"new{number}").touch()
    with counting_calls(spell_path) as calls:
        status = await git_status(run, max_entries=2)
    assert (len(status["entries"]), status["truncated"], status["clean"]) == (2, True, False)
    assert len(calls) < 10


async def test_a_branch_knows_its_upstream(repository, run, git):
    """W1"""
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("config", "remote.origin.url", "https://example.com/x")
    git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git("config", "branch.main.remote", "origin")
    git("config", "branch.main.merge", "refs/heads/main")
    git("commit", "-q", "--allow-empty", "-m", "second")
    status = await git_status(run)
    assert (status["upstream"], status["ahead"], status["behind"], status["clean"]) == ("origin/main", 1, 0, True)
    git("checkout", "-q", "--detach")
    status = await git_status(run)
    assert (status["branch"], status["upstream"]) == (None, None)


async def test_a_merge_that_is_not_done_is_told(repository, run, tree, git):
    """W1: and its difference has its file."""
    git("checkout", "-q", "-b", "other")
    (repository / "a.txt").write_text("other\n")
    git("commit", "-qam", "other")
    git("checkout", "-q", "main")
    (repository / "a.txt").write_text("main\n")
    git("commit", "-qam", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "-q", "other")
    (entry,) = (await git_status(run))["entries"]
    assert (entry["path"], entry["index_status"], entry["worktree_status"]) == ("a.txt", "U", "U")
    diff = await git_diff(tree, run, staged=True)
    assert diff["files"] == [{"path": "a.txt", "status": "modified", "binary": False}]
    assert "++<<<<<<<" in diff["diff"]


async def test_before_the_first_commit_there_is_a_branch_and_no_history(root, run, git):
    """W1"""
    git("init", "-q", "-b", "main")
    status = await git_status(run)
    assert (status["is_repo"], status["branch"], status["head"], status["clean"]) == (True, "main", None, True)
    with pytest.raises(WorkspaceError) as caught:
        await git_log(run)
    assert caught.value.code == "GIT_ERROR"


async def test_where_there_is_no_repository_each_tool_says_so(root, run, tree):
    """W1: and none above the workspace is looked for."""
    (root / "a.txt").write_text("x")
    subprocess.run(("git", "init", "-q"), cwd=root.parent, check=True)
    for answer in (
        await git_status(run),
        await git_diff(tree, run, staged=True),
        await git_log(run),
        await git_show(run),
        await git_blame(run, "a.txt"),
    ):
        assert answer["is_repo"] is False
        assert answer["warnings"] == ["there is no git repository"]


async def test_differences_of_every_kind(repository, run, tree, git):
    """W1, CT-U3, CT-U7"""
    (repository / "a.txt").write_text("one\nTWO\nthree\n")
    git("mv", "r.txt", "moved here.txt")
    (repository / "added é.txt").write_text("new")
    git("add", "added é.txt")
    (repository / "bin").write_bytes(b"a\0b")
    (repository / "script").write_text("x\ny\n")
    (repository / "script").chmod(0o755)
    (repository / "empty").touch()
    (repository / "sub").mkdir()
    (repository / 'sub/"\t').write_text("q\n")
    os.mkfifo(repository / "fifo")
    diff = await git_diff(tree, run, staged=True)
    assert diff["files"] == [
        {"path": "a.txt", "status": "modified", "binary": False},
        {"path": "added é.txt", "status": "added", "binary": False},
        {"path": "moved here.txt", "status": "modified", "binary": False, "original_path": "r.txt"},
        {"path": "bin", "status": "added", "binary": True},
        {"path": "empty", "status": "added", "binary": False},
        {"path": "script", "status": "added", "binary": False},
        {"path": 'sub/"\\x09', "status": "added", "binary": False},
    ]
    assert (diff["truncated"], diff["truncated_by"], diff["warnings"]) == (False, None, [])
    assert diff["output_lines"] == len(diff["diff"].splitlines())
    assert diff["output_bytes"] == len(diff["diff"].encode())
    (repository / "all.patch").write_text(diff["diff"].replace("Binary files /dev/null and b/bin differ\n", ""))
    git("stash", "-q", "-u", "--", ".", ":!all.patch", ":!fifo")
    git("apply", "--check", "all.patch")


async def test_a_difference_is_cut_at_the_end_of_a_line(repository, run, tree):
    """W1, CT-U7"""
    (repository / "a.txt").write_text("é" * 500 + "\n" + "x\n" * 500)
    (repository / "r.txt").write_text("x")
    diff = await git_diff(tree, run, max_bytes=1500)
    assert (diff["truncated"], diff["truncated_by"]) == (True, "bytes")
    assert diff["diff"].endswith("\n")
    assert 1400 < diff["output_bytes"] <= 1500
    assert [file["path"] for file in diff["files"]] == ["a.txt"]
    assert (await git_diff(tree, run, max_bytes=10))["diff"] == "diff --git"
    empty = await git_diff(tree, run, paths=["nothing"])
    assert (empty["diff"], empty["output_lines"], empty["files"]) == ("", 0, [])


async def test_many_untracked_files_are_cut_and_a_large_one_too(repository, run, tree):
    """W1"""
    for number in range(120):
        (repository / f"{number:03}").write_text("x\n")
    diff = await git_diff(tree, run)
    assert (len(diff["files"]), diff["truncated"], diff["truncated_by"]) == (100, True, "files")
    with (repository / "000").open("wb") as file:
        file.write(b"line\n" * 100)
        file.truncate(700 << 20)
    assert (await git_diff(tree, run, paths=["000"]))["output_bytes"] < 1000


async def test_untracked_files_that_nobody_asked_for_take_little_room(repository, run, tree):
    """W1: what a tool has left there; the small ones whole, and all of those that are named."""
    (repository / "big.log").write_text("line\n" * 20_000)
    (repository / "small").write_text("x\n")
    diff = await git_diff(tree, run)
    assert [file["path"] for file in diff["files"]] == ["small"]
    assert (diff["truncated"], diff["truncated_by"]) == (True, "files")
    assert "paths" in diff["warnings"][0]
    named = await git_diff(tree, run, paths=["big.log"])
    assert named["output_bytes"] > 100_000
    assert not named["truncated"]


async def test_a_link_to_outside_is_shown_and_not_read(repository, run, tree):
    """W2"""
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "a.txt").unlink()
    (repository / "a.txt").symlink_to("/etc/hostname")
    text = (await git_diff(tree, run))["diff"]
    assert "root:" not in text
    assert "+/etc/hostname" in text


async def test_history_comes_in_pages(repository, run, git):
    """W1"""
    for number in range(4):
        git("commit", "-q", "--allow-empty", "-m", f"größer {number}\n\nbody")
    log = await git_log(run, max_count=3)
    assert [commit["subject"] for commit in log["commits"]] == ["größer 3", "größer 2", "größer 1"]
    assert log["commits"][0] == {
        "hash": git("rev-parse", "HEAD"),
        "short_hash": git("rev-parse", "--short", "HEAD"),
        "author_name": "A. U. Thor",
        "author_email": "a@example.com",
        "author_date": "2026-01-02T03:04:05+02:00",
        "subject": "größer 3",
    }
    assert log["truncated"] is True
    log = await git_log(run, **log["next_action"]["arguments"])
    assert [commit["subject"] for commit in log["commits"]] == ["größer 0", "first"]
    assert (log["truncated"], "next_action" in log) == (False, False)
    assert len((await git_log(run, path="a.txt"))["commits"]) == 1
    assert (await git_log(run, skip=100))["commits"] == []


async def test_a_commit_with_a_subject_of_megabytes_is_cut(repository, run, git):
    """W1"""
    (repository / "message").write_text("x" * (6 << 20))
    git("commit", "-q", "--allow-empty", "-F", "message")
    git("commit", "-q", "--allow-empty", "-m", "last")
    log = await git_log(run)
    assert ([commit["subject"] for commit in log["commits"]], log["truncated"]) == (["last"], True)


async def test_a_commit_is_shown(repository, run, git):
    """W1"""
    shown = await git_show(run)
    assert shown["content"].startswith(f"commit {git('rev-parse', 'HEAD')}\nAuthor:     A. U. Thor <a@example.com>\n")
    assert [file["status"] for file in shown["files"]] == ["added", "added"]
    assert (await git_show(run, paths=["a.txt"]))["files"] == shown["files"][:1]
    short = await git_show(run, include_diff=False)
    assert (short["files"], "diff --git" in short["content"]) == ([], False)
    assert (await git_show(run, rev="HEAD:a.txt"))["content"] == "one\ntwo\nthree\n"
    assert (await git_show(run, max_bytes=100))["truncated_by"] == "bytes"


async def test_each_line_has_its_commit(repository, run, git):
    """W1, CT-U12"""
    first = git("rev-parse", "HEAD")
    (repository / "a.txt").write_bytes(b"one\n2 \xff\nthree\nfour")
    blame = await git_blame(run, "a.txt")
    assert [(line["line"], line["content"]) for line in blame["lines"]] == [
        (1, "one"), (2, "2 \ufffd"), (3, "three"), (4, "four"),
    ]  # fmt: skip
    assert blame["lines"][0] == {
        "commit": first,
        "original_line": 1,
        "line": 1,
        "author": "A. U. Thor",
        "author_mail": "a@example.com",
        "author_time": 1767315845,
        "summary": "first",
        "content": "one",
    }
    assert blame["lines"][1]["commit"] == "0" * 40
    assert (blame["end_line"], blame["truncated"], blame["rev"]) == (4, False, None)
    part = await git_blame(run, "a.txt", rev="HEAD", max_lines=2)
    assert (part["end_line"], part["truncated"]) == (2, True)
    rest = await git_blame(run, **part["next_action"]["arguments"])
    assert ([line["content"] for line in rest["lines"]], rest["truncated"]) == (["three"], False)
    asked = await git_blame(run, "a.txt", start_line=2, end_line=3)
    assert (asked["end_line"], asked["truncated"]) == (3, False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "nothing"}, "NOT_FOUND"),
        ({"path": "nothing", "rev": "HEAD"}, "NOT_FOUND"),
        ({"path": "a.txt", "start_line": 9}, "INVALID_ARGUMENT"),
        ({"path": "a.txt", "start_line": 2, "end_line": 1}, "INVALID_ARGUMENT"),
        ({"path": "a.txt", "rev": "nope"}, "GIT_ERROR"),
        ({"path": "."}, "IS_DIRECTORY"),
        ({"path": "../x"}, "PATH_OUTSIDE_WORKSPACE"),
    ],
)
async def test_what_has_no_lines_is_told_apart(repository, run, arguments, code):
    """W1"""
    with pytest.raises(WorkspaceError) as caught:
        await git_blame(run, **arguments)
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["", "-x", "--output=a.txt", "a\nb", "a\0", "a\r", "\ud800", "x" * 70_000])
async def test_a_revision_is_nothing_but_a_revision(repository, run, name):
    """W2"""
    for call in (git_log(run, ref=name), git_show(run, rev=name), git_blame(run, "a.txt", rev=name)):
        with pytest.raises(WorkspaceError) as caught:
            await call
        assert caught.value.code == "INVALID_ARGUMENT"


async def test_a_path_is_a_name_and_no_pattern(repository, run):
    """W2: nor an option, nor one that has bytes which can't be said."""
    for name in (":(top)", "*.txt", "--output=x", "-z"):
        (repository / name).write_text("x")
        status = await git_status(run, path=name)
        assert [entry["path"] for entry in status["entries"]] == [name]
    with pytest.raises(WorkspaceError) as caught:
        await git_status(run, path="caf\\xe9")
    assert caught.value.code == "INVALID_ARGUMENT"


async def test_thousands_of_changes_are_bounded(repository, run):
    """W1"""
    folder = repository / "many"
    folder.mkdir()
    (repository / "new").write_text("x")
    for number in range(5_000):
        (repository / f"{number}").touch()
    status = await git_status(run, max_entries=50)
    assert (len(status["entries"]), status["truncated"], status["clean"]) == (50, True, False)


async def test_git_that_takes_too_long_ends(repository, run, git):
    """W4, CT-R5: a FIFO where git reads its configuration."""
    (repository / ".git/info/exclude").unlink()
    os.mkfifo(repository / ".git/info/exclude")

    async def short(argv, **more):
        return await run(argv, **(more | {"seconds": 0.5}))

    with pytest.raises(WorkspaceError, match="ended after") as caught:
        await git_status(short)
    assert (caught.value.code, caught.value.retryable) == ("GIT_ERROR", True)


async def test_files_of_somebody_else_are_no_reason_to_refuse(repository, run):
    """E5: git asks whose a repository is because it could run what that names. Here it can't."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    for path in (repository / ".git", repository / ".git/config"):
        os.chown(path, 4242, 4242)
    assert (await git_status(run))["is_repo"] is True


# -- Hostile checkouts ---------------------------------------------------------------------------------------------


@pytest.fixture
def mark(tmp_path_factory):
    """A name of a mark."""
    return tmp_path_factory.mktemp("mark").name


def marks(mark, repository):
    """Where it has been left, on the host."""
    return [*repository.rglob(f"*{mark}.mark"), *Path("/tmp").glob(f"*{mark}.mark")]


async def look_at_everything(tree, runs, until=lambda: False):
    """Each tool; what git does not manage without the programs that it wants is no fault here."""
    for call, arguments in (
        (git_status, {}),
        (git_diff, {"staged": True}),
        (git_log, {}),
        (git_show, {}),
        (git_blame, {"path": "a.txt"}),
    ):
        if not until():
            with contextlib.suppress(WorkspaceError):
                await call(*((tree,) if call is git_diff else ()), runs, **arguments)


def without(run, mark, unwanted):
    """A ``RunProgram`` without some words of git's command line, and what looks for marks in the sandbox's scratch."""
    seen = []

    async def runs(argv, *, variables, **rest):
        argv = ("prlimit", "--nproc=0", "--", *argv)  # as all programs that read have it, but for git alone
        left = {name: value for name, value in variables.items() if not unwanted(name, "")}
        kept = [word for word, before in zip(argv, ("", *argv), strict=False) if not unwanted(word, before)]
        script = f'"$@"; code=$?; ls /tmp/{mark}.mark >&2 2>/dev/null; exit $code'
        ran = await run(("/bin/bash", "-c", script, "-", *kept), variables=left, **rest)
        seen.append(f"/tmp/{mark}.mark".encode() in ran.stderr.splitlines())
        return ran

    return runs, seen


def is_switch(word, before):
    """Whether it switches off by name what git would start."""
    names = {"--no-ext-diff", "--no-textconv", "--no-show-signature", "--ignore-submodules=dirty", "--submodule=short"}
    names |= {"GIT_ALLOW_PROTOCOL", "GIT_NO_LAZY_FETCH"}
    return "-c" in {word, before} or word in names


def is_limit(word, before):
    """Whether it lets git start nothing at all."""
    return "--nproc=0" in {word, before} or word == "prlimit"


@pytest.mark.parametrize("way", hostile_repositories.WAYS, ids=lambda way: way.__name__)
async def test_a_hostile_checkout_starts_nothing(server, repository, run, tree, git, way, mark):
    """P31, W4, E9, CT-E5, CT-E6: nor in the sandbox, whose own scratch would have the mark.

    The switches of git's own hold alone where there are any, else the limit of processes does. The last wall is the
    sandbox: git without care starts it, where nothing of the host can be written.
    """
    way(repository, git, _canary(mark))
    (repository / "a.txt").write_text("one\ntwo\nTHREE\n")  # as long as before: git must read it
    if way is not hostile_repositories.partial_clone:
        assert (await git_status(run))["is_repo"] is True
        assert (await git_diff(tree, run, staged=True))["is_repo"] is True
        assert (await git_blame(run, "a.txt"))["is_repo"] is True
    within = careless(server[1], repository.name)
    runs, seen = without(within, mark, is_switch if way in hostile_repositories.FILTERS else is_limit)
    await look_at_everything(tree, runs)
    assert len(seen) >= 7
    assert not any(seen)
    runs, seen = without(within, mark, lambda word, before: is_switch(word, before) or is_limit(word, before))
    await look_at_everything(tree, runs, until=lambda: any(seen))
    assert any(seen) is (way not in hostile_repositories.IN_VAIN)
    assert marks(mark, repository) == []


def _canary(mark):
    """A command that leaves marks: in the workspace, which is where git starts it, and in the scratch."""
    return f"touch {mark}.mark; touch /tmp/{mark}.mark"


async def test_a_file_under_a_filter_is_compared_as_it_is(repository, run, tree, git):
    """W1: and a filter that is required does not make git give up."""
    hostile_repositories.required_filter(repository, git, "cat")
    (repository / "a.txt").write_text("one\ntwo\nTHREE\n")
    status = await git_status(run)
    assert [entry["path"] for entry in status["entries"]] == ["a.txt", ".gitattributes"]
    assert any("filter" in warning for warning in status["warnings"])
    assert "+THREE" in (await git_diff(tree, run))["diff"]
