"""Names whose servers never answer hold few threads, and nobody else's lookups."""

import socket
import threading
from ipaddress import ip_address

import anyio
import pytest

from gloveport.egress.transport import resolver as module
from gloveport.egress.transport.resolver import LOOKUPS, LOOKUPS_OF_DOMAIN, Resolver

pytestmark = pytest.mark.anyio
ANSWER = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]


class HostResolver:
    """A resolver of the host to which names below ``slow`` are told when ``answers`` is set."""

    def __init__(self):
        self.asked = []
        self.inside = 0
        self.answers = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, host, *_, **__):
        name = host.decode()
        with self._lock:
            self.asked.append(name)
            self.inside += 1
        if "slow" in name:
            assert self.answers.wait(20)
        with self._lock:
            self.inside -= 1
        if name.startswith("no."):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ANSWER


@pytest.fixture
def resolver(monkeypatch):
    resolver = HostResolver()
    monkeypatch.setattr(module.socket, "getaddrinfo", resolver)
    yield resolver
    resolver.answers.set()


async def test_who_goes_away_gives_no_thread_to_the_next(resolver, soon):
    """N4: a thread counts until it ends; those who come later wait, and are answered then."""
    dns = Resolver()
    for run in range(5):
        async with anyio.create_task_group() as tasks:
            for number in range(LOOKUPS):
                tasks.start_soon(dns.find, f"a.slow-{run}-{number}.test", 443)
            await soon(lambda: resolver.inside == LOOKUPS)
            tasks.cancel_scope.cancel()
    assert len(resolver.asked) == resolver.inside == LOOKUPS
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dns.find, "api.test", 443)
        await anyio.wait_all_tasks_blocked()
        resolver.answers.set()
    assert resolver.asked[LOOKUPS:] == ["api.test"]  # and none of those that nobody waits for
    await soon(lambda: not dns._lookups)


async def test_names_of_one_domain_do_not_hold_up_those_of_others(resolver, soon):
    """N4: one run's names, made up by the hundred, leave another run its lookups."""
    dns = Resolver()
    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(dns.find, f"n{number}.slow.test", 443)
        await soon(lambda: resolver.inside == LOOKUPS_OF_DOMAIN)
        with anyio.fail_after(5):
            assert await dns.find("api.test", 443) == [ip_address("192.0.2.1")]
        assert resolver.inside == LOOKUPS_OF_DOMAIN
        resolver.answers.set()
    assert resolver.asked[LOOKUPS_OF_DOMAIN] == "api.test"
    assert len(resolver.asked) == 101


async def test_who_asks_for_the_same_host_waits_for_the_same_answer(resolver, soon):
    """N4: also after the first who asked has gone away; a later one asks anew."""
    dns, got = Resolver(), []

    async def ask():
        got.append(await dns.find("slow.test", 443))

    with anyio.move_on_after(0):
        await ask()
    await soon(lambda: resolver.inside == 1)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        resolver.answers.set()
    assert got == [[ip_address("192.0.2.1")]] * 3
    assert resolver.asked.count("slow.test") == 1
    await ask()
    assert resolver.asked.count("slow.test") == 2


async def test_a_name_that_is_not_there_is_told_to_all_who_asked(resolver):
    """N4: in the resolver's own words."""
    dns = Resolver()

    async def ask():
        with pytest.raises(socket.gaierror, match="not known"):
            await dns.find("no.such.test", 443)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
    assert not dns._lookups
