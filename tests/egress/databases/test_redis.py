"""Logins to a real Redis, for clients as they are, and to false ones."""

import contextlib

import anyio
import pytest
import redis as client
from tests.egress.outside import DOOR, outside
from tests.far_side.listening import HOST, listening
from tests.far_side.redis import redis

pytestmark = pytest.mark.anyio

NAME, PASSWORD, OWNERS = "cache.test", "p4ss of the=agent,%s", "p4ss-of-the-owner"
SECRETS = {"CACHE_PASSWORD": PASSWORD, "OWNERS": OWNERS, "WRONG": "some-other-password"}


@pytest.fixture(scope="module")
async def server(authority, tmp_path_factory):
    """A Redis that wants a password, by TLS: its port, and that of another one without TLS."""
    async with contextlib.AsyncExitStack() as stack:
        ports = []
        for tls in True, False:
            directory = tmp_path_factory.mktemp("redis")
            pair = authority.pair(NAME) if tls else None
            port = await stack.enter_async_context(redis(directory, OWNERS, pair))
            options = {"ssl": tls, "ssl_check_hostname": False, "ssl_ca_certs": authority.ca_file} if tls else {}
            with client.Redis(HOST, port, password=OWNERS, **options) as owner:
                owner.execute_command("ACL", "SETUSER", "agent", "on", f">{PASSWORD}", "~*", "+@all", "-@admin")
            ports.append(port)
        yield ports


@pytest.fixture
def door(tmp_path, server, authority):
    """Open the door of an execution that may use an account."""

    def open_door(*, tls=True, username="agent", secret="env:CACHE_PASSWORD"):
        account = {"kind": "redis", "username": username, "secret": secret, "tls": tls}
        place = {"hosts": [f"redis://{NAME}:{server[not tls]}"], "addresses": [HOST], "ca_file": authority.ca_file}
        return outside(tmp_path, NAME, SECRETS, cache={**place, "auth": [account]})

    return open_door


@pytest.fixture
def ask(server):
    """Connect to the door as a program does, and have its commands executed."""

    def make(*commands, tls=True, **options):
        with client.Redis(DOOR, server[not tls], decode_responses=True, retry=None, **options) as connection:
            return [connection.execute_command(*command.split()) for command in commands]

    return lambda *commands, **options: anyio.to_thread.run_sync(lambda: make(*commands, **options))


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(
    "said", [{}, {"password": "any-at-all"}, {"username": "me", "password": "any-at-all", "client_name": "mine"}]
)
async def test_a_program_is_logged_in_whatever_it_says_of_itself(door, ask, tls, protocol, said):
    async with door(tls=tls) as served:
        wanted = [said.get("client_name"), "agent", True, "hello"]
        commands = ("CLIENT GETNAME", "ACL WHOAMI", "SET greeting hello", "GET greeting")
        assert await ask(*commands, tls=tls, protocol=protocol, **said) == wanted
        assert PASSWORD not in served.written()


async def test_who_says_nothing_is_nobody_to_log_in_for(door, server):
    async with door() as served:
        stream = await anyio.connect_tcp(DOOR, server[0])
        await stream.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
        await stream.aclose()
        assert not served.records()


async def test_a_program_may_speak_tls(door, ask):
    async with door() as served:
        options = {"ssl": True, "ssl_ca_certs": served.ca_file, "ssl_check_hostname": False}
        assert await ask("ACL WHOAMI", **options) == ["agent"]


async def test_redis_cli_in_a_sandbox_reaches_it_by_its_name(world_of, server, authority):
    account = {"kind": "redis", "username": "agent", "secret": "env:CACHE_PASSWORD"}
    there = {"hosts": [f"redis://{NAME}:{server[0]}"], "addresses": [HOST], "ca_file": authority.ca_file}
    async with world_of(SECRETS, api={"cache": {**there, "auth": [account]}}) as world:
        code = f"redis-cli -h {NAME} -p {server[0]} ACL WHOAMI; redis-cli -3 -h {NAME} -p {server[0]} -a no SET a b"
        result = await world.run("shell", code)
        assert result.stdout.text == "agent\nOK\n"
        assert [request.url for request in result.requests] == [f"redis://{NAME}:{server[0]}"] * 2
        (admitted, _) = world.records("connect.admitted", run=result.run_id)
        assert (admitted.fields["scheme"], admitted.fields["host"]) == ("redis", NAME)
        assert PASSWORD.encode() not in world.written()


async def refusal(ask, **options):
    with pytest.raises(client.RedisError) as caught:
        await ask("PING", **options)
    return str(caught.value)


async def test_a_refusal_is_heard_by_tls_too(door, ask):
    async with door(secret="env:WRONG") as served:
        said = await refusal(ask, ssl=True, ssl_ca_certs=served.ca_file, ssl_check_hostname=False)
        assert "invalid username-password pair" in said


async def test_an_account_that_may_read_its_password_is_none_for_programs(door, ask):
    """P18: the server keeps it as it is, and `CONFIG GET requirepass` would tell it."""
    async with door(username="", secret="env:OWNERS") as served:
        said = await refusal(ask)
        assert "may read the password" in said
        assert "ACL SETUSER agent" in said
        assert served.records("connect.ended")[-1].fields["code"] == "secret_readable"


async def test_a_server_that_lets_in_whoever_has_no_password_is_none_for_programs(door, ask, server):
    """P18: after RESET a program is the default user, whatever the account may not do."""
    with client.Redis(HOST, server[1], password=OWNERS) as owner:
        owner.execute_command("ACL", "SETUSER", "default", "nopass")
        try:
            async with door(tls=False) as served:
                said = await refusal(ask, tls=False)
                assert "Whoever has no password may read the password" in said
                assert "ACL SETUSER default off" in said
                assert served.records("connect.ended")[-1].fields["code"] == "secret_readable"
        finally:
            owner.execute_command("ACL", "SETUSER", "default", "resetpass", f">{OWNERS}")


async def test_an_account_that_may_give_itself_the_right_to_read_its_password_is_none_for_programs(door, ask, server):
    """P18: what it may not read now it may read after `ACL SETUSER default +config`."""
    owner = client.Redis(HOST, server[1], password=OWNERS)
    with owner:
        owner.execute_command("ACL", "SETUSER", "default", "-config")
        before = owner.acl_list()
        try:
            async with door(username="", secret="env:OWNERS", tls=False) as served:
                said = await refusal(ask, tls=False)
                assert "may give itself every right" in said
                assert served.records("connect.ended")[-1].fields["code"] == "secret_readable"
            assert owner.acl_list() == before
        finally:
            owner.execute_command("ACL", "SETUSER", "default", "+config")


async def test_an_account_that_may_read_its_password_gets_no_session_while_the_server_is_busy_either(door, ask, server):
    """P18: while a script runs on, a server answers nobody whether he may."""
    script = client.Redis(HOST, server[1], password=OWNERS, retry=None)
    owner = client.Redis(HOST, server[1], password=OWNERS, retry=None)
    with script, owner:
        owner.config_set("busy-reply-threshold", 1)
        async with door(username="", secret="env:OWNERS", tls=False) as served, anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, run_on, script)
            await becomes_busy(owner)
            said = await refusal(ask, tls=False)
            owner.script_kill()
        assert "BUSY" in said
        assert served.records("connect.ended")[-1].fields["code"] == "login_refused"


def run_on(redis):
    with pytest.raises(client.ResponseError, match="killed"):
        redis.eval("while true do end", 0)


async def becomes_busy(redis):
    with anyio.fail_after(30), contextlib.suppress(client.ResponseError):
        while redis.ping():
            await anyio.sleep(0.01)


async def test_a_wrong_password_is_told_as_the_server_tells_it_and_kept_to_ourselves(door, ask):
    async with door(secret="env:WRONG") as served:
        said = await refusal(ask)
        assert "invalid username-password pair" in said
        assert SECRETS["WRONG"] not in said + served.written()
        ended = served.records("connect.ended")[-1].fields
        assert (ended["code"], ended["user"]) == ("login_refused", "agent")


async def test_a_login_later_on_is_the_programs_own(door, ask):
    """To guess the passwords of others it needs no door of ours to help, and none hinders."""
    async with door():
        assert await ask("PING", "ACL WHOAMI") == [True, "agent"]
        with pytest.raises(client.AuthenticationError, match="invalid username"):
            await ask("PING", "AUTH agent nonsense")
        assert await ask("PING", f"AUTH default {OWNERS}", "ACL WHOAMI") == [True, True, "default"]


BEGINNINGS = {
    "AUTH": (b"*2\r\n$4\r\nAUTH\r\n$2\r\nno\r\n*1\r\n$4\r\nPING\r\n", b"+OK\r\n+PONG\r\n"),
    "auth with a user": (b"*3\r\n$4\r\nauth\r\n$2\r\nme\r\n$0\r\n\r\n", b"+OK\r\n"),
    "short": (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    "in line": (b"PING\r\n", b"+PONG\r\n"),
    "long": (b"*2\r\n$4\r\nECHO\r\n$5000\r\n" + b"a" * 5000 + b"\r\n", b"$5000\r\n" + b"a" * 5000 + b"\r\n"),
    "no command": (b"*2\r\n$4\r\nAUTH\r\n$x\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    "a long login": (b"*2\r\n$4\r\nAUTH\r\n$9999\r\n" + b"a" * 9999 + b"\r\n", b"-WRONGPASS"),
}


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize(("data", "answer"), BEGINNINGS.values(), ids=BEGINNINGS)
async def test_a_beginning_means_the_same_however_it_comes(door, server, data, answer, size):
    async with door(), await anyio.connect_tcp(DOOR, server[0]) as stream:
        for at in range(0, 100, size):
            await stream.send(data[at : min(at + size, 100)])
        await stream.send(data[100:])
        with anyio.fail_after(30):
            heard = b""
            while len(heard) < len(answer):
                heard += await stream.receive()
        assert heard.startswith(answer)


async def test_a_greeting_loses_the_login_in_it(door, server):
    async with door(), await anyio.connect_tcp(DOOR, server[0]) as stream:
        words = [b"HELLO", b"3", b"AUTH", b"me", b"any-password", b"SETNAME", b"mine"]
        await stream.send(b"*7\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        await stream.send(b"*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n")
        heard = b""
        while b"$4\r\nmine\r\n" not in heard:
            heard += await stream.receive()
        assert heard.startswith(b"%7\r\n")


LIARS = {
    "what it was not asked": b"+OK\r\n+OK\r\n",
    "no yes": b"+QUEUED\r\n",
    "no line": b"+" + b"x" * 5000,
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "settings": b"+OK\r\n*2\r\n$11\r\nrequirepass\r\n$1\r\nx\r\n",
    "a setting without a list": b"+OK\r\n$1\r\nx\r\n",
    "something": b" ",
}


@pytest.fixture
def attempt(tmp_path, authority):
    """Log in to a server that says this: what the program hears, and what was written down."""

    async def make(says):
        async def handle(stream):
            await stream.receive()
            await stream.send(b"-NOAUTH Authentication required.\r\n" * 2 + says)

        async with listening(handle, authority.server(NAME)) as place:
            account = {"kind": "redis", "secret": "env:CACHE_PASSWORD"}
            there = {"hosts": [f"redis://{NAME}:{place.port}"], "addresses": [HOST], "ca_file": authority.ca_file}
            async with (
                outside(tmp_path, NAME, SECRETS, cache={**there, "auth": [account]}) as served,
                await anyio.connect_tcp(DOOR, place.port) as stream,
            ):
                await stream.send(b"PING\r\n")
                return b"".join([piece async for piece in stream]), served.records("connect.ended")[-1].fields

    return make


@pytest.mark.parametrize("says", LIARS.values(), ids=LIARS)
async def test_a_server_that_does_not_keep_to_the_protocol_gets_no_session(attempt, says):
    heard, ended = await attempt(says)
    assert heard.startswith(b"-ERR Gloveport: ")
    assert heard.count(b"\r\n") == 1
    assert ended["status"] == "failed"


async def test_what_a_server_says_of_its_refusal_loses_secrets_and_stays_one_line(attempt):
    heard, _ = await attempt(f"-ERR {PASSWORD} \x1b[2J\n+OK\r\n".encode())
    assert heard == b"-ERR [secret cache.redis] \\u001b[2J\\n+OK\r\n"
