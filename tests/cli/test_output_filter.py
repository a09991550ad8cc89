"""What a program may do with a terminal, sequence by sequence."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.cli.terminal.output_filter import OutputFilter

DRAWING = [
    "plain text\r\n\ttab \x08 back",
    "\x1b[31;1;38:2::1:2:3mred\x1b[m",
    "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[10;20H",
    "\x1b[6n\x1b[c\x1b[>0q\x1b[?u",
    "\x1b7\x1b8\x1b(0lqk\x1b(B\x1bM",
    "\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]11;?\x07\x1b]104\x07",
    "\x1b]9;4;1;50\x07",
    "\x1bP0;1q#0;2;0;0;0~-\x1b\\",
    "\x1b_Ga=T,f=100,t=d,m=1;AAAA\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1b[14t\x1b[18t",
    "日本語 🧤 é",
]
REFUSED = {
    "it writes into the clipboard": ("\x1b]52;c;ZXZpbA==\x07", ""),
    "it reads the clipboard": ("\x1b]52;c;?\x1b\\", ""),
    "it writes into the clipboard in eight bits": ("\x9d52;c;ZXZpbA==\x9c", "52;c;ZXZpbA=="),
    "it prints": ("\x1b[5i\x1b[4i\x1b[?5i", ""),
    "the terminal types its title": ("\x1b[21t", ""),
    "the terminal types what is in a cell": ("\x1b[1;1;1;1;1;1*y", ""),
    "the terminal types what it can't do": ("\x1bP$q\nid\n\x1b\\", ""),
    "keys send something else": ("\x1bP1;1|17/6869\x1b\\", ""),
    "a picture comes from a file": ("\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\", ""),
    "a file is sent": ("\x1b]1337;File=name=eA==:eA==\x07", ""),
    "a program is run by ConEmu": ("\x1b]9;7;calc\x07", ""),
    "a note is shown": ("\x1b]777;notify;a;b\x07", ""),
    "something comes through tmux": ("\x1bPtmux;\x1b\x1b]52;c;ZQ==\x07\x1b\\", "\x1b\\"),
    "all is read in another code": ("\x1b%@\x1b G", ""),
    "all sequences are others": ("\x1b[?2l\x1b[1;?2l", ""),
    "the answerback": ("\x05", ""),
    "a window is moved": ("\x1b[3;0;0t\x1b[8;2;2t", ""),
    "application commands": ("\x1b^private\x1b\\\x1bXstart\x1b\\\x1bkname\x1b\\", ""),
    "modes come back as the terminal has saved them": (
        "\x1b[?1000h\x1b[?1000s\x1b[?1000l\x1b[?1000r",
        "\x1b[?1000h\x1b[?1000l",
    ),
    "modes that are not known": ("\x1b[?1061h\x1b[3h\x1b[?1000:1h\x1b[?9001;25h", "\x1b[?25h"),
    "all is written to the status line": ("\x1b[2$~\x1b[1$}", ""),
    "the window gets other columns": ("\x1b[?40h\x1b[?3h\x1b[132$|\x1b[99*|", ""),
    "a Linux console shows another, and goes blank": ("\x1b[12;1]\x1b[9;1]\x1b[14;1]\x1b[8]\x1b[15]", ""),
    "a Linux console swallows what comes next": ("\x1b[[", ""),
    "the terminal tests itself": ("\x1b[2;1y", ""),
    "titles come back that others have saved": ("\x1b[23;0t", ""),
    "a title without end": ("\x1b]0;" + "x" * 100_000 + "\x07", None),
}


def show(*pieces, **options):
    one = OutputFilter(**options)
    return "".join(one.feed(piece if isinstance(piece, bytes) else piece.encode()).decode() for piece in pieces)


@pytest.mark.parametrize("text", DRAWING)
def test_what_draws_passes_as_it_is(text):
    assert show(text) == text


@pytest.mark.parametrize(("text", "shown"), REFUSED.values(), ids=REFUSED)
def test_what_does_more_than_draw_does_not(text, shown):
    """P14."""
    said = show("before", text, "after")
    assert said.startswith("before")
    assert said.endswith("after")
    if shown is None:
        assert len(said) < 10_000
    else:
        assert said == f"before{shown}after"


TEXTS = [*DRAWING, *(text for text, _ in REFUSED.values())]


@given(
    st.lists(st.integers(0, len(TEXTS) - 1), max_size=5),  # by number: some are too long to be told of a failure
    st.lists(st.integers(0, 5000), max_size=8),
)
def test_it_does_not_matter_where_the_stream_is_cut(chosen, cuts):
    stream = "".join(TEXTS[number] for number in chosen).encode()
    edges = sorted({0, *(min(cut, len(stream)) for cut in cuts), len(stream)})
    assert show(*(stream[a:b] for a, b in itertools.pairwise(edges))) == show(stream)


def test_what_draws_may_come_byte_by_byte():
    stream = "".join(DRAWING).encode()
    assert show(*(stream[at : at + 1] for at in range(len(stream)))) == show(stream)


@given(st.text(st.sampled_from("\x1b[]P_^Xk?>05217;:tcihl$*y \x07\x9b\x9d\x18\\é")))
def test_nothing_that_passes_is_refused_when_it_comes_again(text):
    """What the filter lets out of one stream can't have been put together from what it left out."""
    once = show(text)
    assert show(once).removeprefix("\x1b[22;0t") == once.removeprefix("\x1b[22;0t")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("\x1b[?1049h\x1b[?25l", "\x1b[?1049l\x1b[?25h"),
        ("\x1b[?1000;1006h\x1b[?2004h\x1b[?2004l", "\x1b[?1000l\x1b[?1006l"),
        ("\x1b[>5u\x1b[>1u\x1b[<u", "\x1b[<1u"),
        ("\x1b]0;mine\x07", "\x1b[23;0t"),
        ("\x1b[3;9r\x1b[4 q\x1b(0", "\x1b7\x1b[r\x1b8\x1b[0 q\x1b(B"),
        ("\x1bP0q~~~", "\x1b\\"),
        ("\x1b[?12;9999h", ""),
        ("\x1b[>1u\x1b[?1049h", "\x1b[?1049l\x1b[<1u"),
        ("\x1b[?1049h\x1b[>1u\x1b[?1049l", "\x1b[?1049h\x1b[<1u\x1b[?1049l"),
        ("\x1b[?1049h\x1bc\x1b[=1u\x1b[?1049h", "\x1b[?1049l\x1b[=0u"),
        ("\x1b[>1;3m\x1b[>2n", "\x1b[>1m\x1b[>2m"),
        ("\x1b*0\x1bn", "\x0f"),
        ("\x1b[3g", "\x1b[?5W"),
        ("\x1b]8;;https://example.com\x07", "\x1b]8;;\x1b\\"),
        ("\x1b]9;4;2;50\x07", "\x1b]9;4;0\x1b\\"),
        ("\x1b]10;#000\x07\x1b]4;1;?;2;red\x07", "\x1b]110\x1b\\\x1b]104\x1b\\"),
        ("\x1b]10;?\x07\x1b]4;1;?\x07", ""),
        ("\x1b]0;a\x07\x1b[22t\x1b]0;b\x07\x1b[22t", "\x1b[23;0t" * 3),
        ("\x1b]0;a\x07\x1b[23t\x1b]0;b\x07", "\x1b[23;0t"),
        ("text", ""),
    ],
)
def test_what_was_switched_is_switched_back(text, after):
    one = OutputFilter()
    one.feed(text.encode())
    assert one.finish().decode() == after


def test_a_string_without_end_swallows_nothing_of_ours():
    """P23: such as a question about a request."""
    one = OutputFilter()
    one.feed(b"\x1b]0;title")
    assert one.interrupt() == b"\x1b\\"
    assert one.interrupt() == b""
    assert (one.feed(b" goes on\x07text"), one.finish()) == (b"text", b"\x1b[23;0t")


def test_bytes_that_are_no_text_are_shown_as_such():
    """A terminal that reads Latin-1 would take single bytes for escapes."""
    assert show(b"a\x9d52;c;ZQ==\x07b\xff") == "a\ufffd52;c;ZQ==\x07b\ufffd"
