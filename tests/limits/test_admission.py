"""Admission: bounded places, a bounded queue, a bounded wait, and fair shares. E4, P8.

The time of these loops is a number that the tests set: a deadline passes when a test says so, to the very turn of the
loop, and nothing waits for real.
"""

import asyncio
import sys

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import Denied
from gloveport.limits.admission import AdmissionQueue

QUEUE_SECONDS = 10.0


class Loop(asyncio.SelectorEventLoop):
    now = 0.0

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
async def own_time(monkeypatch):
    """That of the event loop of all tests, until this one is over."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "now", 0.0, raising=False)
    monkeypatch.setattr(loop, "time", lambda: loop.now)


async def settle():
    """Give every task the turns it can use."""
    for _ in range(10):
        await checkpoint()


class Run:
    """One run that asks for a place, and keeps it until it is told to end."""

    def __init__(self, admission: AdmissionQueue, caller: str, order: list[str] | None = None) -> None:
        self.admission, self.caller = admission, caller
        self.order = [] if order is None else order
        self.state = "asking"
        self.end = anyio.Event()
        self.scope = anyio.CancelScope()
        self.task = asyncio.create_task(self.go())

    async def go(self) -> None:
        with self.scope:
            try:
                async with self.admission.place(self.caller):
                    self.state = "running"
                    self.order.append(self.caller)
                    await self.end.wait()
                self.state = "ended"
            except Denied as denial:
                self.state, self.denial = denial.code, denial
            except asyncio.CancelledError:
                self.state = "cancelled"
                raise


@pytest.fixture
async def ask():
    """Begin a run; it asks when the loop turns."""
    runs = []

    def begin(admission, caller, order=None):
        runs.append(Run(admission, caller, order))
        return runs[-1]

    yield begin
    for run in runs:
        run.scope.cancel()
    ends = await asyncio.gather(*(run.task for run in runs), return_exceptions=True)
    assert not [end for end in ends if not isinstance(end, asyncio.CancelledError | None)]
    assert not [run for run in runs if (run.admission.running, run.admission.waiting) != (0, 0)]


@pytest.fixture
def start(ask):
    """Begin a run and let it come as far as it gets."""

    async def begin(admission, caller, order=None):
        run = ask(admission, caller, order)
        await settle()
        return run

    return begin


def admission(places: int = 1, length: int = 10, of_caller: int = sys.maxsize) -> AdmissionQueue:
    return AdmissionQueue(
        concurrent_runs=places, queue_length=length, queue_seconds=QUEUE_SECONDS, caller_runs=of_caller
    )


async def end_in_turn(runs):
    """End whatever runs, again and again, until all have had their turn."""
    while any(run.state in {"asking", "running"} for run in runs):
        next(run for run in runs if run.state == "running").end.set()
        await settle()


async def test_one_caller_is_served_in_the_order_of_asking(start):
    """E4."""
    door, order = admission(), []
    runs = [await start(door, "a", order) for _ in range(5)]
    starts = []
    while len(starts) < 5:
        starts.append(next(run for run in runs if run.state == "running"))
        starts[-1].end.set()
        await settle()
    assert starts == runs
    assert (door.running, door.waiting) == (0, 0)


async def test_places_go_round_robin_however_many_a_caller_asks_for(start):
    """E4: whoever asks is served after one run of each other caller at most."""
    door, order = admission(), []
    runs = [await start(door, caller, order) for caller in "aaaaabbbc"]
    await end_in_turn(runs)
    assert "".join(order) == "aabcababa"


async def test_a_caller_with_as_many_places_as_it_may_have_leaves_the_others_free(start):
    """E4, P8."""
    door = admission(places=3, of_caller=2)
    first, *others = [await start(door, caller) for caller in "aaaa"]
    assert [run.state for run in others] == ["running", "asking", "asking"]
    assert (await start(door, "b")).state == "running"
    assert (await start(door, "c")).state == "asking"
    first.end.set()
    await settle()
    assert (others[1].state, others[2].state) == ("running", "asking")  # it asked before c
    others[0].end.set()
    await settle()
    assert (others[2].state, door.running, door.waiting) == ("asking", 3, 1)  # it is c's turn


async def test_a_caller_that_asks_again_and_again_does_not_come_before_the_others(start):
    """E4: asking anew, as soon as an answer has come, is no better than having asked before."""
    door, order = admission(), []
    runs = [await start(door, caller, order) for caller in "aab"]
    while "b" not in order:
        next(run for run in runs if run.state == "running").end.set()
        runs.append(await start(door, "a", order))
    assert order == ["a", "a", "b"]


async def test_a_newcomer_does_not_overtake_one_who_waits(start):
    """In the moment in which a place is given back it belongs to who waited."""
    door = admission()
    first, second = await start(door, "a"), await start(door, "b")
    first.end.set()
    third = await start(door, "c")
    assert (first.state, second.state, third.state) == ("ended", "running", "asking")


async def test_a_free_place_is_taken_without_a_turn_of_the_loop():
    """Nobody waits where nobody has to, and a cancelled caller finds out in its own time."""
    door = admission(places=1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with door.place("a"):
            assert door.running == 1
    assert door.running == 0


async def test_nobody_waits_where_the_queue_has_no_length(start):
    """T5: the knob ``queue_length``."""
    door = admission(length=0)
    runs = [await start(door, caller) for caller in "aab"]
    assert [run.state for run in runs] == ["running", "queue_full", "queue_full"]
    assert {run.denial.hint for run in runs[1:]} == {"try again when a run has ended"}
    runs[0].end.set()
    await settle()
    assert (await start(door, "b")).state == "running"


async def test_a_waiter_gives_up_in_time_and_leaves_the_queue(start):
    """T5: the knob ``queue_seconds``."""
    door = admission()
    holder, waiter = await start(door, "a"), await start(door, "b")
    asyncio.get_running_loop().now += QUEUE_SECONDS
    await settle()
    assert (holder.state, waiter.state) == ("running", "queue_timeout")
    assert waiter.denial.reason == (
        "no place became free within 10 s: 1 programs are running (0 of them yours)"
        " and 0 are waiting (0 of them yours; at most 10 may wait)"
    )
    assert (door.running, door.waiting) == (1, 0)


async def test_a_caller_that_fills_the_queue_makes_room_for_another(start):
    """E4: the newest of the longest queue, and both refusals say so in numbers."""
    door = admission(length=3)
    flood = [await start(door, "a") for _ in range(5)]
    assert [run.state for run in flood] == ["running", "asking", "asking", "asking", "queue_full"]
    assert flood[4].denial.reason == (
        "1 programs are running (1 of them yours) and 3 are waiting (3 of them yours; at most 3 may wait)"
    )
    single = await start(door, "b")
    assert single.state == "asking"
    assert [run.state for run in flood[1:4]] == ["asking", "asking", "queue_full"]
    assert flood[3].denial.reason == (
        "the queue is full, and your newest run made room for a caller with fewer:"
        " 1 programs are running (1 of them yours) and 2 are waiting (2 of them yours; at most 3 may wait)"
    )
    assert flood[3].denial.hint == flood[4].denial.hint
    assert door.waiting == 3


async def test_equals_do_not_drive_each_other_out(start):
    """A queue full of callers with one run each stays theirs, however often one more asks."""
    door = admission(length=3)
    runs = [await start(door, caller) for caller in "abcd"]
    late = [await start(door, "e") for _ in range(3)]
    assert [run.state for run in runs] == ["running", "asking", "asking", "asking"]
    assert [run.state for run in late] == ["queue_full"] * 3
    assert late[0].denial.hint == "try again when a run has ended"


async def test_a_run_that_goes_on_counts_when_room_is_made(start):
    """E4: where one may wait, the caller that runs already yields, and does not get back in by asking again."""
    door = admission(length=1)
    runs = [await start(door, caller) for caller in "aabaa"]
    assert [run.state for run in runs] == ["running", "queue_full", "asking", "queue_full", "queue_full"]


async def test_of_two_equal_queues_the_one_whose_turn_comes_later_makes_room(start):
    door = admission(length=4)
    runs = [await start(door, caller) for caller in "xaabbc"]
    assert [run.state for run in runs] == ["running", "asking", "asking", "asking", "queue_full", "asking"]


async def test_a_cancelled_waiter_takes_no_place(start):
    """E5."""
    door = admission()
    holder, waiter, other = await start(door, "a"), await start(door, "b"), await start(door, "c")
    waiter.scope.cancel()
    await settle()
    assert (waiter.state, door.running, door.waiting) == ("cancelled", 1, 1)
    holder.end.set()
    await settle()
    assert (other.state, door.running, door.waiting) == ("running", 1, 0)


CANCELS = {"scope": lambda run: run.scope.cancel(), "task": lambda run: run.task.cancel()}


@pytest.mark.parametrize("cancel", CANCELS)
@pytest.mark.parametrize("first", ["place", "cancel"])
async def test_who_is_given_a_place_and_cancelled_in_the_same_moment_passes_it_on(start, cancel, first):
    """E5: in either order no place is lost."""
    door = admission()
    async with door.place("a"):
        chosen, other = await start(door, "b"), await start(door, "c")
        if first == "cancel":
            CANCELS[cancel](chosen)
    if first == "place":  # given by now, and not known to the one who has it
        CANCELS[cancel](chosen)
    await settle()
    assert other.state == "running"
    assert (door.running, door.waiting) == (1, 0)


@pytest.mark.parametrize("first", ["place", "deadline"])
async def test_who_is_given_a_place_when_its_time_runs_out_has_it(start, first):
    door, loop = admission(), asyncio.get_running_loop()
    place = door.place("a")
    await place.__aenter__()
    chosen = await start(door, "b")

    def give_back():
        with pytest.raises(StopIteration):  # it takes no turn of the loop
            place.__aexit__(None, None, None).send(None)

    if first == "deadline":  # both timers are due in one turn; the waiter wakes in the next
        loop.call_at(loop.now + QUEUE_SECONDS + 1, give_back)
        loop.now += QUEUE_SECONDS + 2
    else:
        give_back()
        loop.now += QUEUE_SECONDS
    await settle()
    assert chosen.state == "running"
    assert (door.running, door.waiting) == (1, 0)


@pytest.mark.parametrize("end", [*CANCELS, "deadline, then room", "room, then deadline"])
async def test_who_makes_room_and_ends_in_the_same_moment_leaves_the_queue_once(ask, start, end):
    door, loop, late = admission(length=2), asyncio.get_running_loop(), []
    runs = [await start(door, caller) for caller in "aba"]

    def come():
        late.append(ask(door, "c"))

    if end == "deadline, then room":  # it comes in the turn in which the time runs out, before the others wake
        loop.call_at(loop.now + QUEUE_SECONDS - 1, come)
        loop.now += QUEUE_SECONDS
    else:
        come()
        if end in CANCELS:
            await checkpoint()  # room is made, and the one who made it does not know
            CANCELS[end](runs[-1])
        else:
            loop.now += QUEUE_SECONDS
    await settle()
    assert runs[-1].state == ("cancelled" if end == "task" else "queue_full")
    assert late[0].state == "asking"
    assert (door.running, door.waiting) == (1, 2 if end in CANCELS else 1)


ACTS = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "end", "end", *CANCELS, "time", "turn", "turn"]), st.integers(0, 5)
)


@given(
    acts=st.lists(ACTS, max_size=60), places=st.integers(1, 3), length=st.integers(0, 5), of_caller=st.integers(1, 3)
)
def test_whatever_comes_together_no_place_is_lost_and_none_is_given_twice(acts, places, length, of_caller):
    """E4, E5: runs come, end, are cancelled and run out of time, also all in one turn of the loop."""

    async def live():
        door = admission(places, length, of_caller)
        runs = []

        def count(state):
            return sum(run.state == state and not run.task.done() for run in runs)

        for act, number in acts:
            going = [run for run in runs if run.state in {"asking", "running"}]
            chosen = going[number % len(going)] if going else None
            if act == "ask":
                runs.append(Run(door, "abc"[number % 3]))
            elif act == "time":
                asyncio.get_running_loop().now += number
            elif act == "turn":
                await checkpoint()
            elif chosen is not None:
                chosen.end.set() if act == "end" else CANCELS[act](chosen)
            assert count("running") <= door.running <= places
            assert door.waiting <= length
            assert max(door._places.values(), default=0) <= of_caller
            assert door.running == places or all(door._places[caller] == of_caller for caller in door._queues)
        await settle()
        assert (count("running"), count("asking")) == (door.running, door.waiting)
        for run in runs:
            run.end.set()
        await settle()
        await asyncio.gather(*(run.task for run in runs), return_exceptions=True)
        assert (door.running, door.waiting, door._places, door._queues) == (0, 0, {}, {})

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(live())


@given(st.lists(st.sampled_from("aaabc"), min_size=1, max_size=30), st.integers(1, 3))
def test_nobody_is_passed_over_twice_by_the_same_caller(callers, places):
    """E4: while one is the first waiter of its caller, each other caller gets a place once at most."""

    async def live():
        door, order = admission(places, length=30), []
        runs = []
        for caller in callers:
            runs.append(Run(door, caller, order))
            await settle()
        immediate = len(order)
        await end_in_turn(runs)
        return order[immediate:]

    with asyncio.Runner(loop_factory=Loop) as runner:
        order = runner.run(live())
    for index, caller in enumerate(order):
        before = order[:index]
        since = before[len(before) - before[::-1].index(caller) :] if caller in before else before
        assert len(since) == len(set(since))
