"""Output made harmless piece by piece."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.plain_stream import PlainStream

PIECES = st.lists(
    st.sampled_from(
        ["\x1b", "[", "31", "m", "]0;title", "\x07", "\\", "\r", "\n", "\r\n", "text", "\x9b", " ", "é", "(B"]
    )
)


@given(PIECES, st.data())
def test_wherever_a_text_is_cut_it_becomes_what_the_whole_text_becomes(words, data):
    text = "".join(words)
    stream, shown, rest = PlainStream(), "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += stream.feed(rest[:size])
        rest = rest[size:]
    assert shown + plain(stream.rest) == plain(text)


@given(st.lists(st.text(st.characters(min_codepoint=0, max_codepoint=0xA0)), max_size=20))
def test_no_escape_or_control_character_ever_comes_through(pieces):
    stream = PlainStream()
    shown = "".join(map(stream.feed, pieces))
    assert not [c for c in shown if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]


def test_an_endless_sequence_is_given_up():
    stream = PlainStream()
    shown = stream.feed("\x1b]0;") + "".join(stream.feed("x" * 1000) for _ in range(20))
    assert "x" * 1000 in shown
    assert len(stream.rest) <= 4096
