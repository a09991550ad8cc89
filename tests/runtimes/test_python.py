"""The interpreter of programs, as it is found."""

import os
import shutil

import pytest

from gloveport.errors import ConfigError
from gloveport.runtimes import python

ASK = python._query.__wrapped__  # the session's is asked once


def test_our_files_are_compiled_for_it_once_and_again_when_they_have_changed(tmp_path, monkeypatch):
    """What installs them may not do so, and then each sandbox would, at its start."""
    guest = tmp_path / "guest"
    shutil.copytree(python._GUEST, guest, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(python, "_GUEST", guest)
    ASK("/usr/bin/python3")
    (compiled,) = guest.glob("__pycache__/zygote.*.pyc")
    assert [*guest.glob("python/gloveport_tools/__pycache__/*.pyc")]
    first = compiled.stat()
    ASK("/usr/bin/python3")
    assert (compiled.stat().st_ino, compiled.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    os.utime(guest / "zygote.py", (1, 1))
    ASK("/usr/bin/python3")
    assert compiled.stat().st_mtime_ns > first.st_mtime_ns


def make_interpreter(directory, change):
    """An interpreter whose ``sys`` is changed before it is asked."""
    own = f"import sys; {change}; code = sys.argv[3]; del sys.argv[1:4]; exec(code)"
    (shim := directory / "python").write_text(f'#!/bin/sh\nexec /usr/bin/python3 -I -c "{own}" "$@"\n')
    shim.chmod(0o755)
    return str(shim)


def test_it_is_asked_what_its_own_standard_library_has(tmp_path):
    """P44: that of the server's version has other modules. This interpreter says that it has only one."""
    shim = make_interpreter(tmp_path, "sys.stdlib_module_names = {'cgi'}")
    assert python.find(shim).standard_modules == {"cgi"}
    assert "json" in python.find("/usr/bin/python3").standard_modules


def test_one_that_is_too_old_to_know_that_is_named_as_too_old(tmp_path):
    shim = make_interpreter(tmp_path, "del sys.stdlib_module_names; sys.version_info = (3, 9)")
    with pytest.raises(ConfigError, match=r"is Python 3\.9"):
        python.find(shim)


def test_ctrl_c_in_a_terminal_does_not_end_the_interpreter_while_it_is_asked(tmp_path):
    """All of our process group gets it: who ends in peace would be told of an interpreter that does not run."""
    (shim := tmp_path / "python").write_text(
        f"#!/bin/sh\ncut -d' ' -f5 /proc/self/stat > {tmp_path}/group\nexec /usr/bin/python3 \"$@\"\n"
    )
    shim.chmod(0o755)
    ASK(str(shim))
    assert int((tmp_path / "group").read_text()) != os.getpgrp()


def test_only_some_of_the_modules_of_an_environment_are_named():
    """A package may have any number, and whoever lacks a module is told of those that there are."""
    environment = python.in_environment(python.find(None), "one", [f"module_{number:05}" for number in range(60_000)])
    assert environment.packages.endswith("module_00010 and module_00011 and others")


@pytest.mark.parametrize("program", ["/bin/echo", "/bin/true"])
def test_a_program_that_answers_as_no_interpreter_does_is_named(program):
    with pytest.raises(ConfigError, match=f"{program} does not run"):
        python.find(program)


def test_an_interpreter_that_does_not_run_is_named_without_what_it_was_asked():
    with pytest.raises(
        ConfigError, match="/bin/false does not run: Command '/bin/false' returned non-zero exit status 1"
    ):
        ASK("/bin/false")
