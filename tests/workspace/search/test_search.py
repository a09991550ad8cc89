"""Text search with both engines, in real sandboxes."""

import functools
import os
import shutil
import subprocess
import time
from itertools import repeat
from pathlib import Path

import pytest
from tests.call_count import counting_calls
from tests.workspace.sandboxed import fork_server, running

import gloveport
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.walk import Walk, WalkBounds
from gloveport.workspace.search import answer as search_answer
from gloveport.workspace.search import engines, search_text
from gloveport.workspace.search.matches import MAX_OUTPUT_BYTES

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """A fork server for all tests; each has a directory of its own in its workspace."""
    root = tmp_path_factory.mktemp("search").resolve()
    async with fork_server(root) as running:
        yield root, running


@pytest.fixture
def root(server, tmp_path):
    """The workspace of one test."""
    root = server[0] / tmp_path.name
    root.mkdir()
    return root


@pytest.fixture
async def run(server, root):
    """What the tools run engines with."""
    async with running(server[1], root.name) as run:
        yield run


@pytest.fixture(params=["rg", "python"])
def engine(request):
    """Each engine."""
    if request.param == "rg" and not shutil.which("rg"):
        pytest.skip("ripgrep is not there")
    return request.param


@pytest.fixture
def search(tree, run, engine):
    """``await search(query, **arguments)``."""
    return functools.partial(search_text, tree, run, engine=engine)


def files(answer):
    return [match["path"] for match in answer["matches"]]


def write(root, **texts):
    """Files by their names, with ``__`` for ``/`` and one ``_`` for a dot."""
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


async def test_a_match_is_told_with_its_place_in_characters(search, root, engine):
    """W1"""
    write(root, a_txt="nothing\nxéß foo FOO\r\n", b_txt="foo")
    answer = await search("Foo")
    assert answer["matches"] == [
        {"path": "a.txt", "line": 2, "column": 5, "preview": "xéß foo FOO", "before": [], "after": []},
        {"path": "b.txt", "line": 1, "column": 1, "preview": "foo", "before": [], "after": []},
    ]
    assert (answer["total_matches"], answer["total_matches_exact"], answer["truncated"]) == (2, True, False)
    assert (answer["engine"], answer["truncated_by"], answer["warnings"]) == (engine, None, [])
    assert (answer["output_lines"], answer["output_bytes"]) == (2, 16)


async def test_capital_letters_differ_when_they_shall(search, root):
    """W1"""
    write(root, a_txt="Foo\nfoo\nÄ\nä\n")
    assert [match["line"] for match in (await search("foo", case_sensitive=True))["matches"]] == [2]
    assert [match["line"] for match in (await search("ä"))["matches"]] == [3, 4]


async def test_a_query_is_plain_text_unless_it_is_said_to_be_an_expression(search, root):
    """W1"""
    write(root, a_txt="a.c\nabc\n")
    assert (await search("a.c"))["total_matches"] == 1
    assert (await search("a.c", regex=True))["total_matches"] == 2
    assert (await search("b?c$", regex=True))["total_matches"] == 2


async def test_the_lines_beside_a_match_come_with_it_and_those_that_match_too(search, root):
    """W1"""
    write(root, a_txt="1\n2\nfoo 3\nfoo 4\n5\n6\n7\n8\n9\nfoo 10", b_txt="foo\nnext\n")
    answer = await search("foo", context_lines=2)
    assert [(match["before"], match["after"]) for match in answer["matches"]] == [
        (["1", "2"], ["foo 4", "5"]),
        (["2", "foo 3"], ["5", "6"]),
        (["8", "9"], []),
        ([], ["next"]),
    ]
    assert (await search("foo", context_lines=2, max_results=1))["matches"] == answer["matches"][:1]


async def test_hidden_ignored_and_built_files_are_left_out_and_found_where_their_directory_is_named(search, root):
    """W1: a .gitignore counts outside of a repository too."""
    write(root, a_txt="foo", _hidden="foo", build__x="foo", target__m__x="foo", ignored_txt="foo", sub__i_log="foo")
    (root / ".gitignore").write_text("ignored.txt\n/sub/*.log\n")
    assert files(await search("foo")) == ["a.txt"]
    assert files(await search("foo", path="build")) == ["build/x"]
    assert files(await search("foo", path="build/x")) == ["build/x"]
    assert files(await search("foo", path="sub")) == []
    assert files(await search("foo", include_globs=("*",))) == ["a.txt"]
    assert files(await search("foo", include_globs=("sub/**", "ignored.txt", ".*"))) == []


async def test_hidden_and_ignored_files_are_found_where_that_is_asked_for(search, root):
    """W1: but for git's own, where each object would be searched."""
    write(root, a_txt="foo", _github__w_yml="foo", src__build__g_py="foo", i_log="foo", _git__config="foo")
    write(root, sub___git__x="foo", target__m="foo", sub___hidden__build__x="foo")
    (root / ".gitignore").write_text("*.log\n")
    usual, hidden = ["a.txt"], [".github/w.yml"]
    ignored = ["i.log", "src/build/g.py", "target/m"]
    assert files(await search("foo")) == usual
    assert sorted(files(await search("foo", include_hidden=True))) == sorted(usual + hidden)
    assert sorted(files(await search("foo", include_ignored=True))) == sorted(usual + ignored)
    both = await search("foo", include_hidden=True, include_ignored=True)
    assert sorted(files(both)) == sorted([*usual, *hidden, *ignored, "sub/.hidden/build/x"])
    globs = {"include_globs": ("*",)}
    assert sorted(files(await search("foo", include_ignored=True, **globs))) == sorted(usual + ignored)
    assert sorted(files(await search("foo", include_hidden=True, **globs))) == sorted(usual + hidden)
    assert files(await search("foo", path="src/build", include_ignored=True, **globs)) == ["src/build/g.py"]
    assert files(await search("foo", path="sub", include_hidden=True, **globs)) == []


async def test_an_answer_goes_on_where_another_ended(search, root):
    write(root, **{f"{name}_txt": "foo\nfoo\nbar\n" for name in "abc"})
    first = await search("foo", max_results=4)
    assert (len(first["matches"]), first["next_offset"], first["total_matches"]) == (4, 4, 6)
    rest = await search("foo", max_results=4, offset=first["next_offset"], context_lines=1)
    assert [(match["path"], match["line"]) for match in rest["matches"]] == [("c.txt", 1), ("c.txt", 2)]
    assert rest["matches"][0]["after"] == ["foo"]
    assert "next_offset" not in rest
    assert not rest["truncated"]
    assert (await search("foo", offset=6))["matches"] == []


async def test_files_alone_are_told_with_the_number_of_their_lines(search, root):
    write(root, a_txt="foo\nbar\nfoo\n", b_txt="bar", c_txt="foo foo", _hidden="foo")
    answer = await search("foo", files_only=True, context_lines=2)
    assert answer["files"] == [{"path": "a.txt", "lines": 2}, {"path": "c.txt", "lines": 1}]
    assert (answer["matches"], answer["total_matches"], answer["truncated"]) == ([], 3, False)
    page = await search("foo", files_only=True, max_results=1)
    assert (page["files"], page["next_offset"], page["truncated_by"]) == ([{"path": "a.txt", "lines": 2}], 1, "results")
    page = await search("foo", files_only=True, max_results=1, offset=1, include_globs=("*.txt",))
    assert page["files"] == [{"path": "c.txt", "lines": 1}]


@pytest.mark.parametrize("size", [3 << 20])
async def test_a_match_in_a_long_line_is_told_with_the_text_about_it(search, root, size):
    write(root, long_txt="x" * (size // 4) + "needle" + "y" * size)
    answer = await search("needle")
    assert answer["total_matches"] == 1, answer
    assert "needle" in answer["matches"][0]["preview"]


@pytest.mark.parametrize(
    ("includes", "excludes", "found"),
    [
        (("*.py",), (), ["a.py", "sub/b.py", "sub/deep/c.py"]),
        (("*.{py,md}",), ("deep",), ["a.py", "d.md", "sub/b.py"]),
        (("sub/*.py",), (), ["sub/b.py"]),
        (("/*.py",), (), ["a.py"]),
        (("sub/**",), ("*.py",), []),
        (("**/deep/*",), (), ["sub/deep/c.py"]),
        ((), ("sub",), ["!x", "#y", "-z", "a.py", "d.md"]),
        ((), ("sub/**", "[ad].*"), ["!x", "#y", "-z"]),
        (("!x", "#y", "-z"), (), ["!x", "#y", "-z"]),
        ((), ("!x", "#y", "-z", "*.*"), []),
    ],
)
async def test_globs_choose_files_and_none_of_them_is_an_option(search, root, includes, excludes, found):
    """W1"""
    for name in ("!x", "#y", "-z", "a.py", "d.md", "sub/b.py", "sub/deep/c.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("foo")
    assert files(await search("foo", include_globs=includes, exclude_globs=excludes)) == found


async def test_results_are_limited_and_still_counted(search, root):
    """W1"""
    write(root, a_txt="foo\n" * 500)
    answer = await search("foo", max_results=10)
    assert (len(answer["matches"]), answer["total_matches"], answer["total_matches_exact"]) == (10, 500, True)
    assert (answer["truncated"], answer["truncated_by"], answer["output_lines"]) == (True, "results", 10)


async def test_a_preview_is_bounded_and_holds_the_match(search, root):
    """W1: characters are not cut in two."""
    write(root, a_txt="ü" * 5000 + "foo" + "ü" * 5000, b_txt="foo" + "x" * 200)
    first, second = (await search("foo", max_preview_bytes=100, context_lines=1))["matches"]
    assert first["column"] == 5001
    assert "foo" in first["preview"]
    assert first["preview"].startswith("…ü")
    assert first["preview"].endswith("ü…")
    assert len(first["preview"].encode()) <= 100
    assert (first["preview_truncated"], first["preview_truncated_by"]) == (True, "bytes")
    assert second["preview"] == "foo" + "x" * 94 + "…"


async def test_an_answer_is_bounded_whatever_lines_it_is_made_of(search, root):
    """W1, CT-R4"""
    for number in range(4):
        (root / f"{number}.txt").write_text(("foo" + "x" * 4096 + "\n") * 400)
    answer = await search("foo", max_preview_bytes=4096, max_results=10_000)
    assert answer["truncated_by"] == "bytes"
    assert answer["output_bytes"] <= MAX_OUTPUT_BYTES
    assert 400 < len(answer["matches"]) < 1600


async def test_a_line_without_end_does_not_fill_the_memory(search, root):
    """CT-R4: of a line the engine's output holds more than an answer does; then there is no more."""
    write(root, a_txt=b"foo" + b"x" * (20 << 20), b_txt="foo")
    answer = await search("foo")
    assert answer["truncated"] or answer["total_matches"] == 2
    assert answer["output_bytes"] <= MAX_OUTPUT_BYTES


async def test_fifos_and_sparse_and_binary_files_stop_nobody(search, root):
    """CT-R5, CT-R4"""
    write(root, a_bin=b"\0foo", z_txt="foo")
    os.mkfifo(root / "fifo")
    with (root / "sparse").open("wb") as file:
        file.truncate(700 << 20)
    (root / "link").symlink_to("z.txt")
    assert files(await search("foo")) == ["z.txt"]
    with pytest.raises(WorkspaceError, match="FIFO") as caught:
        await search("foo", path="fifo")
    assert caught.value.code == "NOT_A_FILE"


async def test_a_text_that_is_not_utf_8_is_searched_and_so_are_names(search, root):
    """W2: names in their one spelling."""
    (root / os.fsdecode(b"caf\xe9")).write_bytes(b"\xff\xfe foo \xe9\n".replace(b"\xff\xfe", b"\xff"))
    (root / "line\nend").write_text("\nfoo")
    first, second = (await search("foo"))["matches"]
    assert (first["path"], first["preview"], first["column"]) == ("caf\\xe9", "� foo �", 3)
    assert (second["path"], second["line"]) == ("line\\x0aend", 2)


async def test_a_byte_order_mark_is_no_column(search, root):
    """W1"""
    write(root, a_txt=b"\xef\xbb\xbffoo\n")
    assert (await search("^foo", regex=True))["matches"][0]["column"] == 1


@pytest.mark.parametrize("expression", ["(", "a{1000}{1000}{1000}", "[z-a]"])
async def test_an_expression_that_the_engine_refuses_is_told_in_its_words(search, root, engine, expression):
    """W1"""
    if engine == "python" and "1000" in expression:
        expression = "a{2,1}"  # Python takes the other
    write(root, a_txt="foo")
    with pytest.raises(WorkspaceError) as caught:
        await search(expression, regex=True)
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "regex" in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"query": ""},
        {"query": "a\nb"},
        {"query": "a\0b"},
        {"query": "\ud800"},
        {"query": "x" * 20_000},
        {"query": "x", "include_globs": ("",)},
        {"query": "x", "exclude_globs": ("a\0",)},
        {"query": "x", "include_globs": ("x",) * 101},
        {"query": "x", "path": "a\0"},
    ],
)
async def test_what_is_no_query_is_refused(search, bad):
    """W2"""
    with pytest.raises(WorkspaceError) as caught:
        await search(**bad)
    assert caught.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc", "ABSOLUTE_PATH_DENIED"),
        ("../x", "PATH_OUTSIDE_WORKSPACE"),
        ("gone", "NOT_FOUND"),
        ("out", "SYMLINK_ESCAPE"),
    ],
)
async def test_a_path_leads_to_nothing_outside(search, root, path, code):
    """W2"""
    (root / "out").symlink_to("/etc")
    with pytest.raises(WorkspaceError) as caught:
        await search("root", path=path)
    assert caught.value.code == code


async def test_a_query_is_no_option(search, root):
    """W2: nor is a path."""
    write(root, a_txt="--pre=./evil\n--files\n")
    (root / "--files").mkdir()
    assert (await search("--pre=./evil"))["total_matches"] == 1
    assert (await search("-e"))["total_matches"] == 0
    assert (await search("x", path="--files"))["total_matches"] == 0


async def test_an_expression_that_explodes_ends_by_its_limit(search, root, engine, tree, run):
    """P38, CT-R6: nobody else waits meanwhile, and what was found before comes back."""
    write(root, a_txt="aa!\n", b_txt="a" * 40 + "!\n")

    async def short(argv, **more):
        return await run(argv, **(more | {"seconds": 2.0}))

    began = time.monotonic()
    answer = await search_text(tree, short, "(a|a)*(a|a)*(a|aa)+$|aa!", regex=True, engine=engine)
    assert time.monotonic() - began < 30
    assert files(answer)[:1] == ["a.txt"]
    if engine == "python":
        assert (answer["truncated_by"], answer["total_matches_exact"]) == ("time", False)


async def test_a_configuration_of_the_workspace_is_not_read(tree, run, root):
    """E5: it could name a program that is run on each file."""
    write(root, a_txt="foo", rg="--pre=/workspace/evil\n--hidden\n", _ripgreprc="--hidden\n")

    async def poisoned(argv, *, variables=None, **more):
        return await run(argv, variables={**(variables or {}), "RIPGREP_CONFIG_PATH": "rg"}, **more)

    assert files(await search_text(tree, poisoned, "foo")) == ["a.txt"]


async def test_engines_that_are_not_there_are_told_apart_from_bad_queries(tree, run):
    """E9: the operator's fault is not the caller's."""

    async def missing(argv, **more):
        return await run(("/nowhere", *argv[1:]), **more)

    with pytest.raises(WorkspaceError) as caught:
        await search_text(tree, missing, "foo")
    assert caught.value.code == "INTERNAL_ERROR"


@pytest.mark.skipif(not shutil.which("rg"), reason="ripgrep is not there")
async def test_both_engines_say_the_same_of_a_real_tree(tree, run, root):
    """W1: of this very source."""
    source = Path(gloveport.__file__).parent
    for name in ("cli", "guest", "hub", "workspace"):
        shutil.copytree(source / name, root / "src" / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("*.css\nsrc/gloveport/cli/\n!main.py\n")
    questions = [
        {"query": "sandbox"},
        {"query": "SANDBOX", "case_sensitive": True},
        {"query": r"def _\w+\(self", "regex": True, "context_lines": 2},
        {"query": r"^from .* import \w+$", "regex": True},
        {"query": "return", "include_globs": ("*.{py,mjs}",), "exclude_globs": ("hub",)},
        {"query": "…"},
        {"query": "class", "path": "src/workspace", "context_lines": 5},
        {"query": r"\bgit\b", "regex": True, "path": "src/workspace/git/invocation.py"},
        {"query": "nothing has these words"},
    ]
    for question in questions:
        one, other = [
            await search_text(tree, run, **question, engine=engine, max_results=300) for engine in ("rg", "python")
        ]
        assert {**one, "engine": ""} == {**other, "engine": ""}


async def test_kinds_of_files_are_told_by_name_and_what_is_ignored_stays_so(search, root):
    (root / ".gitignore").write_text("left.py\n")
    for name in ("a.py", "b.pyi", "c.txt", "left.py", ".hidden.py", "Makefile", "d.weird"):
        (root / name).write_text("foo\n")
    assert files(await search("foo", file_type="py")) == ["a.py", "b.pyi"]
    assert files(await search("foo", file_type="make")) == ["Makefile"]
    assert files(await search("foo", file_type="weird")) == ["d.weird"]
    assert files(await search("foo", file_type="py", include_globs=("b*",))) == ["b.pyi"]
    assert files(await search("foo", file_type="none")) == []


async def test_a_match_may_go_over_several_lines_where_that_is_asked_for(search, root):
    (root / "a.py").write_text("one\ndef f(\n    a,\n):\n    pass\ntwo\ndef f(x): pass\nlast")
    (root / "b.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\xff\n")
    answer = await search(r"def f\([^)]*\)", regex=True, multiline=True, context_lines=1)
    told = [(m["line"], m["column"], m["preview"], m["before"], m["after"]) for m in answer["matches"]]
    assert told == [
        (2, 1, "def f(\n    a,\n):", ["one"], ["    pass"]),
        (7, 1, "def f(x): pass", ["two"], ["last"]),
    ]
    assert [m["line"] for m in (await search("f(\n    a", multiline=True))["matches"]] == [2]
    assert [m["path"] for m in (await search(r"one\r?\ntwo$", regex=True, multiline=True))["matches"]] == ["b.txt"]
    assert (await search(r"^two$", regex=True, multiline=True))["total_matches"] == 2
    (root / "c.txt").write_text("x\nx\ny\nx")
    beside = (await search("x$", regex=True, multiline=True))["matches"]
    assert [(m["line"], m["preview"]) for m in beside] == [(1, "x\nx"), (4, "x")]
    with pytest.raises(WorkspaceError, match="end of a line"):
        await search("a\nb")


@pytest.fixture
def git(root):
    """Run git in the workspace."""

    def run_it(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        environ = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, env=environ)

    return run_it


async def test_what_git_keeps_is_found_wherever_it_lies(search, root, git):
    """W1: `src/build/gen.py`, `.github` and an ignored file that is tracked all the same; not what nobody tracks."""
    for name in ("a.py", "src/build/gen.py", ".github/w.yml", "forced.txt", "sub/forced.txt", "build/new.py", ".new"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("foo\n")
    (root / ".github" / "link").symlink_to("/etc/os-release")
    git("init", "-q")
    git("add", "-f", "a.py", "src", ".github", "forced.txt", "sub")
    (root / ".gitignore").write_text("forced.txt\n")
    found = ["a.py", ".github/w.yml", "forced.txt", "src/build/gen.py", "sub/forced.txt"]
    assert files(await search("foo")) == found
    told = await search("foo", files_only=True)
    assert [file["path"] for file in told["files"]] == found
    assert files(await search("foo", "src")) == ["src/build/gen.py"]
    assert files(await search("foo", include_globs=("*.py",))) == ["a.py", "src/build/gen.py"]
    assert files(await search("foo", file_type="yml")) == [".github/w.yml"]
    assert files(await search("foo", exclude_globs=("build", "*.txt"))) == ["a.py", ".github/w.yml"]
    page = await search("foo", offset=3, max_results=1)
    assert (files(page), page["next_offset"], page["total_matches"]) == (["src/build/gen.py"], 4, 5)
    everything = await search("foo", include_hidden=True, include_ignored=True)
    assert sorted(files(everything)) == sorted([*found, "build/new.py", ".new"])
    assert sorted(files(await search("foo", include_ignored=True))) == sorted([*found, "build/new.py"])
    assert files(await search("NAME")) == []
    (root / "forced.txt").unlink()
    git("rm", "-q", "-f", "--cached", "src/build/gen.py")
    assert files(await search("foo")) == ["a.py", ".github/w.yml", "sub/forced.txt"]


async def test_rules_and_globs_are_not_compared_with_what_git_keeps_while_others_wait(search, root, git):
    """W1, P38: that may be thousands of files below thousands of directories."""
    (root / ".x").write_text("foo\n")
    git("init", "-q")
    git("add", "-f", ".x")
    with counting_calls(engines.choose_files) as calls:
        assert files(await search("foo")) == [".x"]
    assert not calls


async def test_files_are_not_chosen_for_longer_than_a_search_takes(monkeypatch):
    """W1, P38: the directories above each may be compared with a hundred globs."""
    question = engines.SearchQuery(
        expression="x", regex=False, case_sensitive=False, path=".", includes=(), excludes=("y",), context=0
    )
    assert engines.choose_files(question, repeat(b"a/b", 3)) == ([b"a/b"] * 3, None)
    monkeypatch.setattr(engines, "SECONDS", 0.0)
    chosen, cut = engines.choose_files(question, repeat(b"a/b", 1_000_000))
    assert (len(chosen) < 1_000_000, cut) == (True, "time")


@pytest.mark.parametrize("engine", ["python"])
async def test_the_total_of_a_search_for_which_not_all_files_were_found_is_not_exact(search, root, monkeypatch):
    """W1: ripgrep walks by itself, we look at so many names."""
    write(root, a_txt="foo\n", b_txt="foo\n", c_txt="foo\n")
    monkeypatch.setattr(engines, "Walk", functools.partial(Walk, bounds=WalkBounds(names=2)))
    for answer in (await search("foo"), await search("foo", files_only=True)):
        assert (answer["total_matches"], answer["total_matches_exact"]) == (2, False)
        assert (answer["truncated_by"], answer["warnings"]) == (
            "names",
            ["there are too many files: not all were searched"],
        )


async def test_nor_is_it_exact_where_git_keeps_too_many_files_that_are_left_out(search, root, git, monkeypatch):
    write(root, a_txt="foo\n", _x="foo\n", _y="foo\n")
    git("init", "-q")
    git("add", ".")
    assert (await search("foo"))["total_matches_exact"]
    monkeypatch.setattr(search_answer, "_MOST_TRACKED", 1)
    cut = await search("foo")
    assert (cut["total_matches"], cut["total_matches_exact"], cut["truncated_by"]) == (2, False, "names")
