"""One server's side of the approvals."""

import contextlib
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gloveport.approvals import desk as desk_module
from gloveport.approvals.database import FILE_NAME
from gloveport.approvals.desk import MOST_OF_RUN, MOST_REFUSALS, MOST_REFUSALS_OF_RUN, Desk, Pending, RunAsker
from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Person, Store
from gloveport.errors import Denied

pytestmark = pytest.mark.anyio

GLOVEPORT = str(Path(sys.executable).with_name("gloveport"))
ME = Person(uid=os.getuid())
BOTH = frozenset({"client", "queue"})
YES, NO = Verdict(allowed=True, by="client"), Verdict(allowed=False, by="client")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "approvals")
    made.create()
    return made


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store, 30, BOTH)


class World:
    """Asks for one run, keeps the verdicts, and wakes whoever waits for its questions."""

    def __init__(self, desk: Desk, run="run-1", session="") -> None:
        self.desk, self.run, self.session = desk, run, session
        self.verdicts: list[Verdict | str] = []
        self._changed = anyio.Event()
        self.asker: RunAsker = desk.asker(self._stir)

    def _stir(self) -> None:
        self._changed.set()

    async def ask(self, subject="call s/t", text="May it?", detail="") -> Verdict | str:
        verdict: Verdict | str
        try:
            verdict = await self.asker.ask(
                text, subject=subject, run=self.run, caller="test", session=self.session, detail=detail
            )
        except Denied as denial:
            verdict = denial.code
        self.verdicts.append(verdict)
        return verdict

    @property
    def open(self) -> list[Question]:
        return self.desk.pending(self.run)

    async def until(self, condition) -> None:
        with anyio.fail_after(30):
            while not condition():
                self._changed = anyio.Event()
                if condition():
                    return
                await self._changed.wait()

    async def opened(self, count=1) -> list[Question]:
        await self.until(lambda: len(self.open) == count)
        return self.open


async def command(store: Store, *arguments: str) -> str:
    environ = {**os.environ, "GLOVEPORT_STATE": str(store.directory.parent)}
    done = await anyio.run_process([GLOVEPORT, "approvals", *arguments], env=environ, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def test_the_owner_approves_from_another_process(store, desk):
    """H8: own queue."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        await command(store, "approve", "--yes", question.id)
        answered = time.monotonic()
    assert time.monotonic() - answered < 20
    (verdict,) = world.verdicts
    assert (verdict.allowed, verdict.scope) == (True, "once")
    assert verdict.by.startswith(f"gloveport approvals (uid {os.getuid()}")
    assert not world.open


async def test_the_owner_denies_from_another_process(store, desk):
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        await command(store, "deny", question.id)
    assert not world.verdicts[0].allowed


async def test_the_client_answers_in_this_process(store, desk):
    """H8: inline elicitation."""
    for verdict in (YES, NO):
        world = World(desk)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.ask)
            (question,) = await world.opened()
            desk.answer(question.id, verdict)
            assert not world.open
            desk.answer(question.id, YES)  # too late
        assert world.verdicts == [verdict]
    assert [(entry.status, entry.verdict) for entry in store.entries()] == [("allowed", YES), ("denied", NO)]


async def test_no_answer_is_a_denial(store):
    """H8, P23: a timeout is a denial."""
    world = World(Desk(store, 0.05, BOTH))
    verdict = await world.ask()
    assert verdict == Verdict(allowed=False, by="timeout")
    assert [entry.status for entry in store.entries()] == ["expired"]
    with pytest.raises(Denied):
        store.answer(store.entries()[0].question.id, YES, ME)


async def test_a_question_whose_time_ran_out_while_the_host_slept_is_over_for_its_run_too(store, desk):
    """H8: its run's clock stands during sleep, and the queue's does not. Nobody could answer it any more."""
    asker, now = desk.asker(lambda: None), datetime.now(UTC)
    question = Question(
        id="apr-0123456789abcdef",
        run="run-1",
        caller="test",
        session="",
        subject="call s/t",
        text="May it?",
        asked=now - timedelta(hours=1),
        expires=now - timedelta(minutes=55),
    )
    with anyio.fail_after(20):  # of the 30 s that it would wait by its run's clock
        verdict = await desk.ask(Pending(question=question, asker=asker))
    assert verdict == Verdict(allowed=False, by="timeout")
    assert [(entry.status, entry.verdict) for entry in store.entries()] == [("expired", verdict)]


async def test_where_nobody_was_there_to_answer_nobody_is_asked_again_by_that_run(store):
    """H8: else a program whose clock stands could wait for ever, question by question."""
    desk = Desk(store, 0.05, BOTH)
    world = World(desk)
    first, second = await world.ask(), await world.ask()
    assert first == second == Verdict(allowed=False, by="timeout")
    assert len(store.entries()) == 1
    await World(desk).ask()  # another run
    assert len(store.entries()) == 2


async def test_withdrawn_questions_of_a_run_wait_no_longer_than_one_that_nobody_answers(store, desk):
    """H8: else a program whose clock stands could ask, give up and ask again for ever."""
    world = World(desk)
    world.asker.withdrawn_seconds = desk.timeout_seconds
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        await world.opened()
        tasks.cancel_scope.cancel()
    assert await world.ask() == Verdict(allowed=False, by="timeout")
    assert len(store.entries()) == 1


async def test_a_run_that_is_cancelled_takes_its_question_with_it(store, desk):
    """H8 E5."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        tasks.cancel_scope.cancel()
    assert not world.open
    assert world.verdicts == []
    assert [entry.status for entry in store.entries()] == ["cancelled"]
    desk.answer(question.id, YES)


async def test_a_run_that_is_cancelled_while_its_answer_is_written_down_leaves_no_question(store, desk):
    """H8 P23: an owner who approves what nobody waits for any more would be told that it is allowed."""
    first, second = World(desk, "run-1"), World(desk, "run-2")
    held = sqlite3.connect(store.directory / FILE_NAME, isolation_level=None)
    with contextlib.closing(held):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.ask)
            await first.opened()
            scope = anyio.CancelScope()

            async def ask() -> None:
                with scope:
                    await second.ask()

            tasks.start_soon(ask)
            (question,) = await second.opened()
            held.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(30):
                while not desk._thread.borrowed_tokens:  # the first one looks for answers, and waits for the file
                    await anyio.lowlevel.checkpoint()
            desk.answer(question.id, YES)
            with anyio.fail_after(30):
                while not desk._thread.statistics().tasks_waiting:
                    await anyio.lowlevel.checkpoint()
            scope.cancel()
            held.execute("ROLLBACK")
            await second.until(lambda: question.id not in desk._pending)
            assert [entry.status for entry in store.entries()] == ["pending", "cancelled"]
            tasks.cancel_scope.cancel()
    assert second.verdicts == []
    with pytest.raises(Denied):
        store.answer(question.id, YES, ME)


async def test_an_answer_in_the_last_moment_counts_and_the_run_may_ask_again(store, monkeypatch):
    monkeypatch.setattr(desk_module, "_POLL_SECONDS", 600)
    desk = Desk(store, 600, BOTH)

    def answer() -> None:
        for question in desk.pending("run-1"):
            store.answer(question.id, YES, ME)
            desk.timeout_seconds = 0

    asker = desk.asker(answer)
    for _ in range(2):
        desk.timeout_seconds = 600
        verdict = await asker.ask("May it?", subject="call s/t", run="run-1", caller="test", session="", detail="")
        assert verdict == YES


async def test_the_answer_that_the_store_has_first_stands(store, desk):
    """H8: one question, one answer, though two people answer at the same moment."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        store.answer(question.id, Verdict(allowed=False, by="queue"), ME)
        desk.answer(question.id, YES.model_copy(update={"scope": "run"}))
    assert world.verdicts == [Verdict(allowed=False, by="queue")]
    assert not world.asker.approved


async def test_an_approval_for_once_is_for_once(desk):
    """H8: approve once."""
    world = World(desk, session="a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        tasks.start_soon(world.ask)
        first, second = await world.opened(2)
        desk.answer(first.id, YES)
        await world.opened(1)
        desk.answer(second.id, NO)
    assert sorted(verdict.allowed for verdict in world.verdicts) == [False, True]


async def test_an_approval_for_the_run_answers_what_is_asked_at_the_same_time_and_later(store, desk):
    """H8: approve for this run; not for another subject, nor another run."""
    world, other = World(desk), World(desk, "run-2")
    async with anyio.create_task_group() as tasks:
        for subject in ("call s/t", "call s/t", "call s/u"):
            tasks.start_soon(world.ask, subject)
        tasks.start_soon(other.ask)
        first, *_ = [one for one in await world.opened(3) if one.subject == "call s/t"]
        await other.opened()
        await command(store, "approve", "--yes", first.id, "--for", "run")
        await world.until(lambda: len(world.verdicts) == 2)
        assert [one.subject for one in world.open] == ["call s/u"]
        assert len(other.open) == 1
        later = await world.ask()
        assert later.allowed
        assert later.by.startswith("remembered")
        tasks.cancel_scope.cancel()
    assert all(verdict.allowed for verdict in world.verdicts)


async def test_an_approval_for_the_session_holds_for_its_next_run_and_no_other_session(desk):
    """H8: approve for a session."""
    world, next_run, stranger = World(desk, session="a"), World(desk, "run-2", "a"), World(desk, "run-3", "b")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        desk.answer((await world.opened())[0].id, YES.model_copy(update={"scope": "session"}))
        await world.until(lambda: world.verdicts)
        assert (await next_run.ask()).allowed
        tasks.start_soon(stranger.ask)
        await stranger.opened()
        tasks.cancel_scope.cancel()


async def test_who_has_no_session_shares_none(desk):
    world, other = World(desk), World(desk, "run-2")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        desk.answer((await world.opened())[0].id, YES.model_copy(update={"scope": "session"}))
        await world.until(lambda: world.verdicts)
        tasks.start_soon(other.ask)
        await other.opened()
        tasks.cancel_scope.cancel()


async def test_a_pattern_answers_what_waits_in_every_server_until_it_is_forgotten(store, desk):
    """H8: decisions remembered for a pattern."""
    world, elsewhere = World(desk), World(Desk(Store(store.directory), 30, BOTH), "run-2")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask, "call s/read")
        tasks.start_soon(elsewhere.ask, "call s/write")
        (question,) = await world.opened()
        await elsewhere.opened()
        await command(store, "approve", "--yes", question.id, "--always", "call s/*")
    assert all(verdict.allowed for verdict in (*world.verdicts, *elsewhere.verdicts))
    assert (await world.ask("call s/delete")).by == "remembered: call s/*"
    await command(store, "forget", "1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask, "call s/delete")
        await world.opened()
        tasks.cancel_scope.cancel()


async def test_the_client_can_not_remember_a_pattern_that_does_not_mean_the_question(desk):
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        with pytest.raises(Denied):
            desk.answer(question.id, YES.model_copy(update={"scope": "pattern", "pattern": "call *x"}))
        assert len(world.open) == 1
        desk.answer(question.id, YES.model_copy(update={"scope": "pattern", "pattern": "call s/*"}))
    assert [kept.pattern for kept in desk.store.list_remembered()] == ["call s/*"]


@pytest.mark.parametrize("channels", [frozenset({"client"}), frozenset({"queue"})])
async def test_only_those_answer_who_may(store, channels):
    """H8 T5: approvals.channels."""
    desk = Desk(store, 30, channels)
    world = World(desk)
    assert desk.asks_clients is (channels == {"client"})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        if desk.asks_clients:
            with pytest.raises(Denied):
                store.answer(question.id, YES, ME)
            desk.answer(question.id, YES)
        else:
            desk.answer(question.id, NO)
            assert len(world.open) == 1
            store.answer(question.id, YES, ME)
    assert world.verdicts[0].allowed


async def test_where_nobody_may_answer_nobody_is_asked(store):
    """H8 T5: approvals.channels, empty."""
    world = World(Desk(store, 30, frozenset()))
    assert not (await world.ask()).allowed
    assert store.entries() == ()


async def test_a_caller_that_floods_one_run_with_questions_is_denied_and_others_are_not(desk):
    """H8 P8: at most so many wait."""
    world, other = World(desk), World(desk, "run-2")
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_OF_RUN + 8):
            tasks.start_soon(world.ask)
        await world.opened(MOST_OF_RUN)
        assert world.verdicts == ["too_many_questions"] * 8
        tasks.start_soon(other.ask)
        await other.opened()
        tasks.cancel_scope.cancel()


async def test_who_has_said_no_often_enough_is_not_asked_again_in_that_run(desk):
    """H8: whoever is asked often enough says yes."""
    world, other = World(desk), World(desk, "run-2")
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_REFUSALS + 5):
            tasks.start_soon(world.ask)
        tasks.start_soon(world.ask, "call s/u")
        for question in [one for one in await world.opened(MOST_REFUSALS + 6) if one.subject == "call s/t"]:
            desk.answer(question.id, NO)
            await anyio.lowlevel.checkpoint()
        await world.until(lambda: len(world.verdicts) == MOST_REFUSALS + 5)
        assert not any(verdict.allowed for verdict in world.verdicts)
        assert "often enough" in (await world.ask()).by
        assert [one.subject for one in world.open] == ["call s/u"]
        tasks.start_soon(other.ask)
        await other.opened()
        tasks.cancel_scope.cancel()


async def test_what_waits_when_the_owner_has_said_no_often_enough_is_answered_too(store, desk):
    """H8: a program asks at the same time instead."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        for _ in range(MOST_REFUSALS + 5):
            tasks.start_soon(world.ask)
        for question in (await world.opened(MOST_REFUSALS + 5))[:MOST_REFUSALS]:
            desk.answer(question.id, NO)
    assert sorted("often enough" in verdict.by for verdict in world.verdicts) == [False] * MOST_REFUSALS + [True] * 5
    assert {entry.status for entry in store.entries()} == {"denied"}


async def test_a_program_that_makes_up_subjects_is_asked_about_for_a_bounded_time(desk):
    """H8."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        for number in range(MOST_REFUSALS_OF_RUN):
            tasks.start_soon(world.ask, f"call s/{number}")
            desk.answer((await world.opened())[0].id, NO)
            await world.until(lambda: len(world.verdicts) > number)  # noqa: B023 - it is awaited here
    assert "often enough" in (await world.ask("call s/new")).by


async def test_all_runs_together_have_a_limit(desk, monkeypatch):
    """H8 P8."""
    monkeypatch.setattr(desk_module, "MOST_OF_SERVER", 2)
    worlds = [World(desk, f"run-{number}") for number in range(3)]
    async with anyio.create_task_group() as tasks:
        for world in worlds[:2]:
            tasks.start_soon(world.ask)
            await world.opened()
        assert await worlds[2].ask() == "too_many_questions"
        tasks.cancel_scope.cancel()


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202edenied\u2028\ud800\x9b31m\x7f\r\nallowed"


async def test_what_a_program_puts_into_a_question_is_printable(desk):
    """P14 H8."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask, "call s/t", HOSTILE * 1000, f"one {HOSTILE}\ntwo{HOSTILE * 9000}")
        (question,) = await world.opened()
        tasks.cancel_scope.cancel()
    assert question.text.isprintable()
    assert len(question.text) == 2000
    assert all(line.isprintable() for line in question.detail.split("\n"))


async def test_a_store_that_is_damaged_while_somebody_waits_approves_nothing(store, desk):
    """T3 H8, P23: and tells the program no path of the host."""
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        await world.opened()
        (store.directory / FILE_NAME).write_bytes(b"no database" * 1000)
    assert world.verdicts == ["approvals_unavailable"]
    assert await world.ask() == "approvals_unavailable"
    assert not world.open
    with pytest.raises(Denied) as caught:
        await world.asker.ask("?", subject="call s/t", run="run-1", caller="", session="", detail="")
    assert str(store.directory) not in str(caught.value)


async def test_a_file_that_somebody_removes_approves_nothing(store):
    """T3 H8."""
    world = World(Desk(store, 30, BOTH))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        await world.opened()
        (store.directory / FILE_NAME).unlink()
    assert world.verdicts == ["approvals_unavailable"]


async def test_a_damaged_file_that_is_moved_away_begins_anew_while_the_server_runs(store, desk):
    """T3 H8: as the message about the damage says."""
    (store.directory / FILE_NAME).write_bytes(b"no database" * 1000)
    assert await World(desk).ask() == "approvals_unavailable"
    (store.directory / FILE_NAME).rename(store.directory / "moved")
    assert await command(store, "list") == "Nothing waits for an answer.\n"
    assert await command(store, "remembered") == "Nothing is remembered.\n"
    world = World(desk)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.ask)
        (question,) = await world.opened()
        await command(store, "approve", "--yes", question.id)
    assert world.verdicts[0].allowed
    (store.directory / FILE_NAME).unlink()
    assert not await desk.remembers("call s/t")


async def test_a_question_that_the_queue_has_lost_is_refused_at_once(store, desk):
    """T3 H8, P23: of a file that was moved away, and made anew for another question."""
    world = World(desk)
    with anyio.fail_after(20):  # of the 30 s of its time
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.ask)
            await world.opened()
            (store.directory / FILE_NAME).unlink()
            store.create()
    assert not world.verdicts[0].allowed
    assert "not in the queue any more" in world.verdicts[0].by


async def test_whoever_attends_a_run_hears_of_every_question_that_comes_or_goes(desk):
    """H8: no question is put twice, and none is missed."""
    notices = []
    world = World(desk)
    asker = desk.asker(lambda: notices.append(len(desk.pending("run-9"))))
    async with anyio.create_task_group() as tasks:
        world.asker, world.run = asker, "run-9"
        tasks.start_soon(world.ask)
        with anyio.fail_after(30):
            while not desk.pending("run-9"):
                await anyio.lowlevel.checkpoint()
        desk.answer(desk.pending("run-9")[0].id, YES)
    assert notices == [1, 0, 0]
