"""Finds the gates that a command comes to, and why."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from posixpath import normpath
from typing import Final

from msgspec import Struct

from gloveport.model.workspace import GATES, Gate, GateHit, RunCommand, WorkspacePolicy
from gloveport.policy.decisions.command_variables import refused_variables
from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.programs import ProgramRun
from gloveport.policy.shell_text.reader import Facts, read_programs
from gloveport.policy.shell_text.rule_hits import UNNAMED_HOST, RuleHit, find_hits, load_rules
from gloveport.policy.shell_text.rulebook import rulebook
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import join_listed, quote_sent
from gloveport.untrusted_text import printable, shorten

_MOST_NEEDS: Final = 16
_PIECE: Final = 160
_MOVERS: Final = frozenset({"ln", "mv", "mmv", "prename", "rename", "rsync"})
_GIT_STAYS: Final = frozenset({"add", "clone", "commit", "diff", "init", "log", "ls-files", "show", "status"})
"""Git commands that bring nothing back into the tree."""


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A caller's request to ``exec_command``.

    Attributes:
        root: Absolute path of the workspace, as commands see it.
        workdir: Relative to ``root``.
        is_workdir_known: Whether it begins there; else where earlier commands of its session have ended.
        seconds: How long it may run.
        env: The variables that the caller sets.
        stdin: Its input, given with the call.
        environment: Whose packages and programs it has; empty for the default one.
    """

    command: str
    root: str
    workdir: str = "."
    is_workdir_known: bool = True
    seconds: float = 0
    tty: bool = False
    env: Mapping[str, str] | None = None
    stdin: str = ""
    environment: str = ""


def command_action(policy: WorkspacePolicy, request: CommandRequest) -> RunCommand:
    """Make a request an action, with the gates that it comes to, and why. Raises nothing."""
    path = normpath(request.workdir) if request.is_workdir_known else None
    directory = Directory(request.root, path, rulebook().disposable.union(policy.disposable))
    facts = read_programs(request.command, directory, request.stdin)
    hits = list(find_hits(facts, load_rules()))

    def lost_of(hit: RuleHit) -> tuple[str, ...]:
        root = f"{normpath(request.root)}/"
        is_told = not facts.unread and not any(map(_moves, facts.runs))
        within = is_told and all(path.startswith(root) for path in hit.lost)
        return tuple(path.removeprefix(root) for path in hit.lost) if within else ()

    env = request.env or {}
    values = "\0".join(f"{name}={value}" for name, value in sorted(env.items())).encode("utf-8", "surrogatepass")
    return RunCommand(
        command=request.command,
        workdir=request.workdir,
        tty=request.tty,
        environment=request.environment,
        variables=tuple(sorted(env)),
        variables_sha256=hashlib.sha256(values).hexdigest() if env else "",
        hosts=tuple(sorted({host for hit in hits for host in hit.hosts if host != UNNAMED_HOST})),
        needs=order_needs(
            [*_needs(policy, request, facts), *(need for hit in hits for need in _hit_needs(policy, hit, lost_of(hit)))]
        ),
    )


def order_needs(needs: Iterable[GateHit]) -> tuple[GateHit, ...]:
    """Needs without duplicates, in the order of the gates, and only the first few of each gate."""
    every = list(dict.fromkeys(needs))
    return tuple(need for gate in GATES for need in [each for each in every if each.gate == gate][:_MOST_NEEDS])


def make_need(gate: Gate, piece: str, why: str, instead: str, lost: tuple[str, ...] = ()) -> GateHit:
    """A need, with its piece of text cut and made printable."""
    return GateHit(gate=gate, piece=printable(shorten(piece, _PIECE)), why=why, instead=instead, lost=lost)


def _needs(policy: WorkspacePolicy, request: CommandRequest, facts: Facts) -> Iterator[GateHit]:
    if request.seconds > policy.long_seconds:
        why = f"It may run for {request.seconds:g} seconds; without asking it is {policy.long_seconds:g}."
        instead = f"Ask for {policy.long_seconds:g} seconds or less."
        yield make_need("long_timeout", f"{request.seconds:g} s", why, instead)
    for name, why, instead in refused_variables(request.env or {}):
        yield make_need("sensitive_env", name, why, instead)
    for piece in facts.expansions:
        instead = "Write out what the expansion stands for."
        yield make_need("shell_expansion", piece, "The shell puts together what is run.", instead)
    for run in facts.runs:
        if run.source is not None:
            why = f"A {run.program} program is given in the command."
            yield make_need("inline_script", run.text, why, "Put the program into a file, and run that.")
    if facts.unread:
        why = f"Not all of the command is known: {facts.unread}."
        yield make_need("inline_script", "", why, "Put it into a file, or run shorter commands.")


def _moves(run: ProgramRun) -> bool:
    """Whether a program may move older files to another path, where they are lost together with the new ones there."""
    if run.program == "git":
        return not any(word.text in _GIT_STAYS for word in run.arguments)
    return run.program in _MOVERS


def _hit_needs(policy: WorkspacePolicy, hit: RuleHit, lost: tuple[str, ...]) -> Iterator[GateHit]:
    match hit.rule.gate:
        case "network":
            granted = f"{join_listed(policy.hosts)} alone" if policy.hosts else "no host"
            otherwise = "Use what is installed, or ask the owner to grant the host."
            instead = f"Commands reach {granted} without permission. {otherwise}"
            for host in hit.hosts:
                if not (policy.hosts if host == UNNAMED_HOST else any(matches(each, host) for each in policy.hosts)):
                    why = (
                        f"{quote_sent(hit.program)} needs {f'the host {quote_sent(host)}' if host else 'the network'}."
                    )
                    yield make_need("network", f"{hit.program} {host}".strip(), why, instead)
        case "privileged_executable":
            why = f"{quote_sent(hit.program)} needs privileges, which no program has in the sandbox."
            yield make_need(hit.rule.gate, hit.text, why, f"Do without {hit.program}: it can't work here.")
        case gate:
            instead = "Name single files, or what is made anew (build, node_modules); or commit or stash first."
            program = hit.program if hit.rule.source else quote_sent(hit.program)
            yield make_need(gate, hit.text, f"{program} {hit.effect}.", instead, lost)
