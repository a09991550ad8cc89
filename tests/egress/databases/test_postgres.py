"""Logins to a real PostgreSQL, for clients as they are: libpq, psycopg, asyncpg."""

import contextlib
import socket
import struct
import sysconfig

import anyio
import asyncpg
import psycopg
import pytest
from tests.egress.outside import DOOR, outside
from tests.far_side.listening import HOST
from tests.far_side.postgres import NAME, PASSWORD, postgres

pytestmark = pytest.mark.anyio

SECRETS = {"DB_PASSWORD": PASSWORD, "WRONG": "some-other-password"}


@pytest.fixture(scope="module")
async def server(authority):
    async with postgres(authority) as running:
        yield running


@pytest.fixture
def api_for(server, authority):
    """Make the table of an API for an account of the server."""

    def make(username="scram", secret="env:DB_PASSWORD", **auth):
        return {
            "hosts": [f"postgres://{NAME}:{server.port}"],
            "addresses": [HOST],
            "ca_file": authority.ca_file,
            "auth": [{"kind": "postgres", "username": username, "secret": secret, **auth}],
        }

    return make


@pytest.fixture
def door(tmp_path, api_for, server):
    """Open the door of an execution that may use an account; see ``api_for``."""

    def open_door(username="scram", **auth):
        return outside(tmp_path, NAME, SECRETS, orders=api_for(username, **auth))

    return open_door


@pytest.fixture
def connect(server):
    """Connect to the door as a program does that knows no password."""

    async def make(**options) -> psycopg.AsyncConnection:
        wanted = {"host": NAME, "hostaddr": DOOR, "port": server.port, "user": "me", "dbname": "orders"} | options
        return await psycopg.AsyncConnection.connect(**wanted, autocommit=True)

    return make


@pytest.fixture
def raw(server):
    """Send bytes to the door, and read what comes until it ends."""

    def send(data: bytes) -> bytes:
        with socket.create_connection((DOOR, server.port), 10) as connection:
            connection.sendall(data)
            heard = b""
            with contextlib.suppress(ConnectionResetError):  # it has not read all of it
                while piece := connection.recv(4096):
                    heard += piece
            return heard

    return lambda data: anyio.to_thread.run_sync(send, data)


async def one(connection, query):
    return (await (await connection.execute(query)).fetchone())[0]


async def refusal(connect, **options):
    with pytest.raises(psycopg.OperationalError) as caught:
        await connect(**options)
    return str(caught.value)


WHO = """
SELECT concat_ws(' ', current_user, current_database(), CASE WHEN ssl THEN 'TLS' END)
FROM pg_stat_ssl WHERE pid = pg_backend_pid()
"""


@pytest.mark.parametrize("username", ["scram", "md5", "clear", "trusted"])
async def test_a_program_without_a_password_is_logged_in_by_tls(door, connect, username):
    async with door(username), await connect() as connection:
        assert await one(connection, WHO) == f"{username} orders TLS"


@pytest.mark.parametrize("sslmode", ["disable", "prefer", "require", "verify-full"])
async def test_a_program_may_ask_for_tls_and_meets_an_authority_that_it_trusts(door, connect, sslmode):
    async with door() as served:
        options = {"sslmode": sslmode, "sslrootcert": served.ca_file, "password": "whatever"}
        connection = await connect(**options)
        assert await one(connection, WHO) == "scram orders TLS"
        await connection.close()


@pytest.mark.parametrize("tls", [False, "prefer", "require"])
async def test_asyncpg_is_logged_in(door, server, tls):
    async with door():
        wanted = {"host": DOOR, "port": server.port, "user": "me", "database": "orders", "ssl": tls}
        connection = await asyncpg.connect(**wanted, server_settings={"jit": "off"})
        assert await connection.fetchval(WHO) == "scram orders TLS"
        await connection.close()


async def test_large_values_pass_both_ways(door, connect):
    async with door(), await connect(sslmode="require") as connection:
        found = await connection.execute("SELECT length(%s::text), repeat('b', 3000000)", ["a" * 3_000_000])
        assert await found.fetchone() == (3_000_000, "b" * 3_000_000)


async def test_without_tls_a_private_server_is_logged_in_to_by_scram_alone(door, connect):
    """The password is not told then, and the server proves that it knows it; anything else could be anybody."""
    async with door(tls=False), await connect() as connection:
        assert await one(connection, WHO) == "scram orders"


async def test_without_tls_nothing_but_scram_is_answered(door, connect):
    async with door("md5", tls=False):
        said = await refusal(connect)
    assert "does not prove that it knows the password" in said


async def test_a_wrong_password_is_told_as_the_server_tells_it_and_kept_to_ourselves(door, connect):
    async with door(secret="env:WRONG") as served:
        said = await refusal(connect)
        assert 'FATAL:  password authentication failed for user "scram"' in said
        ended = served.records("connect.ended")[-1]
        assert (ended.fields["code"], ended.fields["user"]) == ("login_refused", "scram")
        assert SECRETS["WRONG"] not in said + served.written()
        assert served.session.journal.listed[-1].code == "login_refused"


async def test_a_login_that_is_refused_for_a_while_is_not_called_the_fault_of_the_account(door, connect, server):
    """Nor is the owner alone sent for: a program that has too many connections can close some."""
    with server.connect_as_owner() as owner:
        owner.execute("ALTER ROLE scram CONNECTION LIMIT 0")
        try:
            async with door() as served:
                assert 'too many connections for role "scram"' in await refusal(connect)
        finally:
            owner.execute("ALTER ROLE scram CONNECTION LIMIT -1")
    assert "Too many connections and a restart pass" in served.session.journal.listed[-1].reason


async def test_a_secret_that_can_not_be_had_is_told_to_the_program_without_where_it_is(door, connect):
    async with door(secret="env:MISSING") as served:
        said = await refusal(connect)
        assert "The password of the API 'orders' can't be had." in said
        assert "MISSING" not in said
        assert "MISSING" in str(served.records("connect.ended")[-1].fields["secret"])


async def test_a_session_is_written_down_with_database_and_user_before_and_after(door, connect):
    async with door(databases=["orders"]) as served:
        async with await connect() as connection:
            await connection.execute("SELECT 'a-word-of-its-own'")
            (admitted,) = served.records("connect.admitted")
            assert (admitted.fields["scheme"], admitted.fields["database"]) == ("postgres", "orders")
        with anyio.fail_after(30):
            while not (ended := served.records("connect.ended")):
                await anyio.sleep(0.01)
        assert ended[0].fields["user"] == "scram"
        assert ended[0].fields["received_bytes"] > 20
        assert not {"a-word-of-its-own", PASSWORD} & {*served.written().split('"')}
        assert PASSWORD not in served.written()


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ({"dbname": "other"}, "other"),
        ({"dbname": "orders"}, "orders"),
        ({"dbname": "", "user": "me"}, "orders"),  # libpq then asks for the database of that name
        ({"dbname": "me", "user": "me"}, "orders"),
    ],
)
async def test_who_names_no_database_gets_the_first_that_is_granted(door, connect, asked, opened):
    async with door(databases=["orders", "other"]), await connect(**asked) as connection:
        assert await one(connection, "SELECT current_database()") == opened


@pytest.mark.parametrize("name", ["postgres", "template1", "Orders", "orders ", "me2"])
async def test_no_other_database_is_opened(door, connect, name):
    async with door(databases=["orders"]) as served:
        said = await refusal(connect, dbname=name)
        assert "database_not_granted" in said
        assert "Granted is: orders." in said
        assert served.records("connect.denied")[-1].fields["database"] == name


async def test_a_session_begins_with_what_a_program_may_set_anyway(door, connect):
    options = "-c IntervalStyle=iso_8601 -capplication_name=a\\ b --lock-timeout=3s"
    async with door(), await connect(options=options, client_encoding="latin1") as connection:
        names = ("intervalstyle", "application_name", "lock_timeout", "client_encoding")
        assert [await one(connection, f"SHOW {name}") for name in names] == ["iso_8601", "a b", "3s", "LATIN1"]


@pytest.mark.parametrize(
    "asked",
    [
        {"replication": "database"},
        {"replication": "true"},
        *({"options": text} for text in ("endpoint=other", "-c role=owner", "-c endpoint=x", "project=x", "-W", "-c")),
        *({"options": text} for text in ("--", "-c search_path", "-c --search_path=x", "reference=x -c jit=off")),
    ],
)
async def test_a_session_begins_with_nothing_else(door, connect, asked):
    """`replication` reads everything; words among the options tell poolers to whose server a login goes."""
    async with door():
        assert "parameter_not_allowed" in await refusal(connect, **asked)


def start(*fields: bytes, version=3 << 16, end=b"\0") -> bytes:
    body = b"".join(field + b"\0" for field in fields) + end
    return struct.pack("!II", 8 + len(body), version) + body


SSL, GSS = struct.pack("!II", 8, 80877103), struct.pack("!II", 8, 80877104)
NO_STARTS = {
    "longest": struct.pack("!II", 0xFFFFFFFF, 3 << 16),
    "too long": struct.pack("!II", 10_001, 3 << 16),
    "too short": struct.pack("!II", 7, 3 << 16),
    "nothing": bytes(8),
    "negative": struct.pack("!iI", -1, 3 << 16),
    "version 2": start(b"user", b"me", version=2 << 16),
    "version 4": start(b"user", b"me", version=4 << 16),
    "no end": start(b"user", b"me", end=b""),
    "no value": start(b"user"),
    "no name": start(b"", b"me"),
    "behind the end": start(b"user", b"me", b"", b"database", b"x"),
    "twice": start(b"database", b"orders", b"database", b"postgres"),
    "not UTF-8": start(b"user", b"\xff"),
    "long name": start(b"database", b"a" * 64),
    "questions without end": GSS * 3 + start(b"user", b"me"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: db.test\r\n\r\n",
    "TLS at once": bytes.fromhex("16030100a5010000a1"),
    "empty": struct.pack("!II", 8, 3 << 16),
}


@pytest.mark.parametrize("data", NO_STARTS.values(), ids=NO_STARTS)
async def test_what_is_no_start_is_refused_before_anybody_is_connected_to(door, raw, server, data):
    async with door() as served:
        answer = (await raw(data)).lstrip(b"N")
        assert answer[:1] == b"E"
        assert b"C08P01\0" in answer
        assert not served.records("connect.admitted")
        assert served.records("fetch.denied")[-1].fields["code"] == "bad_request"


async def test_what_a_program_sends_unencrypted_behind_its_question_for_tls_is_not_taken_for_what_is_encrypted(
    door, raw
):
    """As in CVE-2021-23214."""
    async with door() as served:
        answer = await raw(SSL + start(b"user", b"me"))
        assert b"E" not in answer[:2]
        assert not served.records("connect")


async def test_who_says_nothing_is_hung_up_on(door, raw, monkeypatch):
    monkeypatch.setattr("gloveport.egress.databases.postgres.LOGIN_SECONDS", 0.05)
    async with door() as served:
        assert [await raw(data) for data in (b"", SSL, start(b"user", b"me")[:-1])] == [b"", b"S", b""]
        assert not served.records("connect")


async def test_a_second_start_is_no_other_login(door, raw):
    """It goes to the server, which is in the middle of a session and takes it for nonsense."""
    async with door() as served:
        again = start(b"user", b"owner", b"database", b"postgres")
        answer = await raw(start(b"user", b"me", b"database", b"orders") + again)
        assert answer.count(b"R" + struct.pack("!II", 8, 0)) == 1
        assert b"owner" not in answer
        assert [record.fields["database"] for record in served.records("connect.admitted")] == ["orders"]


async def test_newer_protocols_are_told_that_this_is_the_first(door, raw):
    async with door():
        query = b"Q" + struct.pack("!I", 13) + b"SELECT 1\0" + b"X" + struct.pack("!I", 4)
        hello = start(b"user", b"me", b"database", b"orders", b"_pq_.new", b"1", version=3 << 16 | 2)
        answer = await raw(hello + query)
    assert answer.startswith(b"v" + struct.pack("!III", 21, 3 << 16, 1) + b"_pq_.new\0" + b"R")
    assert b"SELECT 1" in answer


async def test_a_program_cancels_its_own_query(door, connect):
    async with door() as served, await connect() as connection:
        over = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def sleep():
                with pytest.raises(psycopg.errors.QueryCanceled):
                    await connection.execute("SELECT pg_sleep(60)")
                over.set()

            tasks.start_soon(sleep)
            await anyio.wait_all_tasks_blocked()
            while not over.is_set():  # one that comes before the query has begun ends nothing
                await connection.cancel_safe()
        assert served.records("connect.ended")[0].fields["cancels"] is True


async def test_a_program_cancels_no_query_of_others(door, connect, raw, tmp_path, api_for):
    """Not even with their key, which is short enough to be guessed."""
    async with door() as served, await connect() as connection:
        ((_, _, key),) = served.session.sessions
        served.session.sessions.clear()  # as if it were another run's
        assert await raw(struct.pack("!II", 16, 80877102) + key) == b""
        assert served.records("fetch.denied")[-1].fields["code"] == "no_such_session"
        assert await one(connection, "SELECT 1") == 1
        assert len(served.records("connect.admitted")) == 1


async def test_a_session_that_is_over_is_nobodys_to_cancel(door, connect):
    async with door() as served:
        async with await connect():
            assert len(served.session.sessions) == 1
        with anyio.fail_after(30):
            while served.session.sessions:
                await anyio.sleep(0.01)


PSYCOPG = """
    import sys; sys.path.append("/opt/clients")
    import psycopg
    with psycopg.connect("postgresql://db.test:$PORT/orders?sslmode=verify-full&sslrootcert=system") as connection:
        row = connection.execute("SELECT current_user, current_database()").fetchone()
    list(row)
"""
ASYNCPG = """
    import sys; sys.path.append("/opt/clients")
    import asyncpg
    connection = await asyncpg.connect("postgresql://me:any-password@db.test:$PORT/orders")
    row = await connection.fetchrow("SELECT current_user, current_database()")
    list(row)
"""


@pytest.fixture(scope="module")
async def world(world_of, server, authority):
    account = {"kind": "postgres", "username": "scram", "secret": "env:DB_PASSWORD", "databases": ["orders"]}
    there = {"hosts": [f"postgres://{NAME}:{server.port}"], "addresses": [HOST], "ca_file": authority.ca_file}
    mounts = [{"source": sysconfig.get_path("purelib"), "target": "/opt/clients"}]
    async with world_of(SECRETS, api={"orders": {**there, "auth": [account]}}, policy={"mounts": mounts}) as served:
        yield served


@pytest.mark.parametrize("program", [PSYCOPG, ASYNCPG], ids=["psycopg", "asyncpg"])
async def test_programs_in_a_sandbox_reach_the_database_by_its_name(world, server, program):
    assert await world.value("python", program.replace("$PORT", str(server.port))) == ["scram", "orders"]
    assert PASSWORD.encode() not in world.written()


async def test_psql_says_why_it_may_not(world, server):
    said = await world.run("shell", f"psql -h {NAME} -p {server.port} -d postgres -c 'SELECT 1'")
    assert "FATAL:  API 'orders' grants no database 'postgres'." in said.stderr.text
    assert "HINT:  Granted is: orders. Retrying does not help." in said.stderr.text
    assert said.requests[0].code == "database_not_granted"
    assert (await world.value("shell", f"psql -h {NAME} -p {server.port} -Atc 'SELECT current_user'")) == "scram\n"
