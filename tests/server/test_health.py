"""How often the host is inspected for those who ask for its health."""

import anyio

from gloveport.sandbox.detection.probe import Check
from gloveport.server.tools.health import SharedInspection


async def test_who_asks_for_health_again_and_again_costs_two_inspections_and_delays_nobody():
    """P8: each builds sandboxes, beside the queue of runs."""
    begun, go_on = 0, anyio.Event()

    async def inspect() -> list[Check]:
        nonlocal begun
        begun += 1
        number = begun
        await go_on.wait()
        return [Check(name=f"inspection {number}", state="enforced", detail="")]

    inspection = SharedInspection(inspect=inspect)
    answers = []

    async def ask() -> None:
        answers.append((await inspection.checks())[0].name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        for _ in range(100):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert answers == ["inspection 1"] + ["inspection 2"] * 100
    await ask()
    assert answers[-1] == "inspection 3"


async def test_an_inspection_that_is_given_up_answers_nobody():
    begun = 0

    async def inspect() -> list[Check]:
        nonlocal begun
        begun += 1
        if begun == 1:
            await anyio.sleep_forever()
        return [Check(name="layer", state="enforced", detail="")]

    inspection = SharedInspection(inspect=inspect)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inspection.checks)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert [check.name for check in await inspection.checks()] == ["layer"]
