"""How the start of a PostgreSQL session is read, whatever is sent."""

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.egress.databases.postgres_startup import _PARAMETERS, allow_parameters, parse_parameters
from gloveport.errors import Denied

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAMES = st.sampled_from(["user", "database", "options", "TimeZone", "replication", "role", "_pq_.x"]) | TEXT
WORDS = st.sampled_from(
    ["-c", "--", "=", " ", "\\", "role", "jit", "endpoint", "search_path", "search-path", "x", "\n"]
)


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_what_clients_write_is_what_is_read(parameters):
    body = b"".join(part.encode() + b"\0" for pair in parameters.items() for part in pair) + b"\0"
    if len(parameters.get("database", "").encode()) <= 63:
        assert parse_parameters(body) == parameters


@given(st.binary(max_size=60) | st.lists(st.sampled_from([b"\0", b"user", b"a", b"\xff"])).map(b"".join))
def test_anything_else_is_refused_or_read_in_one_way(body):
    try:
        read = parse_parameters(body)
    except Denied:
        return
    assert b"".join(part.encode() + b"\0" for pair in read.items() for part in pair) + b"\0" == body


@given(st.dictionaries(NAMES, TEXT | st.lists(WORDS).map("".join), max_size=5))
def test_nothing_is_passed_on_but_what_is_allowed(asked):
    try:
        passed = allow_parameters(asked)
    except Denied:
        return
    assert {*passed} <= {*_PARAMETERS.values()}


@for_each("options", ["-c jit=off", "-cjit=off", "--jit=off", " \t-c\njit=off ", "-c jit=x -c jit=off"])
def test_options_are_read_as_servers_read_them(options):
    assert allow_parameters({"user": "me", "options": options}) == {"jit": "off"}
