"""Parses the start-up message of a PostgreSQL client, strictly, and selects the parameters to pass on. Pure.

The user is replaced by the owner's. ``options`` are parsed and filtered: they could tell a pooler another server.
"""

import re
from collections.abc import Mapping
from typing import Final

from gloveport.errors import Denied
from gloveport.model.egress import Postgres
from gloveport.policy.wording import FINAL, join_listed, quote_sent

EXTENSION: Final = "_pq_."
"""Prefix of the names of protocol extensions, none of which we support."""

_LONGEST_NAME = 63  # of servers, in bytes
_PARAMETERS: Final = {
    name.lower(): name
    for name in (
        *("application_name", "bytea_output", "client_encoding", "client_min_messages", "DateStyle", "IntervalStyle"),
        *("default_transaction_isolation", "default_transaction_read_only", "extra_float_digits", "jit", "search_path"),
        *("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout", "TimeZone"),
    )
}
"""Allowed parameters of a start-up message, besides the database. SQL can set all of them too."""

_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_OPTION = re.compile(r"(--)?([A-Za-z_-]+)=(.*)", re.DOTALL)


def parse_parameters(body: bytes) -> dict[str, str]:
    """Parse names and values, each with a null character at the end, and one more after the last.

    Raises:
        Denied: The body has another format.
    """
    fields = body[:-1].split(b"\0")
    if not body.endswith(b"\0") or fields.pop() or len(fields) % 2:
        raise malformed_start("its parameters are no list of names and values")
    try:
        texts = [field.decode() for field in fields]
    except UnicodeDecodeError:
        raise malformed_start("its parameters are not in UTF-8") from None
    names = texts[::2]
    parameters = dict(zip(names, texts[1::2], strict=True))
    if not all(names) or len(parameters) < len(names):
        raise malformed_start("its parameters have no name, or one twice")
    if len(parameters.get("database", "").encode()) > _LONGEST_NAME:
        raise malformed_start("the name of its database is too long")
    return parameters


def malformed_start(what: str) -> Denied:
    """Make the refusal of a malformed start-up message."""
    return Denied("bad_request", f"This is no start of a session: {what}.", hint="Use a client of PostgreSQL.")


def choose_database(auth: Postgres, startup: Mapping[str, str]) -> str:
    """Choose the database. Clients that were given none send one with the name of the user."""
    database = startup.get("database", "")
    if auth.databases and database not in auth.databases and database in {"", startup.get("user")}:
        return auth.databases[0]
    return database or auth.username


def allow_parameters(startup: Mapping[str, str]) -> dict[str, str]:
    """Select the parameters that are passed on, besides the database.

    Raises:
        Denied: There is a parameter that is not allowed.
    """
    options = _parse_options(startup.get("options", ""))
    passed = {key: text for key, text in startup.items() if key not in {"user", "database", "options"}} | options
    parameters = {}
    for key, text in passed.items():
        if key.startswith(EXTENSION):
            continue
        if key.lower() not in _PARAMETERS:
            hint = f"Use SET after connecting. It can begin with: {join_listed(_PARAMETERS.values())}. {FINAL}"
            raise Denied("parameter_not_allowed", f"A session can't begin with {quote_sent(key)}.", hint=hint)
        parameters[_PARAMETERS[key.lower()]] = text
    return parameters


def _parse_options(text: str) -> dict[str, str]:
    """Parse ``-c name=value --name=value`` as servers do. Any other word could tell a pooler another server.

    Raises:
        Denied: There is another word.
    """
    options = {}
    words = iter(_WORD.findall(text))
    for word in words:
        option = next(words, "") if word == "-c" else word.removeprefix("-c")
        found = _OPTION.fullmatch(re.sub(r"\\(.)", r"\1", option, flags=re.DOTALL))
        if found is None or bool(found[1]) == word.startswith("-c"):
            hint = f'Write options as "-c name=value", or use SET after connecting. {FINAL}'
            raise Denied("parameter_not_allowed", f"A session can't begin with {quote_sent(word)}.", hint=hint)
        options[found[2].replace("-", "_")] = found[3]
    return options
