"""What was sampled while a siege goes on: how long each thing took, when it began, and what failed."""

import contextlib
import math
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_END_SECONDS: Final = 20


@dataclass(frozen=True)
class Window:
    """Median and ninetieth percentile of what began within a span of time, in milliseconds."""

    median: float
    high: float


@dataclass(kw_only=True)
class Samples:
    """By name: when each began, with the seconds that it took. What has not come to its end yet counts as well."""

    done: defaultdict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    begun: dict[str, float] = field(default_factory=dict)
    faults: list[tuple[float, str]] = field(default_factory=list)
    """When, and what."""

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Sample what is done in this context."""
        began = self.begun[name] = time.monotonic()
        try:
            yield
        finally:
            del self.begun[name]
            self.done[name].append((began, time.monotonic() - began))

    def note(self, line: str) -> None:
        """Take a line of a probe."""
        name, began, *rest = line.split(maxsplit=3)
        if not rest:
            self.begun[name] = float(began)
            return
        self.begun.pop(name, None)
        if rest[0] == "error":
            self.faults.append((float(began), f"{name}: {rest[1].strip()}"))
        else:
            self.done[name].append((float(began), float(rest[0])))

    def window(self, start: float, end: float) -> Mapping[str, Window]:
        """What began, or still went on, between these times."""
        now = time.monotonic()
        found = {}
        for name in {*self.done, *self.begun}:
            spans = [*self.done[name], *([(self.begun[name], now - self.begun[name])] if name in self.begun else [])]
            took = sorted(1000 * seconds for began, seconds in spans if began < end and began + seconds > start)
            if took:
                found[name] = Window(statistics.median(took), took[math.ceil(0.9 * (len(took) - 1))])
        return found

    def faults_between(self, start: float, end: float) -> list[str]:
        """What failed, each kind once, with how often."""
        texts = [text for when, text in self.faults if start <= when < end]
        return [f"{text} ({texts.count(text)} times)" for text in dict.fromkeys(texts)]


@contextlib.contextmanager
def probing(samples: Samples, directory: Path) -> Iterator[int]:
    """Let the probes fill ``samples``; yields their process id."""
    command = [sys.executable, "-m", "bench.siege.probes", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: [samples.note(line) for line in process.stdout or ()], daemon=True)
        reader.start()
        try:
            yield process.pid
        finally:
            process.stdin.close()  # type: ignore[union-attr] - a pipe, see above
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join(_END_SECONDS)
