"""The boundary: what a path may lead to, and what a program that changes the tree meanwhile can do about it."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.call_count import counting_calls

from gloveport.errors import ConfigError
from gloveport.openat2 import open_beneath
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import check_path, raw, spell_path
from gloveport.workspace.files.tree import Tree

READS, PLACES = 6_000, 3_000


def refusal(tree: Tree, kind: str, path: str) -> str:
    with pytest.raises(WorkspaceError) as caught, getattr(tree, kind)(path):
        pass
    return caught.value.code


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def content(tree: Tree, path: str) -> bytes:
    with tree.open_file(path) as opened:
        return os.read(opened.descriptor, 100)


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("", "INVALID_ARGUMENT"),
            ("a\0b", "INVALID_ARGUMENT"),
            ("a\ud800", "INVALID_ARGUMENT"),
            ("/etc/passwd", "ABSOLUTE_PATH_DENIED"),
            ("C:\\x", "ABSOLUTE_PATH_DENIED"),
            ("c:/x", "ABSOLUTE_PATH_DENIED"),
            ("..", "PATH_OUTSIDE_WORKSPACE"),
            ("a/../b", "PATH_OUTSIDE_WORKSPACE"),
            ("./../x", "PATH_OUTSIDE_WORKSPACE"),
            ("a" * 256, "INVALID_ARGUMENT"),
            ("a/" * 3000, "INVALID_ARGUMENT"),
        ],
    )
    @pytest.mark.parametrize("kind", ["open_file", "open_directory", "locate"])
    def test_a_path_that_can_lead_outside_is_refused_as_it_stands(self, tree, kind, path, code):
        """W2."""
        assert refusal(tree, kind, path) == code

    @pytest.mark.parametrize("path", ["a/" * 3000, "x" * 256, "d/" + "é" * 128, "\\xff" * 256, "/" + "y" * 5000])
    @pytest.mark.parametrize("kind", ["open_file", "open_directory", "locate"])
    def test_what_no_file_system_takes_is_refused_in_a_short_message_whatever_is_there(self, tree, kind, path):
        """W2, CT-G6: the directory that is missing here would have been made before the name was seen."""
        with pytest.raises(WorkspaceError) as caught, getattr(tree, kind)(path):
            pass
        assert caught.value.code == "INVALID_ARGUMENT"
        assert len(str(caught.value.args[0])) < 400

    @pytest.mark.parametrize("path", ["d/" * 1000 + "f", "d" * 250 + "/" + "e" * 250, "../" + "d" * 250, "d/" * 400])
    @pytest.mark.parametrize("kind", ["open_file", "open_directory", "locate"])
    def test_a_long_path_is_cut_in_messages(self, tree, root, kind, path):
        """CT-G6: a model has to read them."""
        (root / "d").touch()
        (root / ("d" * 250)).touch()
        with pytest.raises(WorkspaceError) as caught, getattr(tree, kind)(path):
            pass
        assert len(str(caught.value.args[0])) < 400

    @pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "\\xff" * 255])
    def test_the_longest_names_are_taken(self, tree, root, name):
        """W2."""
        (Path(os.fsdecode(os.fsencode(root) + b"/" + raw(name)))).write_bytes(b"text")
        assert content(tree, name) == b"text"

    @pytest.mark.parametrize("path", ["a/b", "./a/b", "a//b/", "a/./b/."])
    def test_a_path_has_one_spelling(self, path):
        """W2."""
        assert check_path(path) == "a/b"
        assert check_path(".//") == "."

    @given(st.binary(min_size=1, max_size=40).filter(lambda name: not set(name) & set(b"\0/")))
    def test_a_name_of_any_bytes_is_unicode_and_comes_back(self, name):
        """W2."""
        assert raw(spell_path(name)) == name
        json.dumps(spell_path(name), ensure_ascii=False).encode()
        assert not any(unicodedata.category(sign) == "Cc" for sign in spell_path(name))  # it ends no line of an answer

    @given(st.text(st.sampled_from("\\x5c8fé/0a1\n\x1b\x9b"), min_size=1, max_size=20))
    def test_what_looks_like_an_escape_and_is_a_name_comes_back(self, name):
        """W2."""
        assert raw(spell_path(name.encode())) == name.encode()

    def test_a_dot_or_a_slash_can_not_be_hidden_in_an_escape(self):
        """W2."""
        for path in ("\\x2e\\x2e/x", "a\\x2fb", "\\x00"):
            assert raw(path) == path.encode()

    def test_a_name_that_is_not_utf_8_is_read_and_written_by_its_spelling(self, tree, root):
        """W2."""
        (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))).write_bytes(b"latin")
        assert content(tree, "caf\\xe9") == b"latin"
        with tree.locate("caf\\xe9") as place:
            assert (place.path, os.fsencode(place.name)) == ("caf\\xe9", b"caf\xe9")
            assert place.status is not None


class TestWhatIsThere:
    def test_links_inside_are_followed_and_the_answer_says_where_to(self, tree, root):
        """W2."""
        (root / "real").mkdir()
        (root / "real/file").write_bytes(b"text")
        (root / "deep").mkdir()
        (root / "deep/link").symlink_to("../real")
        with tree.open_file("deep/link/file") as opened:
            assert (opened.path, opened.status.st_size) == ("real/file", 4)
        with tree.open_directory("deep/link") as opened:
            assert opened.path == "real"
        with tree.locate("deep/link/new") as place:
            assert (place.path, place.name, place.missing, place.status) == ("real/new", "new", (), None)

    @pytest.mark.parametrize("target", ["/etc", "../outside", "../workspace/../outside", "/proc/self/root/etc"])
    def test_links_to_outside_are_refused(self, tree, root, target):
        """W2."""
        (root.parent / "outside").mkdir()
        (root.parent / "outside/passwd").write_bytes(b"secret")
        (root / "link").symlink_to(target)
        (root / "last").symlink_to(f"{target}/passwd")
        assert refusal(tree, "open_file", "link/passwd") == "PATH_OUTSIDE_WORKSPACE"
        assert refusal(tree, "open_file", "last") == "SYMLINK_ESCAPE"
        assert refusal(tree, "open_directory", "link") == "SYMLINK_ESCAPE"
        assert refusal(tree, "locate", "link/passwd") == "PATH_OUTSIDE_WORKSPACE"
        assert refusal(tree, "locate", "link/new/file") == "PATH_OUTSIDE_WORKSPACE"
        assert refusal(tree, "locate", "last") == "SYMLINK_ESCAPE"

    def test_links_that_lead_nowhere_or_in_a_circle_are_no_place_to_write(self, tree, root):
        """W2: what a link leads to would be made in its place."""
        (root / "nowhere").symlink_to("missing")
        (root / "circle").symlink_to("circle")
        for link in ("nowhere", "circle"):
            assert refusal(tree, "open_file", link) == refusal(tree, "open_directory", link) == "NOT_FOUND"
            assert refusal(tree, "locate", link) == "SYMLINK_ESCAPE"
        assert refusal(tree, "locate", "nowhere/a/b") == "SYMLINK_ESCAPE"
        assert refusal(tree, "locate", "circle/a") == "NOT_FOUND"

    def test_a_place_says_which_directories_are_missing(self, tree, root):
        """W2."""
        (root / "a").mkdir()
        with tree.locate("a/b/c/file") as place:
            assert (place.missing, place.name, place.path) == (("b", "c"), "file", "a/b/c/file")
            assert os.path.samestat(os.fstat(place.parent), (root / "a").stat())

    def test_directories_and_files_are_told_apart(self, tree, root):
        """W2."""
        (root / "file").touch()
        (root / "dir").mkdir()
        assert refusal(tree, "open_file", "dir") == refusal(tree, "open_file", ".") == "IS_DIRECTORY"
        assert refusal(tree, "locate", "dir") == refusal(tree, "locate", ".") == "IS_DIRECTORY"
        assert refusal(tree, "open_directory", "file") == "NOT_A_DIRECTORY"
        assert refusal(tree, "open_file", "file/x") == refusal(tree, "locate", "file/x") == "NOT_A_DIRECTORY"
        assert refusal(tree, "open_file", "none") == refusal(tree, "open_directory", "none") == "NOT_FOUND"

    def test_whose_path_is_wrong_hears_how_a_file_is_found(self, tree):
        with pytest.raises(WorkspaceError) as caught, tree.open_file("main.py"):
            pass
        assert "list_files" in caught.value.hint

    def test_what_is_neither_is_refused_at_once(self, tree, root):
        """CT-R5: nobody writes to the FIFO, and nobody waits for that."""
        os.mkfifo(root / "fifo")
        with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(root):  # a longer path is no address
            listening.bind("socket")
            for name in ("fifo", "socket"):
                assert refusal(tree, "open_file", name) == refusal(tree, "locate", name) == "NOT_A_FILE"
        (root / "tty").symlink_to("/dev/tty")
        assert refusal(tree, "open_file", "tty") == "SYMLINK_ESCAPE"

    def test_a_file_that_a_program_holds_a_lease_on_stops_nobody(self, tree, root):
        """CT-R5: an open would wait 45 seconds for it."""
        (root / "file").write_bytes(b"text")
        holder = os.open(root / "file", os.O_RDWR)
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(WorkspaceError, match="changed at each") as caught, tree.open_file("file"):
                pass
            assert caught.value.retryable
        finally:
            os.close(holder)
            signal.signal(signal.SIGIO, before)

    def test_no_descriptor_is_left(self, tree, root):
        """E5."""
        (root / "file").touch()
        (root / "link").symlink_to("file")
        (root / "out").symlink_to("/etc")
        before = descriptors()
        for path in ("file", "link", "out", "out/passwd", "none", "."):
            for kind in (tree.open_file, tree.open_directory, tree.locate):
                with contextlib.suppress(WorkspaceError), kind(path):
                    pass
        assert descriptors() == before


class TestProtected:
    @pytest.mark.parametrize(
        "path", [".git/config", ".git/hooks/pre-commit", ".env", "deep/.bashrc", ".vscode/tasks.json", ".GIT/config"]
    )
    def test_what_runs_later_is_read_and_never_written(self, tree, root, path):
        """CT-F5."""
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"text")
        assert content(tree, path) == b"text"
        assert refusal(tree, "locate", path) == "PROTECTED_PATH"

    def test_a_link_is_no_way_around(self, tree, root):
        """CT-F5: neither one that leads there, nor one that stands there."""
        (root / ".git/hooks").mkdir(parents=True)
        (root / "innocent").symlink_to(".git")
        (root / "settings").mkdir()
        (root / ".vscode").symlink_to("settings")
        assert refusal(tree, "locate", "innocent/hooks/pre-commit") == "PROTECTED_PATH"
        assert refusal(tree, "locate", "innocent/new/file") == "PROTECTED_PATH"
        assert refusal(tree, "locate", ".vscode/tasks.json") == "PROTECTED_PATH"

    def test_the_operator_may_exempt_one(self, root):
        """CT-F5."""
        with Tree.open_tree(root, frozenset({".env"})) as tree, tree.locate(".env") as place:
            assert place.path == ".env"


class TestTheRoot:
    def test_it_stays_the_directory_it_was(self, tree, root):
        """W2."""
        (root / "file").write_bytes(b"inside")
        (root / "link").symlink_to("file")
        root.rename(root.parent / "elsewhere")
        root.mkdir()
        assert content(tree, "file") == content(tree, "link") == b"inside"

    def test_it_must_be_a_directory_by_its_real_path(self, root):
        """T3."""
        (root / "file").touch()
        (root.parent / "link").symlink_to(root)
        (root.parent / "circle").symlink_to("circle")
        above = root.parent
        for wrong in (root / "none", root / "file", above / "link", above / "circle", root / "../workspace", Path()):
            with pytest.raises(ConfigError, match="hint"), Tree.open_tree(wrong):
                pass

    def test_who_may_not_search_it_is_told_so(self):
        """Not that the kernel is too old. Root may search all, so it is another user's process that tries."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            closed = Path(place, "closed")
            closed.mkdir()
            Path(place).chmod(0o755)
            closed.chmod(0o600)
            child = os.fork()
            if child == 0:
                if os.geteuid() == 0:
                    os.setresuid(65533, 65533, 65533)
                try:
                    with Tree.open_tree(closed):
                        pass
                except ConfigError as error:
                    os._exit("look into" not in str(error))
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestRaces:
    """P29, W2, CT-F3, CT-F4: another process exchanges names as fast as the kernel lets it."""

    def test_reads_read_nothing_outside(self, tree, root, exchanging):
        """CT-F3."""
        paths = ("dir/file", "file", "one/two/back", "way/file")
        codes: Counter[str] = Counter()
        with exchanging(root) as exchanges:
            for number in range(READS):
                codes[attempt(lambda path: content(tree, path), paths[number % 4])] += 1
        assert set(codes) <= {"inside", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE"}
        assert_raced(codes, READS, exchanges())

    def test_writes_write_nothing_outside(self, tree, root, exchanging):
        """CT-F4."""
        codes: Counter[str] = Counter()
        with exchanging(root) as exchanges:
            for number in range(PLACES):
                codes[attempt(lambda path: write(tree, path), ("dir/new", "file", "way/new")[number % 3])] += 1
        outside = root.parent / "outside"
        assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": b"outside"}
        assert set(codes) <= {"inside", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE"}
        assert_raced(codes, PLACES, exchanges())


def assert_raced(codes: Counter[str], tries: int, exchanges: int) -> None:
    """That the tries met both sides of the exchange, and often: else nothing has been tried."""
    assert codes.total() == tries
    assert exchanges > tries // 20
    assert codes["inside"] > tries // 20
    assert tries - codes["inside"] > tries // 20


def attempt(act: Callable[[str], bytes], path: str) -> str:
    try:
        return act(path).decode()
    except WorkspaceError as error:
        return error.code


def write(tree: Tree, path: str) -> bytes:
    with tree.locate(path) as place:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
            os.close(os.open(place.name, flags, dir_fd=place.parent))
        except OSError:  # a link since: ELOOP
            return b"SYMLINK_ESCAPE"
        return b"inside"


@pytest.mark.parametrize("existing", [0, 1, 7, 199, 200])
def test_few_looks_find_how_much_of_a_deep_path_is_missing(tree, root, existing):
    """W1: links make each look cost milliseconds, and a path has 2,000 parts."""
    (root / "link").symlink_to(".")
    parts = ["link", *["d"] * 1999]
    root.joinpath(*parts[1:existing]).mkdir(parents=True, exist_ok=True)
    with counting_calls(open_beneath) as calls, tree.locate("/".join([*parts, "x"])) as place:
        assert len(place.missing) == 1999 - max(existing - 1, 0)
    assert len(calls) < 50


class TestOneMount:
    """Of the machine's own root: there is no need to mount anything."""

    @pytest.fixture
    def machine(self):
        descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY)
        yield Tree(Path("/"), frozenset(), descriptor)
        os.close(descriptor)

    def test_what_lies_in_another_mount_is_not_opened(self, machine):
        """W1, CT-R5: a file system that never answers is not even asked."""
        assert content(machine, "proc/version").startswith(b"Linux")
        within = machine.within_one_mount()
        for kind in ("open_file", "open_directory", "locate"):
            assert refusal(within, kind, "proc/version") == "PATH_OUTSIDE_WORKSPACE"
        assert refusal(within, "locate", "proc/no/such") == "PATH_OUTSIDE_WORKSPACE"
        assert content(machine, "proc/version").startswith(b"Linux")

    def test_what_lies_in_the_same_mount_is_the_same(self, tree, root):
        """W1."""
        (root / "d").mkdir()
        (root / "d/file").write_bytes(b"text")
        (root / "link").symlink_to("d")
        within = tree.within_one_mount()
        assert content(within, "link/file") == b"text"
        with within.locate("link/new/file") as place:
            assert place.path == "d/new/file"
