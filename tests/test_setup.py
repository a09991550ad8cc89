"""``make setup``, as far as a test can go: it installs packages."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize("target", ["setup", "run"])
def test_a_checkout_that_is_mounted_with_noexec_is_told_so(tmp_path, target):
    (source := tmp_path / "source").mkdir()
    (mounted := tmp_path / "mounted").mkdir()
    shutil.copy(ROOT / "Makefile", source)
    shutil.copytree(ROOT / "scripts", source / "scripts")
    mount = f"mount -t tmpfs -o noexec,size=1m none {mounted} && cp -r {source}/. {mounted}"
    command = ["unshare", "--mount", "sh", "-c", f"{mount} && exec make -C {mounted} {target}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 2, told
    assert f"setup: {mounted} is on a file system that is mounted with noexec" in told.stderr
    assert f"mount -o remount,exec {mounted}\n" in told.stderr
