"""Makes the event loop, and waits for several descriptors, even when the kernel takes no more epoll watches.

All processes of a user share one number of epoll watches (``fs.epoll.max_user_watches``), and as an ordinary user
sandboxed programs count as this user: one that watches as much as it can leaves none. Descriptors that epoll refuses
are polled instead. ``poll`` has no such bound, but each call costs time for each descriptor.
"""

import asyncio
import errno
import math
import selectors
from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Result = TypeVar("_Result")
Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class Selector(selectors.BaseSelector):
    """A selector: epoll, and poll for descriptors that epoll refuses."""

    def __init__(self) -> None:
        self._epoll = selectors.EpollSelector()
        self._poll = selectors.PollSelector()
        self._poll.register(self._epoll, selectors.EVENT_READ)
        self._polled = 0
        """How many descriptors are polled besides epoll's own."""

        self._waiting: asyncio.Future[None] | None = None
        self._watching: asyncio.AbstractEventLoop | None = None
        """The event loop that watches for readiness, if one does."""

    def register(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        """See ``selectors``."""
        try:
            return self._epoll.register(fileobj, events, data)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        self._forget()
        key = self._poll.register(fileobj, events, data)
        self._polled += 1
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """See ``selectors``."""
        of = self._of(fileobj)
        if of is self._poll:
            self._forget()
            self._polled -= 1
        return of.unregister(fileobj)

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        """See ``selectors``."""
        of = self._of(fileobj)
        if of is self._poll:
            self._forget()
        return of.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> Ready:
        """See ``selectors``."""
        if not self._polled:
            return self._epoll.select(timeout)
        ready = self._poll.select(timeout)
        return [one for one in ready if one[0].fileobj is not self._epoll] + self._epoll.select(0)

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """See ``selectors``."""
        return self._of(fileobj).get_key(fileobj)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        """See ``selectors``."""
        return ChainMap(self._epoll.get_map(), self._poll.get_map()) if self._polled else self._epoll.get_map()  # type: ignore[arg-type]

    def close(self) -> None:
        """See ``selectors``."""
        self._forget()
        self._poll.close()
        self._epoll.close()

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait until a registered descriptor may be ready or ``wake`` is called, at most so long.

        One task waits at a time. It uses no scope or task of its own: a run waits several times, for less than a
        millisecond each.
        """
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self.wake) if seconds < math.inf else None
        if self._watching is None:
            self._watch(loop)
        try:
            await waiting
        finally:
            if self._waiting is waiting:
                self._waiting = None
                if self._polled:  # the loop takes each descriptor once, and others wait for them as well
                    self._forget()
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Let the waiting task go on."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def replace_waiter(self) -> "asyncio.Future[None] | None":
        """Let another task wait in place of the waiting one, which goes on when the returned future is set.

        None where no task waits, or it is about to go on.
        """
        waiting = self._waiting
        if waiting is None or waiting.done():
            return None
        self._waiting = None
        return waiting

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watching = loop
        for key in self._poll.get_map().values():
            watch = loop.add_writer if key.events & selectors.EVENT_WRITE else loop.add_reader
            watch(key.fd, self._notice)

    def _notice(self) -> None:
        """Wake the waiting task. With none waiting, stop watching: the loop would call this again and again."""
        if self._waiting is None:
            self._forget()
        else:
            self.wake()

    def _forget(self) -> None:
        """Stop the event loop's watching until a task waits."""
        loop, self._watching = self._watching, None
        if loop is None:
            return
        for key in self._poll.get_map().values():
            forget = loop.remove_writer if key.events & selectors.EVENT_WRITE else loop.remove_reader
            forget(key.fd)

    def _of(self, fileobj: "FileDescriptorLike") -> selectors.EpollSelector | selectors.PollSelector:
        return self._poll if self._polled and fileobj in self._poll.get_map() else self._epoll


def run(main: Callable[..., Awaitable[_Result]], *args: object) -> _Result:
    """Run a coroutine function to its end, in an event loop of its own."""
    return anyio.run(main, *args, backend_options={"loop_factory": lambda: asyncio.SelectorEventLoop(Selector())})
