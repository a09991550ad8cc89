"""What commands log."""

import logging

from gloveport.cli.logs import _Plain
from gloveport.errors import UpstreamError


def test_an_error_with_a_hint_is_one_readable_line():
    error = UpstreamError("oauth_failed", "no token came", hint="log in again")
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "no new token for %s: %s\nx", ("mail", error), None)
    assert _Plain("%(message)s").format(record) == "no new token for mail: no token came; hint: log in again\\nx"
