"""Collects the output of one program: shows it while the run goes on, and cuts it for the answer."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import anyio
from msgspec import Struct

from gloveport.engine.live import Streams
from gloveport.engine.run_context import Execution
from gloveport.fairness import SMALL_BYTES, compute
from gloveport.model import Output, Stream
from gloveport.sandbox.run.capture import Archive, Capture

_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_LIVE_BYTES = 4096
"""Of each stream of a running program: a client that polls reads it each time."""


class RunOutput(Struct, frozen=True):
    """The output of one run, by stream."""

    run: Execution
    captures: Mapping[Stream, Capture]

    @classmethod
    def open(cls, run: Execution, spool: Path, clean: Callable[[str], str]) -> Self:
        """Begin to collect output. ``spool``: host directory for large output; ``clean``: takes secrets out of a
        text.
        """
        limits = run.guard.grant.limits
        captures = {
            stream: Capture(
                shown_bytes=limits.output_bytes,
                stored_bytes=limits.stored_output_bytes,
                directory=spool,
                notify=functools.partial(run.on_output, stream) if run.on_output else None,
                clean=clean,
            )
            for stream in _STREAMS
        }
        output = cls(run, captures)
        run.context.live.follow(output._show_live)
        return output

    @property
    def failure(self) -> str:
        """Why output could not be stored, which has ended the run; empty if it could."""
        return next(filter(None, (capture.failure for capture in self.captures.values())), "")

    async def finish(self, archive: Archive) -> Streams:
        """The shown part of the output, even on cancellation. The rest moves to the archive."""
        streams: dict[Stream, Output] = {}
        for name, capture in self.captures.items():
            handle = f"output://{self.run.id}/{name}"
            make = functools.partial(capture.output, handle, ansi=self.run.request.ansi)
            if (size := min(capture.shown_bytes, capture.total)) <= SMALL_BYTES:
                streams[name] = make()
            else:
                with anyio.CancelScope(shield=True):
                    streams[name] = await compute(size, make)
            if streams[name].truncated:
                archive.add(handle, capture, self.run.share)
            else:
                capture.close()
        self.run.context.live.follow(lambda: streams)
        return streams

    def _show_live(self) -> Streams:
        ansi = self.run.request.ansi
        return {name: capture.output(None, ansi=ansi, most=_LIVE_BYTES) for name, capture in self.captures.items()}
