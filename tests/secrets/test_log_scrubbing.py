"""What is logged holds no secret, whoever has quoted it."""

import io
import logging

import pytest

from gloveport.secrets.log_scrubbing import scrubbed_logs
from gloveport.secrets.scrub import Needles, scrub_text

SECRET = "s3cr3t/alpha+VALUE=4711"


@pytest.fixture
def said():
    """What the root logger's handler writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_a_line_of_any_library_and_its_traceback_are_scrubbed(said):
    """P19."""
    needles = Needles.of({"alpha.bearer": SECRET})
    with scrubbed_logs(lambda text: scrub_text(needles, text)):
        logging.getLogger("some.library").warning("it answers %s", SECRET)
        try:
            int(SECRET)
        except ValueError:
            logging.getLogger("another").exception("it failed")
    assert SECRET not in said.getvalue()
    assert said.getvalue().count("[secret alpha.bearer]") == 2


def test_behind_the_context_lines_are_as_before(said):
    """The handlers are the process's own."""
    with scrubbed_logs(str.upper):
        logging.getLogger().warning("one")
    logging.getLogger().warning("two")
    assert said.getvalue() == "ONE\ntwo\n"
