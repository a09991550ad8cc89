"""P14: arguments of any number and length get one short answer."""

import pytest
from mcp.server.mcpserver.tools import Tool

from gloveport.server.tools.argument_check import _faults


def run(language: str, code: str) -> None:
    """A tool."""


@pytest.mark.parametrize(
    "arguments", [{f"name{number}": 1 for number in range(50_000)}, {"x" * 2_000_000: 1}], ids=["many", "long"]
)
def test_unknown_arguments_are_named_up_to_a_bound(arguments):
    faults = _faults(Tool.from_function(run), {"language": "python", "code": "1", **arguments})
    assert 1 <= len(faults) <= 21
    assert len("".join(faults)) < 4000
