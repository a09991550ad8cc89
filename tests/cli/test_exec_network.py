"""What programs of ``gloveport exec`` reach: the APIs of the configuration, with credentials that they never hold."""

import os
import subprocess

import anyio
import pytest
from tests.egress.world import HOST
from tests.far_side import authority as far_authority
from tests.far_side.app import Response
from tests.far_side.web import web

pytestmark = pytest.mark.anyio

KEY = "sk-of-the-owner-0123456789"
ASK = """\
import json, os, sys, urllib.error, urllib.request
for place in sys.argv[1:]:
    try:
        with urllib.request.urlopen(f"https://{place}/ask", timeout=9) as answer:
            print(answer.read().decode())
    except urllib.error.HTTPError as error:
        print(json.load(error)["code"])
    except OSError as error:
        print(error)
print(os.environ.get("PROVIDER_KEY"))
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return far_authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def provider(authority):
    """Two hosts, which answer with the credential that they got."""

    async def answer(request):
        async def body():
            yield b"you sent " + dict(request.headers).get(b"authorization", b"nothing")

        keys.append(dict(request.headers).get(b"authorization"))
        return Response(body())

    keys = []
    async with web(authority.server("model.test", "other.test")) as server:
        server.app.routes["ask"] = answer
        server.keys = keys
        yield server


@pytest.fixture
def configure(environ, tmp_path, provider, authority):
    """Write a configuration of these APIs; give the environment of the command, and a program that asks them all."""

    def write(**apis):
        (tmp_path / "work").mkdir()
        (tmp_path / "work/ask.py").write_text(ASK)
        (tmp_path / "gloveport.toml").write_text(
            "".join(
                f'[api.{name}]\nhosts = ["{name}.test:{provider.place.port}"]\naddresses = ["{HOST}"]\n'
                f'ca_file = "{authority.ca_file}"\n{lines}\n'
                for name, lines in apis.items()
            )
        )
        told = {**os.environ, **environ, "GLOVEPORT_CONFIG": str(tmp_path / "gloveport.toml"), "OWNERS_KEY": KEY}
        return told, ["--", "python3", "ask.py", *(f"{name}.test:{provider.place.port}" for name in apis)]

    return write


@pytest.fixture
def start(gloveport, configure, tmp_path):
    """Start ``gloveport exec`` of what asks one host, granted with these lines."""
    started = []

    def call(lines):
        told, ask = configure(other=lines)
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        process = gloveport.start(
            "exec", *ask, env=told, cwd=tmp_path / "work", text=True, stdin=subprocess.DEVNULL, **pipes
        )
        started.append(process)
        return process, told

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def run(gloveport, configure, tmp_path):
    """Run ``gloveport exec`` where two APIs are granted, one of them with a key of the owner's."""
    more = {
        "model": 'auth = [{kind = "bearer", secret = "env:OWNERS_KEY"}]\nstand_ins = ["PROVIDER_KEY"]',
        "other": "",
    }
    told, ask = configure(**more)

    def call(*options):
        return gloveport.run("exec", *options, *ask, env=told, cwd=tmp_path / "work")

    async def in_thread(*options):
        return await anyio.to_thread.run_sync(call, *options)

    return in_thread


async def test_a_program_uses_what_is_granted_with_a_key_that_it_never_holds(run, provider, records):
    """E12, N5, P18, P19: the owner's key is put in on the way out, and taken out of what comes back."""
    ended = await run()
    assert provider.keys == [f"Bearer {KEY}".encode(), None]
    model, other, stand_in = ended.stdout.splitlines()
    assert model.startswith("you sent Bearer [secret ")
    assert other == "you sent nothing"
    assert stand_in not in {KEY, "None"}
    assert KEY not in ended.stdout + ended.stderr
    assert KEY not in str(records())
    assert [record.fields["host"] for record in records() if record.kind == "fetch.admitted"] == [
        "model.test",
        "other.test",
    ]


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        (["--api", "other"], ["host_not_granted", "you sent nothing"]),
        (["--no-network"], ["host_not_granted", "host_not_granted"]),
    ],
    ids=lambda options: options[0],
)
async def test_a_program_uses_only_what_its_caller_names(run, provider, options, answers):
    """T1: a request narrows."""
    ended = await run(*options)
    assert ended.stdout.splitlines()[:2] == answers
    assert len(provider.keys) == answers.count("you sent nothing")


async def test_a_refused_request_is_told_at_the_end_once_for_each_host(run, provider):
    """A package manager says only that it has found nothing."""
    ended = await run("--no-network")
    lines = [line for line in ended.stderr.splitlines() if line.startswith("gloveport: no answer to ")]
    for line, host in zip(lines, ("model.test", "other.test"), strict=True):
        assert f"GET https://{host}:{provider.place.port}/ask: No API that this program may use names" in line
    assert "no answer" not in (await run()).stderr


async def test_an_api_that_there_is_not_is_named(run):
    ended = await run("--api", "modle")
    assert ended.returncode == 3
    assert "no API 'modle'" in ended.stderr


async def test_what_a_rule_asks_about_is_shown_and_waits_for_a_yes(start, gloveport):
    """H8: the program waits meanwhile, and need not know."""
    process, told = start('rules = [{action = "ask"}]')
    said = await anyio.to_thread.run_sync(process.stderr.readline)
    assert said.startswith("gloveport: ")
    number = said.split()[-1]
    yes = await anyio.to_thread.run_sync(lambda: gloveport.run("approvals", "approve", "--yes", number, env=told))
    assert yes.returncode == 0, yes.stderr
    stdout, _ = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=30))
    assert stdout.startswith("you sent nothing\n")


AGENT = """\
#!/usr/bin/env python3
import os, pathlib, subprocess, sys, urllib.request
home, package = pathlib.Path.home(), pathlib.Path(__file__).resolve().parents[1]
print("remembers", sorted(one.name for one in home.iterdir()))
(home / sys.argv[1]).write_text("kept")
print("holds", os.environ["PROVIDER_KEY"], os.environ["SETTING"])
print("knows", (package / "data").read_text(), (package.parents[2] / "lib/other").exists())
print("hears", urllib.request.urlopen(f"https://{sys.argv[2]}/ask", timeout=9).read().decode())
"""


@pytest.fixture
def agent(tmp_path):
    """An agent as a package manager has installed it, beside what is nobody's business; gives the directory of PATH."""
    package = tmp_path / "prefix/lib/node_modules/@maker/agent"
    (package / "bin").mkdir(parents=True)
    (package / "bin/run.js").write_text(AGENT)
    (package / "bin/run.js").chmod(0o755)
    (package / "data").write_text("its own")
    (tmp_path / "prefix/lib/other").mkdir()
    (tmp_path / "prefix/bin").mkdir()
    (tmp_path / "prefix/bin/agent").symlink_to("../lib/node_modules/@maker/agent/bin/run.js")
    return tmp_path / "prefix/bin"


async def test_a_whole_agent_has_its_package_a_home_that_stays_and_no_key(
    gloveport, configure, provider, agent, tmp_path
):
    """E12, P7, P18: its model's provider hears the owner's key, never inside; T5: ``exec.programs``."""
    told, _ = configure(
        model='auth = [{kind = "bearer", secret = "env:OWNERS_KEY"}]\nstand_ins = ["PROVIDER_KEY"]',
        other='[exec.programs.agent]\nhome = true\napis = ["model"]\nvariables = {SETTING = "set"}\n',
    )
    told["PATH"] = f"{agent}:{told['PATH']}"
    said = []
    for name in ("first", "second"):
        place = f"model.test:{provider.place.port}"
        ended = await anyio.to_thread.run_sync(
            lambda name=name, place=place: gloveport.run("exec", "agent", name, place, env=told, cwd=tmp_path / "work")
        )
        assert ended.returncode == 0, ended.stderr
        said.append(ended.stdout.splitlines())
    assert [lines[0] for lines in said] == ["remembers []", "remembers ['first']"]
    assert said[0][1].endswith(" set")
    assert said[0][2] == "knows its own False"
    assert said[0][3].startswith("hears you sent Bearer [secret ")
    assert KEY not in str(said)
    assert provider.keys == [f"Bearer {KEY}".encode()] * 2


async def test_a_program_that_is_no_package_is_not_shown_with_what_lies_beside_it(gloveport, configure, tmp_path):
    """P1: a directory of programs may hold anything."""
    told, _ = configure(other="")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "scripts/tool").chmod(0o755)
    told["PATH"] = f"{tmp_path}/scripts:{told['PATH']}"
    ended = await anyio.to_thread.run_sync(lambda: gloveport.run("exec", "tool", env=told, cwd=tmp_path / "work"))
    assert ended.returncode == 2
    assert "workspace.toolchains" in ended.stderr


@pytest.mark.parametrize("name", ["tool", "{work}/bin/tool"])
async def test_a_link_of_the_workspace_to_a_package_of_the_owner_does_not_show_it(
    gloveport, configure, agent, tmp_path, name
):
    """P1: a repository may bring it, in a directory that is on PATH while its environment is active."""
    told, work = configure(other="")[0], tmp_path / "work"
    (work / "bin").mkdir()
    (work / "bin/tool").symlink_to(agent / "agent")
    told["PATH"] = f"{work}/bin:{told['PATH']}"
    arguments = ("exec", name.format(work=work), "first", "localhost")
    ended = await anyio.to_thread.run_sync(lambda: gloveport.run(*arguments, env=told, cwd=work))
    assert (ended.returncode, ended.stdout) == (127, "")
