"""The faults of coding-tools-mcp in files, resources, gates and daily use, through the tools (CT-F, R, G, U, H).

Tests of single tools name those that they hold. CT-H5 to CT-H7 are faults of an authorization server, of which there is
none here: no header opens anything.
"""

import contextlib
import ctypes
import itertools
import os
import resource
import shutil
import socket
import stat
import threading
import time
from pathlib import Path

import anyio
import pytest
from tests.server.workspace.served import owned

from gloveport.server.protocol import make_server

pytestmark = pytest.mark.anyio


async def test_a_command_changes_no_file_outside_not_even_its_mode_or_time(served):
    """CT-F1."""
    outside = served.outside / "file"
    outside.write_text("x")
    owned(outside)
    before = outside.stat()
    path = str(outside)
    tries = [f"{what} {path}" for what in ("chmod 777", "chown 1:1", "touch", "setfattr -n user.x -v y", "stat")]
    told = await served.run("; ".join([*tries, f"cd {served.outside} && pwd", "chmod 777 /etc /usr", "true"]))
    assert told["stdout"] == ""
    assert outside.stat().st_ctime_ns == before.st_ctime_ns  # which every change of it would have changed


async def test_files_of_the_host_that_may_hold_tokens_are_not_there(served):
    """CT-F2: there is a configuration of git, and it is ours."""
    told = await served.run("cat /etc/shadow /etc/npmrc /etc/hostname ~/.netrc ~/.npmrc; ls /home /root /var/log; true")
    assert told["stdout"] == ""
    assert (await served.out("git config --system --list")).splitlines()[0] == "user.name=agent"


def exchanging(one: Path, other: Path, stop: threading.Event) -> None:
    """Exchange two names, again and again: what a program in the sandbox can do with its own files."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    names = [os.fsencode(one), os.fsencode(other)]
    while not stop.is_set():
        exchange(-100, names[0], -100, names[1], 2)


@pytest.fixture
def racing(served):
    """A directory that is a link to one outside every other moment."""
    (served.outside / "race").mkdir(exist_ok=True)
    (served.outside / "race/file").write_text("outside\n")
    served.write("race/file", "inside\n")
    link = served.root / "race.link"
    link.symlink_to(served.outside / "race")
    stop = threading.Event()
    thread = threading.Thread(target=exchanging, args=(served.root / "race", link, stop))
    thread.start()
    yield served.outside / "race"
    stop.set()
    thread.join()
    for name in ("race", "race.link"):
        path = served.root / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)


async def test_a_directory_that_becomes_a_link_meanwhile_is_never_read_through(served, racing):
    """CT-F3. With 100,000 tries in tests/workspace/files/test_tree.py."""
    seen = {"inside": 0, "refused": 0}
    for _ in range(150):
        answer = await served.call("read_file", path="race/file")
        told = answer.structured_content
        if told["ok"]:
            assert told["content"] == "inside\n"
        else:
            assert told["error"]["code"] in {"SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE", "NOT_FOUND"}, told
        seen["inside" if told["ok"] else "refused"] += 1
    assert all(seen.values()), seen


async def test_a_directory_that_becomes_a_link_meanwhile_is_never_written_through(served, racing):
    """CT-F4: and nothing but the answers that a client knows comes of it."""
    codes = set()
    for number in range(70):
        patch = f"*** Begin Patch\n*** Add File: race/new{number}\n+x\n*** End Patch"
        told = (await served.call("apply_patch", patch=patch)).structured_content
        codes.add("ok" if told["ok"] else told["error"]["code"])
        assert [path.name for path in racing.iterdir()] == ["file"]
    assert "ok" in codes
    assert codes <= {"ok", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE", "PATCH_CONFLICT", "NOT_FOUND", "IS_DIRECTORY"}


async def test_readers_never_miss_a_file_that_is_being_replaced(served):
    """CT-F6."""
    served.write("hole.txt", "0\n")
    path, stop, missed, looked = served.root / "hole.txt", threading.Event(), [0], [0]

    def look():
        while not stop.is_set():
            looked[0] += 1
            try:
                path.stat()
            except FileNotFoundError:
                missed[0] += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(60):
            patch = f"*** Begin Patch\n*** Update File: hole.txt\n@@\n-{number}\n+{number + 1}\n*** End Patch"
            await served.told("apply_patch", patch=patch)
    finally:
        stop.set()
        thread.join()
    assert looked[0] > 100
    assert missed[0] == 0


async def test_a_patch_keeps_mode_owner_and_attributes_and_says_what_it_does_to_other_names(served):
    """CT-F7."""
    there = {path.name for path in served.root.iterdir()}
    path = served.write("kept.txt", "1\n", 0o751)
    os.setxattr(path, "user.kept", b"yes")
    os.link(path, served.root / "kept.link")
    before = path.stat()
    patch = "*** Begin Patch\n*** Update File: kept.txt\n@@\n-1\n+2\n*** End Patch"
    (warning,) = (await served.told("apply_patch", patch=patch))["warnings"]
    after = path.stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o751, before.st_uid, before.st_gid)
    assert os.getxattr(path, "user.kept") == b"yes"
    assert (served.root / "kept.link").read_text() == "1\n"  # a file that is replaced at one moment has one name
    assert "other names (hard links)" in warning
    assert {path.name for path in served.root.iterdir()} - there == {"kept.txt", "kept.link"}


def peak() -> int:
    """The most memory that this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


async def test_huge_files_are_read_within_little_memory(served):
    """CT-R2, CT-R3, CT-R4: one line of 700 MiB, as text, as a picture, and where a text is looked for."""
    huge = served.write("huge/sparse.txt", "")
    huge.write_bytes(b"\x89PNG\r\n\x1a\nneedle")
    os.truncate(huge, 700 << 20)
    before = peak()
    started = time.monotonic()
    assert (await served.refused("read_file", path="huge/sparse.txt", max_bytes=100))["code"] in {
        "BINARY_FILE",
        "OUTPUT_TOO_LARGE",
    }
    assert (await served.refused("view_image", path="huge/sparse.txt"))["code"] == "OUTPUT_TOO_LARGE"
    await served.told("search_text", query="needle", path="huge")
    assert time.monotonic() - started < 10
    assert peak() - before < 64
    huge.unlink()


async def test_one_line_that_is_longer_than_an_answer_is_read_within_little_memory(served):
    """CT-R2: of text, all of which has to be looked at for its revision."""
    line = served.write("long.txt", "")
    with line.open("wb") as file:
        for _ in range(48):
            file.write(b"x" * (1 << 20))
    before = peak()
    told = await served.told("read_file", path="long.txt", max_bytes=100)
    assert (told["content"], told["first_line_exceeds_limit"], told["truncated_by"]) == ("x" * 100, True, "bytes")
    assert peak() - before < 32
    line.unlink()


async def test_what_is_no_file_holds_nobody_up(served):
    """CT-R5: a FIFO, a socket, a link to a terminal."""
    directory = served.root / "special"
    directory.mkdir()
    os.mkfifo(directory / "fifo")
    (directory / "tty").symlink_to("/dev/tty")
    owned(directory)
    with anyio.fail_after(30):
        for tool in ("read_file", "view_image"):
            assert (await served.refused(tool, path="special/fifo"))["code"] == "NOT_A_FILE"
            assert (await served.refused(tool, path="special/tty"))["code"] == "SYMLINK_ESCAPE"
        assert (await served.told("search_text", query="x", path="special"))["matches"] == []
        patch = "*** Begin Patch\n*** Update File: special/fifo\n@@\n-x\n+y\n*** End Patch"
        assert not (await served.call("apply_patch", patch=patch)).structured_content["ok"]
        listed = (await served.told("list_dir", path="special"))["entries"]
        assert {one["name"]: one["type"] for one in listed} == {"fifo": "other", "tty": "symlink"}


async def test_an_expression_that_explodes_freezes_nobody(served):
    """CT-R6."""
    served.write("explodes.txt", "a" * 5000 + "!\n")
    answered = []

    async def search():
        told = await served.call("search_text", query="(a+)+$", regex=True, path="explodes.txt")
        answered.append(told)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            for _ in itertools.repeat(None, 20):
                with anyio.fail_after(5):
                    await served.told("read_file", path="explodes.txt", max_bytes=10)
    assert len(answered) == 1


async def test_what_it_says_of_its_walls_is_what_they_are(served):
    """CT-U1, CT-U11: also in words; and a path that is written nowhere is named nowhere."""
    answer = await served.call("check_exec_environment")
    told, text = answer.structured_content, answer.content[0].text
    assert told["landlock_enabled"] is True
    assert f"Landlock ABI {told['landlock_abi']}" in text
    assert "unavailable" not in text
    policy = told["workspace_mutation_policy"]
    assert (policy["enforced"], policy["enforced_by"], policy["write_paths"]) == (True, "mounts", [])
    assert (await served.run("touch made; ls made"))["stdout"] == "made\n"


async def test_a_call_that_has_failed_is_never_refused_for_that(served):
    """CT-U2: what was missing may be there by now."""
    for _ in range(4):
        assert (await served.refused("read_file", path="later.txt"))["code"] == "NOT_FOUND"
    served.write("later.txt", "now\n")
    assert (await served.told("read_file", path="later.txt"))["content"] == "now\n"


async def test_daily_tools_work_in_the_sandbox(served):
    """CT-U4."""
    assert (
        await served.out("python3 -c 'import multiprocessing as m; m.Lock(); print(m.Queue() is not None)'") == "True\n"
    )
    assert int(await served.out("nproc")) > 0
    assert await served.out("ps -e | wc -l") != "0\n"
    served.write("committed.txt", "x\n")
    await served.out("git add committed.txt && git commit -qm 'no identity was configured'")
    if Path("/usr/bin/node").exists():
        assert int(await served.out("node -p 'os.cpus().length'")) > 0


async def test_lines_are_counted_as_people_count_them(served):
    """CT-U7."""
    for command, lines in (("true", 0), ("seq 100", 100), ("printf x", 1), ("printf 'x\\n'", 1)):
        assert (await served.run(command))["stdout_output_lines"] == lines
    assert "100 lines" in (await served.run("seq 100", verbosity="summary"))["summary"]
    served.write("three.txt", "1\n2\n3\n")
    told = await served.told("read_file", path="three.txt")
    assert (told["total_lines"], told["output_lines"]) == (3, 3)


async def test_it_calls_nobody(served):
    """CT-U8: no telemetry: this process has no socket that is connected to anything."""
    await served.run("true")
    connected = [
        line
        for name in ("tcp", "tcp6", "udp", "udp6")
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
        if f" {line.split()[9]} " in inodes()
    ]
    assert connected == []


def inodes() -> str:
    """The sockets of this process."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(entry.readlink()))
    return " ".join(["", *(link[8:-1] for link in links if link.startswith("socket:[")), ""])


async def test_small_things_are_told_right(served):
    """CT-U12."""
    served.write(".gitignore", "*.ignored\n")
    served.write("x.ignored", "")
    listed = (await served.told("list_dir", include_ignored=True, include_hidden=True))["entries"]
    assert {one["name"]: one["is_ignored"] for one in listed}["x.ignored"] is True
    assert {one["name"]: one["is_ignored"] for one in listed}[".gitignore"] is False
    served.write("blamed.txt", "1\n2\n")
    served.git("add", "blamed.txt")
    served.git("commit", "-qm", "blamed")
    assert (await served.told("git_blame", path="blamed.txt", end_line=90))["end_line"] == 2
    assert (await served.told("git_status"))["upstream"] is None


async def test_a_short_command_is_answered_when_it_ends(served):
    """CT-U13: on no grid. Of twenty in a row not all take a multiple of twenty milliseconds."""
    taken = [(await served.run("true"))["elapsed_ms"] for _ in range(20)]
    assert {elapsed % 20 for elapsed in taken} != {taken[0] % 20}


@pytest.mark.parametrize("text", ["x" * 200_000, "", "x"])
async def test_a_command_that_reads_nothing_is_answered_whatever_it_was_to_read(served, text):
    """Its end comes before, while, or after what was to be read is written."""
    for _ in range(10):
        assert (await served.run("echo done", stdin=text))["stdout"] == "done\n"


async def test_the_server_has_no_door_of_its_own_for_a_browser(served):
    """CT-H8: no card tells everybody of the tools. Files come and go for whoever has a token: test_file_transfer."""
    server = make_server(served.engine, served.service.config, served.environ, "http", served.service)
    paths = [route.path for route in server.streamable_http_app(host="127.0.0.1").routes]
    assert paths == ["/mcp", "/artifacts/{token}", "/uploads"]


async def test_a_command_can_not_call_the_server(served):
    """CT-H1, CT-N3: not over loopback, which is another one, and not by its command line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        told = await served.run(f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'")
    assert told["exit_code"] == 1
    assert str(os.getpid()) not in (await served.out("ps -e -o pid= | tr -d ' '")).split()
