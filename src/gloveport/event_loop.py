"""The event loop, and how to wait for several descriptors, also where the kernel takes no more epoll watches.

All processes of a user share one number of epoll watches (``fs.epoll.max_user_watches``), and as an ordinary user
sandboxed programs count as this user: one that watches as much as it can leaves none. What epoll does not take is
polled instead. ``poll`` has no such number, but each call costs time for each descriptor.
"""

import errno
import selectors
from asyncio import SelectorEventLoop
from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Result = TypeVar("_Result")
Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class Selector(selectors.BaseSelector):
    """Epoll, and poll for what epoll does not take."""

    def __init__(self) -> None:
        self._epoll = selectors.EpollSelector()
        self._poll = selectors.PollSelector()
        self._poll.register(self._epoll, selectors.EVENT_READ)

    @property
    def descriptors(self) -> list[tuple[int, int]]:
        """Whoever waits for one of these and its events waits for all that is registered."""
        return [(key.fd, key.events) for key in self._poll.get_map().values()]

    def register(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        """See ``selectors``."""
        try:
            return self._epoll.register(fileobj, events, data)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        return self._poll.register(fileobj, events, data)

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """See ``selectors``."""
        return self._of(fileobj).unregister(fileobj)

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        """See ``selectors``."""
        return self._of(fileobj).modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> Ready:
        """See ``selectors``."""
        if not self._polls:
            return self._epoll.select(timeout)
        ready = self._poll.select(timeout)
        return [one for one in ready if one[0].fileobj is not self._epoll] + self._epoll.select(0)

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """See ``selectors``."""
        return self._of(fileobj).get_key(fileobj)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        """See ``selectors``."""
        return ChainMap(self._epoll.get_map(), self._poll.get_map()) if self._polls else self._epoll.get_map()  # type: ignore[arg-type]

    def close(self) -> None:
        """See ``selectors``."""
        self._poll.close()
        self._epoll.close()

    @property
    def _polls(self) -> bool:
        """Whether anything is polled besides epoll itself."""
        return len(self._poll.get_map()) > 1

    def _of(self, fileobj: "FileDescriptorLike") -> selectors.EpollSelector | selectors.PollSelector:
        return self._poll if self._polls and fileobj in self._poll.get_map() else self._epoll


async def wait_ready(selector: Selector) -> None:
    """Wait until something that is registered may be ready."""
    (first, _), *others = selector.descriptors
    if not others:
        await anyio.wait_readable(first)
        return
    async with anyio.create_task_group() as tasks:

        async def wait(of: Callable[[int], Awaitable[None]], descriptor: int) -> None:
            await of(descriptor)
            tasks.cancel_scope.cancel()

        for descriptor, events in selector.descriptors:
            writes = events & selectors.EVENT_WRITE
            tasks.start_soon(wait, anyio.wait_writable if writes else anyio.wait_readable, descriptor)


def run(main: Callable[..., Awaitable[_Result]], *args: object) -> _Result:
    """Run a coroutine function to its end, in an event loop of its own."""
    return anyio.run(main, *args, backend_options={"loop_factory": lambda: SelectorEventLoop(Selector())})
