"""A call that is sent twice is done once: keys of requests, and what became of them. In memory, bounded.

Callers with the same key wait for each other. The first that succeeds leaves its answer to the others.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from typing import Final, Generic, TypeVar

from pydantic import JsonValue

from gloveport.workspace.errors import WorkspaceError

CAPACITY: Final = 64
MAX_CHARACTERS: Final = 128

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Slot(Generic[Answer]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    callers: int = 0
    done: tuple[str, Answer] | None = None


class Slots(Generic[Answer]):
    """The keys used last, of each tool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[tuple[str, str], _Slot[Answer]] = OrderedDict()

    def once(
        self,
        tool: str,
        key: str,
        arguments: Mapping[str, JsonValue],
        act: Callable[[], Answer],
        lasting: Callable[[Answer], bool],
    ) -> tuple[Answer, bool]:
        """Act, or answer what was answered before.

        Args:
            tool: Whose keys.
            key: Of the request.
            arguments: All of the request but the key.
            act: May raise; then the key is as if it had not been used.
            lasting: Whether an answer is for those who come later too.

        Returns:
            The answer, and whether it is an old one.

        Raises:
            WorkspaceError: INVALID_ARGUMENT for a key that is none; IDEMPOTENCY_KEY_REUSED for other arguments.
        """
        if not 1 <= len(key) <= MAX_CHARACTERS:
            raise WorkspaceError("INVALID_ARGUMENT", f"idempotency_key has 1 to {MAX_CHARACTERS} characters")
        mark = sha256(dumps(arguments, sort_keys=True).encode()).hexdigest()
        slot = self._enter((tool, key))
        try:
            with slot.lock:
                if slot.done is None:
                    answer = act()
                    if lasting(answer):
                        slot.done = mark, answer
                    return answer, False
                if slot.done[0] != mark:
                    raise WorkspaceError(
                        "IDEMPOTENCY_KEY_REUSED",
                        f"the key {key} was used by {tool} with other arguments",
                        hint="repeat the first request as it was, or choose another key",
                        details={"tool": tool, "idempotency_key": key},
                    )
                return slot.done[1], True
        finally:
            self._leave((tool, key), slot)

    def _enter(self, name: tuple[str, str]) -> _Slot[Answer]:
        with self._lock:
            slot = self._slots.setdefault(name, _Slot())
            slot.callers += 1
            self._slots.move_to_end(name)
            return slot

    def _leave(self, name: tuple[str, str], slot: _Slot[Answer]) -> None:
        with self._lock:
            slot.callers -= 1
            if not slot.callers and slot.done is None:
                del self._slots[name]
            idle = [other for other, each in self._slots.items() if not each.callers]
            for other in idle[: max(0, len(self._slots) - CAPACITY)]:
                del self._slots[other]
