"""The interpreter of programs, as it is found."""

import os
import shutil

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
