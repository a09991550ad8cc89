"""Translates notebook lines that are not Python: ``!command``, ``name = !command``, ``%magic``, ``%%bash``.

Only lines at which the compiler stops are translated, so text within a string never is. A command runs in bash, in this
sandbox like everything else. Standard library only.
"""

import os
import re
import subprocess
import sys

NAME = "__notebook__"  # by which translated lines reach this module
MOST_LINES = 1000
SHELLS = ("%%bash", "%%sh", "%%shell")
IDLE = {"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab", "capture"}
"""Magics without an effect here."""

PACKAGES = "/tmp/packages"
COMMANDS = {"pwd", "ls", "cat", "mkdir", "env", "echo"}
INSTALLERS = {"pip", "pip3", "conda", "mamba", "uv", "poetry"}
_LINE = re.compile(r"(\s*)(?:([\w.\[\], ]+?)\s*=\s*)?([!%])(.*)")
_INSTALL = re.compile(
    r"(?:sudo\s+)?(?:python3?\s+-m\s+)?(?:pip3?|conda|mamba|uv|poetry|apt|apt-get|npm|yarn|pnpm)\s(?:.*\s)?"
    r"(?:install|add|sync|update|i)\b"
)


class PackagesError(Exception):
    """A program wants packages that can't be installed."""

    __module__ = "builtins"  # as tracebacks name it


def to_python(source, parse):
    """The source with notebook lines replaced by Python, each in its place. Raises as ``parse``.

    ``parse`` compiles a source, or raises SyntaxError, which is passed on if no line can be replaced.
    """
    first, _, rest = source.partition("\n")
    if first.strip() in SHELLS:
        return f"{NAME}.run_shell({rest!r})"
    lines = source.split("\n")
    for _ in range(MOST_LINES):
        try:
            parse("\n".join(lines))
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
            translation = replace(lines[number]) if 0 <= number < len(lines) else None
            if translation is None:
                raise
            lines[number] = translation
        else:
            return "\n".join(lines)
    raise SyntaxError(f"more than {MOST_LINES} lines are no Python")


def replace(line):
    """A notebook line as Python; None for any other line."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    indent, target, sign, text = match.groups()
    if target is not None:
        return f"{indent}{target} = {NAME}.read_shell({text!r})" if sign == "!" else None
    return f"{indent}{NAME}.{'run_shell' if sign == '!' else 'run_magic'}({text!r})"


def run_shell(command):
    """``!command``: prints the command's output."""
    refuse_install(command)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    done = subprocess.run(["bash", "-c", command.removeprefix("!")], check=False)
    if done.returncode:
        print(f"[exit code {done.returncode}]", file=sys.stderr)


def read_shell(command):
    """``name = !command``: the lines of the command's output."""
    refuse_install(command)
    return subprocess.run(["bash", "-c", command], check=False, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def run_magic(line):
    """``%magic``: runs the magics that have an effect here."""
    name, _, rest = line.lstrip("%").partition(" ")
    if name in INSTALLERS:
        install(name, rest)
    elif name == "cd":
        os.chdir(os.path.expanduser(rest.strip() or "~"))
    elif name in COMMANDS:
        run_shell(f"{name} {rest}")
    elif name not in IDLE:
        raise SyntaxError(f"there is no magic %{name} here: write Python, or !command for bash")


def install(name, words):
    """``%pip install``: installs into a directory of the program's own, if an index can be reached."""
    if not name.startswith("pip") or not words.startswith("install "):
        run_shell(f"{name} {words}")
        return
    refuse_install("pip install")
    run_shell(f"{sys.executable} -m pip install --target {PACKAGES} {words.removeprefix('install ')}")
    if PACKAGES not in sys.path:
        sys.path.append(PACKAGES)


def refuse_install(command):
    """Fail at once if there is no network: an installer would only fail after a minute."""
    if _INSTALL.match(command.strip()) and "HTTPS_PROXY" not in os.environ:
        raise PackagesError("no index of packages can be reached from here")
