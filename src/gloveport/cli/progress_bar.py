"""Shows the progress of an environment's build on standard error."""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from gloveport.engine.build_progress import OnProgress

_STEPS: Final = 4
"""Resolve, fetch, install, check."""


@contextlib.contextmanager
def show_progress(name: str) -> "Iterator[OnProgress]":
    """Show progress, if there are steps: on a terminal in one line that disappears, else with a line for each step."""
    if not sys.stderr.isatty():
        yield lambda what: print(f"{name}: {what}", file=sys.stderr, flush=True)  # noqa: T201 - no typer: exec has none
        return
    with contextlib.ExitStack() as stack:
        bars: list[tuple[Progress, TaskID]] = []

        def tell(what: str) -> None:
            if not bars:
                bar = stack.enter_context(_make_bar())
                bars.append((bar, bar.add_task(name, total=_STEPS)))
            ((bar, task),) = bars
            bar.update(task, description=f"{name}: {what}", advance=1)

        yield tell


def _make_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)
