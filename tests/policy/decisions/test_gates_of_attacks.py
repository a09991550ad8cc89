"""What hostile, and what daily, commands come to at the gates: the findings of reviews, each as it was found."""

import subprocess
import sys
import time

import pytest
from tests.cases import for_each

from gloveport.model import Allow
from gloveport.model.workspace import WorkspacePolicy
from gloveport.policy.decisions.command_gates import CommandRequest, command_action
from gloveport.policy.decisions.gate_decisions import decide_command
from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.reader import read_programs

SAFE = WorkspacePolicy()


def gates(command, root="/srv/project", **asked):
    action = command_action(SAFE, CommandRequest(command=command, root=root, **asked))
    return list(dict.fromkeys(need.gate for need in action.needs))


def passes(command, root="/srv/project", **asked):
    return isinstance(
        decide_command(SAFE, command_action(SAFE, CommandRequest(command=command, root=root, **asked))), Allow
    )


@for_each(
    "command, stdin",
    [
        ("bash", "git reset --hard\n"),
        ("sh -s", "rm -rf src"),
        ("bash -", "rm -rf src"),
        ("bash /dev/stdin", "rm -rf src"),
        (". /dev/stdin", "rm -rf src"),
        ("sudo -n env A=1 bash", "rm -rf src"),
        ("(cd src; bash)", "rm -rf *"),
        ("bash -c 'sh'", "git reset --hard"),
        ("bash", "> src/main.py"),
        ("bash", "sh\ngit reset --hard"),
        ("cat | bash", "git reset --hard"),
        ("python3 -", "import shutil; shutil.rmtree('src')"),
        ("python3", "import shutil; shutil.rmtree('src')"),
        ("xargs rm -rf", "src\n"),
        ("xargs git reset", "--hard"),
        ("cat x; xargs -0 rm -rf", "build\0src\0"),
        ("bash", "rm -rf src\n" * 900),
    ],
)
def test_a_program_on_standard_input_is_looked_at_like_one_in_the_command(command, stdin):
    """W5, CT-G6."""
    assert "destructive_command" in gates(command, stdin=stdin)


def test_where_the_directory_is_unknown_a_path_is_nowhere_else():
    """CT-G6: in a session, an earlier command may have gone from the root to where ``../src`` is in the workspace."""
    assert passes("rm -rf ../src")
    assert not passes("rm -rf ../src", is_workdir_known=False)
    for command in ("rm -rf src", "cd lib; rm -rf ../../src", "find .. -name '*.py' -delete"):
        assert gates(command, is_workdir_known=False) == ["destructive_command"]
    for command in ("rm -rf build", "rm -rf /tmp/x ~/x", "cd /tmp; rm -rf x", "cd /srv/project/build && rm -rf *"):
        assert passes(command, is_workdir_known=False)


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        ("cat", "rm -rf src"),
        ("bash x.sh", "rm -rf src"),
        ("python3 x.py", "import shutil; shutil.rmtree('src')"),
        ("bash", "pytest -q\n"),
    ],
)
def test_what_no_shell_reads_or_what_is_harmless_there_needs_nobody(command, stdin):
    """CT-G2, CT-G6."""
    assert passes(command, stdin=stdin)


def test_standard_input_for_a_program_is_an_inline_script():
    """CT-G6."""
    assert gates("python3 -", stdin="print(1)") == ["inline_script"]
    assert gates("bash", stdin="ls " + "x" * 10_000) == ["inline_script"]
    assert gates("wc -c", stdin="x") == []


@for_each(
    "command",
    [
        "bash -euo pipefail -c 'git reset --hard'",
        "bash -ceuo pipefail 'git reset --hard'",
        "bash +o posix -exc 'git reset --hard'",
        "(cd build && ls); rm -rf src",
        "r\\\nm -rf src",
        "rm -r\\\nf src",
        "bash -c 'r\\\nm -rf src'",
        "cd /tmp && ls; cd - && rm -rf src",
        "cd /tmp; cd ~-; rm -rf src",
        "cd /tmp; rm -rf ~-/src",
        "pushd src && rm -rf ../tests",
        "pushd /tmp; popd; rm -rf src",
        "pushd /tmp; pushd src; pushd; rm -rf ../src",
        "env -C src rm -rf ../tests",
        "env -iC src rm -rf ../tests",
        "env --chdir=src rm -rf ../tests",
        "env --chdir src nice rm -rf ../tests",
        "find src -maxdepth 1 -execdir rm -rf ../tests ;",
        "cd /tmp; cd -; rm -rf src",
        "cd /tmp | ls; rm -rf src",
        "cd /tmp & rm -rf src",
        "x=$(cd /tmp && pwd); rm -rf src",
        "env cd /tmp; rm -rf src",
        "nohup command cd /tmp; rm -rf src",
        "d=build; d+=-src; rm -rf $d",
        "d=build; d+=$UNKNOWN; rm -rf $d",
        "sh -c 'cd /tmp'; rm -rf src",
        "f() { cd /tmp; }; rm -rf src",
        "if false; then cd /tmp; fi; rm -rf src",
        "(cd /tmp; ls); python3 -c 'import shutil; shutil.rmtree(\"src\")'",
        "eval 'cd src'; rm -rf *",
        "cd build; rm -rf *",  # of the workspace, where there is no build
        "cd build\nrm -rf *",
        "cd build || true; rm -rf *",
        "cd build || exit_code=1; rm -rf *",
        "cd build >/dev/null 2>&1; rm -rf *",
        "(cd build; rm -rf *)",
        "cd /tmp/x; rm -rf src",
        "pushd dist; rm -rf *",
        "mv a.py /tmp/a.py.bak",
        "mv -f src ~/",
        "mv -t /tmp a.py src/b.py",
        "mv --target-directory=/var/tmp a.py",
        "mv src /dev/null",
        "git checkout src/",
        "git checkout src/a.py tests/b.py",
        "git checkout .github",
        "git restore ../..",
        "git restore conf.d",
        "git checkout -- etc/conf.d",
        "git restore -- a.py '{b,c}.py'",
        "git restore ':(glob)**/*.py'",
        "git restore --pathspec-from-file=list.txt",
        "git checkout --pathspec-from-file=list.txt",
        "git checkout '*.py'",
        'a="reset --hard"; git $a',
        "coproc git reset --hard",
        "trap 'git reset --hard' EXIT",
        "taskset -c 0 git reset --hard",
        "chrt -i 0 git reset --hard",
        "setpriv --no-new-privs git reset --hard",
        "unshare -r git reset --hard",
        "uv run --with x git reset --hard",
        "git submodule foreach 'git reset --hard'",
        "git submodule foreach --recursive git reset --hard",
        "git -c alias.x='reset --hard' x",
        "git -c alias.x='!rm -rf src' x",
        "git read-tree -u --reset HEAD",
        "git checkout-index -f -a",
        "git reset --merge",
        "git branch -D topic",
        "git branch --delete --force topic",
        "git worktree remove --force ../other",
        "> src/main.py",
        ": > src/main.py",
        "true >| src/main.py",
        "cat /dev/null > src/main.py",
        "cp /dev/null src/main.py",
        "rm -rf ~/../../srv/project",
        "cd ~/../../srv && rm -rf project",
        "find /srv/project -name '*.py' -delete",
        "cd /tmp; find /srv/project -name '*.py' -delete",
        "cd build && git reset --hard",
        "cd .. && git reset --hard",
        "cd /tmp && git --git-dir=/srv/project/.git --work-tree=/srv/project reset --hard",
        "cd /tmp/x && git push --force",
        'd=(src tests); rm -rf "${d[@]}"',
        "cd build; if true; then cd ..; fi; rm -rf *",
        "for d in build x; do (cd $d; rm -rf *); done",
        "for d in build src; do cd $d; rm -rf *; cd ..; done",
        "D=$PWD; cd /tmp; rm -rf $D/src",
        "d=build; trap 'rm -rf src/$d' EXIT; d=",
        "find src -exec rm ./{} \\;",
        "git -c clean.requireForce=0 clean -d",
    ],
)
def test_what_destroys_work_is_asked_about_in_these_spellings_too(command):
    """W5, CT-G1."""
    assert "destructive_command" in gates(command)


@for_each("name", ["build", "site", "out", "tmp", "target", "project"])
def test_the_directories_above_a_workspace_spare_nothing_in_it(name):
    """W5, CT-G1."""
    root = f"/home/u/{name}/project"
    for path in (root, f"{root}/src", f"/home/u/{name}", "/home/u/*/project", "/home/u", f"/home/u/{name}/proj*/src"):
        assert gates(f"rm -rf {path}", root) == ["destructive_command"], path
    assert gates(f"cd / && rm -rf home/u/{name}/project", root) == ["destructive_command"]
    assert passes(f"rm -rf {root}/build /home/u/{name}-old /home/u/{name}/other /home/u/{name}/other*/src", root)


@for_each("path", ["/srv/proj*/src", "/srv/*/src", "/*/project", "/s*", "/srv/{project,x}", "/$x/build"])
def test_a_pattern_that_can_mean_the_workspace_is_asked_about(path):
    """W5, CT-G1."""
    assert gates(f"rm -rf {path}") == ["destructive_command"]


@for_each(
    "command",
    [
        "git clean -n",
        "git clean -fdn",
        "cd /tmp/x && git reset --hard",
        "git -C /tmp/x reset --hard",
        "git -C /tmp -C x clean -fdx",
        "rm -rf ${TMPDIR:-/tmp}/foo",
        "rm -rf $TMPDIR/foo /var/x* /tmp/x*",
        "mv a.py b.py",
        "mv src/a.py build/",
        "mv /tmp/a.py .",
        "mv build /tmp/",
        "cp a.py /tmp/",
        "cp -r src lib",
        "git checkout main",
        "git checkout feature/x-1.2",
        "git checkout release-2.x",
        "git checkout v1.0.rc1",
        "git checkout -b topic.py",
        "git branch -d topic",
        "git worktree remove ../other",
        "git read-tree HEAD",
        "git submodule foreach git status",
        "trap - EXIT",
        "trap 'rm -rf build' EXIT",
        'd=$(mktemp -d); trap \'rm -rf "$d"\' EXIT; cd "$d"; rm -rf x',
        "d=$(mktemp -d); trap \"rm -rf '$d'\" EXIT",
        "> /tmp/x",
        "> build.log",
        "echo x > src/main.py",
        "make > /dev/null 2>&1",
        "(cd /tmp/x && rm -rf y)",
        "time command cd /tmp/x && rm -rf y",
        "d=/tmp; d+=/x; rm -rf $d",
        "cd /tmp/x && cd y && rm -rf z",
        "(cd a && make); cd build && rm -rf *",
        "cd build || exit 1; rm -rf *",
        "set -eu; cd build; rm -rf *",
        "cd build >/dev/null 2>&1 && cd x && rm -rf *",
        "cd /tmp; rm -rf x",
        "cd build && rm -rf *; cd ..; rm -rf build",
        "cd frontend; rm -rf node_modules",
        "for d in a b; do cd $d/build && rm -rf * && cd ../..; done",
        "git restore --source HEAD~1 src/a.py",
        "find . -name '*.py' -exec rm a.txt ;",
        "npm install ./local.tgz",
        "npm i file:../lib",
        "cargo install --path .",
        "go install ./cmd/...",
        "bundle install --local",
        "uv lock --check",
    ],
)
def test_daily_work_of_these_kinds_passes(command):
    """CT-G2: a false alarm is a fault."""
    assert passes(command)


@for_each(
    "command",
    [
        'dirs=(src tests); rm -rf "${dirs[@]}"',
        "dirs='src tests'; rm -rf $dirs",
        "for f in a b c d e f g h i j; do git push $f; done",
        "git submodule foreach 'git clean -f'",
        "c='git reset --hard'; $c",
        "echo reset --hard | xargs git",
        "echo 'r\"\"m -r src' | sh",
        "bash <<< $'\\x72m -rf src'",
        "for x in 1 2; do echo 'unlink(\"a\")' | perl; done",
        "true;" * 1000 + "rm -rf src",
    ],
)
def test_a_rule_counts_for_a_text_that_is_not_read_by_its_words(command):
    """W5, CT-G1: docs/decisions/0032."""
    assert not passes(command)


def test_a_false_alarm_of_the_scan_can_always_be_permitted():
    """`privileged_executable` is denied without asking, so that the words alone don't count for it."""
    assert gates("echo 'echo mount the thing; sudo x' | sh") == ["inline_script"]
    assert gates("for f in a b; do sudo $f; done") == ["privileged_executable"]


@for_each("command", ["npm i left-pad ./x", "cargo install x", "go install a.b/c@latest", "uv lock", "npm i"])
def test_what_is_not_all_here_needs_the_network(command):
    """W5, CT-N1."""
    assert gates(command) == ["network"]


LIST = "for x in " + "a " * 500 + ";do "
HOSTILE = {
    "a list in a loop": LIST + "rm $x;" * 166 + "done",
    "one word each": LIST + 'rm "b$x";' * 100 + "done",
    "a long word": "a=" + "x/" * 700 + ";" + "rm $a/1 $a;" * 50,
    "a word that doubles": "a=xxxxxxxx;" + "a=$a$a;" * 9 + "rm -$a;" * 200,
    "braces": "rm " + "x" * 1000 + "{" + "," * 900 + "}",
    "what find executes": "find " + "a " * 400 + "-exec rm {} ; " * 80,
    "wrappers": "time " * 400,
    "shells": "a='for x in " + "b " * 200 + ";do " + "rm $x;" * 60 + "done';" + 'sh -c "$a";' * 40,
    "arrays": "a=(" + "b " * 700 + ");" + 'rm "${a[@]}";' * 45,
    "globs": "rm " + "a* " * 600,
    "interpreters": "python3;" * 250,
    "directories": "( cd x;" * 280 + ")" * 280,
    "loops in loops": "for a in 1 2 3 4 5 6 7 8;do " * 55 + "x;" + "done;" * 55,
    "options": "git checkout " + "-q " * 650 + "*",
    "names": "find . " + "-name x.pyc " * 140 + "-exec rm {} ;" * 20,
}


@for_each("kind", HOSTILE)
def test_the_worst_two_kibibytes_hold_the_server_for_a_moment_only(kind):
    """W5, CT-R6: a list in a loop took 9 s."""
    text = HOSTILE[kind][:2048]
    began = time.process_time()
    gates(text, stdin="rm -rf x;" * 5_000)
    assert time.process_time() - began < 2  # 0.05, and what the collector of a process full of tests takes


def test_what_comes_after_a_long_list_is_read_all_the_same():
    """W5, CT-G1: what is not known is not spared."""
    long = LIST + ": $x;" * 100 + "done; "
    assert "destructive_command" in gates(long + "git reset --hard")
    assert set(gates(long + "rm -rf $x")) == {"destructive_command", "inline_script"}


READS = """
from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.reader import read_programs
for text in ("{\\U000cbcde~", "{\\U0010e31ah\\x19c", "{\\U0010c43dz"):
    for _ in range(300):
        read_programs(text, Directory("/", ".", frozenset()))
"""


def test_characters_beyond_the_grammars_table_do_not_end_the_server():
    """W5: its scanner died of a segmentation fault, within some tens of readings."""
    assert subprocess.run([sys.executable, "-c", READS], check=False).returncode == 0


def test_characters_that_the_grammar_is_not_shown_are_in_the_words():
    """W5, CT-G2."""
    (run,) = read_programs("rm -rf 'ä b€' \U0001f600/x", Directory("/", ".", frozenset())).runs
    assert [word.text for word in run.arguments] == ["-rf", "ä b€", "\U0001f600/x"]
