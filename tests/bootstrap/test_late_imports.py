"""What a server imports while it starts is named in texts, which no import proves."""

import importlib.util

from gloveport.bootstrap.app import modules_of
from gloveport.config import Config


def test_what_is_imported_late_is_there_under_each_configuration():
    """O4: a server of every one of them starts."""
    host = {"description": "x", "hosts": ["api.example"], "addresses": ["127.0.0.1"]}
    tables = ({"api": {"one": host}}, {"servers": {"one": {"command": ["true"]}}}, {"sampling": {"enabled": True}})
    for table in tables:
        names = modules_of(Config.model_validate(table))
        assert names, table
        assert [name for name in names if importlib.util.find_spec(name) is None] == [], table
