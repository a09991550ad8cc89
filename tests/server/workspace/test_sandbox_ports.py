"""P48: what listens in a command's sandbox reaches its owner's browser, where they ask for it, and nothing else."""

import contextlib
import functools
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import urllib.request
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from tests.server.workspace.served import opened
from typer.testing import CliRunner

from gloveport.cli import ports as cli_ports
from gloveport.cli import run_protocol
from gloveport.cli.port_service import answer_ports, port_directory
from gloveport.cli.run_service import answer_runs
from gloveport.cli.server_sockets import serve_commands
from gloveport.model import Limits
from gloveport.sandbox.connectors import Connectors
from gloveport.workspace_service import sandbox_ports
from gloveport.workspace_service.sandbox_ports import PortError, SandboxPorts

pytestmark = pytest.mark.anyio

SERVER = """python3 -c '
import contextlib, socket, sys
with socket.create_server((sys.argv[1], 5173), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as one:
    print("ready", flush=True)
    while True:
        with one.accept()[0] as connection, contextlib.suppress(OSError):
            connection.recv(100)
            connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + sys.argv[2].encode())
' {address} {text}"""


FOREIGN = """
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
with socket.create_connection((sys.argv[1], 5173)) as connection:
    try:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print(connection.recv(100))
    except ConnectionError:
        print(b"")
"""


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    async with opened(Path(tmp_path_factory.mktemp("ports"))) as one:
        yield one


async def begin(served, address, text):
    """The id of a command that answers on port 5173 with a text."""
    told = await served.told("exec_command", cmd=SERVER.format(address=address, text=text), yield_time_ms=0)
    while "ready" not in told["stdout"]:
        told = await served.told("write_stdin", command_id=told["command_id"], wait_for="output")
    return told["command_id"]


async def fetch(served, name, port=5173):
    """What is answered there."""
    async with served.service.sandboxes.ports.connect(name, port) as connection:
        stream = await anyio.abc.SocketStream.from_socket(connection.dup())
        async with stream:
            await stream.send(b"GET / HTTP/1.0\r\n\r\n")
            data = b""
            with contextlib.suppress(anyio.EndOfStream):
                while True:
                    data += await stream.receive()
    return data.partition(b"\r\n\r\n")[2].decode()


async def test_each_sandbox_has_ports_of_its_own_which_are_reached_again_and_again(served):
    ports = served.service.sandboxes.ports
    one, other = await begin(served, "127.0.0.1", "one"), await begin(served, "::1", "other")
    for _ in range(10):  # more than there are sockets
        assert (await fetch(served, one), await fetch(served, other)) == ("one", "other")
    assert {one, other} <= ports.names().keys()
    with pytest.raises(PortError, match="nothing listens on port 5174"):
        await fetch(served, one, 5174)
    await served.told("kill_command", command_id=one)
    for gone in (one, "unknown"):
        with pytest.raises(PortError, match="no such command"):
            await fetch(served, gone)
    assert one not in ports.names()
    assert await fetch(served, other) == "other"
    await served.told("kill_command", command_id=other)


async def test_who_has_all_connections_leaves_those_of_others(served, monkeypatch):
    monkeypatch.setattr(sandbox_ports, "_FREE_SECONDS", 0.1)
    ports = served.service.sandboxes.ports
    one, other = await begin(served, "127.0.0.1", "one"), await begin(served, "127.0.0.1", "other")
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(8):
            await stack.enter_async_context(ports.connect(one, 5173))
        with pytest.raises(PortError, match="too many connections"):
            await fetch(served, one)
        assert await fetch(served, other) == "other"
    for name in (one, other):
        await served.told("kill_command", command_id=name)


async def test_a_sandbox_that_ends_while_a_connection_is_made_disturbs_no_other_file():
    """The event loop would still wait for the number of its socket, which the next file of the server has."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        for _ in range(4):
            waits = stack.enter_context(socket.socket())
            waits.settimeout(0)
            waits.connect_ex(full.getsockname())
        number = socket.socket().detach()
        ports, connectors = SandboxPorts(), Connectors((socket.AF_INET,), [number])
        ports.add("one", "make run", connectors)

        async def connect():
            with pytest.raises(PortError, match="nothing listens"):
                async with ports.connect("one", full.getsockname()[1]):
                    pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
            await anyio.wait_all_tasks_blocked()
            near, far = map(stack.enter_context, socket.socketpair())
            connectors.close()
            stack.callback(os.close, os.dup2(near.fileno(), number))
            far.send(b"x")
            await anyio.wait_readable(number)


async def test_a_program_has_no_part_in_the_sockets_that_reach_it(served):
    """It finds none among its descriptors, and none that listens or is connected."""
    count = "ls -l /proc/self/fd | grep -c socket; grep -c : /proc/net/tcp /proc/net/tcp6"
    told = await served.run(count)
    assert told["stdout"].split() == ["0", "/proc/net/tcp:0", "/proc/net/tcp6:0"]


async def test_the_owner_opens_a_port_on_the_command_line_and_nobody_else_reaches_it(served, gloveport):
    """P48: every user of this host reaches its loopback, and finds in the kernel's table who listens."""
    begun = await served.told("exec_command", cmd=SERVER.format(address="127.0.0.1", text="page") + " &", session="new")
    listening = "until (: < /dev/tcp/127.0.0.1/5173) 2>/dev/null; do :; done"
    await served.told("exec_command", cmd=listening, session=begun["session"]["id"])
    environ = {**os.environ, **served.environ}
    run = functools.partial(gloveport.run, env=environ)
    async with answer_ports(served.service.sandboxes.ports, served.engine.audit, served.environ):
        listed = await to_thread.run_sync(run, "ports")
        assert listed.stdout.startswith(f"{begun['session']['id']}  python3 -c")
        refused = await to_thread.run_sync(run, "ports", "open", "5999")
        assert (refused.returncode, "nothing listens on port 5999" in refused.stderr) == (2, True)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        opened = gloveport.start("ports", "open", "5173", env={**environ, "SUDO_UID": "65532"}, text=True, **streams)
        try:
            line = await to_thread.run_sync(opened.stdout.readline)
            url = re.search(r"http://(127\.[0-9.]+):5173/", line)
            assert url[1] != "127.0.0.1"  # whose cookies others have
            for _ in range(3):
                page = await to_thread.run_sync(urllib.request.urlopen, url[0])
                assert page.read() == b"page"
                page.close()
            if os.geteuid() == 0:  # it takes two users
                foreign = ["/usr/bin/python3", "-I", "-c", FOREIGN, url[1]]
                for user, received in (("65533", b"b''\n"), ("65533", b"b''\n"), ("65532", b"b'HTTP/1.0 200 OK")):
                    ran = await anyio.run_process([*foreign, user])
                    assert ran.stdout.startswith(received), user
        finally:
            opened.send_signal(signal.SIGINT)
            _, warnings = opened.communicate()
        assert opened.returncode == 130
        assert warnings.count("Connections of user 65533 are closed") == (os.geteuid() == 0)
    records = [one.fields for one in served.records() if one.kind == "port.opened"]
    assert records[-1] | {"port": 5173} == records[-1]
    gone = await to_thread.run_sync(run, "ports")
    assert gone.stdout == "No command of a workspace runs.\n"


async def test_no_command_hides_others_by_its_length(served, gloveport, tmp_path):
    """P14: a command may have a million characters, and each six bytes as JSON."""
    ports, environ = SandboxPorts(), {"GLOVEPORT_STATE": str(tmp_path)}
    for number in range(4):
        ports.add(f"long-{number}", "sleep 9 # " + "\x01" * (1 << 20), Connectors((socket.AF_INET,), []))
    ports.add("short", "make run", Connectors((socket.AF_INET,), []))
    async with answer_ports(ports, served.engine.audit, environ):
        run = functools.partial(gloveport.run, env={**os.environ, **environ})
        listed = await to_thread.run_sync(run, "ports")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.startswith(r"long-0  sleep 9 # \u0001\u0001")
    assert listed.stdout.endswith("short  make run\n")


async def test_two_servers_with_one_process_id_are_found_both(served, gloveport, environ):
    """As in two containers that share a state directory. Here it is the same process."""
    engine = served.engine
    async with contextlib.AsyncExitStack() as stack:
        for name in ("first", "second"):
            (ports := SandboxPorts()).add(name, "make run", Connectors((socket.AF_INET,), []))
            await stack.enter_async_context(answer_ports(ports, engine.audit, environ))
            await stack.enter_async_context(answer_runs(engine, Limits(), "mark", environ))
        listed = await to_thread.run_sync(functools.partial(gloveport.run, "ports", env={**os.environ, **environ}))
        assert sorted(listed.stdout.splitlines()) == ["first  make run", "second  make run"]
        assert len(list(run_protocol.socket_directory(environ).iterdir())) == 2


@pytest.fixture
async def answering(environ):
    """Serves ``gloveport ports`` for one sandbox: calls what is appended with each connection to a port of it."""
    answers = []

    async def answer(connection):
        if "id" not in json.loads(await connection.receive()):
            await connection.send(b'{"sandboxes": {"one": "make run"}}\n')
        else:
            await answers.pop(0)(connection)

    async with serve_commands(port_directory(environ), "1", "gloveport ports", answer):
        yield answers


async def send_reset(connection):
    """Send a connection which the program has reset after the server has checked it."""
    with socket.create_server(("127.0.0.1", 0)) as program, socket.create_connection(program.getsockname()) as one:
        with program.accept()[0] as accepted:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await anyio.wait_readable(one)
        await connection.send(b"{}\n", (one.fileno(),))


async def test_neither_a_program_that_resets_connections_nor_a_server_that_hangs_ends_or_holds_it(
    answering, environ, gloveport
):
    """P48: by the first, a program would close its owner's other tabs."""
    has_come = anyio.Event()

    async def hang(_):
        has_come.set()
        await anyio.sleep_forever()

    answering += [send_reset, send_reset, send_reset, hang]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    opened = gloveport.start("ports", "open", "5173", env={**os.environ, **environ}, text=True, **streams)
    try:
        address = re.search(r"127\.[0-9.]+", await to_thread.run_sync(opened.stdout.readline))[0]
        for _ in range(2):
            async with await anyio.connect_tcp(address, 5173) as browser:
                with pytest.raises(anyio.EndOfStream):
                    await browser.receive()
        async with await anyio.connect_tcp(address, 5173):
            await has_come.wait()
            opened.send_signal(signal.SIGINT)
            _, said = await to_thread.run_sync(functools.partial(opened.communicate, timeout=30))
    finally:
        opened.kill()
    assert (opened.returncode, said) == (130, "the server, or the command, has ended\n")


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_connection_is_given_up_when_the_browser_has_closed_it_and_not_before(
    answering, environ, gloveport, is_closed
):
    """Else each reload of a page whose events are rare would keep one of few for ever."""
    is_given_up = anyio.Event()

    async def serve_events(connection):
        async with contextlib.AsyncExitStack() as stack:
            program = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            one = stack.enter_context(socket.create_connection(program.getsockname()))
            await connection.send(b"{}\n", (one.fileno(),))
            accepted = await anyio.abc.SocketStream.from_socket(program.accept()[0])
            events = await stack.enter_async_context(accepted)
            await events.send(b"event")
            with pytest.raises(anyio.EndOfStream):
                await events.receive()
            if not is_closed:  # all has been sent, and the answer is waited for
                await events.send(b"another")
                await events.send_eof()
            with pytest.raises(anyio.EndOfStream):
                await connection.receive()
        is_given_up.set()

    answering += [send_reset, serve_events]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    opened = gloveport.start("ports", "open", "5173", env={**os.environ, **environ}, text=True, **streams)
    try:
        address = re.search(r"127\.[0-9.]+", await to_thread.run_sync(opened.stdout.readline))[0]
        with anyio.fail_after(60):
            async with await anyio.connect_tcp(address, 5173) as browser:
                assert await browser.receive() == b"event"
                if not is_closed:
                    await browser.send_eof()
                    assert await browser.receive() == b"another"
            await is_given_up.wait()
    finally:
        opened.kill()
        opened.communicate()


async def test_an_upload_that_a_program_leaves_unread_is_given_up_when_the_browser_has_closed_it(
    answering, environ, monkeypatch
):
    """Else eight of a program that hangs would keep all connections, with no tab open."""
    for name in ("_CLOSED_SECONDS", "_STUCK_SECONDS"):
        monkeypatch.setattr(cli_ports, name, 0.2)
    monkeypatch.setenv("GLOVEPORT_STATE", environ["GLOVEPORT_STATE"])
    sandbox, is_given_up = cli_ports._Sandbox("one", "make run", "1"), anyio.Event()
    async with contextlib.AsyncExitStack() as stack:
        program = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        preview = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for listener in (program, preview):  # or the kernel could take all that is sent
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        one = stack.enter_context(socket.create_connection(program.getsockname()))
        unread = stack.enter_context(program.accept()[0])

        async def connect(connection):
            await connection.send(b"{}\n", (one.fileno(),))
            with pytest.raises(anyio.EndOfStream):
                await connection.receive()
            is_given_up.set()

        answering.append(connect)
        browser = stack.enter_context(socket.create_connection(preview.getsockname()))
        client = await anyio.abc.SocketStream.from_socket(preview.accept()[0])
        await stack.enter_async_context(client)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(cli_ports._connect, client, sandbox, 5173, pytest.fail)
        browser.settimeout(1)  # in which nothing more fits
        with pytest.raises(TimeoutError):
            await to_thread.run_sync(browser.sendall, bytes(64 << 20))
        assert not is_given_up.is_set()
        browser.close()
        with anyio.fail_after(30):
            await is_given_up.wait()
        assert unread.recv(1) == b"\0"


async def test_who_opens_more_tabs_than_there_are_connections_learns_what_to_do(answering, environ, gloveport):
    """Each tab with a WebSocket, as of a development server, holds one."""

    async def refuse(connection):
        await connection.send(b'{"error": "there are too many connections to it", "hint": "close some tabs"}\n')

    answering += [send_reset, refuse]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    opened = gloveport.start("ports", "open", "5173", env={**os.environ, **environ}, text=True, **streams)
    try:
        address = re.search(r"127\.[0-9.]+", await to_thread.run_sync(opened.stdout.readline))[0]
        async with await anyio.connect_tcp(address, 5173) as browser:
            with pytest.raises(anyio.EndOfStream):
                await browser.receive()
        opened.send_signal(signal.SIGINT)
        _, said = await to_thread.run_sync(functools.partial(opened.communicate, timeout=30))
    finally:
        opened.kill()
    assert said == "there are too many connections to it: close some tabs\n"


@pytest.mark.parametrize("free", range(1, 6))
async def test_more_connections_than_there_are_descriptors_wait_or_are_closed_and_end_nothing(
    answering, environ, gloveport, free
):
    """As of a program that measures how many its development server serves at once."""

    async def connect(connection):
        with (
            socket.create_server(("127.0.0.1", 0)) as program,
            socket.create_connection(program.getsockname()) as one,
            program.accept()[0] as accepted,
            contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError),
        ):
            accepted.sendall(b"page")
            await connection.send(b"{}\n", (one.fileno(),))
            await connection.receive()

    async def receive(address):
        async with await anyio.connect_tcp(address, 5173) as browser:
            return await browser.receive()

    answering += [send_reset, *[connect] * 50]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    opened = gloveport.start("ports", "open", "5173", env={**os.environ, **environ}, text=True, **streams)
    try:
        address = re.search(r"127\.[0-9.]+", await to_thread.run_sync(opened.stdout.readline))[0]
        assert await receive(address) == b"page"  # and now all modules are loaded
        limit = free + len([*Path(f"/proc/{opened.pid}/fd").iterdir()])
        resource.prlimit(opened.pid, resource.RLIMIT_NOFILE, (limit, 1000))
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(10):
                await stack.enter_async_context(await anyio.connect_tcp(address, 5173))
            said = await to_thread.run_sync(opened.stderr.readline)
        resource.prlimit(opened.pid, resource.RLIMIT_NOFILE, (1000, 1000))
        assert await receive(address) == b"page"
        opened.send_signal(signal.SIGINT)
        await to_thread.run_sync(functools.partial(opened.communicate, timeout=30))
    finally:
        opened.kill()
    assert re.fullmatch("Some connections (have to wait|were closed): Too many open files\n", said)
    assert opened.returncode == 130


async def test_a_port_that_another_program_of_the_host_uses_is_named(answering, environ, gloveport):
    answering.append(send_reset)
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        run = functools.partial(gloveport.run, "ports", "open", str(port), env={**os.environ, **environ})
        refused = await to_thread.run_sync(run)
    assert refused.returncode == 2
    assert f"port {port} of this host can't be opened" in refused.stderr


@pytest.mark.parametrize(("answer", "said"), [(b"", "The server of process 1 does not answer.\n"), (b'{"sandb', "")])
async def test_a_server_that_is_stopped_or_killed_hides_no_other(answer, said, environ, monkeypatch):
    monkeypatch.setattr(cli_ports, "_ANSWER_SECONDS", 2.0)

    async def fail(connection):
        await connection.receive()
        await (connection.send(answer) if answer else anyio.sleep_forever())

    async def tell(connection):
        await connection.receive()
        await connection.send(b'{"sandboxes": {"one": "make run"}}\n')

    directory, run = port_directory(environ), functools.partial(CliRunner().invoke, cli_ports.app, [], env=environ)
    async with (
        serve_commands(directory, run_protocol.new_name("1"), "gloveport ports", fail),
        serve_commands(directory, run_protocol.new_name("2"), "gloveport ports", tell),
    ):
        listed = await to_thread.run_sync(run)
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "one  make run\n", said)


async def test_where_the_operator_says_no_nothing_can_be_reached(tmp_path):
    async with opened(tmp_path, ports=False) as one:
        name = await begin(one, "127.0.0.1", "one")
        with pytest.raises(PortError, match="no such command"):
            await fetch(one, name)
