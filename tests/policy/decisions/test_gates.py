"""At which gates a command or a write is, and what is decided there."""

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.model import Allow, Ask, Deny
from gloveport.model.workspace import GATES, MODES, PathChange, WorkspacePolicy
from gloveport.policy.decisions.command_gates import CommandRequest, command_action
from gloveport.policy.decisions.gate_decisions import decide_command, decide_write, permission_details
from gloveport.policy.decisions.modes import STANCES, stance
from gloveport.policy.decisions.write_gates import write_action

SAFE = WorkspacePolicy()


def action(command, policy=SAFE, **asked):
    return command_action(policy, CommandRequest(command=command, root="/workspace", **asked))


def gates(command, policy=SAFE, **asked):
    return list(dict.fromkeys(need.gate for need in action(command, policy, **asked).needs))


def decide(command, policy=SAFE, **asked):
    return decide_command(policy, action(command, policy, **asked))


@for_each(
    "command",
    [
        'git commit -m "fix mount bug"',
        'git commit -m "see https://example.com/rm and sudo rm -rf /"',
        "git commit -m \"$(cat <<'EOF'\nreset --hard; rm -rf src\nEOF\n)\"",
        "python3 tests/test_socket.py",
        "pytest tests/test_requests.py -k 'curl or wget'",
        "rm -rf node_modules",
        "rm -rf ./build dist/ src/__pycache__ '.pytest_cache'",
        "rm -rf {build,dist} *.egg-info",
        'd=$(mktemp -d); cd "$d"; rm -rf "$d" *',
        'for d in build dist; do rm -rf "$d"; done',
        'rm -rf "$DIR/node_modules"',
        "cd /tmp && rm -rf work",
        "cd build && rm -rf *",
        "rm -rf /tmp/x ~/.cache/pip $HOME/x",
        "rm src/a.py",
        "rm -f a.txt b.txt",
        "find . -name '*.pyc' -delete",
        "find . -name __pycache__ -exec rm -rf {} +",
        "find . -name '*.pyc' -print0 | xargs -0 rm -f",
        "find build -type f -delete",
        "echo $((1+2)) ${i}",
        "for ((i=0;i<3;i++)); do echo $i; done",
        "cat /etc/os-release",
        "ls /usr/include",
        "which curl && command -v wget",
        "npm run su",
        "grep -rn 'mount\\|rm -rf' src",
        "mount | grep workspace",
        "sudo --version; su --help",
        "find . -name node_modules -type d -prune -exec rm -rf '{}' +",
        "git clean -fdx node_modules",
        "rm -rf -- build src/**/__pycache__",
        "NAME=x; rm -rf build/$NAME",
        "bash -c 'pytest -q'",
        "python3 -c 'print(1)'",
        "python3 - <<'X'\nimport os\nos.remove('/tmp/x')\nX",
        "python3 -c 'print(\"shutil.rmtree\")'",
        "echo 'print(1)' | python3",
        "echo x > README.md",
        "sed -i s/a/b/ x.py",
        "git checkout main",
        "git checkout -b x origin/main",
        "git restore --staged .",
        "git restore README.md",
        "git restore --source=HEAD~1 src/a.py",
        "git checkout -- src/a.py",
        "git checkout HEAD~1 -- .github/workflows/ci.yml",
        "git reset --soft HEAD~1",
        "git reset HEAD x.py",
        "git stash && git stash pop",
        "git clean -ndx",
        "git rm --cached x",
        "git branch -d topic",
        "git log --hard 2>/dev/null",
        "git clone ./a b",
        "git clone /workspace/a b",
        "curl -s http://localhost:8000/health http://127.0.0.1:1/",
        "curl --version",
        "pip --version",
        "pip install -e .",
        "pip install --no-index x",
        "python3 -m pip list",
        "npm test",
        "npm ci --offline",
        "cargo build",
        "go test ./...",
        "ssh -V",
        "dd if=/dev/zero of=/dev/null count=1",
        "truncate -s 0 /tmp/x server.log",
    ],
)
def test_daily_work_passes(command):
    """CT-G2: a false alarm is a fault."""
    assert decide(command) == Allow(rule="workspace mode: safe")


@for_each(
    "command",
    [
        "rm -rf src",
        "rm -r -f src",
        "rm --recursive --force src",
        "rm --rec src",
        "rm -R src",
        "rm src -rf",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf ..",
        "rm -rf /",
        "rm -rf /*",
        "rm -rf *",
        "rm -f *",
        "rm -rf .git",
        "rm -rf build/../src",
        "rm -rf /workspace",
        "rm -rf /workspace/src",
        'rm -rf "$PWD" ',
        "rm -rf $UNKNOWN",
        'rm -rf "$(pwd)"',
        "d=src; rm -rf $d",
        "for d in build src; do rm -rf $d; done",
        "rm -rf {src,tests}",
        "/bin/rm -rf src",
        "\\rm -rf src",
        "r''m -rf src",
        "'rm' -\"rf\" src",
        "$'r\\x6d' -rf src",
        "(cd src && rm -rf *)",
        "cd .. && rm -rf workspace",
        "cd / && rm -rf workspace",
        "cd $SOMEWHERE && rm -rf x",
        "cd build && cd ../src && rm -rf *",
        "rm -rf //workspace/src",
        "rm -rf ./* .*",
        "find / -delete",
        "sudo rm -rf src",
        "if true; then rm -rf src; fi",
        "f() { rm -rf src; }; f",
        "echo $(rm -rf src)",
        "rm -rf src &",
        "sh -c 'rm -rf src'",
        "env A=1 timeout 5 nice rm -rf src",
        "echo 'rm -rf src' | sh",
        "bash <<< 'rm -rf src'",
        "cat x | bash <<X\nrm -rf src\nX",
        "cat x | cat <<X | sh\nrm -rf src\nX",
        "eval rm -rf src",
        "xargs rm -rf < list",
        "git ls-files | xargs rm",
        "find . -delete",
        "find . -type f -delete",
        "find . -name '*.py' -delete",
        "find . -not -name '*.pyc' -delete",
        "find src -exec rm {} ;",
        "find . -name '*.py' -exec rm -r -f {} +",
        "find . -execdir unlink {} \\;",
        "find . -type f | xargs -n 1 rm",
        "unlink a.py",
        "truncate -s 0 a.py",
        "truncate --size=0 a.py",
        "shred -u a.py",
        "dd if=/dev/zero of=a.py",
        "rsync -a --delete empty/ src/",
        "git reset --hard",
        "git reset --har HEAD~1",
        "git 'reset' --hard",
        "git re\\set --hard",
        "git -C . -c a.b=c --no-pager reset --hard",
        "/usr/bin/git reset --hard",
        "git clean -f",
        "git clean -xdf",
        "git clean -d --force",
        "git -c clean.requireForce=false clean -d",
        "git checkout -- .",
        "git checkout .",
        "git checkout -f",
        "git checkout HEAD~1 src/a.py src/b.py",
        "git checkout -- 'src/*.py'",
        "git checkout -- $FILE.py",
        "git checkout HEAD -- src",
        "git restore --source=HEAD~1 src",
        "git restore .",
        "git restore -SW src",
        "git restore a.py b.py",
        "git switch --discard-changes main",
        "git stash drop",
        "git stash clear",
        "git push --force",
        "git push -f origin main",
        "git push origin +main",
        "git push origin :main",
        "git rm -rf src",
        "git reflog expire --expire=now --all",
        "git gc --prune=now",
        "git filter-branch --all",
        "perl -e 'unlink \"a.py\"'",
        "perl -e 'unlink glob(\"*\")'",
        "perl -MFile::Path -e 'remove_tree(\"src\")'",
        "python3 -c 'import shutil; shutil.rmtree(\"src\")'",
        "python3 - <<'X'\nimport os\nos.unlink('a.py')\nX",
        "python3 -c \"from pathlib import Path; Path('a.py').unlink()\"",
        'node -e \'require("fs").rmSync("src", {recursive: true})\'',
        "ruby -e 'FileUtils.rm_rf(\"src\")'",
    ],
)
def test_what_destroys_work_is_asked_about(command):
    """W5 CT-G1: the gate `destructive_command`, in every spelling."""
    assert "destructive_command" in gates(command)
    assert not isinstance(decide(command), Allow)


def test_where_a_command_runs_counts():
    assert gates("rm -rf *", workdir="build") == []
    assert gates("rm -rf ../src", workdir="build") == ["destructive_command"]
    assert gates("rm -rf *", workdir="src") == ["destructive_command"]


def test_the_operator_may_name_what_is_disposable():
    """W5: `disposable`."""
    assert gates("rm -rf generated-docs", WorkspacePolicy(disposable=("generated-*",))) == []


@for_each(
    "command, hosts",
    [
        ("curl -fsSL https://example.com/x", ("example.com",)),
        ("wget -q 'http://EXAMPLE.com:8080/x'", ("example.com",)),
        ("git clone https://example.com/x.git", ("example.com",)),
        ("git -C x fetch git@example.com:x", ("example.com",)),
        ("ssh me@example.com ls", ("example.com",)),
        ("scp a me@example.com:b", ("example.com",)),
        ("git push", ()),
        ("git pull origin main", ()),
        ("pip install x", ()),
        ("python3.11 -m pip install -r requirements.txt", ()),
        ("uv pip install x", ()),
        ("uv sync", ()),
        ("npm ci", ()),
        ("cd x && npm i left-pad", ()),
        ("cargo add x", ()),
        ("go get x", ()),
        ("apt-get update", ()),
    ],
)
def test_what_needs_the_network_is_asked_about(command, hosts):
    """W5 CT-N1: the gate `network`, package managers too."""
    assert "network" in gates(command)
    assert action(command).hosts == hosts


def test_a_granted_host_is_not_asked_about():
    """W5: `hosts`."""
    policy = WorkspacePolicy(hosts=("*.example.com",))
    assert gates("curl https://a.example.com/; pip install x", policy) == []
    asked = decide("curl https://example.org/", policy)
    assert isinstance(asked, Ask)
    (need,) = action("curl https://example.org/", policy).needs
    assert "Commands reach *.example.com alone without permission." in need.instead


def test_a_long_timeout_is_asked_about():
    """W5 CT-G5: the gate `long_timeout`; `long_seconds`."""
    assert gates("make", seconds=600) == []
    assert gates("make", seconds=600.5) == ["long_timeout"]
    assert gates("make", WorkspacePolicy(long_seconds=10), seconds=11) == ["long_timeout"]


def test_variables_are_at_their_gate_by_name_and_never_by_value():
    """W6: the gate `sensitive_env`."""
    value = "ghp_" + "a" * 36
    asked = action("make", env={"X": value, "LD_PRELOAD": "./x.so", "FINE": "1"})
    assert [need.piece for need in asked.needs] == ["LD_PRELOAD", "X"]
    assert asked.variables == ("FINE", "LD_PRELOAD", "X")
    assert value not in asked.model_dump_json()
    assert permission_details(SAFE, asked)["env_keys"] == ["LD_PRELOAD", "X"]


@for_each("command", ["sudo make", "su", "doas ls", "mount -o remount /", "mkfs.ext4 x", "env sudo -n id"])
def test_a_privileged_program_is_denied_and_the_model_told_why(command):
    """W5: the gate `privileged_executable`. Nobody is asked, for nobody could make it work."""
    decision = decide(command)
    assert isinstance(decision, Deny)
    assert decision.code == "permission_required"
    assert "it can't work here" in decision.hint


def test_scripts_and_expansions_pass_in_safe_mode_and_an_operator_may_ask():
    """W5: the gates `inline_script` and `shell_expansion`; because the sandbox holds, they are open."""
    for command, gate in (("python3 -c 'x'", "inline_script"), ("echo $(date)", "shell_expansion")):
        assert gates(command) == [gate]
        assert isinstance(decide(command), Allow)
        assert isinstance(decide(command, WorkspacePolicy(gates={gate: "ask"})), Ask)


def test_what_can_not_be_read_is_a_script():
    """Nothing that is not known passes where an operator wants to know."""
    unread = "true;" * 100_000
    assert gates(unread) == ["inline_script"]
    assert isinstance(decide(unread, WorkspacePolicy(gates={"inline_script": "deny"})), Deny)


@for_each(
    "path, ignored, asked",
    [
        ("src/a.py", (), False),
        ("src/a.py", ("src/a.py",), True),
        ("package-lock.json", (), True),
        ("sub/uv.lock", (), True),
        ("api/x_pb2.py", (), True),
        ("node_modules/x/index.js", (), True),
        ("src/node_modules.py", (), False),
        ("build/tool.py", (), False),
    ],
)
def test_a_write_to_what_is_generated_or_ignored_is_asked_about(path, ignored, asked):
    """W5 CT-G5: the gate `write_generated_or_ignored`."""
    write = write_action([PathChange(operation="edit", path=path)], frozenset(ignored))
    assert [need.gate for need in write.needs] == ["write_generated_or_ignored"] * asked
    assert isinstance(decide_write(SAFE, write), Ask if asked else Allow)
    assert permission_details(SAFE, write)["permission"] == ("write_generated_or_ignored" if asked else None)


def test_every_gate_has_a_stance_in_every_mode():
    """W5 CT-G5."""
    assert set(STANCES) == set(MODES)
    assert all(set(stances) == set(GATES) for stances in STANCES.values())


def test_dangerous_asks_about_nothing_unless_told_to():
    """W5: `mode`, `gates`."""
    worst = "sudo rm -rf src; curl https://example.com"
    assert decide(worst, WorkspacePolicy(mode="dangerous")) == Allow(rule="workspace mode: dangerous")
    assert isinstance(decide(worst, WorkspacePolicy(mode="dangerous", gates={"destructive_command": "ask"})), Ask)
    assert isinstance(decide("rm -rf src", WorkspacePolicy(mode="trusted")), Ask)
    assert isinstance(decide("pip install x", WorkspacePolicy(mode="trusted")), Allow)


def test_what_the_operator_says_of_a_gate_counts_more_than_the_mode():
    """W5: `gates`."""
    assert stance(WorkspacePolicy(gates={"network": "deny"}), "network") == "deny"
    denied = decide("pip install x; rm -rf src", WorkspacePolicy(gates={"network": "deny"}))
    assert isinstance(denied, Deny)
    assert "'pip' needs the network." in denied.reason


def test_a_person_is_asked_in_a_sentence():
    """H8."""
    asked = decide("rm -rf 'src\u202e' && git reset --hard")
    assert asked.rule == "workspace gates: destructive_command"
    assert asked.question == (
        "Run \"rm -rf 'src\\u202e' && git reset --hard\"? 'rm' deletes 'src\\u202e' with all that is in it. "
        "'git' throws away what is not committed."
    )


def test_the_details_name_every_gate_in_their_order_and_the_piece():
    """W5: the structured answer."""
    asked = action("rm -rf src; pip install x; echo $(date)", seconds=1000)
    details = permission_details(SAFE, asked)
    assert details["permission"] == "network"
    assert details["permissions"] == ["network", "destructive_command", "long_timeout"]
    assert [reason["piece"] for reason in details["reasons"]] == ["pip", "rm -rf src", "1000 s"]
    assert details["command"] == "rm -rf src; pip install x; echo $(date)"
    assert permission_details(SAFE, action("ls")) == {
        "permission": None,
        "permissions": [],
        "reasons": [],
        "command": "ls",
    }


@given(st.text())
def test_every_text_is_decided(text):
    assert isinstance(decide(text), Allow | Ask | Deny)


def test_the_needs_of_a_hostile_command_are_few():
    """What a person is asked, and the log keeps, is bounded."""
    assert len(action(";".join(f"rm -rf {number}" for number in range(200))).needs) <= 16 * len(GATES)
