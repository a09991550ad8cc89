"""Whatever a program or a server says, nothing that a person is shown hides or moves a cursor. T4, H1."""

import ast
import json
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from gloveport.config.toml_text import toml
from gloveport.untrusted_text import is_visible, one_line, printable, printable_lines, quote

SIGNS = [*"a \\\"'é\n\r\t\x1b\x7f\x9b", *"\u00ad\u115f\u200b\u202e\u2028\u2066\u2800\ufe0f"]
HOSTILE = st.text(alphabet=st.sampled_from(SIGNS)) | st.text()


def test_escapes_are_those_of_toml_json_and_python():
    assert printable("a\n\x1b[2J\u200b\u202e\U000e0041é") == r"a\n\u001b[2J\u200b\u202e\U000e0041é"


@given(HOSTILE)
def test_nothing_hides_in_what_a_person_is_shown(text):
    assert is_visible(printable(text))
    assert is_visible(one_line(text, 20))
    assert all(map(is_visible, printable_lines(text).split("\n")))


@given(HOSTILE.filter(lambda text: text.isprintable() or text.encode("utf-8", "replace").decode() == text))
def test_a_quoted_text_is_a_literal_that_means_the_text(text):
    assert ast.literal_eval(quote(text)) == text
    assert tomllib.loads(f"key = {toml(text)}")["key"] == text
    if quote(text).isascii() and "\\U" not in quote(text):
        assert json.loads(quote(text)) == text
