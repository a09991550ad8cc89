"""What Deno may do for a grant, by its command line."""

import json

import pytest

from gloveport.model import Grant
from gloveport.model.egress import Api, Egress, Placeholder
from gloveport.model.hub import Sampling, ServerPolicy, Toolbox
from gloveport.runtimes import typescript

KEY = Placeholder(kind="placeholder", name="ONE_KEY", secret="env:X", places=("header:X-Key",))
APIS = {
    "one": Api(hosts=("one.test", "http://ONE.test:8080", "*.two.test"), auth=(KEY,)),
    "raw": Api(hosts=("tcp://db.test:5432", "https://[2001:db8::1]:8443")),
    "off": Api(hosts=("off.test",), active=False),
}
OF_NODE = ["--allow-sys=ca", "--allow-env=NODE_USE_SYSTEM_CA,ONE_KEY"]


@pytest.fixture(scope="module")
def permissions():
    """``permissions(egress, **grant)``: the words of the command line that allow the network or the environment."""
    deno = typescript.find(None, "typescript")

    def words(egress, **grant):
        argv = deno.prepare("", Grant(egress=egress, **grant)).argv
        assert {"--no-remote", "--no-npm", "--cached-only"} <= set(argv)
        return [
            word for word in argv if word.startswith(("--allow-net", "--allow-env", "--allow-sys", "--allow-import"))
        ]

    return words


def test_nothing_is_allowed_where_nothing_may_be_reached(permissions):
    """T4, E9."""
    assert permissions(Egress()) == []
    assert permissions(Egress(apis={"off": APIS["off"]})) == []


def test_the_network_is_left_to_the_doors_and_placeholders_are_allowed(permissions):
    """N5, N10: what may not be reached is refused by a door, which says why."""
    assert permissions(Egress(apis=APIS)) == ["--allow-net", *OF_NODE]
    assert permissions(Egress(yolo=True)) == ["--allow-net", "--allow-sys=ca", "--allow-env=NODE_USE_SYSTEM_CA"]


TOOLBOX, SAMPLING = Toolbox(servers={"one": ServerPolicy()}), Sampling(enabled=True)
HUB = "127.0.0.3:3128"


def test_tools_and_a_language_model_open_the_one_door_where_they_are(permissions):
    """T4, H2, H7: and where there is a way out over HTTP, the network is open already."""
    assert permissions(Egress(), toolbox=TOOLBOX) == [f"--allow-net={HUB}"]
    assert permissions(Egress(), sampling=SAMPLING) == [f"--allow-net={HUB}"]
    assert permissions(Egress(apis=APIS), toolbox=TOOLBOX) == ["--allow-net", *OF_NODE]


@pytest.mark.parametrize(
    ("grant", "hub"),
    [({}, ""), ({"sampling": Sampling(rounds=3)}, ""), ({"toolbox": TOOLBOX}, HUB), ({"sampling": SAMPLING}, HUB)],
)
def test_a_program_is_told_where_the_tools_are_and_who_needs_none_does_not_load_them(grant, hub):
    """H2: without a variable of the environment, which Deno may not read."""
    for language in ("typescript", "javascript"):
        program = typescript.find(None, language).prepare("1", Grant(**grant))
        assert json.loads(program.text)["hub"] == hub
        assert program.argv[-2].endswith("/run_with_tools.mjs" if hub else "/run.mjs")
        assert program.waiting == (*program.argv, "wait")


def test_types_are_for_typescript_alone():
    """N9."""
    for language, expected in (("typescript", True), ("javascript", False)):
        text = typescript.find(None, language).prepare("1", Grant(), types="interface Marked {}").text
        assert ("Marked" in text) == expected
