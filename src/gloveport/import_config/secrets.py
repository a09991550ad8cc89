"""Tells which values of a client's file are certainly not secrets.

All others are treated as secrets: the server gets both in the same way, and a secret is neither shown nor passed to
programs.
"""

import re

from gloveport.secrets.scrub import MIN_SECRET_CHARS
from gloveport.secrets.sources import LONGEST_SECRET
from gloveport.untrusted_text import is_visible

_SECRET_WORDS = frozenset(
    {"token", "key", "apikey", "secret", "password", "passwd", "passphrase", "pass", "pwd", "pw", "pat", "pin", "otp"}
    | {"auth", "authorization", "authentication", "bearer", "credential", "credentials", "creds", "cred", "cookie"}
    | {"session", "jwt", "private", "signature", "signing", "salt", "seed", "mnemonic", "dsn", "webhook", "sas"}
    | {"license", "cert", "certificate", "connection", "conn", "secrets", "passwords", "keys"}
)
_ENDINGS = ("token", "key", "secret", "password", "passwd", "passphrase", "pass", "credentials")
_WORD_IN_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PREFIXES = re.compile(
    r"(?:sk|pk|rk|whsec)[-_]|gh[oprsu]_|github_pat_|glpat-|xox[a-z]|xapp-|AKIA|ASIA|AIza"
    r"|eyJ|ya29\.|npm_|pypi-|do[opr]_v1_|hf_|shp[a-z]{2}_|SG\.|sl\.|lin_|ntn_|secret_|figd_|tvly-|ctx7|sbp_|-----BEGIN"
    r"|bearer |basic |token ",
    re.IGNORECASE,
)
TOKEN = re.compile(
    rf"(?<![A-Za-z0-9])(?:{_PREFIXES.pattern})(?=[A-Za-z_.+/=-]{{0,40}}[0-9])[A-Za-z0-9_.+/=-]{{12,}}", re.IGNORECASE
)
"""A token of a service: its prefix, and too many characters, with a digit among them, for a word."""

_PLACES = re.compile(r".*(?:PATH|FILE|DIR|DIRECTORY|FOLDER|HOME|ROOT)", re.IGNORECASE)
_SWITCHES = frozenset({"", "true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})

_LONGEST = 200
_LONGEST_WORD = 24
"""Longer runs of letters are not words: sixteen may be an application password."""
_LONGEST_VALUE_WORD = 15
_SEPARATORS = re.compile(r"[-_.,/@~+]")
_VERSION = re.compile(r"[0-9]{1,3}[A-Za-z]{1,2}")
_SCHEME = re.compile(r"(?:https?|file|wss?)://")
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}://)(?:[^\s/?#\\]*@)?(?P<host>[^\s/?#\\@]+)")
_LINE_BREAK = re.compile(r"[\t\n\r]")
_PORT = re.compile(r":[0-9]{1,5}(?=/|$)")


def is_secret_name(name: str) -> bool:
    """Tell whether a name is that of a secret."""
    words = [word.lower() for word in _WORD_IN_NAME.findall(name)]
    return any(word in _SECRET_WORDS or word.endswith(_ENDINGS) for word in words)


def is_switch(value: str) -> bool:
    """Tell whether a value switches something on or off, under any name."""
    return value.lower() in _SWITCHES


def is_harmless(name: str, value: str) -> bool:
    """Tell whether a variable's or a header's value is certainly no secret."""
    if is_switch(value):
        return True
    if is_secret_name(name):
        return _PLACES.fullmatch(name) is not None and value.startswith(("/", "~/", "./")) and _is_ordinary(value)
    if _PREFIXES.match(value):
        return False
    return len(value) < MIN_SECRET_CHARS or _is_ordinary(value)


def is_harmless_argument(before: str, argument: str) -> bool:
    """Tell whether an argument of a command line (``--option``, ``--option=value`` or a value) is certainly no secret.
    The argument ``before`` may be an option's name.
    """
    name, equals, value = argument.partition("=")
    if not equals and argument.startswith("-"):
        return _is_ordinary(argument, longest=_LONGEST_WORD)
    if not equals:
        name, value = before if before.startswith("-") else "", argument
    if is_secret_name(name) or _PREFIXES.match(value):
        return is_switch(value)
    return len(value) < MIN_SECRET_CHARS or _is_ordinary(value, longest=_LONGEST_WORD)


def is_harmless_address(url: str) -> bool:
    """Tell whether there is certainly no secret in an address."""
    return _is_ordinary(url, longest=_LONGEST_WORD)


def address_in(value: str) -> str:
    """Give scheme and host of an address, which are no secret; empty for other text."""
    found = _ADDRESS.match(value)
    return f"{found['scheme']}{found['host']}" if found else ""


def find_fault(value: str) -> str | None:
    """Say why a value can't be sent as a secret in a header or an address; None where it can."""
    if _LINE_BREAK.search(value):
        return "holds line breaks, and such a secret is text in one line"
    if fault := find_fault_of_variable(value):
        return fault
    return None if value == value.strip() else "begins or ends with a space"


def find_fault_of_variable(value: str) -> str | None:
    """Say why a value can't be a secret in a variable, where it may have several lines; None where it can."""
    if not is_visible(_LINE_BREAK.sub(" ", value)):
        return "holds control characters, and a secret is text"
    if MIN_SECRET_CHARS <= len(value.strip()) <= len(value) <= LONGEST_SECRET:
        return None
    return f"has not {MIN_SECRET_CHARS} to {LONGEST_SECRET} characters, so it can't be kept out of answers"


def _is_ordinary(value: str, *, longest: int = _LONGEST_VALUE_WORD) -> bool:
    """Whether a text consists of words and numbers, like paths, addresses, names and versions."""
    if len(value) > _LONGEST or not is_visible(value):
        return False
    rest = _PORT.sub("", _SCHEME.sub("", value, count=1), count=1)
    if value != rest and "@" in rest.partition("/")[0]:
        return False
    if rest.startswith(("/", "~/")):
        rest = rest.replace(" ", "-")
    return all(_is_word(part, longest) for part in _SEPARATORS.split(rest) if part)


def _is_word(text: str, longest: int) -> bool:
    if _VERSION.fullmatch(text):
        return True
    letters = text.rstrip("0123456789")
    digits = len(text) - len(letters)
    if len(letters) > longest or digits > (4 if letters else 9):
        return False
    humps = re.fullmatch(r"(?:[A-Z][a-z]{2,}|[a-z]{3,}(?=[A-Z]))*", letters) is not None
    return not letters or (letters.isalpha() and (letters.islower() or letters.isupper() or letters.istitle() or humps))
