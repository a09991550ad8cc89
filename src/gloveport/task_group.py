"""Opens a task group for background work, and unwraps the exception groups that task groups raise."""

import contextlib
from collections.abc import AsyncIterator

import anyio
from anyio.abc import TaskGroup


@contextlib.asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """A task group whose tasks are cancelled on leaving; what the body raises comes out as itself, not in a group."""
    failure = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def flatten_group(error: BaseException) -> list[BaseException]:
    """The exceptions that a group holds, at whatever depth; of another exception, itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in flatten_group(inner)]
    return [error]
