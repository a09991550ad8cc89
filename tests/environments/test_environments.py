"""Environments, from an index of the test's own to a program that imports from them; and what an index may try."""

import contextlib
import json
import os
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests import shared_host
from tests.egress.world import World
from tests.environments.index import YOUNG, Index, link, make_wheel, serve, write_index
from tests.hub.upstreams import until
from typer.testing import CliRunner

from gloveport.approvals.question import Verdict
from gloveport.cli.env import app
from gloveport.config import Config
from gloveport.engine import npm_builder, python_builder
from gloveport.engine.run_context import RunContext
from gloveport.errors import Denied
from gloveport.model import Request
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def opened(state: Path, *indexes: Index, environments=None, pool=None, environ=None, **packages):
    """A Gloveport whose packages come from these."""
    names = [f"http://index{number}.test:{index.port}" for number, index in enumerate(indexes)]
    config = {
        "policy": {"languages": ["python"]},
        "pool": pool or {"forked": 0, "booted": 0},
        "environments": environments or {},
        "packages": {"indexes": [f"{name}/simple" for name in names], **packages},
        "api": {f"index{n}": {"hosts": [name], "addresses": ["127.0.0.1"]} for n, name in enumerate(names)},
    }
    async with shared_host.assemble(
        read_value(Config, config), {"GLOVEPORT_STATE": str(state), **(environ or {})}
    ) as engine:
        yield World(engine, state)


class Yes:
    def __init__(self) -> None:
        self.seen = []

    async def ask(self, text, **about):
        self.seen.append((text, about["subject"], about["detail"]))
        return Verdict(allowed=True, by="test")


async def run_skill(world, run_id=None):
    """Run a skill by name and from a program; before, save it of a run, where one is named, and approve it. S1."""
    skills = world.engine.skill_requests
    if run_id is not None:
        kept = skills.save_run("version", "Tells it.", run_id=run_id, caller="tester", owner="tester")
        assert kept.skill.grant.environment == "one"
        world.engine.skills.approve(kept, uid=0, without_asking=False)
    request, skill = skills.prepare("version", {}, owner="tester")
    assert skill.rights is not None
    result = await world.engine.execute(request, caller="tester", context=RunContext(skill=skill))
    called = await world.run("python", "from skills import version\nversion()")
    assert called.value == result.value
    return result


@pytest.fixture(scope="module")
def index():
    with serve(Index()) as served:
        served.add("honest", requires=["helper>=1"])
        served.add("honest", "2.0", uploaded=YOUNG)
        served.add("helper", files={"helper/__init__.py": "import json\nNAME = 'helper'\n"})
        yield served


async def test_an_environment_is_built_in_the_sandbox_once_and_then_mounted(index, tmp_path):
    """E8."""
    named = {"one": {"python": ["honest"]}}
    code = """
        import honest, helper, sys, os, subprocess
        below = [path for path in sys.path if path.startswith("/opt")]
        child = subprocess.run([sys.executable, "-c", "import helper, json; print(json.__file__)"],
                               capture_output=True, text=True).stdout
        try:
            open("/opt/environment/python/honest.py", "w")
        except OSError as error:
            refused = error.strerror
        [honest.VERSION, helper.NAME, below, child.startswith("/usr"), refused, honest.__cached__.endswith(".pyc")]
    """
    async with opened(tmp_path / "state", index, environments=named) as world:
        first = await world.run("python", code, environment="one")
        assert first.status == "ok", first
        assert first.value == ["1.0", "helper", ["/opt/environment/python"], True, "Read-only file system", True]
        assert first.environment.startswith("one (")
        installed, asked = world.records("install"), len(index.asked)
        assert [one.fields["packages"] for one in installed[:1]] == [["helper==1.0", "honest==1.0"]]
        assert {one.fields["host"] for one in world.records("fetch.admitted")} == {"index0.test"}
        assert (await world.run("python", "import honest", environment="one")).status == "ok"
        assert len(index.asked) == asked, "the second run is a mount"
        assert (await world.run("python", "import honest")).status == "error", "who names none gets none"
        nothing = await world.run("python", "1", environment="two")
        assert (nothing.status, nothing.error.type, nothing.hint) == (
            "denied",
            "unknown_environment",
            "There are: one.",
        )
        used = await world.run("python", "import honest; honest.VERSION", environment="one")
        assert (await run_skill(world, used.run_id)).value == "1.0", "a skill of a run has the run's environment"
        begun = await world.run("python", "import honest; x = honest.VERSION", environment="one", session="new")
        assert begun.status == "ok", begun
        assert (await world.run("python", "x", session=begun.session.id)).value == "1.0"
        store = world.engine.environments.store
        [tree] = store.list_trees()
        assert list(store.verify(tree)) == []
        place = store.path_of(tree) / "python/honest.py"
        place.chmod(0o644)
        place.write_text("VERSION = 'evil'")
        assert list(store.verify(tree)) == ["python/honest.py: another content"]
        store.remove(tree)
        assert not list((store.root / "work").glob("build-*"))
    async with opened(tmp_path / "state", index) as world:
        gone = await run_skill(world)
        assert (gone.status, gone.error.type) == ("denied", "unknown_environment"), "and does not run without"
    # What is built anew has the digest that the lock has, whatever became of the former tree.
    async with opened(tmp_path / "state", index, environments=named) as world:
        assert (await world.run("python", "import honest; honest.VERSION", environment="one")).value == "1.0"


async def test_what_an_index_may_try_builds_nothing(tmp_path):
    """P43, P44: by each of those who look: whoever fetches, resolves, seals."""
    attacks = {
        "linked": {"extra": [(link("linked_dir"), b"/etc")]},
        "starting": {"files": {"sitecustomize.py": "raise SystemExit('ran')"}},
        "bomb": {"files": {"bomb.txt": "0" * (3 << 20)}},
        "young": {"uploaded": YOUNG},
        "ageless": {"uploaded": None},
        "lying": {},
        "deep": {"files": {"d/" * 70 + "deep.py": ""}},
    }
    many = ".".join(f"x{number}" for number in range(30))  # the wheel is for 27,000 kinds of interpreters
    with serve(Index()) as index:
        for name, how in attacks.items():
            index.add(name, **how)
        index.digests["lying-1.0-py3-none-any.whl"] = "0" * 64
        index.files["source"] = {"source-1.0.tar.gz": b"import os; os.system('id')"}
        index.files["many"] = {f"many-1.0-py3.{many}-none.{many}-any.{many}.whl": make_wheel("many")}
        named = {name: {"python": [name]} for name in [*attacks, "source", "many"]}
        bounds = {"environment_bytes": 2 << 20}
        async with opened(tmp_path / "state", index, environments=named, **bounds) as world:
            told = {}
            for name in named:
                result = await world.run("python", "1", environment=name)
                assert result.status == "denied", (name, result)
                told[name] = f"{result.error.message} {result.hint}"
            store = world.engine.environments.store
            assert store.list_trees() == []
            assert [path.name for path in (store.root / "trees").iterdir()] == []
    said = {
        "linked": "is a link",
        "starting": "runs at every start of Python",
        "bomb": "too much",
        "young": "no version",
        "ageless": "PEP 700",
        "lying": "the lock has",
        "deep": "lies too deep",
        "source": "no usable wheels",
        "many": "kinds of interpreters",
    }
    assert {name: text for name, text in told.items() if said[name] not in text} == {}


async def test_who_lacks_a_module_hears_which_environment_has_it_or_what_to_write(index, tmp_path):
    named = {"one": {"python": ["helper"]}}
    async with opened(tmp_path / "state", index, environments=named, allow=["humanize"]) as world:
        unbuilt = await world.run("python", "import helper")
        assert 'the environment one has it: environment="one"' in unbuilt.hint, unbuilt
        await world.run("python", "1", environment="one")
        in_session = await world.run("python", "import helper", session="new")
        assert 'environment="one", session="new"' in in_session.hint, "a session stays in its environment"
        for module, said in {
            "helper": 'the environment one has it: environment="one"',
            "humanize.number": '# dependencies = ["humanize"]',
            "sklearn": '[environments.NAME] python = ["scikit-learn"]',
        }.items():
            assert said in (await world.run("python", f"import {module}")).hint, module


async def test_nobody_waits_for_what_a_program_has_put_in_the_place_of_the_operators_lock(index, tmp_path):
    """The lock of an environment may lie in a project, in which programs write."""
    lock, waited = tmp_path / "pylock.toml", threading.Event()
    os.mkfifo(lock)

    def end_waiting():
        waited.set()
        os.close(os.open(lock, os.O_RDWR))

    watch = threading.Timer(60, end_waiting)
    watch.start()
    try:
        with pytest.raises(Denied, match="it is no file"):
            npm_builder.load_package_lock(str(lock))
        async with opened(tmp_path / "state", index, environments={"one": {"lock": str(lock)}}) as world:
            lacking = await world.run("python", "import lacking")
            assert lacking.error.type == "ModuleNotFoundError"
            assert "it is no file" in (await world.run("python", "1", environment="one")).error.message
    finally:
        watch.cancel()
    assert not waited.is_set()


async def test_others_are_served_while_a_build_waits_for_another_process(index, tmp_path):
    """Which may remove what a killed build has left: that can be much."""
    waited = threading.Event()
    async with opened(tmp_path / "state", index, environments={"one": {"python": ["helper"]}}) as world:
        store = world.engine.environments.store
        store.create()
        other = contextlib.ExitStack()
        other.enter_context(store.hold("work"))
        watch = threading.Timer(60, lambda: (waited.set(), other.close()))
        watch.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(world.run, "python", "import helper", environment="one"))
                assert (await world.run("python", "1")).value == 1
                other.close()
        finally:
            watch.cancel()
    assert not waited.is_set()


async def test_sandboxes_wait_for_an_environment_and_its_code_runs_in_none_that_is_not_confined(index, tmp_path):
    """P43: not in the fork server, which may do more than a program."""
    index.add("nosy", files={"nosy.py": "LINES = open('/proc/self/status').read()\n"})
    code = """
        import sys
        ahead = "nosy" in sys.modules
        import nosy
        [ahead, *[line for line in nosy.LINES.splitlines() if line.startswith(("CapEff", "Seccomp:"))]]
    """
    confined = [False, "CapEff:\t0000000000000000", "Seccomp:\t2"]
    pool = {"forked": 1, "booted": 0, "idle_seconds": 2}
    async with opened(tmp_path / "state", index, environments={"one": {"python": ["nosy"]}}, pool=pool) as world:
        sandbox = world.engine.sandbox
        others = sandbox.stocks
        assert await world.value("python", code, environment="one") == confined
        [stock] = set(sandbox.stocks) - set(others)
        with anyio.fail_after(60):
            await stock.wait_filled()
            assert stock.waiting == 1
            assert await world.value("python", code, environment="one") == confined
            while stock in sandbox.stocks:
                await anyio.sleep(0.1)


async def test_what_runs_at_the_start_of_python_is_left_out(tmp_path, monkeypatch):
    """Also of a wheel that is so large that it is installed on the disk."""
    monkeypatch.setattr(python_builder, "_IN_MEMORY_BYTES", 0)
    with serve(Index()) as index:
        index.add("startling", extra=[("startling.pth", b"import os; os.environ['RAN'] = '1'\n")])
        index.add("deep", files={"d/" * 70 + "deep.py": ""})
        named = {"one": {"python": ["startling"]}, "two": {"python": ["deep"]}}
        async with opened(tmp_path / "state", index, environments=named) as world:
            refused = await world.run("python", "1", environment="two")
            assert "lies too deep" in refused.error.message, refused
            code = """
                import os, startling, subprocess, sys
                asked = [sys.executable, "-c", "import os; print(os.environ.get('RAN'))"]
                [os.environ.get("RAN"), subprocess.run(asked, capture_output=True, text=True).stdout]
            """
            assert await world.value("python", code, environment="one") == [None, "None\n"]
            assert world.engine.environments.store.list_trees()[0].left_out == ("python/startling.pth",)


async def test_the_first_index_that_has_a_name_is_asked_alone(tmp_path):
    """P45: nobody outside learns the name, or puts another package under it."""
    with serve(Index()) as internal, serve(Index()) as public:
        internal.add("secret_project", "1.0")
        public.add("secret_project", "99.0")
        named = {"one": {"python": ["secret-project"]}}
        async with opened(tmp_path / "state", internal, public, environments=named) as world:
            assert await world.value("python", "import secret_project as x; x.VERSION", environment="one") == "1.0"
        assert not any("secret" in path for path in public.asked)


async def test_a_program_asks_for_packages_in_its_own_text(index, tmp_path):
    block = '# /// script\n# dependencies = ["%s"]\n# ///\n'
    rules = {"allow": ["helper"], "ask": ["honest"], "deny": ["sympy"]}
    async with opened(tmp_path / "state", index, **rules) as world:
        told = await world.run("python", block % "Helper" + "import helper; helper.NAME")
        assert (told.status, told.value) == ("ok", "helper"), told
        assert told.environment.startswith("inline (")
        asked = len(index.asked)
        for name, code in {
            "helpr": "package_not_allowed",
            "reqeusts": "package_resembles",
            "sympy": "package_denied",
            "helper @ http://evil.test/x.whl": "metadata_unreadable",
            "honest": "approval_denied",
        }.items():
            refused = await world.run("python", block % name + "1")
            assert (refused.status, refused.error.type) == ("denied", code), (name, refused)
            if name != "honest":
                assert len(index.asked) == asked, "nobody hears of what is not allowed"
        told = [record.fields for record in world.records("install")]
        assert "2.0" not in str(told), "what is too young is not even asked about"
        yes, steps = Yes(), []

        asked_for = Request(language="python", code=block % "honest" + "import honest; honest.VERSION")
        allowed = await world.engine.execute(
            asked_for, caller="tester", context=RunContext(asker=yes, on_progress=steps.append)
        )
        assert any(step.startswith("fetching 1 packages") for step in steps), steps
        assert (allowed.status, allowed.value) == ("ok", "1.0"), allowed
        [(text, subject, detail)] = yes.seen
        assert text == "A program asks for the packages honest 1.0. 1 more come with them."
        assert subject.startswith("install honest==1.0 ")
        assert detail.splitlines() == [
            "honest 1.0, uploaded 2020-01-01T00:00:00+00:00",
            "helper 1.0, uploaded 2020-01-01T00:00:00+00:00, comes with the others",
        ]
    async with opened(tmp_path / "other", index) as world:
        assert (await world.run("python", block % "helper" + "1")).value == 1, "without rules it is a comment"


async def test_a_question_about_packages_keeps_nobody_waiting_who_requests_the_same(index, tmp_path):
    """Whoever lets it wait would else keep the packages from all other callers."""
    is_asked, answer = anyio.Event(), anyio.Event()

    class Slow(Yes):
        async def ask(self, text, **about):
            is_asked.set()
            await answer.wait()
            return await super().ask(text, **about)

    code = '# /// script\n# dependencies = ["helper"]\n# ///\nimport helper; helper.NAME'
    request = Request(language="python", code=code)
    async with opened(tmp_path / "state", index, ask=["helper"]) as world, anyio.create_task_group() as tasks:
        slow = RunContext(asker=Slow(), session="first")
        tasks.start_soon(partial(world.engine.execute, request, caller="first", context=slow))
        with anyio.fail_after(60):
            await is_asked.wait()
            context = RunContext(asker=Yes(), session="second")
            other = await world.engine.execute(request, caller="second", context=context)
        answer.set()
        assert other.value == "helper", other


async def test_requests_that_come_to_the_same_lock_have_one_tree_and_few_are_built_at_a_time(index, tmp_path):
    """P8, P44: each request may be another, and a tree that a program runs in is not built anew."""
    block, texts = '# /// script\n# dependencies = ["%s"]\n# ///\n', [f"helper>=0.{number}" for number in range(4)]
    async with opened(tmp_path / "state", index, allow=["helper"]) as world:
        store, most, results = world.engine.environments.store, 0, []

        async def watch(scope):
            nonlocal most
            while len(results) < len(texts):
                most = max(most, len([*(store.root / "work").glob("build-*")]))
                await anyio.sleep(0.01)
            scope.cancel()

        async def ask(text):
            results.append(await world.run("python", f"{block % text}import helper; helper.NAME"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tasks.cancel_scope)
            for text in texts:
                tasks.start_soon(ask, text)
        assert [result.value for result in results] == ["helper"] * len(texts), results
        built = [record.fields["built"] for record in world.records("install") if record.kind == "install.ended"]
        assert len(built) == len(texts)
        assert len({result.environment for result in results}) == len(store.list_trees()) == 1
        assert len([path for path in (store.root / "trees").iterdir() if path.is_dir()]) == 1
        assert 0 < most <= 2


async def test_slow_builds_of_one_caller_keep_no_other_caller_waiting(index, tmp_path):
    """P8, E4: each may take half an hour."""
    names = ["slow", "slower", "slowest", "helper"]
    for name in names[:3]:
        index.add(name)
    code = '# /// script\n# dependencies = ["%s"]\n# ///\n1'
    async with opened(tmp_path / "state", index, allow=names) as world:
        builds, asked_before = world.engine.environments._builds, len(index.asked)

        def held():
            paths = index.asked[asked_before:]
            return {path for path in paths if path.startswith("/files/") and not path.endswith(".metadata")}

        index.hold.clear()
        try:
            async with anyio.create_task_group() as tasks:
                for name in names[:3]:
                    request = Request(language="python", code=code % name)
                    tasks.start_soon(partial(world.engine.execute, request, caller="slow", share="slow"))
                await until(lambda: len(held()) == 2 and builds.waiting == 1, 60)
                request = Request(language="python", code=code % "helper")
                tasks.start_soon(partial(world.engine.execute, request, caller="other", share="other"))
                await until(lambda: len(held()) == 3, 60)
                index.hold.set()
        finally:
            index.hold.set()


async def test_few_programs_of_one_caller_wait_for_packages(index, tmp_path):
    """P8: one needs no open request while it waits, and its text lies in the server's memory."""
    code = '# /// script\n# dependencies = ["helper"]\n# ///\nimport helper; helper.NAME'
    async with opened(tmp_path / "state", index, allow=["helper"]) as world:
        environments, results = world.engine.environments, []

        async def ask():
            results.append(await world.run("python", code))

        index.hold.clear()
        index.held.clear()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                assert await anyio.to_thread.run_sync(index.held.wait, 60)
                for _ in range(17):
                    tasks.start_soon(ask)
                await until(lambda: results and environments._waiting.total() == 16, 60)
                assert [(one.status, one.error.type) for one in results] == [("denied", "queue_full")]
                index.hold.set()
        finally:
            index.hold.set()
        assert [one.value for one in results[1:]] == ["helper"] * 17
        assert not environments._waiting


async def test_environments_with_the_same_wheel_have_its_files_once_and_none_of_another_wheel_among_them(
    index, tmp_path
):
    """P44: what was installed of a wheel is taken for the next environment, whatever was installed beside it."""
    index.add("only")
    index.add("intruder", files={"helper/__init__.py": "NAME = 'intruder'\n"})
    named = {"intruded": ["helper", "intruder"], "one": ["helper", "only"], "two": ["helper"]}
    environments = {name: {"python": packages} for name, packages in named.items()}
    async with opened(tmp_path / "state", index, environments=environments) as world:
        store = world.engine.environments.store
        for name, said in {"intruded": "intruder", "one": "helper"}.items():
            assert await world.value("python", "import helper; helper.NAME", environment=name) == said
        for path in (store.root / "wheels").iterdir():
            path.unlink()
        asked = len(index.asked)
        assert await world.value("python", "import helper; helper.NAME", environment="two") == "helper"
        assert not any(path.endswith(".whl") for path in index.asked[asked:]), "it was installed before"
        places = [store.path_of(tree) / "python/helper/__init__.py" for tree in store.list_trees()]
        assert len({path.stat().st_ino for path in places}) == 2
        store.collect(store.list_trees(), 3600)
        assert len([*(store.root / "unpacked").iterdir()]) == 3
        store.collect([], 0)
        assert [len([*(store.root / place).rglob("*.*")]) for place in ("unpacked", "trees")] == [0, 0]


async def test_a_build_whose_files_are_removed_meanwhile_says_so_and_the_next_one_makes_them(tmp_path):
    with serve(Index()) as index:
        index.add("first")
        index.add("second")
        named = {"one": {"python": ["first"]}, "two": {"python": ["first", "second"]}}
        async with opened(tmp_path / "state", index, environments=named) as world:
            store, results = world.engine.environments.store, []
            assert await world.value("python", "import first; 1", environment="one") == 1
            store.remove(store.list_trees()[0])
            index.hold.clear()
            index.held.clear()

            async def run() -> None:
                results.append(await world.run("python", "1", environment="two"))

            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(run)
                    assert await anyio.to_thread.run_sync(index.held.wait, 60)
                    store.collect([], 0)
                    index.hold.set()
            finally:
                index.hold.set()
            assert (results[0].error.type, results[0].hint) == ("environment_unavailable", "try again")
            assert await world.value("python", "import first, second; 1", environment="two") == 1


async def test_two_builds_at_once_make_one_and_a_killed_one_leaves_nothing_that_is_used(gloveport, index, tmp_path):
    """P44."""
    config, state = tmp_path / "gloveport.toml", tmp_path / "state"
    name = f"http://index0.test:{index.port}"
    config.write_text(
        f'packages.indexes = ["{name}/simple"]\nenvironments.one.python = ["helper"]\n'
        f'api.index = {{ hosts = ["{name}"], addresses = ["127.0.0.1"] }}\n'
    )
    index.hold.clear()
    index.held.clear()
    try:
        environ = {**os.environ, "GLOVEPORT_STATE": str(state)}
        with gloveport.start("env", "build", "--config", str(config), env=environ) as process:
            assert await anyio.to_thread.run_sync(index.held.wait, 60)
            process.kill()
    finally:
        index.hold.set()
    async with opened(state, index, environments={"one": {"python": ["helper"]}}) as world:
        store = world.engine.environments.store
        assert [len([*(store.root / place).iterdir()]) for place in ("trees", "wheels", "files")] == [0, 0, 0]
        assert len([*(store.root / "work").glob("build-*")]) == 1, "what it had begun lies there"
        results = []

        async def run() -> None:
            results.append((await world.run("python", "import helper; helper.NAME", environment="one")).value)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(run)
        assert results == ["helper"] * 3
        assert [one.fields["built"] for one in world.records("install.ended")].count(True) == 1
        assert [*(store.root / "work").glob("build-*")] == []
    for words, exit_code, said in (
        ("list", 0, "one 1 packages"),
        ("show one", 0, "helper 1.0 2020-01-01"),
        ("verify", 0, "one: as it was built"),
        ("verify two", 2, "there is no environment 'two'"),
        ("remove one", 0, "one: removed"),
        ("verify one", 0, "one: not built"),
        ("gc --days 0", 0, "removed 0 environments"),
    ):
        told = CliRunner().invoke(app, [*words.split(), "--config", str(config)], env={"GLOVEPORT_STATE": str(state)})
        assert (told.exit_code, said in " ".join(told.output.split())) == (exit_code, True), (words, told.output)


def test_what_is_not_built_is_told_where_nothing_is_asked_about(gloveport, tmp_path):
    """The count of no packages alone reads as if all of them were in order."""
    config = tmp_path / "gloveport.toml"
    environ = {**os.environ, "GLOVEPORT_STATE": str(tmp_path / "state")}

    def run(*words):
        return gloveport.run("env", *words, "--config", str(config), env=environ).stdout

    config.touch()
    assert "there are none: write an [environments.NAME]" in run("build")
    config.write_text('environments.one.python = ["helper"]\n')
    assert "one: not built" in run("audit")
    assert json.loads(run("audit", "--json")) == {"packages": 0, "found": []}


async def test_a_directory_of_this_host_is_an_index_and_needs_no_network(tmp_path):
    index = write_index(tmp_path / "simple", "local", make_wheel("local"))
    config = {
        "policy": {"languages": ["python"]},
        "pool": {"forked": 0, "booted": 0},
        "environments": {"one": {"python": ["local"]}},
        "packages": {"indexes": [index]},
    }
    state = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    async with shared_host.assemble(read_value(Config, config), state) as engine:
        world = World(engine, tmp_path / "state")
        assert await world.value("python", "import local; local.VERSION", environment="one") == "1.0"
        assert world.records("fetch") == []
        store = engine.environments.store
        [tree] = store.list_trees()
        # As if the host had lost power after the build: what is not on the disk is built anew, and the rest is kept.
        for lost in (False, True):
            record = store.root / "trees" / f"{tree.address}.json"
            record.write_text(tree.model_copy(update={"boot": "an earlier one"}).model_dump_json())
            if lost:
                place = store.path_of(tree) / "python/local.py"
                place.chmod(0o644)
                place.write_bytes(b"")
            found = store.find_whole_tree(tree.lock_sha256, engine.environments.ecosystems[0].platform)
            assert (found is None) == lost
            assert lost or found.boot == "", "it is on the disk: nobody looks again"
        assert not store.path_of(tree).exists()


def test_the_configuration_names_an_index_without_a_password():
    with pytest.raises(ValueError, match="indexes"):
        read_value(Config, {"packages": {"indexes": ["https://me:secret@index.test/simple"]}})


async def test_an_index_that_is_not_reached_is_told_from_versions_that_do_not_fit(tmp_path):
    """E8: with what the configuration may lack, for the refusal can name an API that only the build has."""
    place = "http://nowhere.test:81"
    one = {"environments": {"one": {"python": ["honest"]}}, "indexes": [f"{place}/simple"]}
    async with opened(tmp_path, **one) as world:
        refused = await world.run("python", "1", environment="one")
        assert len(world.records("fetch.admitted")) == 2, "asked twice, since another try may have another end"
    assert (refused.status, refused.error.type) == ("denied", "packages_unresolved"), refused
    assert refused.error.message.startswith(f"The index can't be read: {place}/simple/honest/: "), refused.error
    assert f'hosts = ["{place}"]' in refused.hint


async def test_an_index_of_the_owner_s_tools_on_this_host_needs_another_name(tmp_path):
    """N2: the hint named the API that the configuration refuses."""
    environ = {"PIP_INDEX_URL": "http://localhost:81/simple"}
    async with opened(tmp_path, environments={"one": {"python": ["honest"]}}, environ=environ) as world:
        refused = await world.run("python", "1", environment="one")
    assert refused.error.type == "packages_unresolved", refused
    assert "give this host another name, such as service.example" in refused.hint
