"""Remembers what does not change between tests of one process, and takes longer to make than all else of an engine."""

import atexit
import contextlib
import copy
import fcntl
import functools
import inspect
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpcore2
from mcp.server.mcpserver.tools import Tool

from gloveport.atomic_file import replace_file
from gloveport.bootstrap import host_setup, huge_pages
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.runtimes import python

_PACKAGES = "TESTS_PACKAGES"
"""Variable of the environment with a directory that is there already."""

_FOUND = "host.json"
"""Where in its state directory a server keeps what it has found of this host."""

_make_context = functools.cache(lambda trust_env, *_: _default_ssl_context(_trust_env=trust_env))
_default_ssl_context = httpcore2.default_ssl_context
_from_function = Tool.from_function
_tools: dict[str, Tool] = {}
with_packages = host_setup.with_packages


def remember() -> None:
    """Do so from now on."""
    python._query = functools.cache(python._query)  # what an interpreter says of itself
    share_packages(packages_state())
    leave_heap()
    # No test believes an authority of this host, and to read them all takes each client as long as ten calls.
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))
    httpcore2.default_ssl_context = _share_context
    remember_tools()


@functools.cache
def packages_state() -> Path:
    """A state directory for the packages that programs get, which are thousands of files.

    It ends with this process, or with the one that runs tests in several and has started this one.
    """
    if os.access(state := os.environ.get(_PACKAGES, ""), os.W_OK):  # a test may have become another user
        return Path(state)
    os.environ[_PACKAGES] = state = tempfile.mkdtemp(prefix="gloveport-packages-")
    atexit.register(shutil.rmtree, state, ignore_errors=True)
    return Path(state)


def remember_tools() -> None:
    """Describe a tool once."""
    Tool.from_function = _describe


def leave_heap() -> None:
    """Move no heap into huge pages: that of a process that runs tests is large, and forks copy what has moved."""
    huge_pages._MOMENTS = ()


@contextlib.contextmanager
def lent(state: Path) -> Iterator[None]:
    """Give them to servers that are executed with this state directory, and what others have found of this host.

    To copy the ones and to look for the other takes each server a second.
    """
    (state / "environments").mkdir(mode=0o700, parents=True)
    state.chmod(0o700)
    shared = packages_state()
    EnvironmentStore(shared / "environments").create()
    (state / "environments/installed").symlink_to(shared / "environments/installed")
    with contextlib.suppress(FileNotFoundError):
        replace_file(state / _FOUND, (shared / _FOUND).read_bytes())
    yield
    with contextlib.suppress(FileNotFoundError):  # of a server that did not come to it
        replace_file(shared / _FOUND, (state / _FOUND).read_bytes())


def share_packages(state: Path) -> None:
    """Have them put together there, whatever the state directory of a test is."""
    host_setup.with_packages = lambda init, _: _put_together(init, state)


def _put_together(init: python.Python, state: Path) -> python.Python:
    """One after the other: else each process that begins its tests at the same time would copy thousands of files."""
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return with_packages(init, {"GLOVEPORT_STATE": str(state)})


def _share_context(*, _trust_env: bool = True) -> ssl.SSLContext:
    """The authorities of this host, which each client would read, also one that speaks no TLS."""
    return _make_context(_trust_env, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))


def _describe(function: Callable[..., Any], **more: Any) -> Tool:
    """What the same function with the same words was described as, for this server's."""
    key = repr((function.__module__, function.__qualname__, function.__doc__, inspect.signature(function), more))
    if key not in _tools:
        _tools[key] = _from_function(function, **more)
    known = _tools[key]
    return known.model_copy(update={"fn": function, "parameters": copy.deepcopy(known.parameters)})
