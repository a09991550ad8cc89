"""Resolves host names with the host's own resolver, in threads that nothing can end.

A server of names that never answers holds a thread long after the one who asked has gone away. So a thread counts
until it ends by itself, one domain has a few of all, and who asks for the same host waits for the same answer.
"""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address

import anyio
from msgspec import Struct, field

from gloveport.policy.hosts.addresses import Address

LOOKUPS = 16
"""At a time, in all."""

LOOKUPS_OF_DOMAIN = 4
"""At a time, of names that end in the same two labels: whoever serves them may serve them slowly."""


class _Lookup(Struct, eq=False):
    """What is asked about a host. Without a thread it waits for one."""

    host: str
    domain: str
    thread: threading.Thread | None = None
    askers: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)
    found: Sequence[Address] = ()
    fault: OSError | None = None


class Resolver:
    """The lookups of one event loop, answered in the order in which they were asked for."""

    def __init__(self) -> None:
        self._lookups: dict[str, _Lookup] = {}

    async def find(self, host: str, _port: int) -> Sequence[Address]:
        """Tell the addresses of a canonical name.

        Raises:
            OSError: It has none.
        """
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = _Lookup(host, ".".join(host.split(".")[-2:]))
        lookup.askers += 1
        try:
            self._start()
            await lookup.done.wait()
        finally:
            lookup.askers -= 1
            if not lookup.askers and lookup.thread is None:
                del self._lookups[host]
        if lookup.fault is not None:
            raise lookup.fault.with_traceback(None)
        return lookup.found

    def _start(self) -> None:
        """Give those their thread who may have one."""
        busy = Counter(lookup.domain for lookup in self._lookups.values() if lookup.thread is not None)
        for lookup in self._lookups.values():
            if busy.total() >= LOOKUPS:
                return
            if lookup.thread is None and busy[lookup.domain] < LOOKUPS_OF_DOMAIN:
                # A daemon: the end of the server does not wait for it.
                thread = threading.Thread(target=self._ask, args=(lookup, asyncio.get_running_loop()), daemon=True)
                thread.start()
                lookup.thread = thread
                busy[lookup.domain] += 1

    def _ask(self, lookup: _Lookup, loop: asyncio.AbstractEventLoop) -> None:
        """Ask the resolver. The body of a thread."""
        try:
            # Bytes, for a str would go through the codec of IDNA 2003: the name is what the policy has compared.
            answers = socket.getaddrinfo(lookup.host.encode("ascii"), None, type=socket.SOCK_STREAM)
            lookup.found = [ip_address(str(answer[4][0])) for answer in answers]
        except OSError as error:
            lookup.fault = error
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._end, lookup)

    def _end(self, lookup: _Lookup) -> None:
        del self._lookups[lookup.host]
        lookup.done.set()
        self._start()
