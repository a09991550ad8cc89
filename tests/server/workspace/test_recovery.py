"""What a start finds of a change that a crash has interrupted is told to the owner; and what lies in another mount."""

import hashlib
import logging
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests import shared_host

from gloveport.audit import read
from gloveport.bootstrap.workspace import open_workspace
from gloveport.config import Config
from gloveport.engine.caller import Caller
from gloveport.model.reading import read_value
from gloveport.server.fast_path import FastAnswer, FastCall
from gloveport.server.tools.fast_tools import fast_tools
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.file_swap import FileStep
from gloveport.workspace.patch.journal import COMMITTED, CommitRecord, Journal

STEP = FileStep(path="d/f", hidden=".gloveport-1", before=None, after="a" * 64, inode=None)
RECORD = CommitRecord(steps=(STEP,), made=(), emptied=(), undo=(0, 1))


@pytest.mark.parametrize(("state", "left"), [("old", ["d/f"]), ("new", [])])
async def test_a_change_that_was_interrupted_is_recorded_and_told(tmp_path, caplog, state, left):
    """W3, A1: also what was left because somebody has changed it since; and a quiet start says nothing."""
    root, environ = tmp_path / "project", {"GLOVEPORT_STATE": str(tmp_path / "state")}
    (root / "elsewhere").mkdir(parents=True)
    (root / "d").symlink_to("elsewhere")
    place = tmp_path / "state/workspaces" / hashlib.sha256(str(root).encode()).hexdigest()[:16] / "journal"
    with Journal.lock(place) as journal:
        journal.begin(RECORD)
        if state == "new":
            journal.end(COMMITTED)
    config = read_value(Config, {"pool": {"forked": 0, "booted": 0}, "workspace": {"root": str(root)}})
    for _ in range(2):  # the second finds nothing
        async with shared_host.assemble(config, environ) as engine, open_workspace(engine, config, environ, "stdio"):
            pass
    told = [one.fields for one in read.records(tmp_path / "state/audit") if one.kind == "workspace.recovered"]
    assert told == [{"root": str(root), "state": state, "left": left}]
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert sum("was interrupted" in one for one in warnings) == 1
    assert sum("'d/f'" in one for one in warnings) == len(left)


async def test_nothing_in_another_mount_is_done_at_once(served):
    """W1, W3, CT-R5: the machine's own root has one. A file system that never answers would hold up everybody."""
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        workspace = replace(served.service.sandboxes, tree=Tree(Path("/"), frozenset(), descriptor))
        writer = replace(served.service.writer, tree=workspace.tree)
        tools = fast_tools(replace(served.service, sandboxes=workspace, writer=writer))
        caller = Caller(name="test", session="test", share="test")
        assert tools["read_file"](FastCall(caller, "1", {"path": "etc/passwd"})) is not None
        assert tools["read_file"](FastCall(caller, "2", {"path": "proc/version"})) is None
        patch = "*** Begin Patch\n*** Add File: proc/sys/x\n+x\n*** End Patch"
        begun = tools["apply_patch"](FastCall(caller, "3", {"patch": patch}))
        assert not isinstance(begun, FastAnswer), "it is a task of its own"
    finally:
        os.close(descriptor)
