"""Doors: sockets that listen inside a sandbox and belong to the host. The same warm or cold, for every language."""

import contextlib
import os
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from tests.processes import below

from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model import Grant
from gloveport.model.egress import Api, Egress, Placeholder
from gloveport.model.reading import read_value
from gloveport.sandbox.plan import Network, TextFile, make_plan
from gloveport.sandbox.pool import zygote_process
from gloveport.workspace_service.sandbox_ports import PortError, SandboxPorts

pytestmark = pytest.mark.anyio

PROXY = ("127.0.0.2", 3128)
DOORS = (PROXY, ("0.0.0.0", 80), ("0.0.0.0", 443), ("0.0.0.0", 5432))
NETWORK = Network(
    hosts={"one.test": "127.0.1.1", "two.test": "127.0.1.2", "localhost": "127.0.1.3", "a.localhost": "127.0.1.3"},
    doors=DOORS,
    env={"GREETING": "hello"},
    files=(TextFile(path="/etc/gloveport/ca.pem", text="a certificate\n"),),
    placeholders=("ONE_KEY", "TWO_KEY"),
)
KEY = Placeholder(kind="placeholder", name="ONE_KEY", secret="env:X", places=("header:X-Key",))
ONE = Grant(
    languages=frozenset({"typescript"}), egress=Egress(apis={"one": Api(hosts=("http://one.test",), auth=(KEY,))})
)


@dataclass
class Text:
    """A sink that keeps everything."""

    data: bytearray = field(default_factory=bytearray)

    def write(self, data):
        self.data += data

    def full(self):
        return False

    def __str__(self):
        return self.data.decode()


@contextlib.asynccontextmanager
async def answering(doors, name=""):
    """Answer at each door with the address that was asked for, and ``name``."""

    async def answer(door):
        while True:
            await anyio.wait_readable(door)
            connection, _ = door.accept()
            with connection:
                address, port = connection.getsockname()
                connection.sendall(f"{address}:{port}{name}".encode())

    async with anyio.create_task_group() as tasks:
        for door in doors:
            tasks.start_soon(answer, door)
        yield
        tasks.cancel_scope.cancel()


async def outcome_of(child, program):
    """What a child prints, and what it reports."""
    stdout, stderr = Text(), Text()
    outcome = await child.run(program, value_bytes=100_000, stdout=stdout, stderr=stderr)
    assert outcome.killed_by is None, stderr
    if isinstance(outcome.report, dict):
        assert outcome.report["error"] is None, outcome.report["error"]
    return str(stdout), outcome.report.get("value") if isinstance(outcome.report, dict) else None


def traces():
    """How many descriptors this process has, and how many processes are below it."""
    return len([*Path("/proc/self/fd").iterdir()]), len(below(os.getpid()))


async def wait_for_traces(*, processes, descriptors=None):
    """Return when no more than these are left: an ended sandbox's processes die in their own time, and others', too.

    Raises:
        TimeoutError: More are left after twenty seconds.
    """
    with anyio.fail_after(20):
        while (found := traces())[1] > processes or (descriptors is not None and found[0] > descriptors):
            await anyio.sleep(0.005)


@pytest.fixture
def run(sandboxes):
    """Run one program in a sandbox of a network whose doors answer; return what it printed, and its value."""

    async def run_one(language, code, network=NETWORK, grant=None):
        made = sandboxes(language, network, grant)
        async with made.build() as child, answering(child.doors):
            return await outcome_of(child, made.prepare(code))

    return run_one


ASKED = [("127.0.0.2", 3128), ("one.test", 80), ("one.test", 443), ("two.test", 443), ("two.test", 5432)]
ANSWERED = ["127.0.0.2:3128", "127.0.1.1:80", "127.0.1.1:443", "127.0.1.2:443", "127.0.1.2:5432"]
ASKS = {
    "python": f"""
import socket
answers = []
for place in {ASKED}:
    with socket.create_connection(place) as connection:
        answers.append(connection.makefile().read())
print(*answers)
""",
    "shell": f"""
for place in {" ".join(f"{host}/{port}" for host, port in ASKED)}; do
    cat < /dev/tcp/$place; echo -n " "
done
""",
    "typescript": f"""
const answers: string[] = [];
for (const [hostname, port] of {[list(place) for place in ASKED]} as [string, number][]) {{
  const connection = await Deno.connect({{ hostname, port }});
  answers.push(await new Response(connection.readable).text());
}}
console.log(answers.join(" "))
""",
}


@pytest.mark.parametrize("language", ASKS)
async def test_the_host_answers_at_each_door_and_sees_which_name_was_asked_for(run, language):
    """N1, N2: privileged ports too, and no program knows that it is not the network."""
    grant = Grant(languages=frozenset({language}), egress=Egress(yolo=True))
    printed, _ = await run(language, ASKS[language], grant=grant)
    assert printed.split() == ANSWERED


async def test_a_sandbox_means_itself_by_its_own_names(run):
    """N1: whatever the operator grants."""
    code = """
import socket
names = ("localhost", "gloveport", "a.localhost", "one.test")
def address(name):
    try:
        return sorted({found[4][0] for found in socket.getaddrinfo(name, 1, socket.AF_INET)})
    except socket.gaierror:
        return None
[address(name) for name in names]
"""
    _, value = await run("python", code)
    assert value == [["127.0.0.1"], ["127.0.0.1"], None, ["127.0.1.1"]]


LOOK = {
    "python": """
import os
from pathlib import Path
[os.environ["GREETING"], os.environ["ONE_KEY"], os.environ["TWO_KEY"], Path("/etc/gloveport/ca.pem").read_text()]
""",
    "typescript": """
const refused = ["GREETING", "HOME", "HTTP_PROXY"].filter((name) => {
  try { Deno.env.get(name); } catch (error) { return error instanceof Deno.errors.NotCapable; }
});
[refused.length === 3 ? "hello" : "ESCAPED", Deno.env.get("ONE_KEY"), Deno.env.get("TWO_KEY"), "a certificate"]
""",
    "shell": 'echo "$GREETING $ONE_KEY $TWO_KEY $(</etc/gloveport/ca.pem)"',
}


@pytest.mark.parametrize("language", LOOK)
async def test_a_program_finds_its_environment_files_and_placeholders(sandboxes, language):
    """N5, T4: placeholders are others in each sandbox, and the host knows which. Deno shows these alone."""
    two = KEY.model_copy(update={"name": "TWO_KEY"})
    egress = Egress(apis={"one": Api(hosts=("one.test",), auth=(KEY, two))})
    seen, made = [], sandboxes(language, NETWORK, Grant(languages=frozenset({language}), egress=egress))
    for _ in range(2):
        async with made.build() as child:
            printed, value = await outcome_of(child, made.prepare(LOOK[language]))
            found = value or printed.strip().split(" ", 3)
            one, two = child.placeholders["ONE_KEY"], child.placeholders["TWO_KEY"]
            assert [text.strip() for text in found] == ["hello", one, two, "a certificate"]
            seen += [one, two]
    assert len(set(seen)) == 4
    assert all(re.fullmatch(r"gp_[\w-]{32}", text) for text in seen)


async def test_two_sandboxes_do_not_meet_at_their_doors(sandboxes):
    """N1, P10, P21: each speaks to those who answer for it."""
    made = sandboxes("python", NETWORK)
    async with (
        made.build() as first,
        made.build() as second,
        answering(first.doors, " first"),
        answering(second.doors, " second"),
    ):
        for child, name in ((second, " second"), (first, " first")):
            printed, _ = await outcome_of(child, made.prepare(ASKS["python"]))
            assert printed.strip() == " ".join(answer + name for answer in ANSWERED)


TAKE = """
import errno, os, socket
found = {}
for address in ("127.0.0.2", "127.0.1.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.2"):
    for port in (3128, 80, 443, 5432):
        for reuse in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as mine:
                for option in reuse:
                    mine.setsockopt(socket.SOL_SOCKET, option, 1)
                try:
                    mine.bind((address, port))
                    mine.listen()
                    found[f"{address} {port}"] = "taken"
                except OSError as error:
                    found.setdefault(f"{address} {port}", errno.errorcode[error.errno])
listening = {line.split()[9] for line in open("/proc/net/tcp").readlines()[1:] if line.split()[3] == "0A"}
held = []
for process in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        for name in os.listdir(f"/proc/{process}/fd"):
            try:
                link = os.readlink(f"/proc/{process}/fd/{name}")
            except FileNotFoundError:  # that of the listing itself
                continue
            held += [link for inode in listening if link == f"socket:[{inode}]"]
    except PermissionError:
        pass
[found, len(listening), held]
"""


async def test_no_program_can_stand_at_a_door_in_place_of_the_host(run):
    """N1: the ports are taken or privileged, and nobody inside has a descriptor of who listens there."""
    _, (found, listening, held) = await run("python", TAKE)
    assert listening == len(DOORS)
    assert held == []
    # An address of the new protocol that no door has is the program's own loopback.
    harmless = {"127.0.1.1 3128", "::1 3128", "::1 5432"}
    assert {place for place, outcome in found.items() if outcome == "taken"} <= harmless
    assert {outcome for place, outcome in found.items() if place not in harmless} == {"EACCES", "EADDRINUSE"}


async def test_after_the_run_nobody_comes_to_the_doors_and_they_close_with_their_sandbox(sandboxes):
    """N1, E5."""
    knock = "import socket\nsocket.create_connection(('one.test', 80))"
    made = sandboxes("python", NETWORK)
    async with made.build() as child:
        await outcome_of(child, made.prepare(knock))
        http = child.doors[1]
        http.accept()[0].close()
        with pytest.raises(BlockingIOError):
            http.accept()
    await made.settled()
    assert [door.fileno() for door in child.doors] == [-1] * len(DOORS)


async def test_doors_leave_nothing_behind(sandboxes):
    """E5, P9: no descriptor of the server's, and no process."""
    made = sandboxes("shell", NETWORK)

    async def left():
        async with made.build() as child:
            await outcome_of(child, made.prepare("true"))
        await made.settled()
        return traces()

    before = [await left() for _ in range(6)]
    after = [await left() for _ in range(5)]
    # The least of several: the processes of the sandbox before may be dying still. What other tests have left may go.
    (now, processes), (then, processes_then) = [map(min, zip(*runs, strict=True)) for runs in (after, before[3:])]
    assert now <= then
    assert processes <= processes_then


async def test_a_door_that_can_not_be_opened_is_a_refusal_and_leaves_nothing(environ):
    """P12, P9: in the words of whoever tried, whether from inside or outside."""
    twice, others = Network(doors=(PROXY, PROXY)), traces()[1]
    async with assemble(read_value(Config, {"pool": {"forked": 0, "booted": 0}}), environ) as engine:
        backend, program = engine.sandbox.cold, engine.runtimes["python"].prepare("", ONE)
        plan = make_plan(program, ONE, engine.system, twice)
        async with backend.start(make_plan(program, ONE, engine.system)):
            pass  # with the first sandbox comes the reaper
        await wait_for_traces(processes=others + 1)
        descriptors, processes = traces()
        with pytest.raises(SandboxError, match="Address already in use"):
            async with backend.start(plan):
                pass
        async with zygote_process.start(backend, plan) as forks:
            with pytest.raises(SandboxError, match="Address already in use"):
                async with forks.fork():
                    pass
        await wait_for_traces(processes=processes, descriptors=descriptors)


async def test_a_sandbox_given_up_while_it_is_built_takes_who_opens_its_doors_with_it(environ):
    """E5, P9."""
    async with assemble(read_value(Config, {"pool": {"forked": 0, "booted": 0}}), environ) as engine:
        backend, program = engine.sandbox.cold, engine.runtimes["python"].prepare("", ONE)
        plan = make_plan(program, ONE, engine.system, NETWORK)
        descriptors, processes = traces()
        for milliseconds in (0, 5, 15, 25, 35, 45):
            with anyio.move_on_after(milliseconds / 1000):
                async with backend.start(plan):
                    await anyio.sleep_forever()
            await wait_for_traces(processes=processes, descriptors=descriptors)


REACHES = """
const attempts: Record<string, () => unknown> = {
  fetch: async () => (await fetch("http://one.test/")).status,
  "import http": () => import("http://one.test/code.js"),
  "import https": () => import("https://one.test/code.js"),
  "import data of http": () => import("data:text/javascript,import 'http://one.test/code.js'"),
  worker: () => new Promise((_, fail) => {
    const worker = new Worker("http://one.test/code.js", { type: "module" });
    worker.onerror = (event) => (event.preventDefault(), fail(new Error(event.message)));
  }),
  npm: () => import("npm:left-pad"),
  jsr: () => import("jsr:@std/path"),
};
const found: Record<string, unknown> = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    found[name] = await attempt();
  } catch (error) {
    found[name] = `${(error as Error).name}: ${(error as Error).message}`;
  }
}
found
"""


async def test_deno_reaches_the_granted_place_and_loads_no_code_from_it(sandboxes):
    """N1, E9: whatever is answered there."""
    asked = []

    async def answer(door):
        while True:
            await anyio.wait_readable(door)
            connection, _ = door.accept()
            with connection:
                asked.append(connection.recv(4096).split(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nContent-Length: 0\r\n\r\n")

    made = sandboxes("typescript", NETWORK, ONE)
    async with made.build() as child, anyio.create_task_group() as tasks:
        for door in child.doors:
            tasks.start_soon(answer, door)
        _, found = await outcome_of(child, made.prepare(REACHES))
        tasks.cancel_scope.cancel()
    assert asked == [b"GET / HTTP/1.1"]
    assert found.pop("fetch") == 200
    assert set(found) == {"import http", "import https", "import data of http", "worker", "npm", "jsr"}
    assert [name for name, failure in found.items() if not re.search("--no-(remote|npm) is specified", failure)] == []


LISTENS = """
import socket
with socket.create_server(("{address}", 5173), family=socket.{family}) as server:
    for _ in range(3):
        with server.accept()[0] as connection:
            connection.sendall(connection.recv(9) + b"!")
"""


@pytest.mark.parametrize(("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
async def test_the_host_connects_to_what_listens_in_a_sandbox_by_sockets_of_it(sandboxes, family, address):
    """P48: one after the other, by the same."""
    made = sandboxes("python", Network(doors=(PROXY,), connectors=(getattr(socket, family),)))
    answers = []

    async def connect(ports):
        while len(answers) < 3:
            with contextlib.suppress(PortError):  # it does not listen yet
                async with ports.connect("it", 5173) as connection:
                    connection.send(b"hello")
                    await anyio.wait_readable(connection)
                    answers.append(connection.recv(9))
            await anyio.lowlevel.checkpoint()

    async with made.build() as child, anyio.create_task_group() as tasks:
        (connector,) = child.connectors.open()
        assert connector.getsockname()[1] == 0
        ports = SandboxPorts()
        ports.add("it", "a server", child.connectors)
        tasks.start_soon(connect, ports)
        await outcome_of(child, made.prepare(LISTENS.format(address=address, family=family)))
    assert answers == [b"hello!"] * 3
