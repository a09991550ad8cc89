"""Tells which environment variables and options choose the code that runs, such as ``LD_PRELOAD``.

They are never treated as secrets: else a hostile file could hide the code that it loads.
"""

import re

_RUNNING = re.compile(
    r"(?:\w+_)?(?:COMMAND|CMD|SHELL|EDITOR|VISUAL|PAGER|BROWSER|ASKPASS|PRELOAD|EXEC|EXECUTABLE|PROGRAM|PROCESS|SCRIPT"
    r"|HELPER|HOOK|PLUGIN|LOADER|BINARY|BIN)",
    re.IGNORECASE,
)
_LOADING = re.compile(
    r"LD_\w+|DYLD_\w+|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|OPENSSL_\w+|SSL_CERT_\w+|SSLKEYLOGFILE|\w+_CA_(?:BUNDLE|CERTS)"
    r"|NODE_OPTIONS|NODE_PATH|NODE_REPL_\w+|NODE_TLS_\w+|NPM_\w+|PNPM_\w+|YARN_\w+|COREPACK_\w+|BUN_\w+|DENO_\w+"
    r"|PYTHON\w+|VIRTUAL_ENV|PIP_\w+|PIPX_\w+|UV_\w+|CONDA_\w+|PERL\w+|RUBY\w+|GEM_\w+|BUNDLE_\w+|LUA_\w+|PHPRC|PHP_INI\w+"
    r"|CLASSPATH|JAVA_HOME|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|JAVA_OPTS|DOTNET_\w+|CORECLR_\w+|COR_\w+"
    r"|GO(?:FLAGS|PROXY|ROOT|PATH|BIN|TOOLCHAIN)|CARGO_\w+|RUSTC\w*|RUSTFLAGS|R_\w+|JULIA_\w+|ERL_\w+|ELIXIR_\w+"
    r"|ENV|BASH_\w+|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|IFS|CDPATH|ZDOTDIR|HOME|XDG_CONFIG_\w+|PATH|TMPDIR"
    r"|GIT_\w+|DOCKER_HOST|DOCKER_CONFIG|DOCKER_CONTEXT|KUBECONFIG|LESSOPEN|LESSCLOSE|MAKEFLAGS|\w*_PROXY"
    rf"|{_RUNNING.pattern}",
    re.IGNORECASE,
)
_SECRETS = re.compile(
    r"\w+_(?:TOKEN|AUTHTOKEN|PASSWORD|PASS|SECRET|PAT|KEY|AUTH)", re.IGNORECASE
)  # names of a service's own, such as PYTHONANYWHERE_TOKEN

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.]")


def loads_code(name: str) -> bool:
    """Tell whether a variable, or an option of a command line such as ``--password-command``, can make a program run
    other code, or send its data to another place.
    """
    if name.startswith("-"):
        return _RUNNING.fullmatch(_HUMP.sub("_", name.lstrip("-"))) is not None
    return _LOADING.fullmatch(name) is not None and _SECRETS.fullmatch(name) is None
