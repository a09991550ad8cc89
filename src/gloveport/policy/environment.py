"""Which variables a command gets: of the server's own by patterns, of the caller's all but a few. Pure.

A command starts in an environment that the sandbox makes; the caller's variables appear at the last exec, in the shell
that runs the command, so no program of ours ever starts with them. What they can do there a command could do as well
(``LD_PRELOAD=x make`` is a command). They are at the gate ``sensitive_env`` for three reasons only:

- They make the shell, the loader or a program run something that the command does not say. What the gates explain, and
  what a person has approved, would not be what runs.
- The sandbox has set them: by another HOME, cache, proxy or certificate the caches and the way out of commands break.
- They hold what looks like a secret, which a program of the workspace could write down.

PYTHONPATH, NODE_OPTIONS for memory, GIT_AUTHOR_NAME and the like are daily work, and pass.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from gloveport.model.workspace import WorkspacePolicy
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import shown

OWN: Final = frozenset(
    {"GLOVEPORT_*", "HOME", "PATH", "PWD", "SHELL", "TMPDIR", "XDG_*"}
    | {"*_proxy", "*_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    | {"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "PIP_CERT", "CARGO_HTTP_CAINFO"}
    | {"PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache", "YARN_CACHE_FOLDER", "CARGO_HOME", "RUSTUP_HOME"}
    | {"GOCACHE", "GOMODCACHE", "GOPATH", "GRADLE_USER_HOME", "MAVEN_USER_HOME"}
)
"""What the sandbox sets."""

RUNNING: Final = frozenset(
    {"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS"}  # the loader
    | {"BASH_ENV", "ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "IFS", "PS0", "PS1", "PS2", "PS4"}  # shells
    | {"PROMPT_COMMAND", "BASH_XTRACEFD", "BASH_LOADABLES_PATH", "CDPATH", "GLOBIGNORE", "ZDOTDIR"}
    | {"PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONINSPECT"}
    | {"PYTHONBREAKPOINT", "PYTHONPYCACHEPREFIX", "PERL5DB", "PERLLIB", "RUBYSHELL"}
    | {"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_ASKPASS", "GIT_CONFIG*", "GIT_DIR", "GIT_EXEC_PATH"}
    | {"GIT_EXTERNAL_DIFF", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PROXY_COMMAND", "GIT_SSH", "GIT_SSH_COMMAND"}
    | {"GIT_TEMPLATE_DIR", "GIT_WORK_TREE", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SUDO_ASKPASS"}
    | {"npm_config_git", "npm_config_globalconfig", "npm_config_init_module", "npm_config_node_gyp"}
    | {"npm_config_node_options", "npm_config_prefix", "npm_config_script_shell", "npm_config_shell"}
    | {"npm_config_userconfig", "npm_execpath", "npm_node_execpath", "LESSOPEN", "LESSCLOSE", "MANPAGER"}
    | {"RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER", "GOROOT"}
)
"""What makes a shell, the loader, or a program run or read something else."""

_OPTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    "NODE_OPTIONS": re.compile(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)"),
    "JAVA_TOOL_OPTIONS": re.compile(r"-(?:javaagent|agentlib|agentpath|Xbootclasspath|XX:On|XX:Flags)|@"),
    "MAKEFLAGS": re.compile(r"--eval|--file|(?:^|\s)-?\w*f|SHELL"),
    "RUBYOPT": re.compile(r"-[rIC]"),
    "PERL5OPT": re.compile(r"-[MmId]"),
    "GOFLAGS": re.compile(r"-(?:exec|toolexec|overlay|modfile)"),
}
"""Variables that hold options: of these what makes it run something else. Others of theirs are harmless."""
_OPTIONS_ALSO: Final = {"_JAVA_OPTIONS": "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS": "JAVA_TOOL_OPTIONS"}

_PROGRAMS: Final = frozenset({"EDITOR", "GIT_EDITOR", "GIT_PAGER", "GIT_SEQUENCE_EDITOR", "PAGER", "VISUAL", "BROWSER"})
_HARMLESS_PROGRAMS: Final = frozenset(
    {"", ":", "true", "false", "cat", "more", "less", "vi", "vim", "nano", "ed", "echo", "none"}
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:TOKEN|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY"
    r"|SECRET_?KEY|ENCRYPTION_?KEY|SIGNING_?KEY|AUTH)(?:_(?:ID|KEY|VALUE|B64|BASE64|HEX|\d+))?",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(
    r"(?i:.{0,7}|\d+|[./~].*|https?://[^@]*|.*(?:test|dummy|fake|example|sample|placeholder|change.?me|your|local).*"
    r"|(.)\1*|postgres|password|development)",
    re.DOTALL,
)
_SECRET_VALUE: Final = (
    ("a private key", re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")),
    ("a token of GitHub", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})")),
    ("a token of GitLab", re.compile(r"\bglpat-[A-Za-z0-9_-]{16,}")),
    ("an API key", re.compile(r"\b(?:sk|rk)[-_](?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{16,}")),
    ("an access key of AWS", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a token of Slack", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("an API key of Google", re.compile(r"\bAIza[A-Za-z0-9_-]{30,}")),
    ("a token of npm", re.compile(r"\bnpm_[A-Za-z0-9]{30,}")),
    (
        "a signed web token",  # from where letters begin: at each eyJ in them, the time would grow with their square
        re.compile(r"(?<![\w-])(?:[\w-]{0,64}-)?eyJ[\w-]{8,1024}\.eyJ[\w-]{8,4096}\.[\w-]{8}"),
    ),
    (
        "a URL with a password",
        re.compile(
            r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{1,256}:(?!\*)[^\s/@]{8,256}@"
            r"(?!(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/?#\s]|\Z))"
        ),
    ),
)
_MOST_SEARCHED: Final = 65_536
_LONGEST_NAME: Final = 256
_MOST_CHARACTERS: Final = 131_072
"""Of all values together: each is searched for several kinds of secrets."""
_SHELL_FILE = re.compile(r"[/.$`]")
_HARMLESS_VALUES: Final[Mapping[str, AbstractSet[str]]] = {
    "BASH_ENV": {""},
    "LD_PRELOAD": {""},
    "PYTHONBREAKPOINT": {"", "0"},
    "PYTHONINSPECT": {""},
    "PYTHONSTARTUP": {""},
}


def refused_variables(env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The variables of a caller that are at the gate: the name, why, and what to do instead. Never a value."""
    room = _MOST_CHARACTERS
    for name in sorted(env):
        value = env[name]
        if (room := room - len(value)) < 0:
            why = f"The variables together hold more than {_MOST_CHARACTERS} characters."
            yield name, why, "Put the values into files, and name those."
            return
        if len(name) > _LONGEST_NAME:
            yield name, f"{shown(name)} is too long for a name of a variable.", "Use a shorter name."
        elif secret := secret_in(name, value):
            yield (
                name,
                f"The variable {shown(name)} holds what looks like {secret}.",
                "Let the owner configure it as a credential: requests then carry it, and no program sees it.",
            )
        elif not _NAME.fullmatch(name):
            yield name, f"{shown(name)} is no name of a variable.", "Use letters, digits and underscores."
        elif _is_own(name):
            instead = f"Leave {name} as it is, or set it in the command: {name}=value program."
            yield name, f"The sandbox sets {name} itself, and caches and the network depend on it.", instead
        elif _runs_something(name, value):
            why = f"The variable {name} makes programs run something that the command does not say."
            yield name, why, "Say it in the command instead."


def inherited(policy: WorkspacePolicy, own: Mapping[str, str]) -> dict[str, str]:
    """The server's own variables that commands inherit."""
    return {name: value for name, value in sorted(own.items()) if _is_inherited(policy, name, value)}


def secret_in(name: str, value: str) -> str:
    """What kind of secret a variable looks like; empty where it looks like none."""
    for kind, pattern in _SECRET_VALUE:
        if pattern.search(value, 0, _MOST_SEARCHED):
            return kind
    named = name not in {"PWD", "OLDPWD"} and _SECRET_NAME.fullmatch(name)
    return "a secret" if named and not _PLAIN_VALUE.fullmatch(value[:256]) else ""


def _is_inherited(policy: WorkspacePolicy, name: str, value: str) -> bool:
    if name in policy.inherit:
        return True
    by_pattern = any(matches(pattern, name) for pattern in policy.inherit)
    return by_pattern and not any(refused_variables({name: value})) and not _SECRET_NAME.fullmatch(name)


def _is_own(name: str) -> bool:
    return any(matches(pattern, name) for pattern in OWN)


def _runs_something(name: str, value: str) -> bool:
    options = _OPTIONS.get(_OPTIONS_ALSO.get(name, name))
    if options is not None:
        return bool(options.search(value))
    if name == "ENV":  # of production or test in most programs, of a file in sh
        return bool(_SHELL_FILE.search(value))
    if value in _HARMLESS_VALUES.get(name, ()):
        return False
    if name in _PROGRAMS:
        return value not in _HARMLESS_PROGRAMS
    lowered = name.lower()
    return any(matches(pattern, lowered if lowered.startswith("npm_config_") else name) for pattern in RUNNING)
