"""How many requests over HTTP are taken at once, and whose."""

from collections import Counter

import anyio

from gloveport.server.transports.overload import RequestLimit

SESSIONS = ("one", "two")
LISTEN = "subscriptions/listen"


class _Requests:
    """Sends requests to an application that answers none, and counts what becomes of them."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._limit = RequestLimit(app=self._hold, is_session=SESSIONS.__contains__)
        self.taken, self.refused = Counter[str](), Counter[str]()

    async def _hold(self, scope, _receive, _send) -> None:
        self.taken[scope["session"]] += 1
        await anyio.sleep_forever()

    async def send(self, session: str, count: int) -> None:
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message) -> None:
            self.refused[session] += message.get("status") == 503

        name, value = (b"mcp-method", LISTEN) if session == LISTEN else (b"mcp-session-id", session)
        headers = [(name, value.encode())] if session else []
        for _ in range(count):
            self._tasks.start_soon(self._limit, {"type": "http", "session": session, "headers": headers}, receive, send)
        while self.taken[session] + self.refused[session] < count:
            await anyio.lowlevel.checkpoint()


async def test_a_session_takes_no_place_from_those_who_begin_one_nor_from_another():
    """P8: 256 requests that wait for one run kept out everybody who had no session yet, for an hour."""
    async with anyio.create_task_group() as tasks:
        requests = _Requests(tasks)
        await requests.send("one", 300)
        await requests.send("", 100)
        await requests.send("two", 20)
        tasks.cancel_scope.cancel()
    assert requests.taken == {"one": 192, "": 64, "two": 8}


async def test_those_without_a_session_take_no_place_from_sessions():
    async with anyio.create_task_group() as tasks:
        requests = _Requests(tasks)
        await requests.send("", 300)
        await requests.send("one", 150)
        tasks.cancel_scope.cancel()
    assert requests.taken == {"": 64, "one": 150}


async def test_subscriptions_which_have_no_end_take_no_place_from_requests():
    """P8: 64 clients of 2026-07-28 that listen for changes kept out everybody else for as long as they listened."""
    async with anyio.create_task_group() as tasks:
        requests = _Requests(tasks)
        await requests.send(LISTEN, 300)
        await requests.send("", 300)
        await requests.send("one", 192)
        tasks.cancel_scope.cancel()
    assert requests.taken == {LISTEN: 64, "": 64, "one": 192}
