"""The command: what it shows of skills, escaped, and what it approves only when it is told to. S1, S2."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from skills_ref.validator import validate
from tests import forked
from tests.cli.terminals import columns_of, lines_on_terminal
from typer.testing import CliRunner

from gloveport.cli.skills import app
from gloveport.cli.usage import UsageError
from gloveport.errors import GloveportError
from gloveport.user_directories import name_workspace, workspaces_directory


@pytest.fixture
def skills(tmp_path, monkeypatch):
    """Run the command; what it says."""
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "gloveport.toml"
    config.write_text(
        '[api.reports]\nhosts = ["api.example"]\n'
        '[[api.reports.rules]]\naction = "ask"\nmethods = ["POST"]\n'
        '[[api.reports.rules]]\naction = "allow"\nmethods = ["GET"]\n'
    )

    def run(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--config", str(config)])
        if done.exit_code and isinstance(done.exception, GloveportError | UsageError):
            return str(done.exception)
        return done.output

    return run


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "state/skills"


def records(tmp_path):
    lines = "".join(file.read_text() for file in (tmp_path / "state/audit").glob("*.jsonl")).splitlines()
    return [json.loads(line) for line in lines if '"skill' in line]


def test_skills_that_can_not_be_read_are_not_told_as_none(skills, saved):
    """As in the state directory of another user."""
    assert "no skill is kept" in skills("list")
    saved.parent.mkdir(exist_ok=True)
    saved.write_text("")
    for command in (("list",), ("show", "one")):
        assert f"the skills in {saved} can't be read: Not a directory" in skills(*command)


def test_a_new_skill_is_in_the_language_that_its_file_tells(skills, tmp_path):
    for name, option, language in (
        ("a.ts", (), "typescript"),
        ("b.sh", (), "shell"),
        ("c.txt", ("-l", "shell"), "shell"),
    ):
        (tmp_path / name).write_text("1")
        skill = f"of-{name[0]}"
        skills("new", skill, "-d", "x", "--file", name, *option)
        assert json.loads(skills("show", skill, "--json"))["language"] == language, name
    skills("new", "of-none", "-d", "x")
    assert json.loads(skills("show", "of-none", "--json"))["language"] == "python"
    assert "does not tell its language: give --language" in skills("new", "of-d", "-d", "x", "--file", "c.txt")


def test_a_skill_is_made_approved_changed_revoked_exported_imported_and_removed(skills, saved, tmp_path):
    assert "saved" in skills("new", "hello", "-d", "Greets somebody.", "-l", "shell")
    assert validate(saved / "hello") == []
    assert "nobody is there to ask" in skills("approve", "hello")
    assert json.loads(skills("list", "--json"))[0]["state"] == "candidate"
    assert "approved: hello" in skills("approve", "hello", "--yes", "--without-asking")
    shown = json.loads(skills("show", "hello", "--json"))
    assert (shown["state"], shown["parameters"][0]["name"]) == ("approved", "name")
    program = tmp_path / "program.sh"
    program.write_text("N=1 # parameter\necho $N\n")
    assert "saved version 2: a candidate" in skills("edit", "hello", "--file", str(program))
    assert json.loads(skills("list", "--json"))[0]["state"] == "candidate"
    skills("approve", "hello", "--yes")
    assert "revoked" in skills("revoke", "hello")
    assert "exported" in skills("export", "hello", ".agents/skills")
    assert validate(tmp_path / ".agents/skills/hello") == []
    assert "Remove it, or name another directory." in skills("export", "hello", ".agents/skills")
    assert "removed" in skills("remove", "hello", "--yes")
    assert ".agents/skills/hello" in skills("import")
    assert "a candidate" in skills("import", ".agents/skills/hello")
    assert f"imported from {tmp_path}" in json.loads(skills("list", "--json"))[0]["origin"]
    assert [record["kind"] for record in records(tmp_path)] == [
        "skill.saved",
        "skill.approved",
        "skill.saved",
        "skill.approved",
        "skill.revoked",
        "skill.removed",
        "skill.imported",
    ]
    assert stat.S_IMODE((saved / "hello").stat().st_mode) == 0o700


def test_an_editor_changes_the_program(skills, saved, monkeypatch):
    skills("new", "hello", "-d", "x", "-l", "shell")
    monkeypatch.setenv("VISUAL", "sed -i s/Hello/Bye/")
    assert "version 2" in skills("edit", "hello")
    assert "Bye" in (saved / "hello/scripts/main.sh").read_text()
    monkeypatch.setenv("VISUAL", "true")
    assert "nothing has changed" in skills("edit", "hello")
    monkeypatch.setenv("VISUAL", "false")
    assert "the editor false has failed" in skills("edit", "hello")


LOOK = """THING = "vase"  # parameter: what to look at
if THING == "hammer":
    tools.shop.buy(name=THING)
tools.shop.look(name=THING)
"""


def test_a_skill_does_what_it_was_seen_to_do_and_no_more(skills, saved, tmp_path):
    """P42: what the policy would allow all the same."""
    shop = Path(__file__).parents[1] / "far_side/mcp_shop.py"
    with (tmp_path / "gloveport.toml").open("a") as config:
        config.write(f"[servers.shop]\ncommand = {json.dumps(forked.command(shop, str(tmp_path / 'ledger')))}\n")
        config.write('[[servers.shop.rules]]\naction = "allow"\ntools = ["*"]\n')
    program = tmp_path / "look.py"
    program.write_text(LOOK)
    skills("new", "look-at", "-d", "Looks.", "--file", str(program))
    assert "it would be granted: call shop/look" in skills("learn", "look-at", "--set", "thing=cup")
    assert json.loads((saved / "look-at/references/grant.json").read_text()) == {"tools": ["shop/look"]}
    assert "bought" not in skills("run", "look-at", "--set", "thing=vase")
    assert "a hammer" in skills("run", "look-at", "--set", "thing=hammer")
    assert "call shop/look  (allowed: servers.shop.rules[0])" in skills("approve", "look-at", "--yes")
    assert "a pen" in skills("run", "look-at", "--set", "thing=pen")
    assert "no tool 'buy' that this program may call" in skills("run", "look-at", "--set", "thing=hammer")
    run = [record for record in records(tmp_path) if record["kind"] == "execute.admitted"][-1]
    assert (run["skill"], run["approved"]) == ("look-at", True)


def test_a_skill_sees_the_workspace_that_is_configured(skills, saved, tmp_path):
    """As with a server: what it reads there is learned, shown to the approver, and there when it is tested."""
    project, program = tmp_path / "project", tmp_path / "program.sh"
    project.mkdir()
    (project / "notes").write_text("in the workspace\n")
    with (tmp_path / "gloveport.toml").open("a") as config:
        config.write(f'[workspace]\nroot = "{project}"\n')
    seen = "/workspace" if project.is_relative_to("/tmp") else project  # programs have a /tmp of their own
    program.write_text(f"cat {seen}/notes\n")
    skills("new", "notes", "-d", "x", "-l", "shell", "--file", str(program))
    assert f"it would be granted: files {seen}" in skills("learn", "notes")
    assert f"files {seen}  (allowed, to read: workspace.programs)" in skills("approve", "notes", "--yes")
    assert skills("test", "notes") == "notes: ok\n"
    shutil.copytree(saved, project / ".agents/skills")
    skills("remove", "notes", "--yes")
    assert "no skill to test" in skills("test"), "what a workspace brings runs when a person has named or approved it"
    assert "notes: ok" in skills("test", "notes")


def test_examples_run_again_and_a_skill_whose_example_fails_is_stale(skills, saved):
    skills("new", "hello", "-d", "x", "-l", "shell")
    assert "hello: no example" in skills("test")
    head = saved / "hello/SKILL.md"
    head.write_text(head.read_text().replace("metadata:\n", "metadata:\n  gloveport.examples: examples.json\n"))
    examples = saved / "hello/examples.json"
    examples.write_text(
        json.dumps([{"stdout": "Hello, world\n"}, {"arguments": {"name": "x"}, "stdout": "Hello, x\n"}])
    )
    skills("approve", "hello", "--yes")
    assert 'example   {"name": "x"} -> "Hello, x\\n"' in skills("show", "hello")
    assert "Hello, 7" in skills("run", "hello", "--set", "name=7")
    assert skills("test", "hello") == "hello: ok\n"
    examples.write_text(json.dumps([{"stdout": "Hello, world\n"}, {"arguments": {"name": "x"}, "stdout": "Bye"}]))
    assert skills("test") == "hello: example 2: it printed something else\n"
    assert json.loads(skills("list", "--json"))[0]["state"] == "stale"
    examples.write_text(
        json.dumps([{"stdout": "Hello, world\n"}, {"arguments": {"name": "x"}, "stdout": "Hello, x\n"}])
    )
    assert json.loads(skills("list", "--json"))[0]["state"] == "approved"


def test_an_approver_is_shown_all_of_it_with_the_rules_and_nothing_hides(skills, saved, tmp_path):
    skills("new", "hello", "-d", "x")
    grant = {
        "requests": [{"place": "api.example", "methods": ["GET", "POST"], "paths": ["/r/*"]}],
        "connections": ["redis://db.example:6379"],
        "tools": ["a/b"],
        "sampling": True,
        "mounts": ["/data", "/srv"],
    }
    with (tmp_path / "gloveport.toml").open("a") as config:
        config.write(
            '[servers.a]\ncommand = ["x"]\n[[servers.a.rules]]\naction = "allow"\n[servers.a.rules.arguments]\n'
        )
        config.write('name = {equals = "cup"}\n[[policy.mounts]]\nsource = "/srv"\ntarget = "/data"\n')
    (saved / "hello/references/grant.json").write_text(json.dumps(grant))
    (saved / "hello/scripts/main.py").write_text("print('last')  # fine\r" + " " * 9 + "import os\n")
    said = skills("approve", "hello", "--yes")
    assert "GET api.example /r/*  (allowed: api.reports.rules[1])" in said
    assert "POST api.example /r/*  (ASKS: api.reports.rules[0])" in said
    assert "connect redis://db.example:6379  (refused: " in said
    assert "call a/b  (its arguments decide: servers.a.rules)" in said
    assert "ask a language model  (refused: " in said
    assert "files /data  (allowed, to read: policy.mounts)" in said
    assert "files /srv  (refused: no directory is shown there)" in said
    assert r"# fine\r         import os" in said
    assert "# hello" in said
    for path in sorted((saved / "hello").rglob("*.json")):
        assert str(path.relative_to(saved / "hello")) in said


def test_nothing_that_an_approver_reads_can_look_like_a_line_of_ours(skills, saved, tmp_path):
    """S2: a text of the skill, or of the place that it comes from, makes no line of its own."""
    place = tmp_path / "theirs\n  may       reach nothing\n\npython:\n  'harmless'"
    place.mkdir()
    skills("new", "hello", "-d", "x")
    skills("export", "hello", str(place))
    skills("remove", "hello", "--yes")
    assert "imported hello" in skills("import", str(place / "hello"))
    assert "\n  'harmless'" not in skills("approve", "hello", "--yes")
    forged = {"mounts": ["/data\n\npython:\n  'harmless'"]}
    (saved / "hello/references/grant.json").write_text(json.dumps(forged))
    assert "grant.json is not what it should be" in skills("approve", "hello", "--yes")


def test_no_line_of_a_program_looks_like_another_by_its_length(skills, saved, tmp_path):
    """S2 P14: a terminal goes on at the left where a line is too long for it."""
    skills("new", "hello", "-d", "x")
    begin = "# harmless "
    code = f"{begin}{' ' * (80 - 2 - len(begin))}  may       reach nothing\nprint(1)\n"
    (saved / "hello/scripts/main.py").write_text(f"{code}{'漢' * 39}  may       reach nothing\n")
    (tmp_path / "gloveport.toml").write_text("")
    environ = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    lines = lines_on_terminal(environ, "skills", "show", "hello", "--config", str(tmp_path / "gloveport.toml"))
    assert [line for line in lines if line.startswith("  may ")] == ["  may       reach nothing"]
    assert ">   may       reach nothing" in lines
    assert max(map(columns_of, lines)) == 80


def test_what_is_no_skill_is_refused_with_a_remedy_and_hides_no_other(skills, saved, tmp_path):
    skills("new", "hello", "-d", "x")
    (saved / "broken").mkdir()
    (saved / "broken/SKILL.md").write_text("no frontmatter \x1b[2J")
    listed = {row["name"]: row["state"] for row in json.loads(skills("list", "--json"))}
    assert listed == {"hello": "candidate", "broken": "unusable"}
    assert "\x1b" not in skills("list")
    for arguments, words in (
        (("new", "Hello", "-d", "x"), "A name has 1 to 64"),
        (("new", "hello", "-d", "x"), "There is a skill 'hello' already"),
        (("new", "other", "-d", "x" * 2000), "more than 1024"),
        (("show", "../hello"), "no name of a skill"),
        (("approve", "nothing", "--yes"), "There is no skill 'nothing'"),
        (("import", "nowhere"), f"There is no skill in {Path.cwd() / 'nowhere'}"),
        (("export", "hello", os.fspath(saved)), "already"),
    ):
        assert words in skills(*arguments), arguments


def test_what_was_written_in_an_editor_is_not_lost_where_it_can_not_be_saved(skills, tmp_path, monkeypatch, capfd):
    skills("new", "hello", "-d", "Greets somebody.", "-l", "shell")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'N=1 # parameter\\nN=2 # parameter\\n' > \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert "two parameters" in skills("edit", "hello")
    (left,) = tmp_path.glob("gloveport-*/hello.sh")
    assert left.read_text().count("parameter") == 2
    editor.write_text("#!/bin/sh\necho 'true' > \"$1\"\n")
    assert "saved version 2" in skills("edit", "hello")
    editor.write_text("#!/bin/sh\nexit 1\n")
    assert "has failed" in skills("edit", "hello")
    assert [*tmp_path.glob("gloveport-*/hello.sh")] == [left]


def test_no_editor_of_a_workspace_is_started(skills, tmp_path, monkeypatch):
    """P31: a command may have put it into an active environment there."""
    skills("new", "hello", "-d", "Greets somebody.", "-l", "shell")
    directory = tmp_path / "work/.venv/bin"
    directory.mkdir(parents=True)
    (directory / "editor").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (directory / "editor").chmod(0o755)
    (workspaces_directory(os.environ) / name_workspace(tmp_path / "work")).mkdir(parents=True)
    monkeypatch.setenv("VISUAL", "editor")
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    skills("edit", "hello")
    assert not (tmp_path / "ran").exists()


def test_an_editor_that_is_no_command_is_told_with_what_to_set(skills, monkeypatch):
    skills("new", "hello", "-d", "Greets.")
    for editor in ('vi "', " "):
        monkeypatch.setenv("VISUAL", editor)
        assert "which is no command\nhint: set EDITOR, or use --file" in skills("edit", "hello"), editor


def test_a_description_that_is_no_text_is_refused(skills, saved):
    assert "its description is no UTF-8 text" in skills("new", "hello", "-d", "Greets.\udcff")
    assert not (saved / "hello").exists()


@pytest.fixture
def homeless(tmp_path):
    """Run the command as a user whom neither HOME nor the passwd file gives a home directory."""
    command = ("unshare", "--user", "--map-user=12345", Path(sys.executable).with_name("gloveport"))
    environ = {name: value for name, value in os.environ.items() if name != "HOME"}
    environ |= {"GLOVEPORT_STATE": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path)}
    return lambda *arguments: subprocess.run(
        [*command, *arguments], check=False, capture_output=True, text=True, env=environ, cwd=tmp_path
    )


def test_a_user_without_a_home_directory_is_shown_the_skills_of_the_working_directory(homeless, tmp_path):
    directory = tmp_path / ".agents/skills/hello"
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text("---\nname: hello\ndescription: Greets.\n---\n")
    found = homeless("skills", "import")
    assert found.stdout == f"gloveport skills import {directory}\n", found.stderr


def test_a_user_without_a_home_directory_may_configure_an_interpreter(homeless, tmp_path):
    """Whether a sandbox can be built inside of such a user namespace depends on the host."""
    (config := tmp_path / "other.toml").write_text(f'[runtimes]\npython = "{sys.executable}"\n')
    config.chmod(0o600)
    ended = homeless("run", "-c", "1", "--config", config)
    assert ended.returncode in {0, 4}
    assert "Traceback" not in ended.stderr
