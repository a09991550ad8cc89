"""Finds hints for a failed program in its output: a missing package, host or tool."""

import re

from gloveport.model import Failure, Grant
from gloveport.policy.hosts.authorities import find

_NO_MODULE = (
    "Cannot find module",
    "Could not find a matching package",
    "not a dependency",
    "--no-npm is specified",
    "--no-remote is specified",
)
"""Messages of node and Deno, which load no package from elsewhere."""

_NO_PACKAGE = (
    "No module named",
    "No matching distribution found",
    "externally-managed-environment",
    "Missing optional dependency '",
    "Unable to find a usable engine",
)
"""Messages of Python, pip and pandas."""

_NO_NETWORK = (
    "Name or service not known",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "Network is unreachable",
    "Requires net access",
)
"""Messages of libc, curl and Deno without a network: a reader who takes this for a passing fault tries again."""

_WRITE_HINT = "programs write to /tmp, and to /out what is to be kept"
_HINTS_OF_FILES = {
    "Read-only file system": _WRITE_HINT,
    "Requires write access to": _WRITE_HINT,
    "cannot-be-a-base": 'import a file by its whole path: from "file:///tmp/NAME"',
}
"""Messages of libc and Deno about files: of the owner, or imported by a path, which a program has no address for."""

_NO_TOOLS_HINT = (
    "there are no tools here: the owner has connected no servers; `gloveport import` takes over those of other clients"
)
_NOTHING = "nothing can be installed"
_PIP_HINT = (
    "pip install --target /tmp/packages NAME works, for PyPI is granted; then add that to PYTHONPATH or sys.path"
)
_MISSING_MODULE = re.compile(r"No module named '([A-Za-z_][A-Za-z0-9_]{0,63})")
_MISSING_BESIDE_PANDAS = re.compile(r"(?:`Import |Missing optional dependency ')([A-Za-z_][A-Za-z0-9_]{0,63})")
"""Messages of pandas about a package for reading or writing a file, the best package first."""

_NPM_NAME = r"(?:npm:)?/?((?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*)"
_MISSING_OF_NPM = (
    re.compile(rf"Import \"{_NPM_NAME}[@/\"].{{0,200}}not a dependency"),
    re.compile(rf"Cannot find module '{_NPM_NAME}[@/']"),
    re.compile(rf"matching package for '{_NPM_NAME}[@/']"),
    re.compile(rf"--no-npm is specified\n.*[\"']{_NPM_NAME}[@/\"']"),
)
"""Messages of Deno and Node about a missing package, and the program's line that follows. Each may stand in a text
thousands of times: what may come between is bounded.
"""

_SAYS_ITSELF = "ToolError"
_WANTS_PACKAGES = "PackagesError"
"""Of ``guest/python/gloveport_notebook/magics.py``."""


def find_missing_modules(failure: Failure) -> tuple[str, ...]:
    """Missing modules, by the first part of their names; none for another failure. A package that pandas lacks has to
    lie beside pandas. For npm it is the package, with ``npm:`` before it.
    """
    words = f"{failure.message}\n{failure.traceback}"
    if found := next(filter(None, (pattern.search(words) for pattern in _MISSING_OF_NPM)), None):
        return (f"npm:{found[1]}",)
    if failure.type == "ModuleNotFoundError":
        found = _MISSING_MODULE.search(failure.message)
        return (found[1],) if found else ()
    found = _MISSING_BESIDE_PANDAS.search(failure.message) if failure.type == "ImportError" else None
    return ("pandas", found[1]) if found else ()


def find_hint(failure: Failure, stderr: str, grant: Grant, packages: str) -> str:
    """Suggest what to do after a failure; empty if nothing is known. ``stderr`` is what the answer shows of it; the
    interpreter's ``packages`` are as its runtime describes them.
    """
    if failure.type == _SAYS_ITSELF:
        return ""
    words = f"{failure.message}\n{stderr}"
    if any(f"name '{name}' is not defined" in words or f"{name} is not defined" in words for name in ("tools", "llm")):
        return _NO_TOOLS_HINT
    if any(text in words for text in _NO_MODULE):
        return _after(packages, _NOTHING)
    if failure.type == _WANTS_PACKAGES or any(text in words for text in _NO_PACKAGE):
        return _after(packages, _installing(grant))
    if any(text in words for text in _NO_NETWORK):
        return _network_hint(grant)
    return next((hint for text, hint in _HINTS_OF_FILES.items() if text in words), "")


def _after(packages: str, text: str) -> str:
    return f"{packages}; {text}" if packages else text


def _installing(grant: Grant) -> str:
    if grant.egress.yolo or find(grant.egress, "https", "pypi.org", 443) is not None:
        return _PIP_HINT
    if any(api.active for api in grant.egress.apis.values()):
        return f"{_NOTHING} but from an index that list_apis names"
    return _NOTHING


def _network_hint(grant: Grant) -> str:
    if not grant.egress.yolo and not any(api.active for api in grant.egress.apis.values()):
        return "there is no network here, for the owner has granted no API: pass data in the program"
    return "the network leads to what list_apis names and nowhere else, some of it only by HTTPS_PROXY"
