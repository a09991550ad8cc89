"""Which commands are going to need the network, and of which hosts. Advice, for the kernel closes it anyway: so only
what is certain counts. Pure.
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from gloveport.policy.commands import Word
from gloveport.policy.programs import Run, git_command, operands, options

UNNAMED: Final = ""
"""A host that the text does not name: an index of packages, a remote of git."""

_URL = re.compile(r"(?:https?|ftp|ssh|git|sftp)://\S+")
_SCP = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)\S*")
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0")
_OFFLINE = frozenset(
    {"--offline", "--help", "--version", "--dry-run", "--no-index", "--frozen-offline", "--prefer-offline"}
)
_PIP = re.compile(r"pip[\d.]*")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")

_FETCHES: Final = frozenset({"aria2c", "curl", "http", "https", "wget"})
_REACHES: Final = frozenset({"ftp", "rsync", "scp", "sftp", "ssh", "telnet"})
_INSTALLS: Final = {
    "apk": {"add", "update", "upgrade"},
    "apt": {"install", "update", "upgrade", "full-upgrade"},
    "apt-get": {"install", "update", "upgrade", "dist-upgrade", "source"},
    "brew": {"install", "update", "upgrade"},
    "bundle": {"install", "update"},
    "cargo": {"add", "fetch", "install", "publish", "search", "update"},
    "composer": {"install", "require", "update"},
    "conda": {"create", "install", "update"},
    "dnf": {"install", "update", "upgrade"},
    "gem": {"install", "update"},
    "go": {"get", "install"},
    "npm": {"add", "audit", "ci", "i", "install", "outdated", "publish", "update", "view"},
    "pnpm": {"add", "i", "install", "update"},
    "poetry": {"add", "install", "update"},
    "uv": {"add", "lock", "sync"},
    "yarn": {"add", "install"},
    "yum": {"install", "update", "upgrade"},
}
_NEAR = re.compile(r"\.{1,2}(?:/|\Z)|[/~]|file:")
_HERE: Final = {
    ("bundle", "install"): {"--local"},
    ("cargo", "install"): {"--path"},
    ("uv", "lock"): {"--check"},
}
"""Options with which nothing is fetched, or nothing that is certain."""
_GIT_REMOTE = frozenset({"clone", "fetch", "ls-remote", "pull", "push"})


def hosts_needed(run: Run) -> frozenset[str]:
    """The hosts that a program is certain to reach for, ``UNNAMED`` where the text does not say which."""
    if options(run.arguments) & _OFFLINE:
        return frozenset()
    texts = [word.text for word in run.arguments]
    if run.program == "git":
        return _of_git(run.arguments)
    if run.program in _FETCHES:
        return _of_urls(run.arguments)
    if run.program in _REACHES:
        return _of_reaching(run)
    installs = _PIP.fullmatch(run.program) or (run.program == "uv" and texts[:1] == ["pip"])
    if installs or (_PYTHON.fullmatch(run.program) and texts[:2] == ["-m", "pip"]):
        return _of_pip(run.arguments[texts.index("pip") + 1 :] if "pip" in texts[:2] else run.arguments)
    return _of_installing(run)


def _of_installing(run: Run) -> frozenset[str]:
    verb, *wanted = [word.text for word in operands(run.arguments)] or [""]
    here = options(run.arguments) & _HERE.get((run.program, verb), frozenset())
    near = bool(wanted) and all(_NEAR.match(each) for each in wanted)
    return frozenset({UNNAMED} if verb in _INSTALLS.get(run.program, ()) and not here and not near else ())


def _of_urls(words: Sequence[Word]) -> frozenset[str]:
    """Hosts of the URLs among words. A bare name is one for programs that fetch; it is not taken for one here."""
    found = [match[0] for word in words if (match := _URL.match(word.text))]
    return frozenset(host for host in map(_host, found) if host is not None and not _LOOPBACK.fullmatch(host))


def _host(url: str) -> str | None:
    try:
        return (urlsplit(url).hostname or UNNAMED).lower()
    except ValueError:
        return UNNAMED


def _of_reaching(run: Run) -> frozenset[str]:
    words = operands(run.arguments)
    if run.program in {"ssh", "sftp", "ftp", "telnet"}:
        names = [word.text.rpartition("@")[2].partition(":")[0].lower() for word in words[:1] if word.known]
    else:
        names = [match[1].lower() for word in words if word.known and (match := _SCP.fullmatch(word.text))]
    return frozenset(name for name in names if not _LOOPBACK.fullmatch(name))


def _of_git(arguments: Sequence[Word]) -> frozenset[str]:
    _, name, rest = git_command(arguments)
    words = operands(rest)
    if name not in _GIT_REMOTE:
        return frozenset()
    far = words[0].text if words else ""
    if named := _of_urls(words[:1]):
        return named
    if found := _SCP.fullmatch(far):
        return frozenset({found[1].lower()})
    near = far.startswith((".", "/", "~", "file://")) or bool(_URL.match(far)) or (name == "clone" and "$" not in far)
    return frozenset() if near else frozenset({UNNAMED})


def _of_pip(arguments: Sequence[Word]) -> frozenset[str]:
    words = operands(arguments)
    if not words or words[0].text not in {"download", "install", "wheel"} or options(arguments) & {"-h"}:
        return frozenset()
    lists = options(arguments) & {"-r", "--requirement"}
    packages = [word for word in words[1:] if not re.match(r"[./~]|.*[/\\]|.*\.(?:whl|txt|toml)$", word.text)]
    return frozenset({UNNAMED}) if packages or lists else frozenset()
