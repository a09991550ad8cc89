"""False servers of PostgreSQL: when Gloveport logs in to one it learns nothing and delays nobody."""

import contextlib
import functools
import ssl
import struct

import anyio
import psycopg
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream
from scramp import ScramMechanism
from tests.egress.outside import DOOR, outside
from tests.far_side.listening import HOST, listening

from gloveport.fairness import SMALL_BYTES, compute

pytestmark = pytest.mark.anyio

NAME, PASSWORD = "db.test", "p4ss of the=owner,%s"
SALT = b"0123456789abcdef"


def message(kind, *parts):
    body = b"".join(part if isinstance(part, bytes) else struct.pack("!I", part) for part in parts)
    return kind + struct.pack("!I", len(body) + 4) + body


OK, READY = message(b"R", 0), message(b"Z", b"I")


class Session:
    """What a false server hears and says, when a session has begun."""

    def __init__(self, stream):
        self.stream = stream
        self.buffered = BufferedByteReceiveStream(stream)
        self.heard = b""

    async def begin(self):
        (length,) = struct.unpack("!I", await self.buffered.receive_exactly(4))
        self.heard += await self.buffered.receive_exactly(length - 4)

    async def say(self, data):
        await self.stream.send(data)

    async def hear(self):
        _, length = struct.unpack("!cI", await self.buffered.receive_exactly(5))
        body = await self.buffered.receive_exactly(length - 4)
        self.heard += body
        return body


@pytest.fixture
def attempt(authority, tmp_path):
    """Log in to a false server: how it is told to the program, what the server heard, what was written down."""

    async def make(play, *, tls=True, encrypted=None, password=PASSWORD):
        sessions = []

        async def handle(stream):
            if tls:
                await stream.receive(8)
                await stream.send(b"S")
                context = authority.server(NAME, protocols=("postgresql",))
                stream = await TLSStream.wrap(stream, server_side=True, ssl_context=context, standard_compatible=False)
            session = Session(stream)
            sessions.append(session)
            with contextlib.suppress(anyio.IncompleteRead):  # that it is hung up on
                await session.begin()
                await play(session)

        async with listening(handle if encrypted is None else encrypted) as place:
            account = {"kind": "postgres", "username": "agent", "secret": "env:DB_PASSWORD", "tls": tls}
            there = {"hosts": [f"postgres://{NAME}:{place.port}"], "addresses": [HOST], "ca_file": authority.ca_file}
            api = {**there, "auth": [account]}
            async with outside(tmp_path, NAME, {"DB_PASSWORD": password}, orders=api) as served:
                with pytest.raises(psycopg.OperationalError) as caught:
                    await psycopg.AsyncConnection.connect(
                        hostaddr=DOOR, port=place.port, user="me", dbname="orders", sslmode="disable"
                    )
                heard = b"".join(session.heard for session in sessions)
                assert password not in str(caught.value) + served.written()
                return str(caught.value), heard, served

    return make


def saying(*data):
    async def play(session):
        for piece in data:
            await session.say(piece)
        await session.hear()

    return play


SCRAM = message(b"R", 10, b"SCRAM-SHA-256\0\0")


async def hash_password(session, *, change_first=None, change_final=None, steps=(11, 12), end=OK):
    """Ask for SCRAM as a server does, and change one thing."""
    await session.say(SCRAM)
    mechanism = ScramMechanism("SCRAM-SHA-256")
    known = mechanism.make_auth_info(PASSWORD, salt=SALT)
    server = mechanism.make_server(lambda _: known)
    body = await session.hear()
    server.set_client_first(body[body.index(b"\0") + 5 :].decode())
    first = server.get_server_first()
    await session.say(message(b"R", steps[0], (change_first(first) if change_first else first).encode()))
    server.set_client_final((await session.hear()).decode())
    final = server.get_server_final()
    if change_final:
        final = change_final(final)
    await session.say((message(b"R", steps[1], final.encode()) if final else b"") + end)
    await session.hear()


def changed(name, value):
    def change(first):
        return ",".join(f"{name}={value}" if part.startswith(f"{name}=") else part for part in first.split(","))

    return change


def scram(**how):
    return functools.partial(hash_password, **how)


LIARS = {
    "a nonce that is not ours": scram(change_first=changed("r", "x" * 64)),
    "our nonce alone": scram(change_first=lambda first: first.replace(first[: first.index(",")], first[:66])),
    "no salt": scram(change_first=changed("s", "")),
    "a salt that is no base64": scram(change_first=changed("s", "?")),
    "2^31 iterations": scram(change_first=changed("i", 2**31)),
    "more iterations than are waited for": scram(change_first=changed("i", 600_001)),
    "one iteration": scram(change_first=changed("i", 1)),
    "minus one": scram(change_first=changed("i", -1)),
    "a number of 16,000 digits": scram(change_first=changed("i", "9" * 16_000)),
    "an extension": scram(change_first=lambda first: f"m=x,{first}"),
    "no signature": scram(change_final=lambda _: ""),
    "another signature": scram(change_final=lambda _: f"v={'A' * 43}="),
    "an empty signature": scram(change_final=lambda _: "v="),
    "an error in its place": scram(change_final=lambda _: "e=other-error"),
    "the signature as an error": scram(change_final=lambda final: final.replace("v=", "e=")),
    "the last step first": scram(steps=(12, 12)),
    "the first step twice": scram(steps=(11, 11)),
    "a yes in place of the proof": scram(steps=(11, 0)),
    "no yes": scram(end=READY),
    "one more question": scram(end=message(b"R", 3)),
    "other mechanisms": saying(message(b"R", 10, b"SCRAM-SHA-1\0PLAIN\0\0")),
    "binding without offering it": saying(message(b"R", 10, b"\0")),
    "Kerberos": saying(message(b"R", 7)),
    "salt of another length": saying(message(b"R", 5, b"12345")),
    "a cut number": saying(message(b"R", b"\0\0")),
    "too long": saying(b"R" + struct.pack("!I", 1 << 30)),
    "too short": saying(b"R" + struct.pack("!I", 3)),
    "something else": saying(message(b"T", b"")),
    "a parameter before the login": saying(message(b"S", b"a\0b\0") + OK),
    "settings without end": saying(OK, *[message(b"S", b"a\0b\0")] * 300),
    "rows after the login": saying(OK, message(b"D", b"")),
    "a long key": saying(OK, message(b"K", bytes(264)), READY),
    "HTTP": saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}


@pytest.mark.parametrize("play", LIARS.values(), ids=LIARS)
async def test_a_server_that_does_not_keep_to_the_protocol_gets_no_session(attempt, play):
    said, heard, _ = await attempt(play)
    assert "FATAL:  db.test:" in said
    assert "bad_response" in said
    assert PASSWORD.encode() not in heard


QUESTIONS = {
    "nothing": OK + READY,
    "the password": message(b"R", 3),
    "its hash": message(b"R", 5, b"salt"),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
async def test_who_has_not_proved_who_he_is_hears_no_password(attempt, question):
    """Whoever is on the way to a server without TLS may ask for less than the server would."""
    said, heard, _ = await attempt(saying(question), tls=False)
    assert "does not prove that it knows the password" in said
    assert b"md5" not in heard
    assert PASSWORD.encode() not in heard


async def test_a_server_without_tls_is_not_asked_for_a_session(attempt):
    heard = []

    async def refuse(stream):
        heard.append(await stream.receive())
        await stream.send(b"N" + message(b"R", 3))
        heard.extend([data async for data in stream])

    said, _, served = await attempt(None, encrypted=refuse)
    assert "does not offer TLS" in said
    assert heard == [struct.pack("!II", 8, 80877103)]
    assert served.records("connect.ended")[-1].fields["code"] == "tls_failed"


async def test_an_error_in_place_of_an_answer_is_no_yes(attempt):
    async def fail(stream):
        await stream.receive()
        await stream.send(message(b"E", b"SFATAL\0C00000\0Msend it without encryption\0\0"))

    said, _, _ = await attempt(None, encrypted=fail)
    assert "does not offer TLS" in said
    assert "send it" not in said


async def test_what_comes_unencrypted_behind_the_yes_is_not_taken_for_what_is_encrypted(attempt):
    """CVE-2021-23222: a man in the middle answers before the server does."""

    async def inject(stream):
        await stream.receive()
        await stream.send(b"S" + OK + READY)

    said, _, served = await attempt(None, encrypted=inject)
    assert "No TLS with db.test" in said
    assert served.records("connect.ended")[-1].fields["code"] == "tls_failed"


async def test_a_server_of_another_name_is_not_logged_in_to(attempt, authority):
    async def pretend(stream):
        await stream.receive(8)
        await stream.send(b"S")
        with contextlib.suppress(ssl.SSLError):
            await TLSStream.wrap(stream, server_side=True, ssl_context=authority.server("evil.test"))

    said, _, _ = await attempt(None, encrypted=pretend)
    assert "can't prove who it is" in said


async def test_what_a_server_says_of_its_refusal_loses_secrets_is_bounded_and_moves_no_cursor(attempt):
    text = f"no {PASSWORD} \x1b[2J".encode() + b"x" * 5000
    said, _, _ = await attempt(saying(message(b"E", b"SFATAL\0C28P01\0M" + text + b"\0Hhint\xff\0Whidden\0\0")))
    assert "orders.postgres" in said
    assert "\\u001b[2J" in said
    assert "HINT:  hint" in said
    assert "hidden" not in said
    assert len(said) < 1000


async def test_a_server_that_says_nothing_is_waited_for_only_so_long(attempt, monkeypatch):
    monkeypatch.setattr("gloveport.egress.databases.login.LOGIN_SECONDS", 0.2)
    said, _, served = await attempt(saying())
    assert "to log in to" in said
    assert served.records("connect.ended")[-1].fields["code"] == "upstream_timeout"


async def test_a_server_that_hangs_up_is_told_of(attempt):
    async def hang_up(session):
        pass

    said, _, _ = await attempt(hang_up)
    assert "has ended the connection during the login" in said


async def test_a_password_that_scram_does_not_allow_is_said_to_be_one(attempt):
    said, _, served = await attempt(saying(SCRAM), password="pa55-of-the-\N{GRINNING FACE}-owner")
    assert "has characters that SCRAM does not allow" in said
    assert served.records("connect.ended")[-1].fields["code"] == "secret_unavailable"


async def test_logins_that_take_long_leave_room_for_what_others_compute(authority, tmp_path):
    """P25: the server says how often a password is hashed, and a program how many of its connections wait for it."""
    asked, proved = anyio.Semaphore(0), []

    async def play(stream):
        session = Session(stream)
        await session.begin()
        await session.say(SCRAM)
        nonce = (await session.hear()).rpartition(b"r=")[2].decode()
        await session.say(message(b"R", 11, f"r={nonce}x,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=200000".encode()))
        asked.release()
        proved.append(await session.hear())

    async def log_in(port):
        with pytest.raises(psycopg.OperationalError):
            await psycopg.AsyncConnection.connect(
                hostaddr=DOOR, port=port, user="me", dbname="orders", sslmode="disable"
            )

    async with listening(play) as place:
        account = {"kind": "postgres", "username": "agent", "secret": "env:DB_PASSWORD", "tls": False}
        api = {"hosts": [f"postgres://{NAME}:{place.port}"], "addresses": [HOST], "auth": [account]}
        async with outside(tmp_path, NAME, {"DB_PASSWORD": PASSWORD}, orders=api), anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(log_in, place.port)
            for _ in range(12):
                await asked.acquire()
            await anyio.sleep(0)
            before = len(proved)
            await compute(SMALL_BYTES + 1, str)
            assert len(proved) - before <= 3
