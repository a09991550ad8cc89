"""What stands before a hostile program (``attacker.PRELUDE``). It runs in the sandbox."""

import http.client  # noqa: F401 - programs use it
import json
import os  # noqa: F401
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

PROXY = ("127.0.0.2", 3128)


def masked(data):
    return bytes(byte ^ 0x5A for byte in data).hex()


def until_end(stream, seconds=10):
    """All that comes until the end, or until nothing more comes for so long; the first of it may take longer."""
    stream.settimeout(10)
    seen = bytearray()
    try:
        while data := stream.recv(65536):
            seen += data
            stream.settimeout(seconds)
    except OSError as error:
        seen += b"<" + type(error).__name__.encode() + b">"
    return bytes(seen)


def secured(stream, name):
    return ssl.create_default_context().wrap_socket(stream, server_hostname=name)


def unchecked(stream, name):
    context = ssl.create_default_context()
    context.check_hostname = False
    return context.wrap_socket(stream, server_hostname=name)


def direct(host, port, sni="", secure=secured):
    """A connection to a granted name; with TLS for the name itself unless another, or none, is told."""
    stream = socket.create_connection((host, port), 10)
    return stream if sni is None else secure(stream, sni or host)


def tunneled(host, port, sni="", secure=secured):
    """The same through the proxy door."""
    stream = socket.create_connection(PROXY, 10)
    stream.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = stream.recv(1)
        if not data:
            raise OSError(answer.decode("latin-1"))
        answer += data
    if b" 200 " not in answer:
        raise OSError(answer.decode("latin-1"))
    return stream if sni is None else secure(stream, sni or host)


def plain(*_):
    return socket.create_connection(PROXY, 10)


def asked(stream, *pieces):
    """Send these bytes and give all that is answered until the other end hangs up."""
    with stream:
        try:
            for piece in pieces:
                stream.sendall(piece)
        except OSError:
            pass
        return until_end(stream)


def request(place, target="/", method="GET", headers=(), body=b"", host=None):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host or place}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def tried(attempt):
    try:
        return attempt()
    except Exception as error:  # noqa: BLE001 - it is told
        return f"<{type(error).__name__}: {error}>".encode()


def together(attempts):
    """Status and code of each answer, of all attempts at the same time."""
    with ThreadPoolExecutor(20) as pool:
        return dict(zip(attempts, pool.map(lambda attempt: code_of(tried(attempt)), attempts.values()), strict=True))


def code_of(answer):
    """Status, and the code of a refusal: ``403 names_disagree``."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode() if head.startswith(b"HTTP/1.1 ") else "none"
    try:
        return f"{status} {json.loads(body)['code']}"
    except (ValueError, KeyError, TypeError):
        return status
