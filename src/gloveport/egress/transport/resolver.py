"""Resolves host names with the host's own resolver, in threads that can't be cancelled.

A DNS server that never answers occupies a thread long after the caller has given up. So a thread counts until it ends
by itself, each domain may use only a few of the threads, and callers for one host share a lookup.
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
"""Most concurrent lookups."""

LOOKUPS_OF_DOMAIN = 4
"""Most concurrent lookups of names with the same last two labels, whose DNS servers may be slow."""


class _Lookup(Struct, eq=False):
    """A lookup of one host. Without a thread it waits for one."""

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
        """Return the addresses of a canonical name. Raises OSError if the name has none."""
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
        """Start threads for waiting lookups, within the limits."""
        busy = Counter(lookup.domain for lookup in self._lookups.values() if lookup.thread is not None)
        for lookup in self._lookups.values():
            if busy.total() >= LOOKUPS:
                return
            if lookup.thread is None and busy[lookup.domain] < LOOKUPS_OF_DOMAIN:
                # A daemon thread: the server's exit does not wait for it.
                thread = threading.Thread(target=self._ask, args=(lookup, asyncio.get_running_loop()), daemon=True)
                thread.start()
                lookup.thread = thread
                busy[lookup.domain] += 1

    def _ask(self, lookup: _Lookup, loop: asyncio.AbstractEventLoop) -> None:
        """Ask the resolver. The body of a thread."""
        try:
            # Bytes: a str would pass the IDNA 2003 codec, and the name must be the one that the policy has compared.
            answers = socket.getaddrinfo(lookup.host.encode("ascii"), None, type=socket.SOCK_STREAM)
            lookup.found = [ip_address(str(answer[4][0])) for answer in answers]
        except OSError as error:
            lookup.fault = error
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
                loop.call_soon_threadsafe(self._end, lookup)

    def _end(self, lookup: _Lookup) -> None:
        del self._lookups[lookup.host]
        lookup.done.set()
        self._start()
