"""P14: frames out of a sandbox are hostile: bounded, of one shape, and their attachments thrown away."""

import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.ascii_json import encode_json
from gloveport.errors import GuestError
from gloveport.sandbox.run import frames

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.settimeout(0)
        yield ours, theirs


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def frame(body):
    return len(body).to_bytes(4, "big") + body


async def test_a_frame_comes_with_the_senders_process_id_as_the_kernel_attests_it(pair):
    ours, theirs = pair
    theirs.sendall(frame(b'{"pid": 1, "x": [1]}'))
    assert await frames.expect(ours) == ({"pid": 1, "x": [1]}, os.getpid())


async def test_an_end_is_no_frame(pair):
    ours, theirs = pair
    theirs.close()
    incoming = frames.FrameReader(channel=ours)
    assert incoming.take()
    assert incoming.message is None
    with pytest.raises(GuestError, match="died"):
        await frames.expect(ours)


async def test_a_frame_may_come_byte_by_byte_and_no_more_is_read_than_is_allowed(pair):
    ours, theirs = pair
    incoming = frames.FrameReader(channel=ours, max_bytes=8)
    for byte in frame(b'{"a": 1}')[:-1]:
        theirs.sendall(bytes([byte]))
        assert not incoming.take()
    theirs.sendall(b"}")
    assert incoming.take()
    assert incoming.message == {"a": 1}
    theirs.sendall(frame(b'{"a": 12}'))
    with pytest.raises(GuestError, match="a frame of 9 bytes"):
        frames.FrameReader(channel=ours, max_bytes=8).take()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xff\xff\xff", "at most"),
        (frame(b"not json"), "no JSON"),
        (frame(b"[1]"), "no JSON object"),
        (frame(b'{"a": NaN}'), "no JSON"),
        (frame(b'{"a":' * 5000 + b"1" + b"}" * 5000), "no JSON"),
        (frame(b'{"a": "\xff"}'), "no JSON"),
        (frame(b'{"a": 1}')[:-2], "cut short"),
        (b"\x00\x00", "cut short"),
        (frame(b""), "no JSON"),
    ],
)
async def test_what_is_no_frame_is_a_guest_error(pair, data, message):
    ours, theirs = pair
    theirs.sendall(data)
    theirs.close()
    with pytest.raises(GuestError, match=message):
        await frames.expect(ours)


@given(data=st.binary(max_size=200))
async def test_no_bytes_raise_anything_else(data):
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(0)
        with theirs:
            theirs.sendall(data)
        with contextlib.suppress(GuestError):
            await frames.expect(ours)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_what_nests_deeply_is_refused_and_what_only_looks_so_is_read(opening, closing):
    """Which of two parsers reads a frame depends on its brackets, those in texts too; neither may follow far."""
    for depth in (300, 100_000):
        with pytest.raises(GuestError, match="no JSON"):
            frames.parse(f'{{"a":{opening * depth}0{closing * depth}}}'.encode())
    text = opening.replace('"', "") * 500
    assert frames.parse(f'{{"a":"{text}"}}'.encode()) == {"a": text}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_both_parsers_read_the_same(value):
    body = encode_json({"a": value}).encode("ascii")
    padded = encode_json({"a": value, "b": "[" * frames._PLAIN_DEPTH}).encode("ascii")
    assert frames.parse(body)["a"] == frames.parse(padded)["a"] == value


async def test_descriptors_a_guest_sends_are_not_kept(pair):
    ours, theirs = pair
    before = open_descriptors()
    body = frame(b'{"a": 1}')
    socket.send_fds(theirs, [body], [0] * 50)
    assert (await frames.expect(ours))[0] == {"a": 1}
    assert open_descriptors() == before


async def test_a_large_frame_goes_through_a_small_buffer(pair):
    ours, theirs = pair
    theirs.settimeout(10)
    received = bytearray()

    def read():
        while len(received) < 4 + len('{"text":""}') + (1 << 20):
            received.extend(theirs.recv(1 << 16))

    reader = threading.Thread(target=read)
    reader.start()
    await frames.send(ours, {"text": "x" * (1 << 20)})
    reader.join()
    assert received[4:30].startswith(b'{"text":"xxx')
