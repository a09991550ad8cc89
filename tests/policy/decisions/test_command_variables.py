"""Which variables a command gets, name by name and value by value."""

import time

from tests.cases import for_each

from gloveport.model.workspace import WorkspacePolicy
from gloveport.policy.decisions.command_variables import refused_variables
from gloveport.policy.decisions.inherited_variables import inherit_variables

RUNNING = frozenset(
    {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_DEBUG", "LD_BIND_NOW", "DYLD_INSERT_LIBRARIES"}
    | {"DYLD_LIBRARY_PATH", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV", "BASH_FUNC_ls", "SHELLOPTS", "BASHOPTS"}
    | {"IFS", "PS4", "PROMPT_COMMAND", "BASH_XTRACEFD", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"}
    | {"PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONBREAKPOINT", "PERL5DB", "RUBYSHELL", "GIT_SSH"}
    | {"GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"}
    | {"GIT_CONFIG_KEY_0", "GIT_CONFIG_PARAMETERS", "GIT_TEMPLATE_DIR", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_DIR"}
    | {"GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EDITOR", "GIT_PAGER", "EDITOR", "PAGER", "BROWSER", "SSH_AUTH_SOCK"}
    | {"SSH_ASKPASS", "npm_config_script_shell", "npm_config_git", "NPM_CONFIG_SCRIPT_SHELL"}
    | {"npm_config_node_options", "npm_config_userconfig", "RUSTC_WRAPPER", "LESSOPEN"}
)


OWN = frozenset(
    {"HOME", "PATH", "PWD", "SHELL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "http_proxy"}
    | {"HTTPS_PROXY", "ALL_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CACHE_DIR", "npm_config_cache", "CARGO_HOME", "GOCACHE"}
    | {"GOMODCACHE", "GLOVEPORT_HUB", "GLOVEPORT_NESTED"}
)


def refused(name, value="./x"):
    return [said for said, _, _ in refused_variables({name: value})]


@for_each("name", sorted(RUNNING))
def test_what_makes_programs_run_something_is_at_the_gate(name):
    """W6 CT-E1 CT-E2 CT-P3: what runs is what the command says."""
    assert refused(name) == [name]


@for_each("name", sorted(OWN))
def test_what_the_sandbox_sets_is_at_the_gate(name):
    """W6 CT-E3: HOME, TMPDIR and the caches are the server's."""
    assert refused(name) == [name]


@for_each(
    "name, value",
    [
        ("PYTHONPATH", "src"),
        ("PYTHONUNBUFFERED", "1"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONHASHSEED", "0"),
        ("PYTHONWARNINGS", "error"),
        ("PERL5LIB", "lib"),
        ("RUBYLIB", "lib"),
        ("NODE_PATH", "lib"),
        ("NODE_ENV", "test"),
        ("NODE_OPTIONS", "--max-old-space-size=4096"),
        ("JAVA_TOOL_OPTIONS", "-Xmx1g"),
        ("RUBYOPT", "-W0"),
        ("GOFLAGS", "-mod=mod"),
        ("MAKEFLAGS", "-j4"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.com"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", ":"),
        ("EDITOR", "vim"),
        ("npm_config_loglevel", "silent"),
        ("NODE_OPTIONS", "--redirect-warnings=x --inspect"),
        ("CI", "1"),
        ("DIRECTORY", "lib/sk-learn-contributions-of-others"),
        ("DEBUG", "*"),
        ("FORCE_COLOR", "1"),
        ("LANG", "de_DE.UTF-8"),
        ("TZ", "Europe/Berlin"),
        ("RUST_BACKTRACE", "1"),
        ("RUSTFLAGS", "-Dwarnings"),
        ("CFLAGS", "-O2"),
        ("DATABASE_URL", "sqlite:///test.db"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "100000000"),
        ("TOKEN_LIMIT_EXCEEDED_MESSAGE", "there are too many of them"),
        ("PASSWORD", "postgres"),
        ("API_KEY", "test-key-for-the-suite"),
        ("SECRET_KEY", "changeme-changeme"),
        ("SECRET", ""),
        ("AUTHOR", "somebody with a long name"),
        ("KEYBOARD", "a long enough value here"),
        ("MESSAGE", "ask-the-owner about the risk-assessment of it"),
    ],
)
def test_daily_variables_pass(name, value):
    """CT-G2: a false alarm is a fault."""
    assert refused(name, value) == []


@for_each(
    "name, value",
    [
        ("NODE_OPTIONS", "--require ./x.js"),
        ("NODE_OPTIONS", "--max-old-space-size=1 -r ./x.js"),
        ("NODE_OPTIONS", "--import=./x.mjs"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:x.jar"),
        ("_JAVA_OPTIONS", "-agentpath:x.so"),
        ("JDK_JAVA_OPTIONS", "@file"),
        ("PERL5OPT", "-Mx"),
        ("RUBYOPT", "-rx"),
        ("GOFLAGS", "-toolexec=x"),
        ("MAKEFLAGS", "--eval=x"),
    ],
)
def test_options_that_load_something_are_at_the_gate(name, value):
    """W6."""
    assert refused(name, value) == [name]


SECRETS = {
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
    "a token of GitHub": "ghp_" + "a1" * 18,
    "a token of GitLab": "glpat-" + "a1" * 10,
    "an API key": "sk-proj-" + "a1" * 20,
    "an access key of AWS": "AKIA" + "A1" * 8,
    "a token of Slack": "xoxb-" + "1234567890-abc",
    "an API key of Google": "AIza" + "a1" * 18,
    "a signed web token": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "a URL with a password": "postgres://me:hunter2hunter2@db/x",
}


@for_each("kind, value", SECRETS.items())
def test_what_looks_like_a_secret_is_at_the_gate_and_never_shown(kind, value):
    """W6: by value, whatever the name and the text around it."""
    for text in (value, f"prefix {value}"):
        ((name, why, instead),) = refused_variables({"X": text})
        assert why == f"The variable 'X' holds what looks like {kind}."
        assert value[:12] not in name + why + instead


@for_each("prefix", ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"])
def test_every_kind_of_token_of_github_is_known(prefix):
    """W6."""
    assert refused("X", prefix + "A1b2" * 9) != []


@for_each(
    "name",
    ["GITHUB_TOKEN", "token", "DB_PASSWORD", "MYSQL_PWD", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "APIKEY", "AUTH"],
)
def test_a_name_of_a_secret_with_a_value_like_one_is_at_the_gate(name):
    """W6."""
    assert refused(name, "Zk3v9QpL7mXw2RtY") != []


@for_each("name", ["", "A B", "A=B", "1A", "BASH_FUNC_ls%%", "A\n", "\x1b[2J"])
def test_what_is_no_name_is_refused_and_printed_safely(name):
    ((_, why, _),) = refused_variables({name: "1"})
    assert why.isprintable()


def test_a_huge_value_is_searched_in_little_time():
    for unit in ("a", "a://b:", "-eyJ", "sk-", "-eyJaaaaaaaa.", "-----BEGIN ", "xoxb-", "AKIA", "ghp_"):
        refused("X", unit * (1 << 20))
    assert refused("MY_TOKEN", "a" * 20 + "b" * (1 << 20)) != []


OURS = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TERM": "xterm",
    "TZ": "UTC",
    "HOME": "/root",
    "PATH": "/bin",
    "AWS_REGION": "x",
    "AWS_SECRET_ACCESS_KEY": "Zk3v9QpL7mXw2RtY",
    "AWS_TOKEN": "short",
    "LD_PRELOAD": "x",
}


@for_each(
    "inherit, names",
    [
        (WorkspacePolicy().inherit, ["LANG", "LC_ALL", "TERM", "TZ"]),
        ((), []),
        (("AWS_*",), ["AWS_REGION"]),
        (("AWS_SECRET_ACCESS_KEY", "PATH"), ["AWS_SECRET_ACCESS_KEY", "PATH"]),
        (("*",), ["AWS_REGION", "LANG", "LC_ALL", "TERM", "TZ"]),
    ],
)
def test_of_the_servers_own_variables_commands_get_those_that_are_named(inherit, names):
    """W6: `inherit`. A secret only by its full name."""
    assert list(inherit_variables(WorkspacePolicy(inherit=inherit), OURS)) == names


def test_what_looks_like_the_beginning_of_a_token_is_searched_in_little_time():
    """W6, CT-R6: quadratic, 40 of these held the server for 8 s."""
    value = ("-eyJ" * 16_383)[:65_000] + ".eyJ"
    began = time.process_time()
    list(refused_variables({f"X{number}": value for number in range(200)}))
    assert time.process_time() - began < 2


def test_names_and_all_values_together_are_bounded():
    """W6: what is not searched does not pass."""
    assert refused("N" * 257, "1") == ["N" * 257]
    assert refused("N" * 256, "1") == []
    many = {f"X{number}": "a" * 1024 for number in range(200)}
    ((name, why, _),) = refused_variables(many)
    assert name == sorted(many)[128]
    assert "131072 characters" in why
    assert list(refused_variables({"X": "a" * 131_072})) == []


def test_a_signed_web_token_is_found_after_other_letters():
    """W6."""
    for prefix in ("", "Bearer ", "x-", "a_b-c-", "k=", "-"):
        assert refused("X", prefix + SECRETS["a signed web token"]) == ["X"]


@for_each(
    "name, value",
    [
        ("DATABASE_URL", "postgres://me:hunter2hunter2@localhost:5432/x"),
        ("DATABASE_URL", "postgres://me:hunter2hunter2@localhost"),
        ("DATABASE_URL", "mysql://me:hunter2hunter2@127.0.0.1/x"),
        ("DATABASE_URL", "postgres://me:hunter2hunter2@[::1]:5432/x"),
        ("ENV", "test"),
        ("ENV", "production"),
        ("ENV", ""),
        ("BROWSER", "none"),
        ("PYTHONSTARTUP", ""),
        ("PYTHONBREAKPOINT", "0"),
    ],
)
def test_variables_that_only_look_dangerous_pass(name, value):
    """CT-G2: a false alarm is a fault."""
    assert refused(name, value) == []


@for_each(
    "name, value",
    [
        ("DATABASE_URL", "postgres://me:hunter2hunter2@localhost.example.com/x"),
        ("DATABASE_URL", "postgres://me:hunter2hunter2@127.0.0.1.example.com/x"),
        ("ENV", "./x"),
        ("ENV", "$HOME"),
        ("ENV", "x.sh"),
        ("PYTHONSTARTUP", "x"),
    ],
)
def test_their_dangerous_values_are_at_the_gate(name, value):
    """W6."""
    assert refused(name, value) == [name]
