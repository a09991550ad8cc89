"""Runs tasks beside others or all together, and unwraps the exception groups that task groups raise."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

Result = TypeVar("Result")


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


async def run_all(jobs: Iterable[Callable[[], Awaitable[None]]], at_once: int) -> None:
    """Run jobs, so many at once. The first that fails ends the others, and what it raises comes out as itself."""
    turns = anyio.CapacityLimiter(at_once)

    async def run(job: Callable[[], Awaitable[None]]) -> None:
        async with turns:
            await job()

    try:
        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(run, job)
    except ExceptionGroup as group:
        raise flatten_group(group)[0] from None


async def finish_all(
    jobs: Iterable[Callable[[], Awaitable[Result]]], failures: tuple[type[Exception], ...]
) -> list[Result]:
    """Run jobs together to their ends, even if one fails in one of these ways; the first failure is raised then."""
    results: dict[int, Result] = {}
    errors: list[Exception] = []

    async def finish(place: int, job: Callable[[], Awaitable[Result]]) -> None:
        try:
            results[place] = await job()
        except failures as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for place, job in enumerate(jobs):
            tasks.start_soon(finish, place, job)
    if errors:
        raise errors[0]
    return [results[place] for place in sorted(results)]


def flatten_group(error: BaseException) -> list[BaseException]:
    """The exceptions that a group holds, at whatever depth; of another exception, itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in flatten_group(inner)]
    return [error]
