"""Dials the server of a route: resolves its name, checks every address, connects to a checked one, verifies TLS.

The name is resolved once, and only checked addresses are connected to, so an answer that changes later (DNS rebinding)
has no effect. After that the name is used for TLS alone.
"""

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from ipaddress import ip_address, ip_network
from itertools import chain, zip_longest
from typing import TypeAlias

import anyio

from gloveport.egress.transport.resolver import Resolver
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import ConfigError, UpstreamError
from gloveport.policy.hosts.addresses import Address, is_named, may_dial, unmap_address
from gloveport.policy.hosts.authorities import is_address
from gloveport.secrets.secret_files import open_safe

RESOLVE_SECONDS = 10.0
CONNECT_SECONDS = 10.0
STAGGER_SECONDS = 0.25
"""RFC 8305: the delay between the attempts at two addresses."""

_HTTP = ("http/1.1",)

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Resolves a name to addresses. Raises ``OSError`` if it has none."""


class Dialer:
    """Opens connections. Caches the certificate authorities that it has read.

    Args:
        resolve: Resolves names instead of the host's own resolver.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve or Resolver().find
        self._contexts: dict[tuple[str | None, tuple[str, ...]], tuple[int, ssl.SSLContext]] = {}

    async def connect(self, route: Route) -> SocketStream:
        """Open a TCP connection.

        Raises:
            UpstreamError: ``name_not_found``, ``address_refused``, ``upstream_unreachable`` or ``upstream_timeout``.
        """
        addresses = await self._resolve_route(route)
        async with limit_time(route, CONNECT_SECONDS, "connect to"):
            return await _first(route, addresses)

    async def dial(self, route: Route) -> SocketStream:
        """Open a connection for HTTP/1.1, with TLS if the route's scheme is ``https``.

        Raises:
            UpstreamError: As ``connect``, or ``tls_failed``.
        """
        if route.scheme == "http":
            return await self.connect(route)
        addresses = await self._resolve_route(route)
        context = self.tls_context(route)
        async with limit_time(route, CONNECT_SECONDS, "connect to"):
            wire = await _first(route, addresses)
            await _secure(wire, context, route)
        return wire

    async def secure(self, wire: SocketStream, route: Route, protocols: Sequence[str]) -> None:
        """Start TLS on a connection, or close it. ``protocols`` are offered by ALPN, the best first.

        Raises:
            UpstreamError: ``tls_failed`` or ``upstream_timeout``.
        """
        context = self.tls_context(route, protocols)
        async with limit_time(route, CONNECT_SECONDS, "agree on TLS with"):
            await _secure(wire, context, route)

    async def _resolve_route(self, route: Route) -> Sequence[Address]:
        """Return the checked addresses of a route; if one of them is refused, raise."""
        found = _chosen_addresses(route)
        if not found:
            found = (ip_address(route.host),) if is_address(route.host) else await self._look_up(route)
        for address in found:
            if not may_dial(address, route.networks, _chosen_addresses(route)):
                raise _refuse_address(route, address, "is not public")
        return found

    async def _look_up(self, route: Route) -> Sequence[Address]:
        try:
            async with limit_time(route, RESOLVE_SECONDS, "resolve"):
                found = await self._resolve(route.host, route.port)
        except OSError as error:
            raise UpstreamError("name_not_found", f"{route.host} can't be resolved: {_describe(error)}.") from error
        if not found:
            raise UpstreamError("name_not_found", f"{route.host} has no address.")
        return found

    def tls_context(self, route: Route, protocols: Sequence[str] = _HTTP) -> ssl.SSLContext:
        """Return the TLS context for a route's authorities; another one when their file has changed.

        Raises:
            UpstreamError: ``tls_failed``.
        """
        ca_file, key = route.ca_file, (route.ca_file, tuple(protocols))
        try:
            # The ctime changes with mode and owner too, and can't be set back.
            changed = os.stat(ca_file).st_ctime_ns if ca_file else 0  # noqa: PTH116 - one call, no object
            entry = self._contexts.get(key)
            if entry is None or entry[0] != changed:
                entry = self._contexts[key] = changed, _trust(*key)
        except OSError as error:
            raise UpstreamError(
                "tls_failed",
                f"The authorities in {ca_file} can't be read: {_describe(error)}.",
                hint="ca_file of an API names a PEM file of certificates.",
            ) from error
        except ConfigError as error:
            raise UpstreamError(
                "tls_failed", f"The authorities in {ca_file} are not believed: {error.args[0]}.", hint=error.hint
            ) from error
        return entry[1]


def _trust(ca_file: str | None, protocols: tuple[str, ...]) -> ssl.SSLContext:
    if ca_file is None:
        context = ssl.create_default_context()
    else:
        with open_safe(ca_file) as file:  # whoever can change the file can impersonate any server
            context = ssl.create_default_context(cafile=f"/proc/self/fd/{file.fileno()}")  # exactly the checked file
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # Python 3.11.2 sets it, and would hide a truncated answer
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(list(protocols))
    return context


async def _secure(wire: SocketStream, context: ssl.SSLContext, route: Route) -> None:
    try:
        await wire.ask_tls(context, route.host)
    except OSError as error:
        wire.close()
        raise _no_tls(route, error) from error
    except BaseException:
        wire.close()
        raise


def _chosen_addresses(route: Route) -> Sequence[Address]:
    """Return the addresses that the operator wrote. No pattern matches an address, so a literal one was meant."""
    return route.addresses or ((ip_address(route.host),) if route.api and is_address(route.host) else ())


async def _first(route: Route, addresses: Sequence[Address]) -> SocketStream:
    """Connect to the first address that answers (RFC 8305): families alternate, each attempt with a head start."""
    if len(addresses) == 1:
        try:
            return _accept(route, await _open(addresses[0], route.port))
        except OSError as error:
            raise _unreachable(route, error) from error
    winner: socket.socket | None = None
    fault = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    async def attempt(address: Address, failed: anyio.Event) -> None:
        nonlocal winner, fault
        try:
            sock = await _open(address, route.port)
        except OSError as error:
            fault = error
            failed.set()
            return
        if winner is None:
            winner = sock
            attempts.cancel_scope.cancel()
        else:
            sock.close()

    try:
        async with anyio.create_task_group() as attempts:
            for address in _alternate_families(addresses):
                failed = anyio.Event()
                attempts.start_soon(attempt, address, failed)
                with anyio.move_on_after(STAGGER_SECONDS):
                    await failed.wait()
    except BaseException:
        if winner is not None:
            winner.close()
        raise
    if winner is None:
        raise _unreachable(route, fault)
    return _accept(route, winner)


def _accept(route: Route, sock: socket.socket) -> SocketStream:
    """Accept a connection, unless it leads to this host itself, whose servers may trust local connections.

    Such a connection has the same address at both ends. One to a secondary address of a network is not recognised: the
    kernel connects from the primary one.
    """
    try:
        own, far = sock.getsockname()[0], sock.getpeername()[0]
    except OSError as error:  # the peer has closed already
        sock.close()
        raise _unreachable(route, error) from error
    if own == far and not is_named(ip_address(far), route.networks, _chosen_addresses(route)):
        sock.close()
        raise _refuse_address(route, ip_address(far), "is this host itself")
    return SocketStream(sock)


def _alternate_families(addresses: Sequence[Address]) -> Sequence[Address]:
    first = [address for address in addresses if address.version == addresses[0].version]
    other = [address for address in addresses if address.version != addresses[0].version]
    return [address for address in chain.from_iterable(zip_longest(first, other)) if address is not None]


async def _open(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            sock.connect((str(address), port))
        await anyio.wait_writable(sock)
    except BaseException:
        sock.close()
        raise
    fault = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if fault:
        sock.close()
        raise OSError(fault, os.strerror(fault))
    return sock


@contextlib.asynccontextmanager
async def limit_time(route: Route, seconds: float, what: str) -> AsyncIterator[None]:
    """Bound the time of an operation with the server.

    Raises:
        UpstreamError: ``upstream_timeout``.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        message = f"It took more than {seconds:.0f} s to {what} {route.host}:{route.port}."
        raise UpstreamError("upstream_timeout", message) from error


def _refuse_address(route: Route, address: Address, what: str) -> UpstreamError:
    """Make the refusal of an address, which it names only for an API's host: else programs could map a network."""
    if not route.api:
        message = f"{route.host} leads to an address that {what}."
        return UpstreamError("address_refused", message, hint="The owner has to name the host in an API.")
    address = unmap_address(address)  # the form that networks are compared with
    message = f"{route.host} leads to {address}, which {what}."
    entry = f'networks = ["{ip_network(address)}"]'
    hint = f"The owner can allow it, in [api.{route.api}] of the configuration: {entry}. Retrying does not help."
    return UpstreamError("address_refused", message, hint=hint)


def _unreachable(route: Route, error: OSError) -> UpstreamError:
    return UpstreamError("upstream_unreachable", f"{route.host}:{route.port} can't be reached: {_describe(error)}.")


def _no_tls(route: Route, error: OSError) -> UpstreamError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "When its authority is private, the operator can name it: by ca_file of the API."
        message = f"{route.host}:{route.port} can't prove who it is: {error.verify_message.rstrip('.')}."
        return UpstreamError("tls_failed", message, hint=hint)
    return UpstreamError("tls_failed", f"No TLS with {route.host}:{route.port}: {_describe(error)}.")


def _describe(error: OSError) -> str:
    return str(error.strerror or error).rstrip(".")
