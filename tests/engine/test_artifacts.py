"""What programs leave in /out, and what hostile ones leave there, on the real kernel (E3)."""

import contextlib
import hashlib
import os
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.engine import previews
from gloveport.engine.artifacts import _read_about
from gloveport.engine.previews import LONG_EDGE, SHOWN_BYTES, picture_of, shown_pictures
from gloveport.engine.run_context import RunContext
from gloveport.model import Narrowing, Policy, Request
from gloveport.model.reading import read_value
from gloveport.untrusted_text import is_visible

pytestmark = pytest.mark.anyio

IN_EVERY_LANGUAGE = {
    "python": "open('/out/a.txt', 'w').write('left\\n')",
    "typescript": "await Deno.writeTextFile('/out/a.txt', 'left\\n')",
    "javascript": "await Deno.writeTextFile('/mnt/data/a.txt', 'left\\n')",
    "shell": "echo left > /mnt/user-data/outputs/a.txt",
}


@contextlib.asynccontextmanager
async def assemble(state, temperature, **tables):
    ahead = 1 if temperature == "warm" else 0
    config = read_value(Config, {"pool": PoolSettings(forked=ahead, booted=ahead), **tables})
    async with app.assemble(config, {"GLOVEPORT_STATE": str(state)}) as engine:
        yield engine


@pytest.fixture(scope="module")
async def engines(tmp_path_factory):
    """An engine for all whom the default configuration does, of each temperature."""
    async with contextlib.AsyncExitStack() as stack:
        yield {
            kind: await stack.enter_async_context(assemble(tmp_path_factory.mktemp(kind), kind))
            for kind in ("cold", "warm")
        }


@pytest.fixture(params=["cold", "warm"])
def opened(request, engines, tmp_path):
    """``async with opened() as run``: ``await run(code)`` executes a program, ``run.engine`` has done it."""

    @contextlib.asynccontextmanager
    async def make(**tables):
        own = assemble(tmp_path / "state", request.param, **tables)
        async with own if tables else contextlib.nullcontext(engines[request.param]) as engine:

            async def run(code, language="python", *, shows=False, **rest):
                asked = Request(language=language, code=code, **rest)
                context = RunContext(shows_pictures=shows)
                return await engine.execute(asked, caller="test", share="me", context=context)

            run.engine = engine
            yield run

    return make


# Of what is made of the files when the program is dead: where it has run is all the same.
once = pytest.mark.parametrize("opened", ["warm"], indirect=True)


def read(run, one, owner="me"):
    found = run.engine.artifacts.find(one.uri, owner)
    return found and found.read(0, 1 << 30)


def named(result):
    return {one.path: one for one in result.artifacts.files}


@pytest.mark.parametrize("language", IN_EVERY_LANGUAGE)
async def test_what_is_left_in_out_is_kept_for_who_has_run_it_alone(opened, language):
    async with opened() as run:
        result = await run(IN_EVERY_LANGUAGE[language], language)
        assert result.status == "ok", result
        (one,) = result.artifacts.files
        assert (one.path, one.mime_type, one.bytes) == ("/out/a.txt", "text/plain", 5)
        assert one.sha256 == hashlib.sha256(b"left\n").hexdigest()
        assert read(run, one) == b"left\n"
        assert read(run, one, owner="you") is None
        assert result.artifacts.expires_in_seconds == 3600


async def test_what_nobody_leaves_is_nothing(opened):
    async with opened() as run:
        result = await run("import os; os.listdir('/out')")
        assert (result.value, result.artifacts.files, result.artifacts.left_out) == ([], (), ())


async def test_what_is_left_is_kept_though_the_program_fails_or_is_killed(opened):
    async with opened() as run:
        failed = await run("open('/out/a', 'w').write('x'); 1 / 0")
        late = await run("open('/out/a', 'w').write('x')\nwhile True: pass", limits=Narrowing(wall_seconds=1))
        assert (failed.status, late.status) == ("error", "timeout")
        assert list(named(failed)) == list(named(late)) == ["/out/a"]


async def test_files_lie_in_directories_and_nothing_but_files_is_taken(opened):
    """P40: no link is followed, wherever it leads, and what is no file is not even opened."""
    code = """\
import os, socket
os.makedirs('/out/a/b')
open('/out/a/b/c.txt', 'w').write('x')
os.symlink('/etc/passwd', '/out/link')
os.symlink('/etc', '/out/a/directory')
os.symlink('/proc/self/environ', '/out/magic')
os.mkfifo('/out/pipe')
try:
    os.mknod('/out/device', 0o600 | 0o020000, os.makedev(1, 3))
except PermissionError:
    pass
os.makedirs('/out/' + '/'.join('d' * 20)), open('/out/' + '/'.join('d' * 20) + '/deep', 'w').write('x')
"""
    async with opened() as run:
        result = await run(code)
        assert result.status == "ok", result.error
        assert list(named(result)) == ["/out/a/b/c.txt"]
        assert set(result.artifacts.left_out) == {
            "/out/link: a link",
            "/out/a/directory: a link",
            "/out/magic: a link",
            "/out/pipe: a pipe",
            f"/out/{'/'.join('d' * 9)}: it lies too deep",
        }


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("shown", "path", "about", "x")), inner),
    )
)
def test_whatever_a_report_says_of_files_is_one_printable_line_or_nothing(report):
    """P14, P40: it is the program's word."""
    about = _read_about(report)
    assert len(about) <= 64
    assert all(is_visible(text) or "\\" in text for text in about.values())
    assert all(isinstance(text, str) and "\n" not in text for text in about.values())


@once
async def test_what_a_hostile_program_says_of_its_files_is_bounded_text(opened):
    code = """\
import sys
files = display.__globals__['load']('files')
open('/out/a', 'w').write('x')
files.take_shown = lambda: [{'path': 'a', 'about': 'x\\n' * 1_000 + '\\x1b[2J'}] * 90 + [None, 7, {'path': 3}]
"""
    async with opened() as run:
        result = await run(code)
        assert result.status == "ok", result.error
        (one,) = result.artifacts.files
        assert len(one.about) <= 600
        assert one.about.isprintable()


@once
async def test_names_are_shown_without_what_hides_or_moves_a_cursor(opened):
    code = r"""
for name in (b'\xff\xfe', b'a\nb', b'\x1b[2J', '\u202egnp.exe'.encode(), b'...', b'-rf', b' ', '雨'.encode()):
    open(b'/out/' + name, 'w').write('x')
"""
    async with opened() as run:
        result = await run(code)
        assert set(named(result)) == {
            r"/out/\xff\xfe",
            r"/out/a\nb",
            r"/out/\u001b[2J",
            r"/out/\u202egnp.exe",
            "/out/...",
            "/out/-rf",
            "/out/ ",
            "/out/雨",
        }
        assert all(read(run, one) == b"x" for one in result.artifacts.files)


@once
async def test_names_that_look_the_same_are_two(opened):
    async with opened() as run:
        result = await run(r"open('/out/a\n', 'w').write('1'); open(r'/out/a\n', 'w').write('2')")
        assert len(named(result)) == 2
        assert {read(run, one) for one in result.artifacts.files} == {b"1", b"2"}


@once
async def test_a_file_of_holes_costs_no_more_than_what_may_be_kept(opened):
    """Bounded by what is read, not by what was written."""
    async with opened() as run:
        result = await run(
            "open('/out/a', 'wb').truncate(60 << 20); open('/out/b', 'wb').truncate(20 << 20)\n"
            "open('/out/c', 'wb').truncate(20 << 20)"
        )
        assert {path: one.bytes for path, one in named(result).items()} == {"/out/b": 20 << 20}
        assert [line.split(": ")[0] for line in result.artifacts.left_out] == ["/out/a", "/out/c"]


async def test_a_file_that_grows_is_read_when_nobody_can_write_to_it_any_more(opened):
    code = """\
import os
grows, tell = os.pipe()
if os.fork() == 0:
    with open('/out/a', 'wb', buffering=0) as file:
        file.write(b'x' * 4096)
        os.write(tell, b'.')
        while True:
            file.write(b'x' * 4096)
os.read(grows, 1)
os._exit(0)
"""
    async with opened() as run:
        result = await run(code)
        (one,) = result.artifacts.files
        assert 0 < one.bytes <= 32 << 20
        assert read(run, one).count(b"x") == one.bytes


@once
async def test_of_many_files_as_many_are_taken_as_may_be_and_the_rest_is_counted(opened):
    async with opened() as run:
        result = await run("for number in range(20_000): open(f'/out/{number:05}', 'w').close()")
        assert result.status == "ok", result.error
        assert len(result.artifacts.files) == 64
        assert result.artifacts.left_out_total == 4096 - 64 + 1
        assert len(result.artifacts.left_out) == 8


async def test_a_directory_that_was_replaced_or_closed_gives_what_it_had(opened):
    async with opened() as run:
        assert (await run("import os; os.chmod('/out', 0)")).artifacts.files == ()
        closed = await run("import os; os.mkdir('/out/d'); open('/out/d/a', 'w'); os.chmod('/out/d', 0)")
        assert list(named(closed)) == (["/out/d/a"] if os.geteuid() == 0 else [])


async def test_a_full_directory_ends_no_host_and_the_next_run_has_an_empty_one(opened):
    """T5: ``limits.out_bytes``."""
    async with opened(policy=read_value(Policy, {"limits": {"out_bytes": "1MiB"}})) as run:
        for language, code in (
            ("python", "open('/out/a', 'wb').write(b'x' * (2 << 20))"),
            ("typescript", "Deno.writeFileSync('/out/a', new Uint8Array(2 << 20))"),
            ("shell", "head -c 2M /dev/zero > /out/a"),
        ):
            full = await run(code, language)
            assert (full.status, full.limits_hit) == ("error", ("out_bytes",)), full
            assert "/out is full" in full.hint
        scratch = await run("head -c 65M /dev/zero > /tmp/a", "shell")
        assert scratch.limits_hit != ("out_bytes",)
        assert (await run("import os; os.listdir('/out')")).value == []


@once
async def test_a_secret_is_taken_out_of_what_is_kept(opened):
    """N6: a text as well as other bytes, also over the edge of two pieces."""
    async with opened() as run:
        run.engine.gateway.vault.remember("weather.bearer", "hunter2-hunter2-hunter2")
        result = await run(
            "key = 'hunter2-' * 2 + 'hunter2'\n"
            "open('/out/a.txt', 'w').write('x' * ((1 << 18) - 10) + key + 'end')\n"
            "open('/out/b.bin', 'wb').write(b'\\0\\xff' + key.encode())\n"
        )
        for one in result.artifacts.files:
            assert b"hunter2-hunter2" not in read(run, one)
            assert b"weather.bearer" in read(run, one)
            assert hashlib.sha256(read(run, one)).hexdigest() == one.sha256


def png(width, height, row, depth=8):
    """A picture of grey rows, with so many bits for each pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(b"\0" + row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@once
async def test_a_picture_that_is_too_large_is_made_smaller_in_a_sandbox(opened):
    picture = png(4000, 1000, bytes(range(250)) * 16)
    async with opened() as run:
        code = "import shutil; shutil.copy('a.png', '/out/a.png'); shutil.copy('a.png', '/out/b.jpg')"
        result = await run(code, files={"a.png": picture}, shows=True)
        one, two = result.artifacts.files
        assert [(one.width, one.height, one.mime_type, one.not_shown)] * 2 == [
            (4000, 1000, "image/png", ""),
            (two.width, two.height, two.mime_type, two.not_shown),
        ]
        assert read(run, one) == picture
        shown = shown_pictures(run.engine.artifacts, result.artifacts.files, "me")
        assert [struct.unpack_from(">II", picture.data, 16) for picture in shown] == [(LONG_EDGE, 392)] * 2


@once
async def test_a_picture_bomb_is_not_shown_and_harms_nobody(opened):
    """30,000 by 30,000, and a header of 60,000 by 60,000: decoded in a sandbox alone, which does not survive it."""
    bomb = png(30_000, 30_000, bytes(3_750), depth=1)
    lie = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 60_000, 60_000, 8, 2, 0, 0, 0)
    async with opened() as run:
        code = "import shutil\nfor name in ('bomb.png', 'lie.png', 'small.png'): shutil.copy(name, '/out')"
        files = {"bomb.png": bomb, "lie.png": lie, "small.png": png(10, 10, bytes(10))}
        result = await run(code, files=files, shows=True)
        assert result.status == "ok", result.error
        told = {one.path: one.not_shown for one in result.artifacts.files}
        assert told["/out/bomb.png"] == "30000x30000 could not be made small enough"
        assert told["/out/lie.png"] == "60000x60000 could not be made small enough"
        assert told["/out/small.png"] == ""
        assert len(shown_pictures(run.engine.artifacts, result.artifacts.files, "me")) == 1
        assert (await run("6 * 7")).value == 42


@once
async def test_pictures_that_take_long_hold_up_no_answer(opened, monkeypatch):
    """P8: a run holds its place meanwhile. Each can still be shown when it is asked for."""
    monkeypatch.setattr(previews, "_ALL_PREVIEWS_SECONDS", 0.0)
    files = {"a.png": png(10, 10, bytes(10)), "b.png": png(4000, 1000, bytes(range(250)) * 16)}
    async with opened() as run:
        code = "import shutil\nfor name in ('a.png', 'b.png'): shutil.copy(name, '/out')"
        result = await run(code, files=files, shows=True)
        small, large = result.artifacts.files
        assert (small.not_shown, large.not_shown) == ("", "its preview took too long; read_artifact shows it")
        found = run.engine.artifacts.find(large.uri, "me")
        await run.engine.show_picture(found, "me")
        assert picture_of(found).mime_type == "image/png"


@once
async def test_no_more_pictures_are_shown_than_an_answer_holds(opened):
    """E3: at most four, and all of them within the bytes that clients take."""
    code = """\
import os, struct, zlib
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
for number in range(6):
    rows = b''.join(b'\\0' + os.urandom(3 * 260) for _ in range(260))
    head = struct.pack('>IIBBBBB', 260, 260, 8, 2, 0, 0, 0)
    chunks = chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
    open(f'/out/{number}.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunks)
"""
    async with opened() as run:
        result = await run(code, shows=True)
        assert len(result.artifacts.files) == 6
        shown = shown_pictures(run.engine.artifacts, result.artifacts.files, "me")
        assert len(shown) == 4
        assert [bool(one.not_shown) for one in result.artifacts.files] == [False] * 4 + [True] * 2
        assert sum(len(one.data) for one in shown) <= SHOWN_BYTES


@pytest.mark.parametrize("language", IN_EVERY_LANGUAGE)
async def test_files_come_with_a_program(opened, language):
    """E3: where it begins, and they are its own to change."""
    code = {
        "python": "open('d/b', 'ab').write(b'!'); open('a.txt').read() + str(open('d/b', 'rb').read())",
        "shell": "printf '!' >> d/b; cat a.txt; cat d/b",
    }.get(
        language,
        "Deno.writeTextFileSync('d/b', '!', {append: true});"
        "Deno.readTextFileSync('a.txt') + Deno.readFileSync('d/b').length",
    )
    async with opened() as run:
        result = await run(code, language, files={"a.txt": "é".encode(), "d/b": b"\xff\0"})
        assert result.status == "ok", result.error
        expected = {"python": "éb'\\xff\\x00!'", "shell": None}.get(language, "é3")
        assert result.value == expected
        if language == "shell":
            assert result.stdout.text.startswith("é")


async def test_a_module_that_comes_with_a_program_is_imported_as_the_hint_says(opened):
    async with opened() as run:
        files = {"b.ts": b"export const n: number = 3"}
        relative = await run("import { n } from './b.ts'; n", "typescript", files=files)
        source = relative.hint.partition(" from ")[2].replace("NAME", "b.ts")
        assert (await run(f"import {{ n }} from {source}; n", "typescript", files=files)).value == 3, relative


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"../a": b""}, "file_name_not_allowed"),
        ({"/etc/a": b""}, "file_name_not_allowed"),
        ({"a//b": b""}, "file_name_not_allowed"),
        ({"a\n": b""}, "file_name_not_allowed"),
        ({"": b""}, "file_name_not_allowed"),
        ({"a" * 201: b""}, "file_name_not_allowed"),
        ({"a/" * 1_000_000: b""}, "file_name_not_allowed"),
        ({"a": b"", "a/b": b""}, "file_name_not_allowed"),
        ({f"{number}": b"" for number in range(65)}, "file_name_not_allowed"),
        ({"a": b"x" * (2 << 20)}, "files_too_large"),
    ],
)
async def test_files_that_may_not_be_are_refused_and_nothing_runs(engine, records, files, code):
    """T5: ``limits.input_bytes``; T6: what came is written down by digest."""
    refused = await engine.execute(Request(language="python", code="1", files=files), caller="test")
    assert (refused.status, refused.error.type) == ("denied", code)
    assert refused.hint
    assert "execute.admitted" not in [record.kind for record in records()]


async def test_what_came_and_what_was_left_is_written_down(engine, records):
    """T6, A1: names and digests of what comes, and how much was left."""
    await engine.execute(
        Request(language="python", code="open('/out/x', 'w').write('12345')", files={"a": b"in"}), caller="test"
    )
    admitted, ended = (record.fields for record in records())
    assert admitted["files"] == {"a": hashlib.sha256(b"in").hexdigest()}
    assert (ended["artifacts"], ended["artifact_bytes"]) == (1, 5)


async def test_files_that_come_into_a_session_are_written_through_no_link_and_over_nothing(opened, tmp_path):
    (tmp_path / "outside").mkdir(mode=0o777)
    async with opened() as run:
        begun = await run(
            f"import os; os.symlink({str(tmp_path / 'outside')!r}, 'd'); os.symlink('/tmp/kept', 'link')\n"
            "open('kept', 'w').write('kept')",
            session="new",
        )
        for name in ("d/a", "link", "kept"):
            refused = await run("1", session=begun.session.id, files={name: b"x"})
            assert (refused.status, refused.error.type) == ("denied", "files_not_written"), name
        after = await run("open('kept').read(), open('new').read()", session=begun.session.id, files={"new": b"new"})
        assert after.value == ["kept", "new"]
        assert list((tmp_path / "outside").iterdir()) == []


async def test_a_session_names_what_is_new_or_another_in_each_call(opened):
    async with opened() as run:
        first = await run("open('/out/a', 'w').write('1'); open('/out/b', 'w').write('1')", session="new")
        assert list(named(first)) == ["/out/a", "/out/b"]
        again = await run("open('/out/b', 'w').write('22'); open('/out/c', 'w').write('3')", session=first.session.id)
        assert list(named(again)) == ["/out/b", "/out/c"]
        assert (await run("1", session=first.session.id)).artifacts.files == ()
        assert read(run, first.artifacts.files[0]) == b"1"


@pytest.mark.parametrize(
    ("settings", "is_kept"), [({"caller_bytes": "1MiB"}, False), ({"total_bytes": "1MiB"}, False), ({}, True)]
)
async def test_what_there_is_no_room_for_is_told_as_not_kept(environ, settings, is_kept):
    """T5: ``artifacts.caller_bytes``, ``artifacts.total_bytes``."""
    config = read_value(Config, {"pool": PoolSettings(forked=0, booted=0), "artifacts": settings})
    async with app.assemble(config, environ) as engine:
        code = "open('/out/a', 'wb').write(b'x' * (2 << 20))"
        result = await engine.execute(Request(language="python", code=code), caller="test")
        assert bool(result.artifacts.files) == is_kept
        assert bool(result.artifacts.left_out) != is_kept


async def test_what_is_kept_is_forgotten_after_the_time_that_the_operator_says(environ, eventually):
    """T5: ``artifacts.kept_seconds``."""
    config = read_value(Config, {"pool": PoolSettings(forked=0, booted=0), "artifacts": {"kept_seconds": 0.1}})
    async with app.assemble(config, environ) as engine:
        result = await engine.execute(Request(language="python", code="open('/out/a', 'w').write('1')"), caller="test")
        (one,) = result.artifacts.files
        eventually(lambda: engine.artifacts.find(one.uri, "test") is None)
