"""The worst pause that one caller causes others: how long a call that runs nothing takes while a program attacks."""

import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from mcp import Client

from bench.egress import FarSide, far_side
from bench.measure import Figure, WrongAnswer, reached
from bench.subjects import served

_SERVER = str(Path(__file__).with_name("upstream_server.py"))
_VARIABLE, _KEY = "BENCH_KEY", "bench-7Qm2vX9rT4kLw8Zp3Nc6"
_REST_SECONDS = 0.002
_ROUNDS = 2

_POST: Final = """
import socket, ssl, os
def post(body, kind=b"application/x-www-form-urlencoded", method=b"POST"):
    raw = socket.create_connection(({name!r}, {port}))
    session = ssl.create_default_context().wrap_socket(raw, server_hostname={name!r})
    head = b"%s /small HTTP/1.1\\r\\nHost: {name}:{port}\\r\\nContent-Type: %s\\r\\nContent-Length: %d\\r\\n\\r\\n"
    try:
        session.sendall(head % (method, kind, len(body)) + body)
        return session.recv(1000)
    except OSError:
        return b""
"""
_ATTACKS: Final = {
    "a form of blanks": _POST + "[post(b'name=' + b' ' * 40_000, method=m) for m in (b'POST', b'GET')]",
    "a large form of blanks": _POST + "post(b'name=' + b' ' * (8 << 20))",
    "a form of ampersands": _POST + "post(b'&' * (8 << 20)), post(b'%41&' * 65_000)",
    "parts": _POST + "post(b'name=' * (8 << 18), b'multipart/form-data; boundary=b')",
    "a query of ampersands": _POST.replace("/small", "/small?{ampersands}") + "[post(b'x') for _ in range(20)]",
    "names of tools": """
for server in ("far", "bench-7Q" * 900_000):
    try:
        tools[server]["bench-7Q" * 900_000]()
    except ToolError as error:
        print(error.code)
""",
    "an argument that is asked about": """
for text in ("x" * 8_000_000, "\\u00e9" * 4_000_000, "\\x01" * 1_300_000):
    try:
        tools.far.visit(text=text)
    except ToolError as error:
        print(error.code)
""",
    "URLs under a rule": """
for urls in ([f"https://h{{n}}.example/" for n in range(95_000)], ["/ws/" + "\\ufdfa" * 2000] * 1200):
    try:
        tools.far.visit(urls=urls, path=urls)
    except ToolError as error:
        print(error.code)
""",
    "values": """
for value in ({{str(n): str(n) for n in range(95_000)}}, [[]] * 95_000, [{{"a": 1}}] * 45_000):
    try:
        tools.far.visit(value=value)
    except ToolError as error:
        print(error.code)
""",
    "the beginning of a secret": "import sys\nfor _ in range(12): sys.stdout.write('bench-7Q' * (1 << 17))",
    "the beginning of a secret, in small pieces": """
import os
for _ in range(40_000): os.write(1, b'bench-7Q' * 40)
""",
    "terminal escapes": "import sys\nfor _ in range(12): sys.stdout.write('\\x1b[' * (1 << 19))",
    "a value": "'bench-7Q' * 4000",
}
_HARMLESS: Final = "sum(number * number for number in range(20_000_000))"


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The worst pause that any of the attacks causes, against that of a program that only computes.

    Attributes:
        goal: About what comes on top of that.
    """

    name: str
    goal: str

    async def measure(self, scratch: Path) -> Figure:
        """See ``bench.measure.Case``."""
        async with (
            far_side(scratch) as far,
            served(scratch, _configuration(far), {_VARIABLE: _KEY}) as (url, _),
            Client(url) as attacker,
            Client(url) as other,
        ):
            await _attack(attacker, _POST.format(name=far.name, port=far.port, ampersands="") + "post(b'x')")
            ours: dict[str, float] = {}
            waited: list[float] = []
            theirs: list[float] = []
            for _ in range(_ROUNDS):
                for name, code in _ATTACKS.items():
                    told = code.format(name=far.name, port=far.port, ampersands="&" * 60_000)
                    waits = await _calls_during(other, attacker, told)
                    ours[name] = min(ours.get(name, math.inf), max(waits))
                    waited += waits
                theirs.append(max(await _calls_during(other, attacker, _HARMLESS)))
        for name, pause in sorted(ours.items(), key=lambda one: -one[1]):
            print(f"bench: {self.name}: {pause:7.1f} ms: {name}", file=sys.stderr)
        worst, baseline = max(ours.values()), min(theirs)
        return Figure(
            name=self.name,
            baseline="a program that computes",
            samples=len(waited),
            median_ms=round(worst, 2),
            p95_ms=round(worst, 2),
            baseline_median_ms=round(baseline, 2),
            added_ms=round(worst - baseline, 2),
            ratio=round(worst / baseline, 3),
            ratio_of="time",
            goal=self.goal,
            holds=reached(self.goal, worst - baseline),
        )


async def _calls_during(other: Client, attacker: Client, code: str) -> list[float]:
    """How long each call of one client took while a program of the other went on, in milliseconds."""
    waited: list[float] = []
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            while True:
                started = time.perf_counter()
                await other.call_tool("list_apis", {})
                waited.append((time.perf_counter() - started) * 1000)
                await anyio.sleep(_REST_SECONDS)

        tasks.start_soon(call)
        await _attack(attacker, code)
        tasks.cancel_scope.cancel()
    return waited


async def _attack(client: Client, code: str) -> None:
    answer = await client.call_tool("execute_code", {"language": "python", "code": code})
    status = (answer.structured_content or {}).get("status")
    if status not in {"ok", "error", "killed", "timeout"}:
        raise WrongAnswer(str(answer.structured_content or answer.content)[:500])


def _configuration(far: FarSide) -> str:
    return f"""{far.configuration}
rules = [{{ action = "allow", methods = ["GET", "POST"] }}]

[approvals]
channels = []

[servers.far]
command = {json.dumps([sys.executable, _SERVER])}
calls_per_minute = 100000

[[servers.far.rules]]
action = "allow"
arguments = {{ urls = {{ url = "public" }} }}

[[servers.far.rules]]
action = "allow"
arguments = {{ path = {{ beneath = "/ws" }} }}
"""


CASES: Final = (Pause(name="pause", goal="<= +40 ms"),)
