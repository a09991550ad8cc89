"""gloveport config show, check and trust."""

import json

import pytest

from gloveport.config import Config, leaves
from gloveport.config.toml_text import spell_key


@pytest.fixture
def run(gloveport, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("GLOVEPORT_CONFIG", raising=False)
    return lambda *arguments: gloveport.run("config", *arguments)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[policy.limits]\nmemory_bytes = 1_073_741_824\n[audit]\ndirectory = "/srv/\\u202eaudit"\n')
    return file


def test_show_prints_every_value_with_its_origin(run, file):
    result = run("show", "--config", str(file))
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert 'memory_bytes = "1GiB"'.ljust(40) + f"  # {file}:2" in lines
    assert f"{'processes = 64':<40}  # default" in lines
    assert f"{'# bubblewrap is unset':<40}  # default" in lines
    assert "\u202e" not in result.stdout


def test_what_show_prints_is_a_configuration_that_says_the_same(run, file, tmp_path):
    """T5: a file's values are all there, and nothing else."""
    shown = run("show", "--config", str(file)).stdout
    again = tmp_path / "again.toml"
    again.write_text(shown)
    first = json.loads(run("show", "--json", "--config", str(file)).stdout)
    second = json.loads(run("show", "--json", "--config", str(again)).stdout)
    assert first["values"] == second["values"]
    unset = {spell_key(key) for key, value in leaves(Config()) if value is None} - {"audit.directory"}
    assert {key for key, origin in second["origins"].items() if origin == "default"} == unset


API = """\
egress.redact = ["Jane Doe"]
[api.github]
hosts = ["api.github.com"]
networks = ["10.0.0.0/8"]
types = "type X = 1;\\ntype Y = 2;"
[[api.github.rules]]
action = "allow"
[[api.github.auth]]
kind = "bearer"
secret = "env:GITHUB_TOKEN"
[[api.github.auth]]
kind = "query"
name = "key"
secret = "keyring:x/y"
"""


def test_apis_are_shown_with_where_their_secrets_are(run, tmp_path):
    """N2, N5, T5: what is shown says the same when it is read again."""
    (tmp_path / "apis").mkdir()
    (tmp_path / "apis/two.toml").write_text("hosts = ['two.example.com']\n")
    (tmp_path / "mine.toml").write_text(API)
    result = run("show", "--config", "mine.toml")
    lines = result.stdout.splitlines()
    assert "[api.github]" in lines
    assert f"{'active = true':<40}  # default" in lines
    assert 'networks = ["10.0.0.0/8"]'.ljust(40) + f"  # {tmp_path}/mine.toml:4" in lines
    assert 'rules = [{ action = "allow", methods = [], paths = [] }]' in result.stdout
    assert '{ kind = "bearer", secret = "env:GITHUB_TOKEN" }' in result.stdout
    assert 'hosts = ["two.example.com"]'.ljust(40) + f"  # {tmp_path}/apis/two.toml:1" in lines
    (tmp_path / "again").mkdir()
    (tmp_path / "again/again.toml").write_text(result.stdout)
    first = json.loads(run("show", "--json", "--config", "mine.toml").stdout)
    assert first["values"] == json.loads(run("show", "--json", "--config", "again/again.toml").stdout)["values"]


SERVERS = """\
[servers."my.server"]
command = ["npx", "-y"]
env = { LANG = "C", "lower_case" = "a = b" }
secret_env.TOKEN = "env:TOKEN"
[[servers."my.server".rules]]
action = "deny"
arguments."a.b".equals = { "in ner" = [1, "x", true, { }] }
[servers.other]
url = "https://mcp.example.com"
auth = [{ kind = "oauth" }]
"""


def test_servers_are_shown_in_a_form_that_says_the_same(run, tmp_path):
    """H1, T5: names with a dot, and values of any shape."""
    (tmp_path / "mine.toml").write_text(SERVERS)
    shown = run("show", "--config", "mine.toml").stdout
    assert '[servers."my.server"]' in shown.splitlines()
    assert "mine.toml:3" in next(line for line in shown.splitlines() if line.startswith("env = "))
    (tmp_path / "again.toml").write_text(shown)
    first, second = (json.loads(run("show", "--json", "--config", f).stdout) for f in ("mine.toml", "again.toml"))
    assert first["values"] == second["values"]


def test_show_as_json_has_files_values_and_origins(run, file):
    shown = json.loads(run("show", "--json", "--config", str(file)).stdout)
    assert shown["files"] == [str(file)]
    assert shown["values"]["policy"]["limits"]["memory_bytes"] == 1 << 30
    assert shown["origins"]["policy.limits.memory_bytes"] == f"{file}:2"
    assert shown["origins"]["policy.unix_sockets"] == "default"


def test_check_says_which_file_was_read(run, file):
    result = run("check", "--config", str(file))
    assert (result.returncode, result.stdout) == (0, f"valid: {file}\n")


@pytest.mark.parametrize("command", ["check", "show"])
def test_faults_are_all_on_stderr_and_the_exit_code_is_2(run, tmp_path, command):
    """T3"""
    (tmp_path / "bad.toml").write_text("x = 1\npolicy.limits.cpus = 0\n")
    result = run(command, "--config", "bad.toml")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("gloveport: 2 faults in the configuration:\n")
    assert f"{tmp_path}/bad.toml:1: x: unknown key" in result.stderr
    assert f"{tmp_path}/bad.toml:2: policy.limits.cpus: expected a number, above 0" in result.stderr


def test_trust_prints_what_it_trusts_with_nothing_hidden(run, tmp_path):
    """The content is shown as it was recorded: an editor may hide a bidirectional override, or show an older text."""
    file = tmp_path / "gloveport.toml"
    file.write_text("# \u202e fine\n\tadmission.queue_length = 1\n")
    result = run("trust")
    assert result.returncode == 0
    assert "# \\u202e fine\n        admission.queue_length = 1\n" in result.stdout
    assert f"trusted: {file} (sha256 " in result.stdout
    assert len(list((tmp_path / "state/trusted").iterdir())) == 1


@pytest.mark.parametrize("path", ["gone/gloveport.toml", "gone"])
def test_trust_of_what_is_not_there_is_a_refusal(run, path):
    result = run("trust", path)
    assert result.returncode == 2
    assert "does not exist" in result.stderr
    assert "hint: " in result.stderr


def test_a_working_directory_that_is_gone_is_a_refusal(run, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for command in ("check", "trust"):
        result = run(command)
        assert result.returncode == 2, command
        assert "the working directory no longer exists" in result.stderr, command


def test_a_byte_order_mark_is_passed_over(run, tmp_path):
    (file := tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf[admission]\r\nqueue_length = 1\r\n")
    file.chmod(0o600)
    checked = run("check", "--config", str(file))
    assert (checked.returncode, checked.stdout) == (0, f"valid: {file}\n"), checked.stderr


def test_trust_shows_every_character_of_what_it_records(run, tmp_path):
    """P17: nothing hides behind a long line."""
    (tmp_path / "gloveport.toml").write_text("x = [" + " " * 6000 + "'hidden']\n")
    assert "'hidden'" in run("trust").stdout
