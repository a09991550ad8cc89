"""Changes of the files that count are noticed, whatever an editor does to them."""

import shutil
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest

from gloveport.config import load, trust
from gloveport.config.loading.reload import reload
from gloveport.config.loading.watch import _look, changes
from gloveport.config.sources.selection import sources
from gloveport.errors import ConfigError

pytestmark = pytest.mark.anyio

HOST = 'hosts = ["api.example.com"]\n'
TWO = '[api.two]\nhosts = ["two.example.com"]\n'


@asynccontextmanager
async def watching(home, given=None):
    """Something to await the next change with; the first has come."""
    async with aclosing(changes(given, cwd=home.project, environ=home.environ)) as stream:

        async def change():
            with anyio.fail_after(20):
                await anext(stream)

        await change()
        yield change


async def while_waiting(change, act):
    """The next change, of something that is done while it is waited for."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(change)
        await anyio.wait_all_tasks_blocked()
        act()


async def test_what_happens_before_the_first_look_is_not_lost(home):
    async with watching(home):
        pass


async def test_an_edit_in_place_is_noticed(home):
    """N2: hot reload."""
    home.user_file.write_text("")
    async with watching(home) as change:
        await while_waiting(change, lambda: home.user_file.write_text(f"[api.x]\n{HOST}"))


async def test_an_edit_between_two_looks_is_noticed(home):
    home.user_file.write_text("")
    async with watching(home) as change:
        home.user_file.write_text("# more\n")
        await change()


async def test_a_file_that_takes_anothers_name_is_noticed(home):
    """Most editors save so."""
    home.user_file.write_text("# one\n")

    def save():
        new = home.user_file.with_name(".new")
        new.write_text("# two\n")
        new.rename(home.user_file)

    async with watching(home) as change:
        await while_waiting(change, save)
        await while_waiting(change, save)


async def test_a_first_file_and_its_end_are_noticed(home):
    async with watching(home) as change:
        await while_waiting(change, lambda: home.user_file.write_text(""))
        await while_waiting(change, home.user_file.unlink)


async def test_a_directory_of_apis_that_comes_later_is_noticed_and_so_is_what_is_in_it(home):
    apis = home.user_file.parent / "apis"
    async with watching(home) as change:
        await while_waiting(change, apis.mkdir)
        await while_waiting(change, lambda: (apis / "x.toml").write_text(HOST))
        await while_waiting(change, lambda: (apis / "x.toml").write_text(HOST + "active = false\n"))
        await while_waiting(change, (apis / "x.toml").unlink)
        await while_waiting(change, (apis / "forge").mkdir)
        await while_waiting(change, lambda: (apis / "forge/config.json").write_text("{}"))
        await while_waiting(change, lambda: (apis / "forge/types.d.ts").write_text("type X = 1;"))


async def test_a_directory_that_vanishes_and_comes_back_is_watched_again(home):
    directory = home.user_file.parent
    home.user_file.write_text("")
    async with watching(home) as change:
        await while_waiting(change, lambda: shutil.rmtree(directory))

        def back():
            directory.mkdir()
            home.user_file.write_text("# again\n")

        await while_waiting(change, back)
        await while_waiting(change, lambda: home.user_file.write_text("# and again\n"))


async def test_trust_in_a_project_file_is_a_change(home):
    """P17: what was refused counts as soon as a person has reviewed it."""
    home.project_file.write_text("")
    async with watching(home) as change:
        await while_waiting(change, lambda: trust(home.project, environ=home.environ))


async def test_a_changed_mode_is_a_change(home):
    """What was refused for its mode counts when that is repaired."""
    home.user_file.write_text("")
    home.user_file.chmod(0o666)
    async with watching(home) as change:
        await while_waiting(change, lambda: home.user_file.chmod(0o644))


async def test_a_change_behind_a_link_is_noticed(home):
    (home.base / "dotfiles").mkdir()
    real = home.base / "dotfiles/mine.toml"
    real.write_text("")
    home.user_file.symlink_to(real)
    async with watching(home) as change:
        await while_waiting(change, lambda: real.write_text("# more\n"))


def test_what_is_none_of_the_files_is_no_change(home):
    home.user_file.write_text("")
    found = sources(None, cwd=home.project, environ=home.environ)
    seen = _look(found, home.environ)
    (home.user_file.parent / "notes.txt").write_text("x")
    (home.user_file.parent / ".gloveport.toml.swp").write_text("x")
    assert _look(found, home.environ) == seen


async def test_what_the_kernel_does_not_say_is_noticed_by_and_by(home):
    """Nobody tells a directory that one above it has another name now."""
    for name in ("one", "other"):
        (home.base / name / "below").mkdir(parents=True)
        (home.base / name / "below/given.toml").write_text(f"# {name}\n")

    def swap():
        (home.base / "one").rename(home.base / "old")
        (home.base / "other").rename(home.base / "one")

    async with watching(home, home.base / "one/below/given.toml") as change:
        await while_waiting(change, swap)


async def test_a_named_file_is_watched_and_no_other(home):
    given = home.base / "given.toml"
    given.write_text("")
    async with watching(home, given) as change:
        await while_waiting(change, lambda: given.write_text("# more\n"))


async def test_it_ends_at_once_when_it_is_cancelled(home):
    """A server that is stopped does not wait for the next look."""
    async with watching(home) as change:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(change)
                await anyio.wait_all_tasks_blocked()
                begun = anyio.current_time()
                scope.cancel()
        assert anyio.current_time() - begun < 1.0


async def test_what_counts_follows_the_files_and_no_fault_takes_anything_away(home):
    """N2, T3: edit, break, repair, add, delete."""
    home.user_file.write_text("")
    apis = home.user_file.parent / "apis"
    apis.mkdir()
    counts = load(None, cwd=home.project, environ=home.environ)

    async with watching(home) as change:

        async def after(act):
            nonlocal counts
            await while_waiting(change, act)
            counts = reload(counts, None, cwd=home.project, environ=home.environ).loaded
            return sorted(counts.config.api)

        assert await after(lambda: (apis / "one.toml").write_text(HOST)) == ["one"]
        assert await after(lambda: home.user_file.write_text(TWO)) == ["one", "two"]
        with pytest.raises(ConfigError, match="not TOML"):
            await after(lambda: home.user_file.write_text("[api.two"))
        with pytest.raises(ConfigError, match="unknown key"):
            await after(lambda: home.user_file.write_text("x = 1"))
        assert sorted(counts.config.api) == ["one", "two"]
        assert await after(home.user_file.unlink) == ["one"]
        assert await after((apis / "one.toml").unlink) == []
