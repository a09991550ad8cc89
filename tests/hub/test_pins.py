"""What was accepted of a server's tools stays what it was, until a person has accepted something else. H5, T2."""

import json
import os
import stat

import pytest
from tests import forked
from tests.hub.schemas import HOSTILE, definition

from gloveport.errors import ConfigError
from gloveport.hub.pins import Pins, compare, differences

HERE, ELSEWHERE = "program-1", "program-2"


def tool(name, description="does something"):
    return definition({"type": "object", "properties": {"a": {"type": "string"}}}, name=name, description=description)


@pytest.fixture
def pins(tmp_path):
    return Pins(tmp_path / "state" / "pins")


def names(offer):
    return tuple([tool.name for tool in part] for part in (offer.unchanged, offer.new, offer.changed, offer.missing))


def test_the_first_that_is_seen_of_a_server_is_accepted(pins):
    """H5: trust on first use, and once only."""
    assert pins.load("github", HERE) is None
    pins.accept_all("github", HERE, [tool("b"), tool("a")])
    assert pins.load("github", HERE) == (tool("a"), tool("b"))
    pins.accept_all("github", HERE, [tool("evil")])
    assert pins.load("github", HERE) == (tool("a"), tool("b"))
    assert pins.load("other", HERE) is None


def test_what_is_new_or_changed_is_told_from_what_was_accepted():
    """H5: a changed one is reported before it is used."""
    accepted = [tool("same"), tool("changed"), tool("gone")]
    offered = [tool("same"), tool("changed", "now does something else"), tool("new")]
    assert names(compare(accepted, offered)) == (["same"], ["new"], ["changed"], ["gone"])
    assert compare(accepted, offered).changed[0].description == "now does something else"


def test_every_change_counts():
    """H5, P24: also one of the annotations, and of the schemas."""
    before = tool("a")
    for change in (
        {"title": "x"},
        {"description": "does something "},
        {"read_only": True},
        {"destructive": False},
        {"input_schema": {}},
        {"output_schema": {}},
    ):
        after = definition(schema={}).model_copy(update={**before.model_dump(), **change})
        assert compare([before], [after]).changed == (after,)
        assert differences(before, after)


def test_of_two_tools_with_one_name_the_first_counts():
    assert compare([tool("a")], [tool("a"), tool("a", "evil")]).unchanged == (tool("a"),)
    assert compare([tool("a")], [tool("a", "evil"), tool("a")]).changed == (tool("a", "evil"),)


def test_what_is_held_back_is_seen_and_accepted_by_another_process(pins, tmp_path):
    """H5: `gloveport servers review`."""
    pins.accept_all("github", HERE, [tool("a"), tool("gone")])
    assert pins.held_offer("github") is None
    pins.hold("github", HERE, [tool("a", "changed"), tool("new"), tool("newer")])
    assert pins.load("github", HERE) == (tool("a"), tool("gone"))

    other = Pins(tmp_path / "state" / "pins")
    shown = other.held_offer("github")
    assert names(shown) == ([], ["new", "newer"], ["a"], ["gone"])
    other.accept("github", shown, ["new"])
    assert pins.load("github", HERE) == (tool("a"), tool("gone"), tool("new"))
    assert names(pins.held_offer("github")) == (["new"], ["newer"], ["a"], ["gone"])
    other.accept("github", other.held_offer("github"))
    assert pins.load("github", HERE) == (tool("a", "changed"), tool("new"), tool("newer"))
    assert pins.held_offer("github") is None


def test_nothing_slips_in_between_the_look_and_the_yes(pins):
    """H5, P24: what is accepted is what was shown."""
    pins.accept_all("github", HERE, [tool("a")])
    pins.hold("github", HERE, [tool("a"), tool("b")])
    shown = pins.held_offer("github")
    pins.hold("github", HERE, [tool("a"), tool("b", "evil")])
    with pytest.raises(ConfigError, match="'b' has changed since it was shown\nhint: review"):
        pins.accept("github", shown)
    pins.hold("github", HERE, [tool("a"), tool("b"), tool("c")])
    with pytest.raises(ConfigError, match="'c' has changed since it was shown"):
        pins.accept("github", shown)
    assert pins.load("github", HERE) == (tool("a"),)
    pins.accept("github", shown, ["b"])
    assert pins.load("github", HERE) == (tool("a"), tool("b"))


def test_what_is_not_held_back_can_not_be_accepted(pins):
    with pytest.raises(ConfigError, match="nothing of the server 'github' is held back"):
        pins.accept("github", compare([], []))
    pins.accept_all("github", HERE, [tool("a")])
    pins.hold("github", HERE, [tool("a"), tool("b")])
    with pytest.raises(ConfigError, match="'c' is not held back"):
        pins.accept("github", pins.held_offer("github"), ["b", "c"])
    assert pins.load("github", HERE) == (tool("a"),)


def test_another_program_under_the_same_name_is_not_trusted(pins):
    """H5, P24: not even with tools that say the same."""
    pins.accept_all("github", HERE, [tool("a")])
    assert pins.load("github", ELSEWHERE) == ()
    pins.accept_all("github", ELSEWHERE, [tool("a")])
    assert pins.load("github", ELSEWHERE) == ()
    pins.hold("github", ELSEWHERE, [tool("a"), tool("b")])
    assert names(pins.held_offer("github")) == ([], ["a", "b"], [], [])
    pins.accept("github", pins.held_offer("github"), ["b"])
    assert pins.load("github", ELSEWHERE) == (tool("b"),)
    assert pins.load("github", HERE) == ()


def test_what_a_server_says_survives_the_file(pins):
    odd = definition({"x": [1, 2.5, None, True, {"y": 10**30}]}, {"z": HOSTILE}, name=HOSTILE, description=HOSTILE)
    pins.accept_all("github", HERE, [odd])
    assert pins.load("github", HERE) == (odd,)
    assert pins.load("github", HERE)[0].digest == odd.digest


def test_the_name_of_a_server_is_no_path(pins, tmp_path):
    for server in ("../../evil", "/etc/passwd", "a\0b", "x" * 5000, "\ud800", ""):
        pins.accept_all(server, HERE, [])
        assert pins.path(server).parent == tmp_path / "state" / "pins"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_only_the_owner_can_read_and_nothing_is_left_over(pins):
    pins.accept_all("github", HERE, [tool("a")])
    pins.hold("github", HERE, [tool("b")])
    path = pins.path("github")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [*path.parent.iterdir()] == [path]


def damaged(path):
    path.write_text("{")


def shaped_otherwise(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "accepted": [{"name": "a"}]}))


def nested_too_deep(path):
    path.write_text("[" * 100_000)


def of_another_server(path):
    path.write_text(path.read_text().replace('"github"', '"gitlab"'))


def writable_by_all(path):
    path.chmod(0o606)


def in_a_directory_that_others_write(path):
    path.parent.chmod(0o770)


def a_link(path):
    path.rename(path.with_suffix(".old"))
    path.symlink_to(path.with_suffix(".old"))


def a_fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def a_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "harm",
    [
        damaged,
        shaped_otherwise,
        nested_too_deep,
        of_another_server,
        writable_by_all,
        in_a_directory_that_others_write,
        a_link,
        a_fifo,
        a_directory,
    ],
)
def test_a_file_that_can_not_be_relied_on_accepts_nothing(pins, harm):
    """H5: it fails closed, and says what to do."""
    pins.accept_all("github", HERE, [tool("a")])
    harm(pins.path("github"))
    for act in (
        lambda: pins.load("github", HERE),
        lambda: pins.held_offer("github"),
        lambda: pins.accept_all("github", HERE, []),
        lambda: pins.hold("github", HERE, []),
    ):
        with pytest.raises(ConfigError, match="hint: "):
            act()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_accepts_nothing(pins):
    pins.accept_all("github", HERE, [tool("a")])
    os.chown(pins.path("github"), 12345, 12345)
    with pytest.raises(ConfigError, match="can be changed by others"):
        pins.load("github", HERE)


def test_processes_that_write_at_the_same_time_lose_nothing(pins, tmp_path):
    pins.accept_all("github", HERE, [tool("a")])
    pins.hold("github", HERE, [tool(f"t{number}") for number in range(3)])
    program = tmp_path / "accept.py"
    program.write_text(
        "import sys; from pathlib import Path; from gloveport.hub.pins import Pins\n"
        "pins = Pins(Path(sys.argv[1])); pins.accept('github', pins.held_offer('github'), [sys.argv[2]])"
    )
    state = str(tmp_path / "state" / "pins")
    others = [forked.shared().start_script(program, state, f"t{number}") for number in range(3)]
    assert [other.wait(60) for other in others] == [0] * 3
    assert len(pins.load("github", HERE)) == 4


def test_a_person_sees_what_is_different():
    """H5: reported, in words."""
    before, after = tool("a", "Reads a file.\nOne line."), tool("a", "Reads a file.\nSends it away.")
    assert differences(before, after) == ["description:", "-One line.", "+Sends it away."]
    assert differences(before, before) == []
    assert "+Reads a file." in differences(None, before)


def test_nothing_that_is_hidden_stays_hidden():
    """H5, T2, P24: zero-width and tag characters, reversed text, what looks like a header, imitated escapes."""
    before = tool("a", "plain")
    for hidden, shown in {
        "plain\u200b": "+plain\\u200b",
        "pla\u202ein": "+pla\\u202ein",
        "plain\U000e0041": "+plain\\U000e0041",
        "plain\ufe01": "+plain\\ufe01",
        "plain\u3164": "+plain\\u3164",
        "plain\x1b[2K": "+plain\\u001b[2K",
        "plain\r": "+plain\\r",
        "plain\\u200b": "+plain\\\\u200b",
    }.items():
        assert shown in differences(before, tool("a", hidden))
    lines = differences(tool("a", "x\n-- secret\n++ y"), tool("a", "x"))
    assert lines == ["description:", "--- secret", "-++ y"]
    assert "+@@ run this" in differences(before, tool("a", "plain\n@@ run this"))
    far = differences(tool("a", "x" * 5000), tool("a", "x" * 5000 + "evil"))
    assert "evil" in "".join(far)
    assert max(map(len, far)) < 120


def test_a_huge_change_is_shown_whole_and_in_time():
    """H5: what is behind two thousand lines of release notes would be accepted unseen."""
    old = tool("a", "\n".join(f"old {number}" for number in range(50_000)))
    new = tool("a", "\n".join(f"new {number}" for number in range(50_000)))
    lines = differences(old, new)
    assert len(lines) == 100_001
    assert lines[-1] == "+new 49999"


def test_a_tool_that_says_more_than_anybody_reads_can_not_be_accepted(pins):
    """H5: the others can; and it stays held back."""
    pins.accept_all("github", HERE, [tool("a")])
    for long in (
        tool("long", "read me\n" * 40_000),
        definition({"description": "x" * 300_000}, name="long"),
        definition({}, {"description": "x" * 300_000}, name="long"),
    ):
        pins.hold("github", HERE, [tool("a"), long, tool("short")])
        with pytest.raises(ConfigError, match=r"'long' says more than anybody reads: .*\nhint: name the tools"):
            pins.accept("github", pins.held_offer("github"))
        assert pins.load("github", HERE) == (tool("a"),)
    pins.accept("github", pins.held_offer("github"), ["short"])
    assert pins.load("github", HERE) == (tool("a"), tool("short"))
    assert names(pins.held_offer("github")) == (["a", "short"], ["long"], [], [])
