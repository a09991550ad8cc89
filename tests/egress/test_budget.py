"""P8: what a program does with its way out is bounded, and fills no log."""

import pytest

pytestmark = pytest.mark.anyio

FLOOD = """
    import http.client, os, socket, ssl
    codes = []
    for attempt in range(12):
        connection = http.client.HTTPSConnection("alpha.test", {port}, context=ssl.create_default_context())
        connection.request("GET", "/echo")
        codes.append(connection.getresponse().status)
        connection.close()
    for attempt in range(200):
        with socket.create_connection(("127.0.0.2", 3128)) as raw:
            raw.sendall(b"nonsense\\r\\n\\r\\n")
            raw.recv(1000)
    codes
"""


async def test_a_run_has_so_many_requests_and_the_log_so_many_lines(world_of, api_at, far):
    """The knob policy.limits.requests."""
    policy = {"limits": {"requests": 10}}
    async with world_of(api={"alpha": api_at(far.place.port)}, policy=policy) as world:
        result = await world.run("python", FLOOD.format(port=far.place.port))
    assert result.value == [200] * 10 + [429] * 2
    assert result.requests_total == 212
    assert result.limits_hit == ("requests",)
    assert [request.code for request in result.requests][9:11] == [None, "too_many_requests"]
    kinds = [record.kind for record in world.records()]
    assert (kinds.count("fetch.admitted"), kinds.count("fetch.denied")) == (10, 1)


async def test_a_request_can_lower_no_limit_by_naming_fewer_apis_but_reaches_fewer(world_of, api_at, far):
    """T1: a request only narrows. N10: what it may not reach is refused with a reason."""
    port = far.place.port
    apis = {"alpha": api_at(port), "other": api_at(port, name="other.test")}
    code = f"""
        import urllib.request, urllib.error
        try:
            found = urllib.request.urlopen("https://alpha.test:{port}/echo").status
        except urllib.error.HTTPError as error:
            found = error.read().decode()
        found
    """
    async with world_of(api=apis) as world:
        assert await world.value("python", code) == 200
        assert await world.value("python", code, apis=("alpha",)) == 200
        assert "host_not_granted" in await world.value("python", code, apis=("other",))
        assert "host_not_granted" in await world.value("python", code, apis=())
        unknown = await world.run("python", code, apis=("alpha", "nobody"))
    assert (unknown.status, unknown.error.type) == ("denied", "unknown_api")
    assert "alpha" in unknown.hint


async def test_a_run_opens_so_many_connections_whatever_it_says_on_them(world_of, api_at, far):
    """P8: a handshake costs as much as a request."""
    code = """
        import socket
        opened = 0
        for attempt in range(300):
            with socket.create_connection(("127.0.0.2", 3128)) as raw:
                try:
                    raw.sendall(b"CONNECT a%d.test:443 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n" % attempt)
                    opened += raw.recv(12) == b"HTTP/1.1 200"
                except OSError:
                    pass
        opened
    """
    policy = {"limits": {"requests": 10}}
    async with world_of(api={"alpha": api_at(far.place.port)}, policy=policy) as world:
        assert await world.value("python", code) == 266


async def test_refused_requests_without_end_fill_no_log(world_of, api_at, far):
    """P13, the knob audit.refusals_per_run: 9,900 of them wrote 80 MB."""
    code = """
        import http.client
        connection, codes = http.client.HTTPConnection("127.0.0.2", 3128), set()
        for number in range(300):
            connection.request("GET", f"http://nowhere.invalid/{'x' * 4000}{number}")
            answer = connection.getresponse()
            codes.add(answer.status)
            answer.read()
        [*codes]
    """
    async with world_of(api={"alpha": api_at(far.place.port)}, audit={"refusals_per_run": 20}) as world:
        result = await world.run("python", code)
        assert result.value == [403]
        refused = world.records("fetch.denied", result.run_id)
        assert len(refused) == 20
        assert [record.seq for record in refused if "further" in record.fields] == [refused[-1].seq]
        (ended,) = world.records("execute.ended", result.run_id)
        assert ended.fields["refused"] == {"fetch host_not_granted": 300}
