"""``gloveport serve --http``: a real process, real sockets, a real client."""

import asyncio
import base64
import contextlib
import functools
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import time

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests import remembered

from .conftest import INITIALIZE, Served

HEADERS = {"accept": "application/json, text/event-stream"}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN_CALL = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "execute_code"}


@pytest.fixture(scope="module")
def shared(gloveport, nothing_waits, tmp_path_factory):
    """A server for all who leave it as it was."""
    state = tmp_path_factory.mktemp("shared") / "state"
    with remembered.lent(state):
        server = Served(gloveport, {"GLOVEPORT_STATE": str(state), "GLOVEPORT_CONFIG": nothing_waits})
        yield server
        server.process.kill()
        server.process.communicate()


def message(method: str, params: dict, request_id: int | None = 1) -> dict:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def execution(code: str) -> dict:
    return {"name": "execute_code", "arguments": {"language": "shell", "code": code}}


async def handshake_headers(client: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """The headers of a session of the handshake protocols."""
    answer = await client.post(url, headers=HEADERS, json=message("initialize", INITIALIZE))
    headers = {**HEADERS, "mcp-protocol-version": "2025-11-25", "mcp-session-id": answer.headers["mcp-session-id"]}
    await client.post(url, headers=headers, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    return headers


async def test_clients_of_both_eras_run_programs_on_one_server(shared):
    """O4."""
    for mode in ("legacy", "2026-07-28", "auto"):
        async with Client(shared.url, mode=mode) as client:
            came = []

            async def note(progress, total, line, came=came):
                came.append(line)

            arguments = {"language": "python", "code": "print('line'); import time; time.sleep(1); 42"}
            result = await client.call_tool("execute_code", arguments, progress_callback=note)
        assert result.structured_content["value"] == 42
        assert came == ["line"]


async def test_what_one_client_s_program_leaves_no_other_client_reads(shared):
    """A3, P40, E3: nor does a message with all the files that may come with a program exceed what is taken."""
    files = {"a.bin": "base64:" + base64.b64encode(os.urandom(1 << 20)).decode()}
    copy = {"language": "shell", "code": "cp a.bin /out/", "files": files}
    async with Client(shared.url, mode="legacy") as one, Client(shared.url, mode="legacy") as other:
        answer = await one.call_tool("execute_code", copy)
        (left,) = answer.structured_content["artifacts"]["files"]
        assert left["bytes"] == 1 << 20
        own, foreign = [await client.call_tool("read_artifact", {"uri": left["uri"]}) for client in (one, other)]
        assert (own.is_error, foreign.is_error) == (False, True)
        assert "is not kept, or no longer" in foreign.content[0].text
        with pytest.raises(MCPError):
            await other.read_resource(left["uri"])


async def test_what_one_client_s_program_prints_no_other_client_reads(shared):
    """P27: though it knows the name."""
    printing = {"language": "shell", "code": "seq 30000"}
    async with Client(shared.url, mode="legacy") as one, Client(shared.url, mode="legacy") as other:
        handle = (await one.call_tool("execute_code", printing)).structured_content["stdout"]["handle"]
        own, foreign = [await client.call_tool("read_output", {"output_ref": handle}) for client in (one, other)]
        assert (own.is_error, foreign.is_error) == (False, True)
        assert "is not kept, or no longer" in foreign.content[0].text
        assert (await one.read_resource(handle)).contents[0].text.startswith("1\n2\n")
        with pytest.raises(MCPError):
            await other.read_resource(handle)


async def test_a_foreign_host_or_origin_is_refused_in_both_eras(shared):
    """A3, P16, CT-H2, CT-H3: no web page reaches the server by a name of its own."""
    async with httpx2.AsyncClient(timeout=60) as client:
        for era, body in (
            ({}, message("initialize", INITIALIZE)),
            (MODERN_CALL, message("tools/call", {**execution("true"), "_meta": MODERN})),
        ):
            for foreign, status in (
                ({"host": "evil.example"}, 421),
                ({"host": f"evil.example:{shared.port}"}, 421),
                ({"origin": "http://evil.example"}, 403),
                ({"origin": f"http://127.0.0.1.evil.example:{shared.port}"}, 403),
                ({"origin": f"http://localhost:{shared.port + 1}"}, 403),  # a page that an agent has made, say
                ({"origin": "http://127.0.0.1"}, 403),
                ({"origin": "null"}, 403),
            ):
                answer = await client.post(shared.url, headers={**HEADERS, **era, **foreign}, json=body)
                assert (answer.status_code, foreign) == (status, foreign)
            for name in ("127.0.0.1", "localhost"):
                own = {"origin": f"http://{name}:{shared.port}", "host": f"{name}:{shared.port}"}
                answer = await client.post(shared.url, headers={**HEADERS, **era, **own}, json=body)
                assert answer.status_code == 200
        assert (await client.get(shared.url, headers={**HEADERS, "host": "evil.example"})).status_code == 421
        assert (await client.delete(shared.url, headers={"host": "evil.example"})).status_code == 421


async def test_a_page_that_another_server_has_shown_on_this_port_calls_nothing(shared):
    """A3, P16: it may still be open, or have a service worker; its origin is this server's own."""
    body = message("tools/call", execution("true"))
    async with httpx2.AsyncClient(timeout=60) as client:
        for host in ("127.0.0.1", "localhost"):
            origin = f"http://{host}:{shared.port}"
            page = {"host": f"{host}:{shared.port}", "origin": origin, "sec-fetch-site": "same-origin"}
            for method, path in (("POST", "/mcp"), ("DELETE", "/mcp"), ("PUT", "/uploads")):
                answer = await client.request(method, origin + path, headers={**HEADERS, **page}, json=body)
                assert (answer.status_code, method) == (403, method), answer.text
        of_clients = {"Node": {"sec-fetch-mode": "cors"}, "Electron": {"sec-fetch-site": "none"}}
        for client_name, sent in of_clients.items():
            answer = await client.post(shared.url, headers={**HEADERS, **sent}, json=body)
            assert (answer.status_code, client_name) == (200, client_name)


async def test_who_wants_to_resume_a_stream_is_told_that_none_can_be(shared):
    """Our events have no ids. It was answered with 500 and logged as a fault of the server."""
    async with httpx2.AsyncClient(timeout=60) as client:
        begun = await client.post(shared.url, headers=HEADERS, json=message("initialize", INITIALIZE))
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        answer = await client.get(shared.url, headers={**HEADERS, **session, "last-event-id": "1"})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            400,
            "no stream can be resumed: leave out Last-Event-ID",
        )
        assert (await client.delete(shared.url, headers=session)).status_code == 200


async def test_a_message_of_very_many_values_is_refused_before_they_are_made(shared):
    """Each takes a microsecond of everybody's time, and more to check and copy."""
    async with httpx2.AsyncClient(headers={**HEADERS, "content-type": "application/json"}) as client:
        for count, status in ((9_000, 200), (400_000, 413)):
            params = INITIALIZE | {"_meta": {"x": [[]] * count}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            answer = await client.post(shared.url, json=body)
            assert answer.status_code == status, answer.text[:300]
            assert ("20000 values" in answer.text) == (status == 413)


async def test_a_very_long_name_is_refused_and_not_repeated(shared):
    """Of a URI of 3 MB the SDK wrote 6 MB, and matched it with patterns: 0.1 s for everybody."""
    async with httpx2.AsyncClient(timeout=60) as client:
        for method, params in (
            ("resources/read", {"uri": "output://" + "a/" * 1_000_000}),
            ("tools/call", {"name": "x" * 2_000_000, "arguments": {}}),
            ("x" * 2_000_000, {}),
        ):
            body = message(method, params)
            for headers in (await handshake_headers(client, shared.url), {"accept": "application/json"}):
                answer = await client.post(shared.url, headers=headers, json=body)
                assert "more than 8192 characters" in answer.text, method[:20]
                assert len(answer.text) < 1000


async def test_a_message_in_another_encoding_is_refused_before_its_values_are_made(shared):
    """Half of U+2200 is a quote: all that comes after it seemed to be text, and a million values were not counted."""
    for encoding, status in (("utf-8", 200), ("utf-16", 400), ("utf-16-le", 400), ("utf-32-be", 400)):
        params = {**execution("true"), "_meta": MODERN | {"x": "\u2200"}}
        body = json.dumps(message("tools/call", params), ensure_ascii=False).encode(encoding)
        async with httpx2.AsyncClient(timeout=60) as client:
            answer = await client.post(
                shared.url, headers={**HEADERS, **MODERN_CALL, "content-type": "application/json"}, content=body
            )
        assert (answer.status_code, encoding) == (status, encoding), answer.text
        assert ("UTF-8" in answer.text) == (status == 400)


async def test_json_that_is_no_message_is_refused_in_one_sentence(shared):
    nameless = {"jsonrpc": "2.0", "id": 1}
    bodies = ([], 1, {}, nameless, nameless | {"method": 3}, nameless | {"method": "ping", "params": []})
    bodies += tuple(message("ping", {}, request_id) for request_id in (7.5, None, True, [1]))
    async with httpx2.AsyncClient(timeout=60) as client:
        for era in ({}, {"mcp-protocol-version": "2026-07-28"}):
            for body in (*bodies, [message("ping", {})]):
                answer = await client.post(shared.url, headers=HEADERS | era, json=body)
                assert (answer.status_code, answer.json()["id"]) == (400, None)
                assert answer.json()["error"] == {
                    "code": -32600,
                    "message": "the body is no message of JSON-RPC 2.0: one object with a method and its id",
                }
        for body, said in (("{", "Parse error: EOF"), ('{"a":' * 5000, "Parse error: recursion limit")):
            answer = await client.post(shared.url, headers=HEADERS | {"content-type": "application/json"}, content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
            assert answer.json()["error"]["message"].startswith(said)


async def test_only_the_loopback_address_is_listened_on(shared):
    """A3."""
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", shared.port))


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_closed_connection_kills_the_run(shared, is_running, eventually, era):
    """E5."""
    word = f"75{time.time_ns()}"
    params = execution(f"sleep {word} & sleep {word}; true")
    async with httpx2.AsyncClient(timeout=60) as client:
        if era == "handshake":
            headers = await handshake_headers(client, shared.url)
        else:
            headers = {**HEADERS, **MODERN_CALL}
            params["_meta"] = MODERN
        call = asyncio.create_task(client.post(shared.url, headers=headers, json=message("tools/call", params, 2)))
        await asyncio.to_thread(eventually, lambda: is_running(word))
        call.cancel()
    await asyncio.to_thread(eventually, lambda: not is_running(word))


async def test_a_client_that_floods_neither_starves_another_nor_fills_the_queue(serve, records, eventually, tmp_path):
    """E4: the flood comes on many connections, and under whatever names a client may give itself in 2026-07-28."""
    (config := tmp_path / "gloveport.toml").write_text(
        "admission = { concurrent_runs = 1, queue_length = 5, queue_seconds = 60 }\n[pool]\nforked = 0\nbooted = 0\n"
    )
    config.chmod(0o600)
    served = serve("--config", str(config))

    def written_down(kind):
        return [record.fields["run"] for record in records() if record.kind == kind]

    async def ask(client, number, code, headers):
        params, already = execution(code), len(written_down("execute.admitted"))
        if "mcp-method" in headers:
            params["_meta"] = MODERN
        call = asyncio.create_task(client.post(served.url, headers=headers, json=message("tools/call", params, number)))
        # What is admitted and waits is queued in the same step.
        await asyncio.to_thread(eventually, lambda: len(written_down("execute.admitted")) > already)
        return call

    async with httpx2.AsyncClient(timeout=60) as flooding, httpx2.AsyncClient(timeout=60) as other:
        own, session = [await handshake_headers(client, served.url) for client in (other, flooding)]
        for era in ("handshake", "modern"):
            before, calls = len(written_down("execute.ended")), []
            for number in range(1, 7):
                claims = {"mcp-session-id": f"session-{number}", "x-forwarded-for": f"127.0.0.1:{number}"}
                headers = session if era == "handshake" else {**HEADERS, **MODERN_CALL, **claims}
                calls.append(await ask(flooding, number, "sleep 60" if number == 1 else "echo flood", headers))
            calls.append(await ask(other, 7, "echo single", own))
            first, *others = calls
            first.cancel()
            answers = [reply.text for reply in await asyncio.gather(*others)]
            ended = written_down("execute.ended")[before:]
            assert ["queue_full" in text for text in answers] == [False] * 4 + [True, False], era
            assert "your newest run made room" in answers[4], era
            assert any(run in answers[5] for run in ended[1:3]), era


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=str)
async def test_a_signal_ends_the_server_and_every_run(serve, records, is_running, eventually, number, code):
    """E5: though the client stays connected, and without a word on the terminal."""
    served = serve()
    word = f"76{time.time_ns()}"
    async with httpx2.AsyncClient(timeout=60) as client:
        headers = await handshake_headers(client, served.url)
        body = message("tools/call", execution(f"sleep {word} & sleep {word}; true"), 2)
        call = asyncio.create_task(client.post(served.url, headers=headers, json=body))
        await asyncio.to_thread(eventually, lambda: is_running(word))
        began = time.monotonic()
        served.process.send_signal(number)
        stdout, stderr = await asyncio.to_thread(served.process.communicate, timeout=30)
        assert time.monotonic() - began < 10
        call.cancel()
    assert (served.process.returncode, stdout, stderr) == (code, "", "")
    assert not is_running(word)
    assert [record.kind for record in records()[-2:]] == ["execute.ended", "server.stop"]


async def test_a_client_that_goes_amid_its_request_is_no_fault_of_the_server(serve):
    served = serve()
    async with httpx2.AsyncClient(timeout=60) as client:
        session = await handshake_headers(client, served.url)
        for method, path, headers in (("PUT", "/uploads", {}), ("POST", "/mcp", HEADERS), ("POST", "/mcp", session)):
            lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{served.port}", "content-type: application/json"]
            lines += [*map(": ".join, headers.items()), "content-length: 1000", "", "{"]
            with socket.create_connection(("127.0.0.1", served.port)) as connection:
                connection.sendall("\r\n".join(lines).encode())
                assert (await client.post(served.url, headers=session, json=message("ping", {}))).status_code == 200
        assert (await client.post(served.url, headers=session, json=message("ping", {}))).status_code == 200
    served.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(served.process.communicate, timeout=30) == ("", "")


async def test_a_run_ends_with_the_session_that_alone_could_ask_for_it(shared, is_running, eventually):
    """P9: it held a place, and could ask the owner to allow something, for as long as its time was."""
    words = [f"77{time.time_ns() + number}" for number in range(2)]
    async with httpx2.AsyncClient(timeout=60) as client:
        sessions = [await handshake_headers(client, shared.url) for _ in words]
        for word, headers in zip(words, sessions, strict=True):
            call = execution(f"sleep {word}; true")
            call["arguments"] |= {"wait_seconds": 0, "timeout_seconds": 300}
            assert (await client.post(shared.url, headers=headers, json=message("tools/call", call))).status_code == 200
            await asyncio.to_thread(eventually, functools.partial(is_running, word))
        assert (await client.delete(shared.url, headers=sessions[0])).status_code == 200
        await asyncio.to_thread(eventually, lambda: not is_running(words[0]))
        assert is_running(words[1])
        await client.delete(shared.url, headers=sessions[1])


async def test_a_request_without_a_session_that_a_signal_ends_is_told_to_come_again(serve, is_running, eventually):
    served = serve()
    word = f"77{time.time_ns()}"
    async with httpx2.AsyncClient(timeout=60) as client:
        body = message("tools/call", {**execution(f"sleep {word}; true"), "_meta": MODERN}, 1)
        call = asyncio.create_task(client.post(served.url, headers={**HEADERS, **MODERN_CALL}, json=body))
        await asyncio.to_thread(eventually, lambda: is_running(word))
        served.process.send_signal(signal.SIGTERM)
        reply = await call
        await asyncio.to_thread(served.process.communicate, timeout=30)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert "the server ends" in reply.json()["error"]["message"]


def test_a_port_that_is_in_use_is_named_with_a_way_out(gloveport, environ):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = gloveport.run("serve", "--http", "--port", port, env={**os.environ, **environ})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"can't listen on port {port}" in ended.stderr
    assert "hint: choose another --port" in ended.stderr
    assert "Traceback" not in ended.stderr


CONNECT = """
import os, socket, sys
os.setgid(65533); os.setuid(65533)
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    try:
        connection.sendall(b"GET /mcp HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
        print(connection.recv(100))
    except ConnectionError:
        print(b"")
"""


async def test_another_user_of_this_machine_is_not_served(shared):
    """P16, CT-H1. Only root can try it: it takes two users."""
    if os.geteuid() == 0:
        command = ["/usr/bin/python3", "-I", "-c", CONNECT, str(shared.port)]
        answer = subprocess.run(command, capture_output=True, check=True, text=True)
        assert answer.stdout == "b''\n"
    async with Client(shared.url) as client:
        assert (await client.list_tools()).tools


@pytest.fixture
def many_descriptors():
    """As many as this process may have at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def answer_to(port: int, body: dict) -> str:
    """What a connection of its own is answered."""
    text = json.dumps(body)
    lines = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", f"Content-Length: {len(text)}"]
    lines += ["Content-Type: application/json", f"Accept: {HEADERS['accept']}", "", text]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        writer.write("\r\n".join(lines).encode())
        return (await reader.read()).decode()


async def test_a_thousand_clients_at_once_are_all_answered_and_an_open_session_goes_on(serve, many_descriptors):
    """P8: with a result, or with when to come again."""
    served = serve()
    async with httpx2.AsyncClient(timeout=60) as client:
        headers = await handshake_headers(client, served.url)
        flood = asyncio.gather(*(answer_to(served.port, message("initialize", INITIALIZE)) for _ in range(1000)))
        for number in itertools.count(2):
            ping = await client.post(served.url, headers=headers, json=message("ping", {}, number))
            assert (ping.status_code, '"result":{}' in ping.text) == (200, True)
            if flood.done():
                break
        answers = [answer.lower() for answer in await flood]
    served_ones = [answer for answer in answers if answer.startswith("http/1.1 200 ")]
    busy = [answer for answer in answers if answer.startswith("http/1.1 503 ") and "\r\nretry-after: 1\r\n" in answer]
    assert len(served_ones) + len(busy) == 1000
    assert served_ones


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127"], ids=["nothing", "half a head"])
async def test_connections_without_a_request_leave_room_for_others(shared, many_descriptors, said):
    """P8, P16, CT-H4: of those that ask for nothing the oldest is dropped where there is no room."""
    held = [socket.create_connection(("127.0.0.1", shared.port)) for _ in range(1100)]
    try:
        for connection in held:
            connection.sendall(said)
        async with Client(shared.url) as client:
            assert (await client.list_tools()).tools
    finally:
        for connection in held:
            connection.close()


async def test_one_session_can_not_take_the_places_of_another(shared):
    """P8: its requests wait for programs that go on, as many as are taken; another session is answered at once."""
    async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None)) as client:
        flooding, other = [await handshake_headers(client, shared.url) for _ in range(2)]
        calls = []
        for number in range(300):
            body = message("tools/call", execution("sleep 60"), number)
            calls.append(asyncio.create_task(client.post(shared.url, headers=flooding, json=body)))
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        ping = await client.post(shared.url, headers=other, json=message("ping", {}))
        assert ping.status_code == 200
        for call in calls:
            call.cancel()


async def test_a_script_calls_without_a_handshake_or_session_and_reads_json(shared):
    """A3, CT-H5: as it calls coding-tools-mcp; all such scripts are one caller, and no session's."""
    json_alone = {"accept": "application/json"}
    async with httpx2.AsyncClient(timeout=60) as client:
        for headers in (HEADERS, json_alone, {"accept": "*/*"}, {**json_alone, "mcp-protocol-version": "2025-11-25"}):
            answer = await client.post(shared.url, headers=headers, json=message("tools/call", execution("echo hi")))
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
            assert "mcp-session-id" not in answer.headers
            assert answer.json()["result"]["structuredContent"]["stdout"]["text"] == "hi\n"
        answer = await client.post(shared.url, headers=json_alone, json=message("tools/list", {}))
        assert "execute_code" in {tool["name"] for tool in answer.json()["result"]["tools"]}
        answer = await client.post(shared.url, headers=json_alone, json=message("initialize", INITIALIZE))
        assert answer.json()["result"]["serverInfo"]["name"] == "gloveport"
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post(shared.url, headers=json_alone, json=note)).status_code == 202
        begun = execution("sleep 60")
        begun["arguments"]["wait_seconds"] = 0
        run_id = (await client.post(shared.url, headers=json_alone, json=message("tools/call", begun))).json()[
            "result"
        ]["structuredContent"]["run_id"]
        cancel = {"name": "cancel_run", "arguments": {"run_id": run_id}}
        session = await handshake_headers(client, shared.url)
        foreign = await client.post(shared.url, headers=session, json=message("tools/call", cancel))
        assert '"isError":true' in foreign.text
        own = await client.post(shared.url, headers=json_alone, json=message("tools/call", cancel))
        assert not own.json()["result"].get("isError")


async def test_clients_without_a_session_are_told_apart_by_secrets_of_their_own(shared):
    """A3, P27, P40: whatever connection each request comes by."""
    url, one, other = shared.url, "1" * 32, "2" * 32
    begun = {"name": "execute_code", "arguments": {"language": "shell", "code": "sleep 60", "wait_seconds": 0}}

    async def call(params: dict, **headers: str) -> dict:
        """The result of a call in one of the protocols, in turn; each time by a connection of its own."""
        era = next(eras)
        own = {**MODERN_CALL, "mcp-name": params["name"]} if era else {"accept": "application/json"}
        params = {**params, "_meta": {**(MODERN if era else {}), "gloveport/structured": True}}
        async with httpx2.AsyncClient(timeout=60) as client:
            answer = await client.post(url, headers={**HEADERS, **own, **headers}, json=message("tools/call", params))
        return answer.json()

    eras = itertools.cycle([0, 1, 1])
    run_id = (await call(begun, **{"gloveport-client": one}))["result"]["structuredContent"]["run_id"]
    session = {"name": "execute_code", "arguments": {"language": "python", "code": "1", "session": "new"}}
    session_id = (await call(session, **{"gloveport-client": one}))["result"]["structuredContent"]["session"]["id"]
    cancel = {"name": "cancel_run", "arguments": {"run_id": run_id}}
    listing = {"name": "session", "arguments": {"action": "list"}}
    for headers in ({}, {"gloveport-client": other}):
        assert (await call(cancel, **headers))["result"]["isError"]
        assert session_id not in json.dumps(await call(listing, **headers))
    for guessable in ("", "me", "1" * 31, f"{one} {one}", "1" * 257):
        assert "has to be a secret of 32" in json.dumps(await call(cancel, **{"gloveport-client": guessable}))
    assert session_id in json.dumps(await call(listing, **{"gloveport-client": one}))
    assert not (await call(cancel, **{"gloveport-client": one}))["result"].get("isError")
    close = {"name": "session", "arguments": {"action": "close", "session_id": session_id}}
    assert not (await call(close, **{"gloveport-client": one}))["result"].get("isError")


def test_a_script_need_not_say_what_it_accepts(shared):
    """A3"""
    body = json.dumps(message("ping", {})).encode()
    head = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{shared.port}\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


async def test_no_page_of_a_browser_calls_without_a_session(shared):
    """A3, P16: what it can send without being asked for its origin is refused by its type; all else by its origin."""
    body = json.dumps(message("tools/call", execution("true")))
    async with httpx2.AsyncClient(timeout=60) as client:
        for headers, status in (
            ({"content-type": "text/plain"}, 400),
            ({"content-type": "application/json", "origin": "http://evil.example"}, 403),
            ({"content-type": "application/json", "host": "evil.example"}, 421),
            ({"content-type": "application/json", "mcp-session-id": "no"}, 404),
            ({"content-type": "application/json", "accept": "text/html"}, 406),
        ):
            answer = await client.post(shared.url, headers={"accept": "*/*", **headers}, content=body)
            assert (answer.status_code, headers) == (status, headers), answer.text
        for body, status in (("no json", 400), ("[]", 400), ("{}", 400)):
            answer = await client.post(shared.url, headers={"content-type": "application/json"}, content=body)
            assert (answer.status_code, body) == (status, body), answer.text
    head = f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{shared.port}\r\ncontent-length: {1 << 40}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", shared.port)) as connection:  # refused before a byte of it has come
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
