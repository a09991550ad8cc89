"""What is measured, against what, and the goals: on two processors, by medians. A new case is an entry here."""

from bench import egress, environments, hub, pause, sessions, starts, throughput, workspace
from bench.baselines import PEERS, bare_deno, bare_python, bare_python_with_packages, bubblewrap, interpreter
from bench.measure import Case, Duel
from bench.memory import (
    Held,
    server,
    tree,
    tree_under_load,
    waiting_deno,
    waiting_python,
    waiting_python_with_pandas,
)
from bench.programs import PANDAS, PYTHON, SHELL, TYPESCRIPT
from bench.subjects import COLD, WARM, engine, over_http, over_stdio

_CALLERS = {1: None, 4: ">= 1.4", 16: None}


def every_case() -> list[Case]:
    """All cases, in the order of the table."""
    return [
        *_one_call(),
        *_cold(),
        *starts.CASES,
        *_sustained(),
        *sessions.CASES,
        *environments.CASES,
        *_peers(),
        *egress.CASES,
        *hub.CASES,
        *workspace.CASES,
        *pause.CASES,
        *_memory(),
    ]


def _one_call() -> list[Case]:
    """What one caller of an idle, warm server waits for."""
    bare = f"{interpreter()} -c"
    python = bare_python(PYTHON)
    return [
        Duel(name="python", subject=engine(PYTHON, WARM), baseline=bare, opponent=python, goal="<= 0.16"),
        Duel(name="python-stdio", subject=over_stdio(PYTHON), baseline=bare, opponent=python, goal="<= 0.35"),
        Duel(name="python-http", subject=over_http(PYTHON), baseline=bare, opponent=python),
        Duel(
            name="pandas",
            subject=engine(PANDAS, WARM),
            baseline=f"{bare}, pandas",
            opponent=bare_python_with_packages(PANDAS),
            goal="<= 0.08",
        ),
        Duel(
            name="typescript",
            subject=engine(TYPESCRIPT, WARM),
            baseline="deno run",
            opponent=bare_deno(TYPESCRIPT),
            goal="<= 0.25",
        ),
        Duel(
            name="shell",
            subject=engine(SHELL, WARM),
            baseline="bubblewrap, bash",
            opponent=bubblewrap(SHELL),
            goal="<= 0.40",
        ),
    ]


def _cold() -> list[Case]:
    """The same without a pool."""
    return [
        Duel(
            name=f"{program.language}-cold",
            subject=engine(program, COLD),
            baseline=f"bubblewrap, {inside}",
            opponent=bubblewrap(program),
            goal=goal,
        )
        for program, inside, goal in (
            (PYTHON, "python3", "<= 2.0"),
            (TYPESCRIPT, "deno", None),
            (SHELL, "bash", "<= 3.0"),
        )
    ]


def _sustained() -> list[Case]:
    return [
        Duel(
            name=f"sustained-{callers}",
            subject=throughput.engine(PYTHON, WARM, callers=callers),
            baseline=f"{interpreter()} -c, callers: {callers}",
            opponent=throughput.bare_python(PYTHON, callers=callers),
            goal=goal,
            ratio_of="runs/s",
        )
        for callers, goal in _CALLERS.items()
    ]


def _peers() -> list[Case]:
    return [
        Duel(
            name=f"python-{peer.program}", subject=engine(PYTHON, WARM), baseline=f"{name}, python3", opponent=peer.open
        )
        for name, peer in PEERS.items()
    ]


def _memory() -> list[Case]:
    return [
        Held(name="memory-server", read=server, goal="<= 114.4"),  # 120 MB
        Held(name="memory-waiting-python", read=waiting_python, languages=("python",), goal="<= 4"),
        Held(name="memory-waiting-pandas", read=waiting_python_with_pandas, languages=("python",), goal="<= 8"),
        Held(name="memory-waiting-deno", read=waiting_deno, languages=("typescript",)),
        Held(name="memory-tree", read=tree, goal="<= 200"),
        Held(name="memory-tree-load", read=tree_under_load),
    ]
