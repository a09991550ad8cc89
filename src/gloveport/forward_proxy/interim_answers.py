"""Bounds the interim answers (1xx) to a request: h11 would read them without end, with no turn for others meanwhile."""

import re
from typing import Any, Final

import httpx2

_INTERIM: Final = re.compile(rb"(?:\A|\n\r?\n)HTTP/1\.[01] 1")
_MOST_INTERIM: Final = 20


def bound_interim_answers(transport: httpx2.AsyncHTTPTransport) -> httpx2.AsyncHTTPTransport:
    """Have a transport break off connections with too many interim answers to what was sent last."""
    pool: Any = transport._pool  # noqa: SLF001 - the only way to its connections
    pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001
    return transport


class _Backend:
    """Opens connections. Arguments and results are those of httpx2's interface, which has no public types."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401
        self._inner = inner

    async def connect_tcp(self, *arguments: Any, **named: Any) -> "_Stream":  # noqa: ANN401
        return _Stream(await self._inner.connect_tcp(*arguments, **named))

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Stream:
    """A connection that counts interim answers. In no JSON and no event does an empty line precede such a line."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401
        self._inner = inner
        self._interim = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface's
        data: bytes = await self._inner.read(max_bytes, timeout)
        self._interim += len(_INTERIM.findall(data))
        if self._interim > _MOST_INTERIM:
            raise httpx2.ReadError("too many interim answers")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._interim = 0
        await self._inner.write(buffer, timeout)

    async def start_tls(self, *arguments: Any, **named: Any) -> "_Stream":  # noqa: ANN401
        return _Stream(await self._inner.start_tls(*arguments, **named))

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401
        return self._inner.get_extra_info(info)
