"""Which gates a command or a write comes to, why, and what is decided there.

Gates explain, teach and ask; the sandbox is the boundary. So a text that can't be read passes as what it is, an inline
script, and an alarm that is false is a fault.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from posixpath import normpath
from typing import Final

from pydantic import JsonValue

from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.workspace import GATES, Change, Gate, Need, RunCommand, WorkspacePolicy, WriteFiles
from gloveport.policy.commands import Scope
from gloveport.policy.destruction import destroys, script_destroys
from gloveport.policy.environment import refused_variables
from gloveport.policy.modes import stance
from gloveport.policy.network_commands import UNNAMED, hosts_needed
from gloveport.policy.places import MADE_ANEW, Place, moved
from gloveport.policy.programs import Facts, Run, Script, facts_of, options
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import FINAL, listed, shown
from gloveport.untrusted_text import printable

PRIVILEGED: Final = frozenset(
    {"chroot", "doas", "insmod", "losetup", "modprobe", "mount", "pkexec", "poweroff", "reboot", "shutdown"}
    | {"su", "sudo", "swapoff", "swapon", "umount"}
)
_IS_OPTION = re.compile(r"-[LPe@]+|--")
_MOST_NEEDS: Final = 16
_ASKS_ABOUT: Final = frozenset({"--help", "--version"})
_PIECE: Final = 160
_MOST_SHOWN: Final = 2000

_GENERATED: Final = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "uv.lock", "poetry.lock"}
    | {"Pipfile.lock", "Cargo.lock", "go.sum", "composer.lock", "Gemfile.lock", "*.min.js", "*.min.css", "*_pb2.py"}
    | {"*_pb2_grpc.py", "*.pb.go", "*.generated.*", "*.tsbuildinfo"}
)
_GENERATED_TREES: Final = frozenset({"node_modules", "__pycache__", ".venv", ".tox", ".next", "*.egg-info"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a caller asks ``exec_command`` for.

    Attributes:
        root: Absolute path of the workspace, as commands see it.
        workdir: Relative to it.
        seconds: How long it may run.
        env: The variables that the caller sets.
        stdin: What it is given to read, with the call.
    """

    command: str
    root: str
    workdir: str = "."
    seconds: float = 0
    tty: bool = False
    env: Mapping[str, str] | None = None
    stdin: str = ""


def command_action(policy: WorkspacePolicy, asked: Asked) -> RunCommand:
    """Make what was asked for an action: with the gates that it comes to, and why. Raises nothing."""
    facts = facts_of(asked.command, asked.stdin or None)
    hosts = {host: run for run in facts.runs for host in hosts_needed(run)}
    needs = [
        *_network(policy, hosts),
        *_destructive(policy, asked, facts),
        *_long(policy, asked),
        *_environment(asked.env or {}),
        *_expansions(facts),
        *_scripts(facts),
        *_privileged(facts),
    ]
    return RunCommand(
        command=asked.command,
        workdir=asked.workdir,
        tty=asked.tty,
        variables=tuple(sorted(asked.env or {})),
        variables_sha256=_digest(asked.env or {}),
        hosts=tuple(sorted(host for host in hosts if host != UNNAMED)),
        needs=_distinct(needs),
    )


def _digest(env: Mapping[str, str]) -> str:
    text = "\0".join(f"{name}={value}" for name, value in sorted(env.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if env else ""


def write_action(changes: Iterable[Change], ignored: AbstractSet[str]) -> WriteFiles:
    """Make changes an action. ``ignored``: those of their paths that git ignores."""
    every = tuple(changes)
    return WriteFiles(changes=every, needs=_distinct(_written(every, ignored)))


def decide_command(policy: WorkspacePolicy, action: RunCommand) -> Decision:
    """Decide a command."""
    return _decide(policy, action.needs, f"Run {shown(action.command)}?")


def decide_write(policy: WorkspacePolicy, action: WriteFiles) -> Decision:
    """Decide a write."""
    paths = listed(shown(change.path) for change in action.changes)
    return _decide(policy, action.needs, f"Write {paths}?")


def open_needs(policy: WorkspacePolicy, needs: Iterable[Need]) -> tuple[Need, ...]:
    """Those at whose gates it does not simply pass."""
    return tuple(need for need in needs if stance(policy, need.gate) != "allow")


def permission_details(policy: WorkspacePolicy, action: RunCommand | WriteFiles) -> dict[str, JsonValue]:
    """The details of ``PERMISSION_REQUIRED``: the first gate, all of them, and why."""
    needs = open_needs(policy, action.needs)
    gates = list(dict.fromkeys(need.gate for need in needs))
    variables = [need.piece for need in needs if need.gate == "sensitive_env"]
    return {
        "permission": gates[0] if gates else None,
        "permissions": [*gates],
        "reasons": [
            {"permission": need.gate, "piece": need.piece, "why": need.why, "instead": need.instead} for need in needs
        ],
        **({"command": printable(action.command[:_MOST_SHOWN])} if isinstance(action, RunCommand) else {}),
        **({"env_keys": [*variables]} if variables else {}),
    }


def _decide(policy: WorkspacePolicy, needs: tuple[Need, ...], question: str) -> Decision:
    waiting = open_needs(policy, needs)
    denied = [need for need in waiting if stance(policy, need.gate) == "deny"]
    if denied:
        return Deny(
            code="permission_required",
            reason=" ".join(dict.fromkeys(need.why for need in denied)),
            hint=f"{' '.join(dict.fromkeys(need.instead for need in denied))} {FINAL}",
        )
    if waiting:
        gates = listed(dict.fromkeys(need.gate for need in waiting))
        return Ask(rule=f"workspace gates: {gates}", question=f"{question} {' '.join(need.why for need in waiting)}")
    return Allow(rule=f"workspace mode: {policy.mode}")


def _network(policy: WorkspacePolicy, hosts: Mapping[str, Run]) -> Iterator[Need]:
    for host, run in hosts.items():
        if policy.hosts if host == UNNAMED else any(matches(pattern, host) for pattern in policy.hosts):
            continue
        granted = f"These can: {listed(policy.hosts)}." if policy.hosts else "None can."
        yield _need(
            "network",
            f"{run.program} {host}".strip(),
            f"{shown(run.program)} needs {f'the host {shown(host)}' if host else 'the network'}.",
            f"Commands can't reach it. {granted} Use what is installed, or ask the owner to grant the host.",
        )


def _destructive(policy: WorkspacePolicy, asked: Asked, facts: Facts) -> Iterator[Need]:
    start = Place(asked.root, normpath(asked.workdir), MADE_ANEW.union(policy.disposable))
    places: dict[Scope | None, Place] = {}
    scripts: dict[int, list[Script]] = {}
    for script in facts.scripts:
        scripts.setdefault(script.run, []).append(script)
    for number, run in enumerate(facts.runs):
        place = _place_of(run.scope, places) or start
        if what := destroys(run, place):
            yield _destroyed(run.text, f"{shown(run.program)} {what}.")
        elif run.program == "cd":
            place = moved(place, next((word for word in run.arguments if not _IS_OPTION.fullmatch(word.text)), None))
        places[run.scope] = place
        for script in scripts.get(number, ()):
            if what := script_destroys(script, place):
                yield _destroyed(script.text, f"A {script.interpreter} program {what}.")


def _place_of(scope: Scope | None, places: Mapping[Scope | None, Place]) -> Place | None:
    """Where a scope is: where it was last, or, in the beginning, what it stands in."""
    while scope is not None and scope not in places:
        scope = scope.outer
    return places.get(scope)


def _destroyed(piece: str, why: str) -> Need:
    instead = "Name single files, or what is made anew (build, node_modules); or commit or stash first."
    return _need("destructive_command", piece, why, instead)


def _long(policy: WorkspacePolicy, asked: Asked) -> Iterator[Need]:
    if asked.seconds > policy.long_seconds:
        yield _need(
            "long_timeout",
            f"{asked.seconds:g} s",
            f"It may run for {asked.seconds:g} seconds; without asking it is {policy.long_seconds:g}.",
            f"Ask for {policy.long_seconds:g} seconds or less.",
        )


def _environment(env: Mapping[str, str]) -> Iterator[Need]:
    for name, why, instead in refused_variables(env):
        yield _need("sensitive_env", name, why, instead)


def _expansions(facts: Facts) -> Iterator[Need]:
    for piece in facts.expansions:
        yield _need(
            "shell_expansion", piece, "The shell puts together what is run.", "Write out what the expansion stands for."
        )


def _scripts(facts: Facts) -> Iterator[Need]:
    for script in facts.scripts:
        why = f"A {script.interpreter} program is given in the command."
        yield _need("inline_script", script.text, why, "Put the program into a file, and run that.")
    if facts.unread:
        why = f"Not all of the command is known: {facts.unread}."
        yield _need("inline_script", "", why, "Put it into a file, or run shorter commands.")


def _privileged(facts: Facts) -> Iterator[Need]:
    for run in facts.runs:
        works = run.program in {"mount", "sudo"} and not run.arguments  # one lists, one says how it is called
        if (run.program in PRIVILEGED or run.program.startswith("mkfs")) and not (
            works or _ASKS_ABOUT & options(run.arguments)
        ):
            why = f"{shown(run.program)} needs privileges, which no program has in the sandbox."
            yield _need("privileged_executable", run.text, why, f"Do without {run.program}: it can't work here.")


def _written(changes: Iterable[Change], ignored: AbstractSet[str]) -> Iterator[Need]:
    for change in changes:
        parts = change.path.split("/")
        generated = any(matches(pattern, parts[-1]) for pattern in _GENERATED) or any(
            matches(pattern, part) for pattern in _GENERATED_TREES for part in parts[:-1]
        )
        if change.path in ignored:
            why = f"Git ignores {shown(change.path)}: a change of it is seen by nobody, and in no commit."
            yield _need("write_generated_or_ignored", change.path, why, "Change a file that git knows.")
        elif generated:
            why = f"{shown(change.path)} is made by a tool, which overwrites it."
            yield _need("write_generated_or_ignored", change.path, why, "Change its source, and run the tool.")


def _need(gate: Gate, piece: str, why: str, instead: str) -> Need:
    cut = piece if len(piece) <= _PIECE else f"{piece[:_PIECE]}…"
    return Need(gate=gate, piece=printable(cut), why=why, instead=instead)


def _distinct(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Each once, in the order of the gates, the first few of each gate."""
    if not (every := list(dict.fromkeys(needs))):
        return ()
    return tuple(need for gate in GATES for need in [one for one in every if one.gate == gate][:_MOST_NEEDS])
