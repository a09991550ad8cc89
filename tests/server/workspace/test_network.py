"""What commands reach: through the door, what the operator granted for them, and nothing else."""

import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import pip
import pytest
from tests.egress.world import HOST
from tests.far_side import authority as far_authority
from tests.far_side.app import Response
from tests.far_side.web import web
from tests.server.workspace.served import opened

from gloveport.engine.reach import Reach

pytestmark = pytest.mark.anyio

NAMES = ("alpha.test", "beta.test", "off.test")
SERVERS = {"far": {"command": [sys.executable, "-c", "import sys; sys.stdin.read()"]}}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return far_authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
async def far(authority):
    """An index of packages, and what else an HTTP server has."""

    async def index(request):
        if request.target == "/simple/demo/":
            return whole(b'<a href="/simple/demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>', b"text/html")
        return whole(wheel(), b"application/octet-stream")

    async with web(authority.server(*NAMES)) as server:
        server.app.routes["simple"] = index
        yield server


def whole(content, kind):
    async def body():
        yield content

    return Response(body(), headers=[(b"content-type", kind), (b"content-length", b"%d" % len(content))])


def wheel():
    """A package whose module says hello."""
    name, buffer = "demo-1.0.dist-info", io.BytesIO()
    files = {
        "demo.py": "print('hello of demo')\n",
        f"{name}/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        f"{name}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{name}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{name}/RECORD"])
    with zipfile.ZipFile(buffer, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return buffer.getvalue()


@pytest.fixture
def apis(far, authority):
    """Each name is an API; the last one is not active."""
    there = {"addresses": [HOST], "ca_file": authority.ca_file}
    return {
        name.partition(".")[0]: {"hosts": [f"{name}:{far.place.port}"], "active": name != "off.test", **there}
        for name in NAMES
    }


@pytest.fixture
def serve(tmp_path, apis):
    """Serve a workspace with these settings, and these APIs to be granted."""

    @contextlib.asynccontextmanager
    async def make(tables=None, **settings):
        tables = {"api": apis, "servers": SERVERS, **(tables or {})}
        async with opened(tmp_path, tables=tables, **{"mode": "safe", **settings}) as one:
            yield one

    return make


async def reached(served, port, **how):
    """Which of the names a command reaches. It says nothing of what it asks for, so no gate is in the way."""
    script = (
        "import os, ssl, sys, urllib.request, urllib.error\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, urllib.request.urlopen(f'https://{name}:PORT/status/204', timeout=9).status)\n"
        "    except (OSError, ssl.SSLError): pass\n"
    )
    served.write("ask.py", script.replace("PORT", str(port)))
    said = await served.out(f"python3 ask.py {' '.join(NAMES)}", **how)
    return {line.split()[0] for line in said.splitlines()}


@pytest.mark.parametrize(
    ("settings", "granted"),
    [
        ({}, []),
        ({"hosts": ["alpha.test"]}, ["alpha.test"]),
        ({"hosts": ["*.test"]}, ["alpha.test", "beta.test"]),
        ({"mode": "trusted"}, ["alpha.test", "beta.test"]),
        ({"mode": "trusted", "gates": {"network": "deny"}}, []),
        ({"mode": "dangerous"}, ["alpha.test", "beta.test"]),
    ],
    ids=str,
)
async def test_a_command_reaches_what_is_granted_for_it_and_no_more(serve, far, settings, granted):
    """W4, W5, N2: an API that is not active is nobody's, in no mode."""
    async with serve(**settings) as served:
        assert await reached(served, far.place.port) == set(granted)


async def test_what_is_taken_away_while_the_server_runs_is_gone_for_the_next_command(serve, far):
    """W4, N2: and what is given, or named otherwise, waits for a restart: addresses inside are those of the start."""
    async with serve(mode="trusted") as served:
        assert await reached(served, far.place.port) == {"alpha.test", "beta.test"}
        take_away(served.engine, "alpha")
        assert await reached(served, far.place.port) == {"beta.test"}


def take_away(engine, name):
    """As a reload of a configuration without this API."""
    before = engine.reach
    left = {api: value for api, value in before.egress.apis.items() if api != name}
    egress = before.egress.model_copy(update={"apis": left})
    engine.reach = Reach(egress, engine.gateway.authority.certificate, before.servers, before.sampling)


async def test_what_is_taken_away_while_a_command_waits_for_its_packages_is_gone_when_it_begins(serve, far):
    """W4, N2."""

    content, file = wheel(), "demo-1.0-py3-none-any.whl"
    page = f'<a href="{file}#sha256={hashlib.sha256(content).hexdigest()}">{file}</a>'

    async def index(request):
        take_away(served.engine, "beta")
        return whole(content, b"application/zip") if file in request.target else whole(page.encode(), b"text/html")

    far.app.routes["index"] = index
    tables = {
        "packages": {"indexes": [f"https://alpha.test:{far.place.port}/index"], "cooldown_days": 0},
        "environments": {"one": {"python": ["demo"]}},
    }
    async with serve(tables, mode="trusted") as served:
        assert await reached(served, far.place.port, environment="one") == {"alpha.test"}


async def test_commands_have_no_door_to_the_tools_of_other_servers(serve):
    """W4, H5: those are for programs that are asked about."""
    async with serve(mode="dangerous") as served:
        assert "GLOVEPORT_HUB" not in await served.out("env")
        probe = "python3 -c 'import socket; print(socket.socket().connect_ex((\"127.0.0.3\", 3128)))'"
        assert (await served.out(probe)).strip() != "0"


async def test_a_toolchain_below_tmp_is_found_by_commands(serve):
    """W4: where a command has a directory of its own, it is shown elsewhere."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        tool = Path(directory, "kit/bin/greet")
        tool.parent.mkdir(parents=True)
        tool.write_text("#!/bin/sh\necho hello from $0\n")
        for path in (Path(directory), tool.parent.parent, tool.parent, tool):
            path.chmod(0o755)
        async with serve(toolchains=[f"{directory}/kit"]) as served:
            assert await served.out("greet") == "hello from /opt/toolchains/0/kit/bin/greet\n"


async def test_pip_installs_from_a_granted_index(serve, far):
    """W4: with the cache of the workspace, and nothing but the index within reach."""
    directory = Path(pip.__file__).resolve().parent.parent  # which may lie below /tmp, with all of this checkout
    index = f"https://alpha.test:{far.place.port}/simple"
    async with serve(hosts=["alpha.test"], toolchains=[str(directory)]) as served:
        inside = (await served.out(f"echo $PATH | tr : '\\n' | grep {directory.name}")).strip()
        command = f"python3 {inside}/pip/__main__.py install -q --index-url {index} --target lib demo"
        told = await served.run(command)
        assert told["exit_code"] == 0, told
        assert (await served.out("PYTHONPATH=lib python3 -m demo")) == "hello of demo\n"
    requests = [record for record in served.records() if record.kind == "fetch.admitted"]
    assert {record.fields["host"] for record in requests} == {"alpha.test"}


async def test_a_refused_request_is_told_with_what_would_allow_it(serve, far):
    """W4, N9: whoever reads the answer need not guess from what a client of TLS makes of it."""
    async with serve(hosts=["alpha.test"]) as served:
        script = (
            "import sys, urllib.request\n"
            "for host in ('beta.test:PORT', 'pypi.org', 'elsewhere.test', 'pypi.org'):\n"
            "    try: urllib.request.urlopen(f'https://{host}/', timeout=9)\n"
            "    except OSError: pass\n"
            "sys.exit(1)\n"
        )
        served.write("refused.py", script.replace("PORT", str(far.place.port)))
        told = await served.run("python3 refused.py")
        said = {one["evidence"]: one["suggested_fix"] for one in told["diagnostics"]}
        assert len(said) == 3
        remedies = dict(zip(("beta.test", "pypi.org", "elsewhere.test"), said.values(), strict=True))
        assert 'hosts = ["beta.test"] in [workspace]' in remedies["beta.test"]
        assert "[api." not in remedies["beta.test"]
        assert 'hosts = ["@pypi"] in [workspace]' in remedies["pypi.org"]
        assert '[api.NAME] hosts = ["elsewhere.test"]' in remedies["elsewhere.test"]
        assert "pypi.org" in list(said)[1]
        shown = (await served.call("exec_command", cmd="python3 refused.py", yield_time_ms=30_000)).content[0].text
        assert "@pypi" in shown


async def test_a_name_that_leads_nowhere_is_told_with_what_would_allow_it(tmp_path):
    """W4: where nothing at all is granted no request is made that could be refused."""
    async with opened(tmp_path, mode="trusted") as served:
        for more in ({}, {"session": "new"}):
            told = await served.run("curl -sS https://index.crates.io/config.json", **more)
            (one,) = told["diagnostics"]
            assert "index.crates.io" in one["evidence"]
            assert 'hosts = ["@crates"] in [workspace]' in one["suggested_fix"]


async def test_what_no_permission_opens_is_not_asked_for(serve, far):
    """H8: a person would grant it, and the command fail all the same."""
    async with serve() as served:

        async def asked(cmd):
            wanted = {"tool_name": "exec_command", "permission": "network", "reason": "r", "arguments": {"cmd": cmd}}
            return (await served.call("request_permissions", **wanted)).structured_content

        shown = (await served.call("exec_command", cmd="curl https://pypi.org/project/six/")).content[0].text
        assert ("Retryable: no" in shown, "@pypi" in shown, "request_permissions" in shown) == (True, True, False)
        shown = (await served.call("exec_command", cmd=f"curl https://alpha.test:{far.place.port}/")).content[0].text
        assert ("Retryable: yes" in shown, "request_permissions" in shown) == (True, True)
        refused = await asked("curl https://pypi.org/project/six/")
        assert (refused["status"], refused["ok"]) == ("denied", False)
        assert "@pypi" in refused["error"]["message"]
        assert (await asked(f"curl https://alpha.test:{far.place.port}/"))["status"] != "denied"


async def test_a_permission_opens_the_host_that_was_asked_for_to_that_command_alone(serve, far, gloveport, tmp_path):
    """H8, W5: granted means that it goes through; the next command is asked about again."""
    empty = tmp_path / "gloveport.toml"
    empty.touch(mode=0o600)
    async with serve() as served:
        cmd = f"curl -sS -o /dev/null -w '%{{http_code}}' https://alpha.test:{far.place.port}/status/204"
        call = {"cmd": cmd, "yield_time_ms": 30_000}
        wanted = {"tool_name": "exec_command", "permission": "network", "reason": "r", "arguments": call}
        told = (await served.call("request_permissions", **wanted)).structured_content
        (identifier,) = re.findall(r"apr-[0-9a-f]+", told["message"])
        environ = {**os.environ, **served.environ, "GLOVEPORT_CONFIG": str(empty)}
        assert "alpha.test" in gloveport.run("approvals", "list", env=environ).stdout
        done = gloveport.run("approvals", "approve", identifier, "--yes", env=environ)
        assert done.returncode == 0, done.stderr
        assert (await served.call("request_permissions", **wanted)).structured_content["status"] == "granted"
        assert (await served.run(cmd))["stdout"] == "204"
        assert (await served.refused("exec_command", **call))["code"] == "PERMISSION_REQUIRED"
