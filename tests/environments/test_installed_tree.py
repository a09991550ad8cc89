"""The tree of packages that are installed with Gloveport: what it is made of, and who else could have made it."""

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from gloveport.audit.log_files import unwritable_error
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.environments.installed_tree import assemble_installed
from gloveport.errors import ConfigError


@pytest.fixture
def store(tmp_path):
    return EnvironmentStore(tmp_path / "environments")


@pytest.fixture
def site(tmp_path):
    """Packages as they are installed by somebody whose umask hides some, and with links to a cache of files."""
    site = tmp_path / "site"
    (site / "numpy/core").mkdir(parents=True)
    (site / "numpy/__init__.py").write_text("one = 1")
    (site / "numpy/core/private.py").write_text("two = 2")
    (site / "numpy/core/private.py").chmod(0o600)
    os.utime(site / "numpy/core/private.py", (1, 1))
    (tmp_path / "cached.py").write_text("three = 3")
    (site / "numpy/linked.py").symlink_to(tmp_path / "cached.py")
    os.mkfifo(site / "numpy/fifo")
    (site / "numpy-1.dist-info").mkdir()
    (site / "numpy-1.dist-info/METADATA").write_text("Version: 1")
    return site


def names(directory):
    return [path.name for path in directory.iterdir()]


def sources(site):
    return {name: f"{site}/{name}" for name in ("numpy", "numpy-1.dist-info/METADATA")}


def test_files_are_linked_and_copied_where_a_sandbox_could_not_read_them(store, site):
    """Every uid can read all of it, whatever the umask is; nothing in it is a link, or no file."""
    before = os.umask(0o077)
    try:
        tree = assemble_installed(store, "address", sources(site))
    finally:
        os.umask(before)
    assert tree == store.root / "installed/address"
    found = {path.relative_to(tree).as_posix(): path for path in tree.rglob("*")}
    files = {name: path.read_text() for name, path in found.items() if path.is_file() and not path.is_symlink()}
    assert files == {
        "numpy/__init__.py": "one = 1",
        "numpy/core/private.py": "two = 2",
        "numpy/linked.py": "three = 3",
        "numpy-1.dist-info/METADATA": "Version: 1",
    }
    assert {path.stat().st_mode & 0o777 for path in (tree, *found.values()) if path.is_dir()} == {0o755}
    assert {found[name].stat().st_mode & 0o777 for name in files} == {0o644}
    assert found["numpy/__init__.py"].samefile(site / "numpy/__init__.py")
    assert found["numpy/core/private.py"].stat().st_mtime == 1, "or what is compiled of it would count for nothing"
    assert not found["numpy/core/private.py"].samefile(site / "numpy/core/private.py")


def test_what_lies_on_another_file_system_is_copied(store):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as site:
        Path(site, "six.py").write_text("one = 1")
        tree = assemble_installed(store, "address", {"six.py": f"{site}/six.py"})
        assert (tree / "six.py").stat().st_dev != Path(site).stat().st_dev
    assert (tree / "six.py").read_text() == "one = 1"


_SMALL_DISK = """
import errno, os, subprocess, sys
from pathlib import Path
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.environments.installed_tree import assemble_installed
place = Path(sys.argv[1])
(place / "disk").mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", place / "disk"], check=True)
store = EnvironmentStore(place / "disk/environments")
for mib in (17, 15):
    (place / "large").touch()
    os.truncate(place / "large", mib << 20)
    try:
        print(mib, assemble_installed(store, "address", {"large": place / "large"}).name)
    except OSError as error:
        print(mib, errno.errorcode[error.errno])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_copies_leave_the_audit_log_its_room(tmp_path):
    """Each start of a server would fill the disk for a moment, and whoever writes there then would fail."""
    command = ["unshare", "--mount", sys.executable, "-c", _SMALL_DISK, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "17 ENOSPC\n15 address\n", done.stderr


def test_what_is_there_is_used_and_many_at_once_make_one(store, site):
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(assemble_installed(store, "address", sources(site))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [store.root / "installed/address"] * 4
    assert names(store.root / "installed") == ["address"]
    assert names(store.root / "work") == ["work.lock"]
    assert assemble_installed(store, "address", {"gone": "/gone"}) == made[0]


def test_what_is_not_made_to_its_end_is_not_there(store, site):
    with pytest.raises(FileNotFoundError):
        assemble_installed(store, "address", {**sources(site), "gone": f"{site}/gone"})
    assert names(store.root / "installed") == []
    (site / "numpy/loop").symlink_to(site)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        assemble_installed(store, "address", sources(site))
    assert names(store.root / "installed") == []


def test_where_somebody_else_could_have_made_it_nothing_is_believed(store, site):
    """P17: programs, and the fork server, which may do more, import what lies there."""
    assemble_installed(store, "address", sources(site))
    store.root.chmod(0o770)
    with pytest.raises(PermissionError, match="others can write to"):
        assemble_installed(store, "address", sources(site))
    store.root.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(store.root, 65_534, 0)
        with pytest.raises(PermissionError, match="others can write to"):
            assemble_installed(store, "address", sources(site))
        os.chown(store.root, 0, 0)
    store.root.rename(store.root.with_name("elsewhere"))
    store.root.symlink_to(store.root.with_name("elsewhere"))
    with pytest.raises(PermissionError, match="others can write to"):
        assemble_installed(store, "address", sources(site))


def test_an_empty_directory_that_no_backup_has_brought_back_is_made_again(store, site):
    """A server locks a file there for as long as it serves."""
    tree = assemble_installed(store, "address", sources(site))
    (store.root / "work/work.lock").unlink()
    (store.root / "work").rmdir()
    assert assemble_installed(store, "address", sources(site)) == tree
    with store.keep_installed("address"):
        pass


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.write_bytes(b"[" * 200_000)], ids=["pipe", "deep"])
def test_what_is_no_record_counts_for_nothing_and_keeps_nobody_waiting(store, make):
    store.create()
    make(store.root / "trees/address.json")
    make(store.root / "unpacked/wheel.json")
    assert store.list_trees() == []
    assert store.wheels.collect(3600) == set()


def test_where_nothing_can_be_locked_that_is_said_with_a_remedy(store, monkeypatch):
    """As on some network file systems."""

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    store.create()
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match="can't be locked: No locks available") as raised, store.hold("work"):
        pass
    assert "local disk" in raised.value.hint
    assert "local disk" in unwritable_error(store.root, OSError(errno.ENOLCK, "")).hint


def test_what_no_start_has_used_for_long_is_collected(store, site):
    used, unused = (assemble_installed(store, address, sources(site)) for address in ("used", "unused"))
    for tree in (used, unused):
        os.utime(tree, (1, 1))
    assemble_installed(store, "used", sources(site))
    with store.keep_installed("unused"), store.keep_installed("unused"):  # by two servers that have begun long ago
        store.collect([], 60)
        assert unused.exists()
    store.collect([], 60)
    assert (used.exists(), unused.exists()) == (True, False)
