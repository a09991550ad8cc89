"""Writes, hooks, undo, pictures and protected places, as a client meets them; and how a workspace is opened."""

import base64
import hashlib
import io
import json
import os
import pwd
import stat
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from mcp import Client
from msgspec.structs import replace
from tests import shared_host
from tests.server.workspace.served import opened, owned

from gloveport.bootstrap.workspace import open_workspace
from gloveport.bootstrap.workspace_options import with_workspace
from gloveport.config import Config
from gloveport.config.schema import Hook
from gloveport.errors import ConfigError
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server

try:
    from PIL import Image
except ImportError:
    Image = None

pytestmark = pytest.mark.anyio

MINE = "*** Begin Patch\n*** Update File: {0}\n@@\n-{1}\n+{2}\n*** End Patch\n"


def added(path: str, text: str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"


@pytest.fixture
def hooked(served):
    """Clients of the workspace with these hooks."""

    def make(*hooks):
        settings = served.service.config.workspace.model_copy(update={"hooks": tuple(Hook(**one) for one in hooks)})
        config = served.service.config.model_copy(update={"workspace": settings})
        service = replace(served.service, config=config)
        return Client(make_server(served.engine, config, served.environ, "stdio", service))

    return make


async def told(client, tool, **arguments):
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def test_a_hook_formats_what_was_written_and_revisions_are_those_of_the_result(served, hooked):
    upper = {"files": ["*.up"], "command": "sed -i 's/.*/\\U&/'"}
    async with hooked(upper) as client:
        patch = "*** Begin Patch\n*** Add File: a b.up\n+one\n*** Add File: c.txt\n+two\n*** End Patch\n"
        answer = await told(client, "apply_patch", patch=patch)
        assert answer["warnings"] == []
        revisions = {one["path"]: one["revision"] for one in answer["affected_files"]}
        assert (served.root / "a b.up").read_text() == "ONE\n"
        assert (served.root / "c.txt").read_text() == "two\n"
        assert revisions["a b.up"] == hashlib.sha256(b"ONE\n").hexdigest()
        change = {"action": "write", "path": "a b.up", "content": "three\n", "revision": revisions["a b.up"]}
        await told(client, "apply_changes", changes=[change])
        assert (served.root / "a b.up").read_text() == "THREE\n"
        await told(client, "undo_patch")  # what the hook has made of it goes with it
        assert (served.root / "a b.up").read_text() == "ONE\n"
        await told(client, "undo_patch")
        assert not (served.root / "a b.up").exists()


async def test_what_is_taken_back_is_what_it_was_before_hooks_too(served, hooked):
    served.write("raw.up", "raw\n")
    async with hooked({"files": ["*.up"], "command": "sed -i 's/.*/\\U&/'"}) as client:
        await told(client, "apply_patch", patch=MINE.format("raw.up", "raw", "new"))
        assert (served.root / "raw.up").read_text() == "NEW\n"
        undone = await told(client, "undo_patch")
    assert (served.root / "raw.up").read_text() == "raw\n"
    assert undone["affected_files"][0]["revision"] == hashlib.sha256(b"raw\n").hexdigest()


async def test_a_hook_that_fails_says_so_among_the_warnings_and_the_write_stands(served, hooked):
    noisy = {"files": ["*.noisy"], "command": "sh -c 'echo line 1: bad style; exit 3'"}
    slow = {"files": ["*.noisy"], "command": "sleep 60 #", "seconds": 0.2}
    async with hooked(noisy, slow) as client:
        answer = await told(client, "apply_patch", patch=added("x.noisy", "1"))
        failed, late = answer["warnings"]
        assert "has failed (3): line 1: bad style" in failed
        assert "has not ended in time" in late
    assert (served.root / "x.noisy").read_text() == "1\n"


async def test_a_hook_runs_in_the_sandbox_and_only_after_a_write(served, hooked):
    """E5, W4: it reaches nothing else of the host, and no protected place."""
    outside = served.outside / "made"
    command = f"sh -c 'echo x > {outside}; echo x > .git/config; ls /proc | grep -c ^[0-9] > count' #"
    config = (served.root / ".git/config").read_bytes()
    async with hooked({"files": ["*.hooked"], "command": command}) as client:
        await told(client, "apply_patch", patch=added("x.hooked", "1"), dry_run=True)
        assert not (served.root / "count").exists()
        await told(client, "apply_patch", patch=added("x.hooked", "1"))
    assert int((served.root / "count").read_text()) < 10
    assert not outside.exists()
    assert (served.root / ".git/config").read_bytes() == config


async def test_the_last_change_is_taken_back(served):
    served.write("undo/kept.txt", "old\n", 0o755)
    await served.told("apply_patch", patch=MINE.format("undo/kept.txt", "old", "new"))
    made = "*** Begin Patch\n*** Add File: undo/made.txt\n+x\n*** Delete File: undo/kept.txt\n*** End Patch\n"
    await served.told("apply_patch", patch=made)
    assert not (served.root / "undo/kept.txt").exists()
    undone = await served.told("undo_patch")
    assert sorted(undone["summary"].splitlines()) == ["A undo/kept.txt", "D undo/made.txt"]
    assert (served.root / "undo/kept.txt").read_text() == "new\n"
    assert not (served.root / "undo/made.txt").exists()
    answer = await served.call("undo_patch")
    assert answer.content[0].text.startswith("1 file as before (+1 -1).\nM undo/kept.txt")
    assert (served.root / "undo/kept.txt").read_text() == "old\n"
    assert stat.S_IMODE((served.root / "undo/kept.txt").stat().st_mode) == 0o755


async def test_a_shell_has_apply_patch_with_the_rights_of_its_command(served):
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n{}\n*** End Patch\nEOF"
    said = await served.out(patch.format("*** Add File: shell/made.txt\n+$(id) `id`"))
    assert said == "Success. Updated the following files:\nA shell/made.txt\n"
    assert (served.root / "shell/made.txt").read_text() == "$(id) `id`\n"
    config = (served.root / ".git/config").read_bytes()
    for protected in ("*** Add File: .git/hooks/x\n+x", "*** Add File: /etc/x\n+1"):
        told = await served.run(patch.format(f"*** Delete File: shell/made.txt\n{protected}"))
        assert (told["exit_code"], "nothing was changed" in told["stderr"]) == (1, True), told
    assert (served.root / ".git/config").read_bytes() == config
    assert (served.root / "shell/made.txt").exists()


async def test_what_was_changed_since_is_not_taken_back(served):
    await served.told("apply_patch", patch=added("since.txt", "1"))
    await served.run("echo 2 > since.txt")
    error = await served.refused("undo_patch")
    assert (error["code"], error["details"]["path"]) == ("REVISION_MISMATCH", "since.txt")
    assert (served.root / "since.txt").read_text() == "2\n"


async def test_a_key_does_a_thing_once(served):
    count = len(served.records())
    first = await served.told("apply_patch", patch=added("once.txt", "1"), idempotency_key="one")
    (served.root / "once.txt").write_text("2\n")
    again = await served.told("apply_patch", patch=added("once.txt", "1"), idempotency_key="one")
    assert again == {**first, "idempotent_replay": True}
    assert (served.root / "once.txt").read_text() == "2\n"
    error = await served.refused("apply_patch", patch=added("twice.txt", "1"), idempotency_key="one")
    assert (error["code"], error["retryable"]) == ("IDEMPOTENCY_KEY_REUSED", False)
    written = [one.fields.get("written") for one in served.records()[count:] if one.kind == "write.ended"]
    assert written == [["once.txt"], [], None]


async def test_all_that_is_written_is_written_down(served):
    """A1: who, what, and how it ended; no contents."""
    count = len(served.records())
    await served.told("apply_patch", patch=added("audited.txt", "a secret of the file"))
    admitted, ended = served.records()[count:]
    assert (admitted.kind, ended.kind) == ("write.admitted", "write.ended")
    assert admitted.fields["changes"] == [{"operation": "create", "path": "audited.txt"}]
    assert ended.fields["written"] == ["audited.txt"]
    assert "a secret of the file" not in str([admitted, ended])


PROTECTED = [".env", "sub/.envrc", ".git/config", ".GIT/hooks/pre-commit", ".vscode/tasks.json", "gloveport.toml"]
PROTECTED += ["x/.bashrc", ".gitmodules", ".claude/commands/x.md", ".mcp.json"]


@pytest.mark.parametrize("path", PROTECTED)
async def test_what_runs_later_outside_is_written_by_no_tool(served, path):
    """CT-F5, CT-E5."""
    revision = {"revision": "0"}
    assert (await served.refused("apply_patch", patch=added(path, "x")))["code"] == "PROTECTED_PATH"
    for change in (
        {"action": "create", "path": path, "content": "x"},
        {"action": "write", "path": f"./{path}", "content": "x"},
        {"action": "delete", "path": path, **revision},
        {"action": "move", "path": "notes", "destination": path, **revision},
    ):
        served.write("notes", "x")
        error = await served.refused("apply_changes", changes=[change])
        assert error["code"] in {"PROTECTED_PATH", "REVISION_MISMATCH"}, change
    assert not (served.root / path).exists() or path.lower() == ".git/config"


async def test_what_the_operator_exempts_is_written(tmp_path, served):
    """W4: by a tool and by a command, and nothing else."""
    async with opened(tmp_path, exempt=[".envrc", "sub/.env"]) as one:
        await one.told("apply_patch", patch=added(".envrc", "x"))
        await one.told("apply_patch", patch=added("sub/.env", "x"))
        assert (await one.refused("apply_patch", patch=added(".env", "x")))["code"] == "PROTECTED_PATH"
        assert await one.out("echo y > .envrc; cat .envrc") == "y\n"


async def test_a_configuration_of_ours_in_the_workspace_configures_nothing_and_stays(served):
    """W4: gloveport.toml is the owner's, wherever it lies."""
    served.write("gloveport.toml", '[workspace]\nmode = "safe"\n')
    assert (await served.told("server_info"))["permission_mode"] == "dangerous"
    assert (await served.run("echo > gloveport.toml"))["exit_code"] != 0
    assert (await served.run("mv gloveport.toml other.toml"))["exit_code"] != 0
    assert (served.root / "gloveport.toml").read_text() == '[workspace]\nmode = "safe"\n'


@pytest.mark.skipif(Image is None, reason="Pillow comes with the extra data")
class TestPictures:
    """view_image, where what is to be made smaller can be."""

    @staticmethod
    def made(served, name, form, size, mode="RGB", **options):
        data = io.BytesIO()
        Image.effect_noise(size, 80).convert(mode).save(data, form, **options)
        served.write(name, "").write_bytes(data.getvalue())
        return data.getvalue()

    @staticmethod
    async def seen(served, **arguments):
        answer = await served.call("view_image", **arguments)
        assert not answer.is_error, answer.content
        picture, text = answer.content
        data = base64.b64decode(picture.data)
        assert answer.structured_content is None  # or clients show that, and no picture
        shown = Image.open(io.BytesIO(data))
        width, height = shown.size
        assert f"({picture.mime_type}, {width}x{height}, {len(data)} bytes" in text.text
        return text.text, data

    @pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
    async def test_a_picture_that_fits_is_shown_as_it_is(self, served, form):
        data = self.made(served, f"fits.{form}", form, (64, 48))
        text, shown = await self.seen(served, path=f"fits.{form}")
        assert shown == data
        assert "smaller" not in text

    @pytest.mark.parametrize(
        ("form", "mode"),
        [("PNG", "RGBA"), ("PNG", "P"), ("GIF", "P"), ("JPEG", "CMYK"), ("WEBP", "RGB"), ("PNG", "LA")],
    )
    async def test_one_that_does_not_fit_is_made_smaller(self, served, form, mode):
        data = self.made(served, f"large.{form}", form, (400, 300), mode)
        text, shown = await self.seen(served, path=f"large.{form}", max_width=100, max_bytes=20_000)
        assert "100x75" in text
        assert len(shown) <= 20_000
        assert f"made smaller from 400x300, {len(data)} bytes" in text

    async def test_without_leave_to_make_it_smaller_pixels_are_let_through_and_bytes_are_not(self, served):
        data = self.made(served, "wide.png", "PNG", (400, 300))
        text, shown = await self.seen(served, path="wide.png", max_width=100, auto_resize=False)
        assert (shown, "smaller" in text) == (data, False)
        error = await served.refused("view_image", path="wide.png", max_bytes=1024, auto_resize=False)
        assert error["code"] == "OUTPUT_TOO_LARGE"

    async def test_one_that_can_not_be_made_so_small_is_refused(self, served):
        self.made(served, "noise.png", "PNG", (400, 300))
        error = await served.refused("view_image", path="noise.png", max_bytes=1024)
        assert "it can't be made so small" in error["message"]


def bomb(width: int, height: int, body: bytes) -> bytes:
    """A PNG whose header promises this."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


HOSTILE = {
    "bomb": bomb(60_000, 60_000, zlib.compress(b"\0" * 1_000_000)),
    "torn": bomb(3000, 3000, zlib.compress(b"\0" * 9000)[:20]),
    "garbage": bomb(3000, 3000, os.urandom(4096)),
    "gif": b"GIF89a" + struct.pack("<HH", 40_000, 40_000) + b"\xf7\0\0" + os.urandom(2048),
    "webp": b"RIFF\x64\0\0\0WEBPVP8X\x0a\0\0\0" + b"\0" * 4 + b"\xff\x7f\0\xff\x7f\0" + os.urandom(64),
    "jpeg": b"\xff\xd8\xff\xc0\0\x11\x08\x75\x30\x75\x30\x03" + os.urandom(4096),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_picture_is_refused_by_the_sandbox_that_would_have_made_it_smaller(served, name):
    """CT-R3: the server decodes nothing, and goes on."""
    served.write(f"hostile.{name}", "").write_bytes(HOSTILE[name])
    error = await served.refused("view_image", path=f"hostile.{name}")
    assert error["code"] in {"OUTPUT_TOO_LARGE", "BINARY_FILE"}
    assert await served.out("echo still here") == "still here\n"


@pytest.mark.parametrize(
    "made",
    [b"\x89PNG\r\n\x1a\n", b"", b"\x7fELF", bomb(9000, 9000, b""), b"GIF89a" + b"\xff" * 20],
    ids=["head", "nothing", "program", "large", "gif"],
)
async def test_what_a_decoder_that_was_taken_over_gives_back_is_looked_at(served, made, monkeypatch):
    """It can't name another type or size than what it sends has, nor another path."""
    served.write("taken.png", "").write_bytes(bomb(3000, 3000, b""))
    said = f"import sys; sys.stdout.buffer.write({made!r})"
    monkeypatch.setattr("gloveport.workspace.images.view._RESIZE", ("python3", "-c", said))
    error = await served.refused("view_image", path="taken.png")
    assert error["code"] in {"OUTPUT_TOO_LARGE", "BINARY_FILE"}
    assert error["details"]["path"] == "taken.png"


async def assembled(config, environ):
    async with (
        shared_host.assemble(config, environ) as engine,
        open_workspace(engine, config, environ, "stdio") as service,
    ):
        return service


def configured(root, **settings):
    told = {"pool": {"forked": 0, "booted": 0}, "workspace": {"root": str(root), **settings}}
    return read_value(Config, told)


@pytest.mark.parametrize("place", ["home", "state", "above the state", "no such", "file"])
async def test_a_directory_that_can_be_no_workspace_is_refused(tmp_path, place):
    """W2: not the home of anybody, and nothing that holds our own state."""
    state = tmp_path / "below/state"
    state.mkdir(parents=True)
    (tmp_path / "file").touch()
    home = Path(pwd.getpwuid(0).pw_dir)
    roots = {"home": home, "state": state, "above the state": state.parent}
    with pytest.raises(ConfigError):
        await assembled(configured(roots.get(place, tmp_path / place)), {"GLOVEPORT_STATE": str(state)})


@pytest.mark.parametrize(("root", "toolsets"), [("/nonexistent", ""), (None, "x")])
def test_what_the_command_line_says_of_a_workspace_is_checked(root, toolsets):
    with pytest.raises(ConfigError, match="--workspace" if root else "--toolsets"):
        with_workspace(Config(), {"root": root and Path(root), "toolsets": toolsets})


async def test_all_of_the_host_is_no_workspace(tmp_path):
    """W2."""
    config = with_workspace(configured(tmp_path), {"root": Path("/"), "toolsets": ""})
    with pytest.raises(ConfigError, match="workspace"):
        await assembled(config, {"GLOVEPORT_STATE": str(tmp_path / "state")})


async def test_where_the_toolset_is_not_asked_for_there_are_no_tools_of_the_workspace(tmp_path):
    (tmp_path / "project").mkdir()
    environ = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    assert await assembled(configured(tmp_path / "project", toolsets=["code"]), environ) is None


async def test_a_second_server_works_in_the_same_workspace(served):
    """A write of one is seen by the other, a stale revision is refused, undo takes back what was last."""
    config = served.service.config
    async with (
        shared_host.assemble(config, served.environ) as engine,
        open_workspace(engine, config, served.environ, "stdio") as service,
        Client(make_server(engine, config, served.environ, "stdio", service)) as other,
    ):
        await served.told("apply_patch", patch=added("shared.txt", "1"))
        revision = (await told(other, "read_file", path="shared.txt"))["revision"]
        await told(other, "apply_patch", patch=MINE.format("shared.txt", "1", "2"))
        change = {"action": "write", "path": "shared.txt", "content": "3", "revision": revision}
        assert (await served.refused("apply_changes", changes=[change]))["code"] == "REVISION_MISMATCH"
        assert (await told(other, "exec_command", cmd="cat shared.txt"))["stdout"] == "2\n"
        await served.told("undo_patch")
        assert (served.root / "shared.txt").read_text() == "1\n"


KILLED = """
import itertools, sys
from pathlib import Path
from gloveport.workspace.patch.writer import Writer
from gloveport.workspace.files.tree import Tree
from tests.workspace.patch.killed import in_child

root, journal = map(Path, sys.argv[1:])
patch = "".join(f"*** Update File: {name}\\n-old\\n+new\\n" for name in "ab")
with Tree.open_tree(root) as tree:
    for number in itertools.count(1):
        for name in "ab":
            (root / name).write_text("old\\n")
        in_child(lambda: Writer(tree, journal).apply_patch(f"*** Begin Patch\\n{patch}*** End Patch"), number)
        if {(root / name).read_text() for name in "ab"} == {"old\\n", "new\\n"}:
            break
        Writer(tree, journal).recover()
"""


async def test_what_a_killed_server_left_half_done_is_done_when_the_next_one_starts(tmp_path):
    """W3: from the journal, before the first call."""
    root, environ = tmp_path / "project", {"GLOVEPORT_STATE": str(tmp_path / "state")}
    root.mkdir()
    owned(root)
    journal = tmp_path / "state/workspaces" / hashlib.sha256(str(root).encode()).hexdigest()[:16] / "journal"
    journal.parent.mkdir(parents=True)
    subprocess.run([sys.executable, "-c", KILLED, str(root), str(journal)], cwd=Path(__file__).parents[3], check=True)
    assert {(root / name).read_text() for name in "ab"} == {"old\n", "new\n"}
    await assembled(configured(root), environ)
    assert len({(root / name).read_text() for name in "ab"}) == 1


async def test_paths_are_shown_and_taken_as_the_files_are_called(served):
    """CT-U3, W2: names that are not ASCII, or no text at all, go back in as they came out."""
    (served.root / "naïve ☃.txt").write_text("x\n")
    raw = os.fsencode(served.root) + b"/caf\xe9.txt"
    Path(os.fsdecode(raw)).write_text("y\n")
    owned(Path(os.fsdecode(raw)))
    entries = (await served.told("git_status"))["entries"]
    assert "naïve ☃.txt" in {one["path"] for one in entries}
    listed = (await served.told("list_files", glob="caf*"))["files"]
    assert json.loads(json.dumps(listed)) == listed
    assert (await served.told("read_file", path=listed[0]["path"]))["content"] == "y\n"
    Path(os.fsdecode(raw)).unlink()


async def test_a_text_is_replaced_and_the_change_taken_back(served):
    """W4: by its text alone; all places need the revision of what was read."""
    served.write("src/edited.py", "a = 1\nb = 1\n")
    told = await served.told("edit_file", path="src/edited.py", old_string="a = 1", new_string="a = 2", dry_run=True)
    assert (told["dry_run"], (served.root / "src/edited.py").read_text()) == (True, "a = 1\nb = 1\n")
    told = await served.told("edit_file", path="src/edited.py", old_string="a = 1", new_string="a = 2")
    (file,) = told["affected_files"]
    assert (file["replacements"], file["changed_ranges"][0]["start_line"]) == (1, 1)
    assert (served.root / "src/edited.py").read_text() == "a = 2\nb = 1\n"
    everywhere = {"path": "src/edited.py", "old_string": " = ", "new_string": "=", "replace_all": True}
    assert (await served.refused("edit_file", **everywhere))["code"] == "REVISION_REQUIRED"
    assert (await served.refused("edit_file", **everywhere, revision="0"))["code"] == "REVISION_MISMATCH"
    answer = await served.call("edit_file", **everywhere, revision=file["revision"])
    assert "2 replacements" in answer.content[0].text
    assert (served.root / "src/edited.py").read_text() == "a=2\nb=1\n"
    assert (await served.refused("edit_file", **everywhere, revision=file["revision"]))["code"] == "REVISION_MISMATCH"
    await served.told("undo_patch")
    await served.told("undo_patch")
    assert (served.root / "src/edited.py").read_text() == "a = 1\nb = 1\n"


async def test_a_text_that_stands_twice_or_nowhere_is_shown(served):
    """W4: what the next call needs is in the text, for models that see nothing else."""
    served.write("twice.py", "x = 1\ny = 2\nx = 1\n")
    answer = await served.call("edit_file", path="twice.py", old_string="x = 1", new_string="x = 2")
    assert answer.is_error
    assert answer.content[0].text.endswith("Near lines 1, 3:\n1: x = 1\n2: y = 2\n3: x = 1"), "each line once"
    answer = await served.call("edit_file", path="twice.py", old_string="y = 2\nz = 3", new_string="")
    assert (answer.is_error, "2: y = 2" in answer.content[0].text) == (True, True), answer
    missing = await served.refused("edit_file", path="none.py", old_string="a", new_string="b")
    empty = await served.refused("edit_file", path="none.py", old_string="", new_string="b")
    assert "apply_changes with the action create" in empty["details"]["retry_hint"]
    assert (missing["code"], "list_files" in missing["details"]["retry_hint"]) == ("NOT_FOUND", True)
    error = await served.refused("edit_file", path=".env", old_string="a", new_string="b")
    assert error["code"] == "PROTECTED_PATH"


async def test_a_path_that_lies_in_the_workspace_may_be_absolute(served):
    """W3: as the host spells it, and as commands do; nothing else is reached by that."""
    served.write("sub/here.txt", "here\n")
    seen = (await served.out("pwd")).strip()
    for root in {str(served.root), seen}:
        assert (await served.told("read_file", path=f"{root}/sub/here.txt"))["content"] == "here\n"
        assert (await served.told("list_dir", path=f"{root}/sub/"))["entries"][0]["name"] == "here.txt"
        assert (await served.told("search_text", query="here", path=f"{root}/sub"))["matches"]
        assert await served.out("cat here.txt", workdir=f"{root}/sub") == "here\n"
        assert (await served.told("git_status", path=f"{root}/sub"))["ok"]
        await served.told("edit_file", path=f"{root}//sub/here.txt", old_string="here", new_string="there")
        await served.told("edit_file", path="sub/here.txt", old_string="there", new_string="here")
        await served.told("apply_patch", patch=added(f"{root}/sub/new.txt", "x"))
        await served.told("apply_patch", patch=f"*** Begin Patch\n*** Delete File: {root}/sub/new.txt\n*** End Patch")
        for path in (f"{root}/../outside", f"{root}x", f"/x{root}", f"{root}/.env", "/etc/passwd"):
            error = await served.refused("edit_file", path=path, old_string="a", new_string="b")
            assert error["code"] in {"PATH_OUTSIDE_WORKSPACE", "ABSOLUTE_PATH_DENIED", "PROTECTED_PATH"}, path


def pdf(*pages: str) -> bytes:
    """One with a line of text on each page."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"]
    font = "<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    for at, text in enumerate(pages):
        drawn = f"BT /F 12 Tf 50 700 Td ({text}) Tj ET"
        objects.append(f"<</Type/Page/Parent 2 0 R/Resources{font}/Contents {4 + 2 * at} 0 R>>")
        objects.append(f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream")
    made, places = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj{text}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(made)}\n%%EOF"
    return f"{made}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


async def test_several_files_come_in_one_answer_and_none_loses_the_others(served):
    served.write("several/a.txt", "one\n")
    served.write("several/b.txt", "two\n" * 100)
    paths = ["several/a.txt", "several/none", str(served.root / "several/b.txt"), "/etc/passwd"]
    answer = await served.call("read_file", paths=paths, max_lines=2)
    first, none, last, outside = answer.structured_content["files"]
    assert (first["content"], last["content"]) == ("one\n", "two\n" * 2)
    assert first["revision"] == hashlib.sha256(b"one\n").hexdigest()
    assert (none["error"]["code"], outside["error"]["code"]) == ("NOT_FOUND", "ABSOLUTE_PATH_DENIED")
    text = answer.content[0].text
    assert text.index(f"[several/a.txt: lines 1-1 of 1, revision {first['revision']}]\none") == 0
    assert "[several/none: NOT_FOUND: " in text
    bounded = await served.told("read_file", paths=["several/b.txt", "several/b.txt", "several/a.txt"], max_bytes=600)
    assert [one["output_bytes"] for one in bounded["files"]] == [400, 200]
    assert bounded["files"][1]["next_start_line"] == 51
    assert bounded["next_action"] == {
        "tool": "read_file",
        "arguments": {"paths": ["several/a.txt"], "max_bytes": 600},
    }
    for arguments in ({}, {"path": "a", "paths": ["b"]}, {"paths": []}):
        assert (await served.refused("read_file", **arguments))["code"] == "INVALID_ARGUMENT", arguments


async def test_each_of_several_files_may_say_which_lines_are_wanted_of_it(served):
    served.write("several/long.txt", "".join(f"{number}\n" for number in range(1, 51)))
    paths = [
        "several/long.txt:4-5",
        f"{served.root}/several/long.txt:49-60",
        "several/long.txt:5-4",
        "several/long.txt:0-2",
    ]
    read = (await served.told("read_file", paths=[*paths, "several/long.txt"], start_line=50))["files"]
    assert [one.get("content", one.get("error", {}).get("code")) for one in read] == [
        "4\n5\n",
        "49\n50\n",
        "",
        "NOT_FOUND",
        "50\n",
    ]
    assert len({one["revision"] for one in read if "revision" in one}) == 1


async def test_a_pdf_is_read_as_text_made_in_a_sandbox(served):
    served.write("paper.pdf", "").write_bytes(pdf("first words", "second words", "third words"))
    read = await served.told("read_file", path="paper.pdf")
    assert (read["document"], read["page_range"], read["pages"]) == ("pdf", "1-3", 3)
    assert read["content"].splitlines()[:3] == ["--- page 1 of 3 ---", "first words", "--- page 2 of 3 ---"]
    part = await served.told("read_file", paths=["paper.pdf"], pages="2-2", line_numbers=True)
    assert part["files"][0]["content"] == "1\t--- page 2 of 3 ---\n2\tsecond words\n"
    assert "pages: paper.pdf has 3 pages" in (await served.refused("read_file", path="paper.pdf", pages="7"))["message"]
    raw = await served.told("read_file", path="paper.pdf", raw=True)
    assert raw["content"].startswith("%PDF-1.4")
    assert "pypdf" not in sys.modules


async def test_what_no_parser_can_read_is_refused_and_harms_nobody(served):
    """Documents are hostile: what they make of their parser stays in its sandbox."""
    cyclic = pdf("x").replace(b"[3 0 R]", b"[2 0 R]")
    hostile = {"deep.ipynb": b"[" * 1_000_000, "cyclic.pdf": cyclic, "cut.pdf": pdf("x")[:30]}
    for name, content in hostile.items():
        served.write(name, "").write_bytes(content)
        answer = await served.call("read_file", path=name)
        if name.endswith(".pdf"):
            assert answer.structured_content["error"]["code"] == "BINARY_FILE", name
        else:
            assert "document" not in answer.structured_content  # its own lines
    assert (await served.refused("read_file", path="a.pdf"))["code"] == "NOT_FOUND"
    served.write("named.pdf", "only text\n")
    assert (await served.told("read_file", path="named.pdf"))["content"] == "only text\n"


async def test_a_notebook_is_read_as_cells_with_bounded_outputs_and_named_pictures(served):
    picture = base64.b64encode(bytes(3000)).decode()
    code = {
        "cell_type": "code",
        "execution_count": 7,
        "source": ["x = 1\n", "x"],
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["long " * 2000]},
            {"output_type": "display_data", "data": {"image/png": picture, "text/plain": "<Figure>"}},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mred\x1b[0m"]},
        ],
    }
    words = {"cell_type": "markdown", "source": f"![](data:image/png;base64,{picture})"}
    broken = {"cell_type": "code", "source": 3}
    notebook = {"nbformat": 4, "cells": [words, code, broken]}
    served.write("book.ipynb", json.dumps(notebook))
    read = await served.told("read_file", path="book.ipynb")
    assert (read["document"], read["pages"], "revision" in read) == ("notebook", 3, False)
    assert "--- cell 2: code, run 7 ---\nx = 1\nx\n--- output of cell 2 ---\nlong " in read["content"]
    assert "[image/png, 4000 characters]\n<Figure>\n--- output of cell 2 ---\nred\n" in read["content"]
    assert "data:image/png;base64,[left out]" in read["content"]
    assert len(read["content"]) < 5000
    assert "[this cell can't be read: TypeError]" in read["content"]
    assert "revision" in await served.told("read_file", path="book.ipynb", raw=True)
