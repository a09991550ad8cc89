"""What an answer says and shows of files that a program left, and how they are read, in both protocol eras (E3)."""

import base64
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import Implementation
from tests.server.eras import both_eras

from gloveport.artifacts.artifact_store import Bundle, Found
from gloveport.server.tools.artifact_tool import read_lines

AGENT = Implementation(name="claude-code", version="1")
PIXELS = """\
import struct, zlib
def png(width, height):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = zlib.compress((b'\\0' + bytes(range(200)) * (width // 200)) * height)
    head = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
    return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', rows) + chunk(b'IEND', b'')
"""


@pytest.fixture
async def agent(connect):
    async with connect(client_info=AGENT) as connected:
        yield connected


@pytest.fixture
def execute(agent):
    async def call(code, **rest):
        return await agent.call_tool("execute_code", {"language": "python", "code": code, **rest})

    return call


def uri_of(result, number=1):
    found = re.search(r"artifact://[0-9a-f]{32}/", result.content[0].text)
    return f"{found[0]}{number}"


def kinds(result):
    return [block.type for block in result.content]


async def test_each_file_is_a_line_with_path_type_and_size_and_the_first_says_how_it_is_read(execute):
    result = await execute("open('/out/a.csv', 'w').write('a,b\\n'); open('/out/b.bin', 'wb').write(b'\\0'); None")
    *_, head, first, second = result.content[0].text.splitlines()
    assert re.fullmatch(
        r"artifacts, kept 60 min; read_artifact\(uri='artifact://[0-9a-f]{32}/1'\) reads the first:", head
    )
    assert first == "1. /out/a.csv (text/csv, 4 bytes)"
    assert second == "2. /out/b.bin (application/octet-stream, 1 bytes)"


async def test_a_picture_comes_beside_the_text_and_never_beside_structured_content(execute):
    result = await execute(PIXELS + "open('/out/a.png', 'wb').write(png(200, 100)); None")
    assert kinds(result) == ["text", "image"]
    assert "1. /out/a.png (image/png, 200x100, " in result.content[0].text
    assert result.content[1].mime_type == "image/png"
    assert base64.b64decode(result.content[1].data).startswith(b"\x89PNG")
    assert result.structured_content is None


async def test_who_reads_structured_content_gets_it_with_the_artifacts_and_no_picture(client):
    result = await client.call_tool(
        "execute_code",
        {"language": "python", "code": PIXELS + "open('/out/a.png', 'wb').write(png(200, 100)); None"},
    )
    assert kinds(result) == ["text"]
    (one,) = result.structured_content["artifacts"]["files"]
    assert (one["path"], one["width"], one["height"]) == ("/out/a.png", 200, 100)


async def test_a_whole_answer_with_pictures_stays_below_what_clients_take(execute):
    """950 kB: Claude Desktop refuses what is larger than a mebibyte."""
    code = PIXELS + (
        "import os\n"
        "for n in range(6):\n"
        "    open(f'/out/{n}.png', 'wb').write(png(2000, 1400))\n"
        "print('x' * 30_000); print('x' * 30_000, file=__import__('sys').stderr); None"
    )
    result = await execute(code)
    assert kinds(result) == ["text", "image", "image", "image", "image"]
    assert len(json.dumps(result.model_dump(mode="json", by_alias=True))) < 950_000
    for block in result.content[1:]:
        width = int.from_bytes(base64.b64decode(block.data)[16:20], "big")
        assert width == 1568


async def test_a_text_is_read_by_lines(agent, execute):
    result = await execute("open('/out/a.txt', 'w').write('\\n'.join(f'line {n}' for n in range(1, 2001))); None")
    uri = uri_of(result)

    async def read(**rest):
        answer = await agent.call_tool("read_artifact", {"uri": uri, **rest})
        return answer.content[0].text.splitlines()

    assert await read(limit=2) == ["line 1", "line 2", f"[read_artifact(uri={uri!r}, line=3) goes on]"]
    assert await read(line=1999) == ["line 1999", "line 2000"]
    assert await read(line=9999) == ["[/out/a.txt has 2000 lines]"]
    page = await read()
    assert (page[0], len(page)) == ("line 1", 501)


async def test_a_line_without_end_is_cut_and_says_so(agent, execute):
    result = await execute("open('/out/a.json', 'w').write('x' * 3_000_000 + '\\nend'); None")
    answer = await agent.call_tool("read_artifact", {"uri": uri_of(result)})
    first, last = answer.content[0].text.splitlines()
    assert len(first) < 5000
    assert first.endswith("bytes in this line]")
    assert last == "end"


async def test_what_is_read_moves_no_cursor_and_hides_nothing(agent, execute):
    result = await execute(r"open('/out/a.txt', 'w').write('a\x1b[2Jb\u202ec\rd\n'); None")
    answer = await agent.call_tool("read_artifact", {"uri": uri_of(result)})
    assert answer.content[0].text == "abc d"


async def test_a_page_or_a_drawing_with_a_script_is_text_and_named_as_what_it_is(agent, execute):
    left = {"a.svg": "<svg><script>1</script></svg>", "b.html": "<script>"}
    result = await execute(f"for name, text in {left}.items(): open(f'/out/{{name}}', 'w').write(text)")
    assert kinds(result) == ["text"]
    assert "(image/svg+xml, " in result.content[0].text
    assert "(text/html, " in result.content[0].text
    drawing = await agent.call_tool("read_artifact", {"uri": uri_of(result)})
    assert drawing.content[0].text == "<svg><script>1</script></svg>"
    resource = await agent.read_resource(uri_of(result))
    assert resource.contents[0].mime_type == "application/octet-stream"


async def test_a_picture_beyond_the_first_four_is_shown_when_it_is_asked_for(agent, execute):
    result = await execute(PIXELS + "for n in range(5): open(f'/out/{n}.png', 'wb').write(png(2000, 20))\nNone")
    fifth = await agent.call_tool("read_artifact", {"uri": uri_of(result, 5)})
    assert kinds(fifth) == ["text", "image"]
    assert int.from_bytes(base64.b64decode(fifth.content[1].data)[16:20], "big") == 1568


async def test_what_is_no_text_and_no_picture_says_how_it_can_be_had(agent, execute):
    result = await execute("open('/out/a.bin', 'wb').write(bytes(1000)); None")
    answer = await agent.call_tool("read_artifact", {"uri": uri_of(result)})
    assert "read it as a resource" in answer.content[0].text
    resource = await agent.read_resource(uri_of(result))
    assert base64.b64decode(resource.contents[0].blob) == bytes(1000)


@both_eras
async def test_the_files_of_the_newest_run_are_listed_first_among_the_resources(agent, execute):
    before = (await agent.list_resources()).resources
    first = await execute("open('/out/a.csv', 'w').write('a,b\\n'); None")
    second = await execute("open('/out/b.bin', 'wb').write(bytes(3)); None")
    listed = (await agent.list_resources()).resources
    assert [(one.uri, one.name, one.size) for one in listed[:2]] == [
        (uri_of(second), "/out/b.bin", 3),
        (uri_of(first), "/out/a.csv", 4),
    ]
    assert listed[2:] == before


async def test_what_is_not_there_is_an_error_that_says_so(agent):
    for uri in ("artifact://" + "0" * 32 + "/1", "artifact://", "output://x", "/etc/passwd", ""):
        answer = await agent.call_tool("read_artifact", {"uri": uri})
        assert answer.is_error, uri
        assert "is not kept, or no longer" in answer.content[0].text, uri
        assert "artifact://ID/2" in answer.content[0].text, "the program need not run again for a wrong uri"


async def test_files_come_as_text_or_as_base64(execute):
    encoded = base64.b64encode(b"\xff\0").decode()
    result = await execute(
        "[open('d/a.txt').read(), list(open('b', 'rb').read())]", files={"d/a.txt": "é\n", "b": f"base64:{encoded}"}
    )
    assert 'value: ["é\\n", [255, 0]]' in result.content[0].text


@pytest.mark.parametrize("text", ["base64:no!", "base64:a", "\ud800"])
async def test_files_that_are_neither_are_refused(agent, text):
    files = json.loads(json.dumps({"a": text}))
    try:
        answer = await agent.call_tool("execute_code", {"language": "python", "code": "1", "files": files})
    except UnicodeEncodeError:  # the client's own: nobody can send it
        return
    assert answer.is_error
    assert "- files: 'a' is no base64" in answer.content[0].text


@given(st.lists(st.text("ab", max_size=3), max_size=9), st.booleans(), st.integers(1, 12), st.integers(1, 5))
def test_whatever_line_is_asked_for_is_found(lines, has_end, first, count):
    text = "\n".join(lines) + "\n" * has_end
    bundle = Bundle(Path("/nowhere"), "me")
    bundle.begin()
    bundle.write(text.encode())
    uri = bundle.end("a.txt", "/out/a.txt").uri
    shown = read_lines(Found(bundle, 1), first, count)
    whole = text.removesuffix("\n").split("\n") if text else []
    expected = whole[first - 1 : first - 1 + count]
    if first + count <= len(whole):
        expected.append(f"[read_artifact(uri={uri!r}, line={first + count}) goes on]")
    if first > max(1, len(whole)):
        expected = [f"[/out/a.txt has {len(whole)} lines]"]
    assert shown == "\n".join(expected)


def test_a_file_of_empty_lines_alone_keeps_nobody_waiting(tmp_path):
    """P38: the lines before the wanted one are not rendered."""
    bundle = Bundle(tmp_path, "me")
    bundle.begin()
    bundle.write(b"\n" * (32 << 20))
    bundle.end("a.txt", "/out/a.txt")
    began = time.thread_time()
    assert read_lines(Found(bundle, 1), 1 << 30, 1) == f"[/out/a.txt has {32 << 20} lines]"
    assert read_lines(Found(bundle, 1), 32 << 20, 2) == ""
    assert time.thread_time() - began < 5  # 0.1; before, 80
    bundle.close()
