"""Programs that start others, and which of their words are not yet the other's. Tables only."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

NO_OPTIONS: Final[AbstractSet[str]] = frozenset()
WRAPPERS: Final[Mapping[str, tuple[AbstractSet[str], int]]] = {
    "builtin": (NO_OPTIONS, 0),
    "busybox": (NO_OPTIONS, 0),
    "chroot": (NO_OPTIONS, 1),
    "chrt": (frozenset({"-T", "--sched-runtime", "-P", "--sched-period", "-D", "--sched-deadline"}), 1),
    "command": (NO_OPTIONS, 0),
    "coproc": (NO_OPTIONS, 0),
    "doas": (frozenset({"-u", "-C"}), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "flock": (frozenset({"-w", "--timeout", "-E"}), 1),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "nohup": (NO_OPTIONS, 0),
    "setpriv": (
        frozenset({"--ambient-caps", "--apparmor-profile", "--bounding-set", "--egid", "--euid", "--groups"})
        | {"--inh-caps", "--pdeathsig", "--regid", "--reuid", "--rgid", "--ruid", "--securebits", "--selinux-label"},
        0,
    ),
    "setsid": (NO_OPTIONS, 0),
    "stdbuf": (frozenset({"-i", "-o", "-e", "--input", "--output", "--error"}), 0),
    "strace": (frozenset({"-e", "-o", "-p", "-s"}), 0),
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U"}), 0),
    "taskset": (NO_OPTIONS, 1),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "toybox": (NO_OPTIONS, 0),
    "unshare": (frozenset({"-G", "-R", "-S", "-w", "--propagation", "--root", "--setgid", "--setuid", "--wd"}), 0),
    "watch": (frozenset({"-n", "--interval"}), 0),
    "xargs": (frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"}), 0),
}
"""Their options that take a value, and their operands before the other's name."""

RUNNERS: Final[Mapping[tuple[str, str], AbstractSet[str]]] = {
    ("bundle", "exec"): NO_OPTIONS,
    ("npm", "exec"): NO_OPTIONS,
    ("pipenv", "run"): NO_OPTIONS,
    ("pnpm", "exec"): NO_OPTIONS,
    ("poetry", "run"): NO_OPTIONS,
    ("uv", "run"): frozenset({"--directory", "--env-file", "--extra", "--group", "--index", "--package", "--project"})
    | {"--python", "--with", "--with-editable", "--with-requirements", "-p"},
}
"""The same by a word of theirs: the options that take a value."""

SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"})
GIT_VALUES: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}
)
"""Options of git itself that take a value."""
