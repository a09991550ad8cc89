"""What is kept of files that programs have left: bounded, and for its owner alone (E3)."""

from pathlib import Path

import pytest
from tests.cases import for_each

from gloveport.artifacts.artifact_store import ArtifactBounds, ArtifactStore, Bundle
from gloveport.artifacts.media_types import find_type


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def make(**bounds):
        opened.append(ArtifactStore(ArtifactBounds(**bounds), tmp_path))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def left(store, owner, *contents):
    """A bundle with these files, which is kept if there is room."""
    bundle = Bundle(store.directory, owner)
    for number, content in enumerate(contents):
        bundle.begin()
        bundle.write(content)
        bundle.end(f"{number}.txt", f"/out/{number}.txt")
    return bundle, store.keep(bundle)


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def uris(bundle):
    return [one.uri for one in bundle.files]


def test_files_of_one_run_are_apart_whether_they_lie_in_memory_or_in_a_file(open_store):
    store = open_store()
    contents = b"a" * 10, b"", b"b" * 200_000, b"c"
    bundle, _ = left(store, "me", *contents)
    for uri, content in zip(uris(bundle), contents, strict=True):
        assert store.find(uri, "me").read(0, 1 << 20) == content
    assert store.find(uris(bundle)[2], "me").read(199_998, 100) == b"bb"
    assert [one.bytes for one in bundle.files] == [10, 0, 200_000, 1]
    assert bundle.files[3].sha256 == "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6"


def test_nobody_else_finds_them_and_foreign_is_as_unknown(open_store):
    """A3."""
    store = open_store()
    bundle, _ = left(store, "me", b"mine")
    (uri,) = uris(bundle)
    assert store.find(uri, "me")
    for foreign, owner in (
        (uri, "you"),
        (uri, ""),
        (f"{uri}0", "me"),
        (uri[:-1] + "0", "me"),
        (uri[:-1] + "2", "me"),
        (uri.upper(), "me"),
        (f"{uri}\n", "me"),
        (uri.replace("/1", "/-1"), "me"),
        ("artifact://", "me"),
    ):
        assert store.find(foreign, owner) is None, foreign


def test_a_list_names_the_files_of_its_owner_alone_and_the_newest_run_first(open_store):
    """A3."""
    store = open_store()
    one, _ = left(store, "me", b"a", b"b")
    left(store, "you", b"c")
    other, _ = left(store, "me", b"d")
    assert [file.uri for file in store.list_files("me")] == [*uris(other), *uris(one)]
    assert store.list_files("nobody") == []


def test_an_id_has_128_random_bits(open_store):
    store = open_store()
    ids = {left(store, "me", b"")[0].id for _ in range(50)}
    assert len(ids) == 50
    assert {len(bytes.fromhex(one)) for one in ids} == {16}


def test_they_are_forgotten_in_time(open_store):
    store = open_store(seconds=0)
    bundle, _ = left(store, "me", b"x")
    assert store.find(uris(bundle)[0], "me") is None


def test_the_oldest_of_a_caller_go_when_that_caller_has_too_many(open_store):
    store = open_store(caller_bytes=100)
    first, second = (left(store, "me", b"x" * 50)[0] for _ in range(2))
    other, _ = left(store, "you", b"y" * 90)
    third, _ = left(store, "me", b"x" * 40)
    assert store.find(uris(first)[0], "me") is None
    assert [store.find(uris(one)[0], "me") is not None for one in (second, third)] == [True, True]
    assert store.find(uris(other)[0], "you")


def test_the_oldest_of_whoever_has_the_most_go_when_all_have_too_many(open_store):
    """T7: who leaves little does not suffer for who leaves much."""
    store = open_store(total_bytes=100, caller_bytes=90)
    small, _ = left(store, "you", b"y" * 10)
    large = [left(store, "me", b"x" * 30)[0] for _ in range(4)]
    assert store.find(uris(small)[0], "you")
    assert [store.find(uris(one)[0], "me") is not None for one in large] == [False, True, True, True]


def test_what_is_too_much_alone_is_not_kept(open_store):
    store = open_store(caller_bytes=100)
    bundle, is_kept = left(store, "me", b"x" * 101)
    assert not is_kept
    assert store.find(uris(bundle)[0], "me") is None


def test_runs_are_bounded_and_nothing_has_a_name_on_the_disk(open_store, tmp_path):
    store = open_store(runs=3)
    before = open_descriptors()
    bundles = [left(store, f"caller {number}", b"x" * 100_000)[0] for number in range(6)]
    assert open_descriptors() == before + 3
    assert [one for one in bundles if store.find(uris(one)[0], one.owner)] == bundles[3:]
    assert list(Path(tmp_path).iterdir()) == []
    store.close()
    assert open_descriptors() == before


@for_each(
    "path, head, kind",
    [
        ("a.csv", b"a,b\n", "text/csv"),
        ("a.csv", b"\x89PNG\r\n\x1a\n", "image/png"),  # what it holds counts
        ("a.png", b"<script>", "text/plain"),
        ("a.svg", b"<svg><script>", "image/svg+xml"),
        ("a.html", b"<script>", "text/html"),
        ("a.html", b"\xff\xfe<", "application/octet-stream"),
        ("a", b"%PDF-1.7", "application/pdf"),
        ("a.xlsx", b"PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("a.bin", b"a\0b", "application/octet-stream"),
        ("a.txt", "é".encode()[:1], "text/plain"),  # cut within a character
        ("a.txt", b"", "text/plain"),
    ],
)
def test_a_type_is_told_by_what_a_file_holds_before_its_name(path, head, kind):
    assert find_type(path, head) == kind
