"""P14: arguments of any number and length get one short answer."""

import pytest
from mcp.server.mcpserver.tools import Tool

from gloveport.server.tools.argument_check import _faults


def run(language: str, code: str) -> None:
    """A tool."""


def select(code: str, names: list[str] | None = None, only: str | None = None) -> None:
    """Another tool."""


@pytest.mark.parametrize(
    "arguments", [{f"name{number}": 1 for number in range(50_000)}, {"x" * 2_000_000: 1}], ids=["many", "long"]
)
def test_unknown_arguments_are_named_up_to_a_bound(arguments):
    faults = _faults(Tool.from_function(run), {"language": "python", "code": "1", **arguments})
    assert 1 <= len(faults) <= 21
    assert len("".join(faults)) < 4000


@pytest.mark.parametrize("name", ["names", "only"])
def test_a_text_of_very_many_values_is_not_parsed(name):
    """The SDK parses texts in place of arrays: 1.8 MB of `[],` kept everybody waiting for 0.4 s."""
    tool = Tool.from_function(select)
    (fault,) = _faults(tool, {"code": "1", name: "[" + "[]," * 600_000 + "0]"})
    assert fault == f"- {name}: a text of JSON with more than 20000 values is not read"


def test_a_text_of_any_length_stays_a_text():
    tool = Tool.from_function(select)
    assert not _faults(tool, {"code": "[" + "[]," * 30_000 + "0]", "names": '["' + "," * 30_000 + '"]'})
