"""W1: names, fields, bounds, defaults, answers and errors of the tools, against those of coding-tools-mcp 0.5.0.

``coding_tools_mcp.toml`` holds what 0.5.0 has; where ours is another, it says so, and why.
"""

import re
import struct
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.server.workspace.served import opened

from gloveport.server.protocol import make_server
from gloveport.server.tools import offer
from gloveport.workspace.errors import WORKSPACE_CODES

pytestmark = pytest.mark.anyio

KNOWN = tomllib.loads(Path(__file__).with_name("coding_tools_mcp.toml").read_text())
ANNOTATIONS = {name: tuple(annotation) for name, annotation in KNOWN["annotations"].items()}
KINDS = {
    (True, False, True, False): "reads",
    (False, True, False, False): "writes",
    (False, True, False, True): "runs",
    (False, False, False, False): "feeds",
}
RETRYABLE = {"PATCH_CONTEXT_NOT_FOUND", "PATCH_CONTEXT_AMBIGUOUS", "REVISION_REQUIRED", "REVISION_MISMATCH"}
RETRYABLE |= {"PERMISSION_REQUIRED"}  # CT-G4: as permission_request says, for somebody can permit it

WRONG = [
    ({"path": 3}, "path: should be a valid string"),
    ({"path": ""}, "path: String should have at least 1 character"),
    ({"path": "a.txt", "lines": 1}, "lines: there is no such argument"),
    ({"path": "a.txt", "start_line": 0}, "start_line: should be greater than or equal to 1"),
    ({"path": "a.txt", "encoding": "latin1"}, "encoding: should be 'utf-8'"),
]


def picture() -> bytes:
    """A PNG of 2001 pixels, of more than a kibibyte."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x40\x80\xc0" * 40 for _ in range(30)), level=0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    async with opened(Path(tmp_path_factory.mktemp("contract")), mode="safe") as one:
        one.write("a.txt", "one\ntwo\nthree\n")
        one.write("same", "s\ns\n")
        one.write("wide.txt", "wide" * 100 + "\n")
        for name, content in (("binary", b"\0"), ("latin", b"caf\xe9"), ("picture.png", picture())):
            one.write(name, "").write_bytes(content)
        one.git("add", "-A")
        one.git("commit", "-qm", "first")
        one.git("commit", "-qm", "second", "--allow-empty")
        (one.root / "out").symlink_to("/etc/hostname")
        (one.root / "up").symlink_to("/etc")
        yield one


def fields(text: str) -> dict[str, dict[str, Any]]:
    """What a tool takes, by names."""
    split = [one.strip().partition(" ") for one in text.split(";") if one.strip()]
    return {name.rstrip("*"): {**field(rest), "required": name.endswith("*")} for name, _, rest in split}


def field(text: str) -> dict[str, Any]:
    words, equals, default = text.partition(" =") if " =" in text else (text, "", "")
    kind, _, bounds = words.partition(" ")
    least, _, most = bounds.partition("..")
    values = {"true": True, "false": False}
    typed = int(default) if kind == "int" and equals else values.get(default, default)
    return {"kind": kind, "least": least, "most": most, "default": typed if equals else None}


def as_field(schema: dict[str, Any], whole: dict[str, Any], default: Any, *, required: bool) -> dict[str, Any]:
    """A property of a served schema, as ``field`` has it; ``whole`` has the bounds that are not served as well."""
    whole = next((one for one in whole.get("anyOf", ()) if one != {"type": "null"}), whole)
    assert {**whole, **{key: schema[key] for key in ("maximum", "maxLength", "maxItems") if key in schema}} == whole
    kinds = {"string": "str", "integer": "int", "boolean": "bool", "object": "object"}
    kind = kinds.get(schema.get("type", ""), "")
    if schema.get("type") == "array":
        kind = f"[{kinds[schema['items']['type']]}]"
    if choices := schema.get("enum") or [schema[name] for name in ("const",) if name in schema]:
        kind = "|".join(choices)
    bounds = [[whole.get(f"{end}{what}") for what in ("imum", "Length", "Items")] for end in ("min", "max")]
    least, most = (next((str(one) for one in every if one is not None), "") for every in bounds)
    return {"kind": kind, "least": least, "most": most, "default": default, "required": required}


@pytest.mark.parametrize("name", KNOWN["inputs"])
async def test_a_tool_takes_what_it_is_known_to_take(served, name):
    """W1. CT-U10, CT-G5: bounds and defaults are those that the table, and the tool, really have."""
    expected = fields(KNOWN["inputs"][name])
    for argument, text in KNOWN["ours"].get(name, {}).items():
        required = expected.get(argument, {}).get("required", False) and not text.startswith("optional ")
        expected[argument] = {**field(text.removeprefix("optional ")), "required": required}
    tool = next(one for one in offer.describe_tools(served.service, "0") if one.name == name)
    listed = next(one for one in (await served.client.list_tools()).tools if one.name == name)
    properties, required = listed.input_schema["properties"], listed.input_schema.get("required", [])
    models = tool.fn_metadata.arg_model.model_fields
    whole = tool.fn_metadata.arg_model.model_json_schema()["properties"]
    got = {
        argument: as_field(
            schema,
            whole[argument],
            None if argument in required else models[argument].default,
            required=argument in required,
        )
        for argument, schema in properties.items()
    }
    assert got == expected
    assert listed.input_schema["additionalProperties"] is False


async def test_what_a_caller_names_itself_is_open(served):
    """A client that checks arguments by the schema lets variables, and the arguments of another tool, through."""
    listed = {one.name: one.input_schema["properties"] for one in (await served.client.list_tools()).tools}
    assert listed["exec_command"]["env"].get("additionalProperties") is not False
    assert listed["request_permissions"]["arguments"] == {"type": "object"}


async def test_programs_are_told_what_each_answer_has(served):
    """W1: as 0.5.0 does; but for pictures, which would be left out for it."""
    files = {one.name for one in offer.describe_tools(served.service, "0")}
    listed = {one.name: one.output_schema for one in (await served.client.list_tools()).tools if one.name in files}
    assert listed.pop("view_image") is None
    assert all(schema["required"] == ["ok"] for schema in listed.values())


async def test_tools_are_annotated_as_what_they_are(served):
    """W1. CT-U9: nothing changes these; CT-U5: a third of the size in which 0.5.0 serves them."""
    listed = (await served.client.list_tools()).tools
    marks = {one.name: tuple(one.annotations.model_dump(by_alias=False).values())[1:] for one in listed}
    got = {one.name: (one.title, KINDS.get(marks[one.name])) for one in listed}
    assert {name: got[name] for name in ANNOTATIONS} == ANNOTATIONS
    ours = [one for one in listed if one.name in {*ANNOTATIONS, "undo_patch", "kill_session"}]
    assert len(ours) == len(ANNOTATIONS) + 2
    assert sum(len(one.model_dump_json(exclude_none=True, by_alias=True)) for one in ours) < 16_000


@pytest.mark.parametrize(("tool", "arguments"), KNOWN["calls"])
async def test_an_answer_has_the_fields_that_it_is_known_to_have_and_no_others(served, tool, arguments):
    """W1. CT-U6."""
    answer = await served.told(tool, **arguments)
    check(tool, {name: value for name, value in answer.items() if name != "ok"}, f"{{{KNOWN['outputs'][tool]}}}")


async def test_a_command_that_goes_on_is_told_of_in_the_same_fields(served):
    """W1. CT-U7: nothing is no line. CT-U12: what to do next is always a call."""
    begun = await served.told("exec_command", cmd="sleep 60", yield_time_ms=0)
    assert (begun["status"], begun["stdout_output_lines"]) == ("running", 0)
    assert begun["next_action"]["tool"] == "write_stdin"
    polled = await served.told("write_stdin", command_id=begun["command_id"], yield_time_ms=0)
    killed = await served.told("kill_command", command_id=begun["command_id"])
    read = await served.told("read_output", output_ref=f"command:{begun['command_id']}:stdout")
    for tool, answer in (("write_stdin", polled), ("kill_command", killed), ("read_output", read)):
        check(tool, {name: value for name, value in answer.items() if name != "ok"}, f"{{{KNOWN['outputs'][tool]}}}")
    assert (killed["killed"], killed["evicted"]) == (True, False)


@pytest.mark.parametrize(("tool", "arguments", "code", "details"), KNOWN["errors"])
async def test_an_error_has_the_shape_and_the_code_that_clients_know(served, tool, arguments, code, details):
    """W1."""
    answer = await served.call(tool, **arguments)
    assert answer.is_error
    told = answer.structured_content
    check("error", told["error"], "{code str, message str, category str, retryable bool, details object}")
    error = told["error"]
    assert (error["code"], error["category"]) == (code, WORKSPACE_CODES[code])
    assert error["retryable"] == (code in RETRYABLE)
    assert {*details} <= error["details"].keys()
    extra = {"permission_request"} if code == "PERMISSION_REQUIRED" else set()
    if error["details"].get("permission") == "sensitive_env":
        check("diagnostics", told["diagnostics"], "[{code str, severity str, evidence str, suggested_fix str}]")
        assert [one["code"] for one in told["diagnostics"]] == ["SECRET_ENV_REJECTED"]
        extra |= {"diagnostics"}
    assert told.keys() == {"ok", "error"} | ({"status"} | extra if tool == "exec_command" else set())
    assert told.get("status", "failed") == "failed"
    text = answer.content[0].text
    assert text.startswith(f"{code}: ")
    assert f"Category: {error['category']}. Retryable: {'yes' if error['retryable'] else 'no'}" in text


@pytest.mark.parametrize(("arguments", "fault"), WRONG)
async def test_wrong_arguments_are_an_error_of_the_tool(served, arguments, fault):
    """W1. There they are a protocol error, -32602, which the model never sees."""
    error = await served.refused("read_file", **arguments)
    assert (error["code"], error["category"], error["retryable"]) == ("INVALID_ARGUMENT", "validation", False)
    assert fault in error["message"]
    assert error["details"]["retry_hint"].startswith("the arguments are path, start_line")


async def test_a_wrong_part_of_many_is_named_and_not_all_of_them(served):
    """P14."""
    error = await served.refused("apply_changes", changes=[{"action": "hop", "path": "x"} for _ in range(100)])
    assert "changes.0.action: should be 'create'" in error["message"]
    assert len(error["message"]) < 4000


async def test_a_fault_of_ours_has_the_shape_of_an_error_and_does_not_tell_what_it_was(served, monkeypatch, caplog):
    """W1."""

    def broken(*_arguments, **_more):
        raise RuntimeError("a path of the host")

    monkeypatch.setattr("gloveport.workspace.files.line_reader._scan_all", broken)
    error = await served.refused("read_file", path="a.txt")
    assert (error["code"], error["category"]) == ("INTERNAL_ERROR", "internal")
    assert "host" not in str(error)
    assert "a path of the host" in caplog.text


@pytest.mark.parametrize("toolsets", [("workspace",), ("code", "workspace")])
async def test_who_needs_no_programs_is_not_told_of_them(served, toolsets):
    settings = served.service.config.workspace.model_copy(update={"toolsets": toolsets})
    config = served.service.config.model_copy(update={"workspace": settings})
    server = make_server(served.engine, config, served.environ, "stdio", served.service)
    async with Client(server, mode="legacy") as client:
        names = {one.name for one in (await client.list_tools()).tools}
        assert {*ANNOTATIONS} <= names
        assert ("execute_code" in names) == ("code" in toolsets)
        assert ("sealed sandboxes" in client.instructions) == ("code" in toolsets)


def check(where: str, value: Any, shape: str) -> None:
    """See that a value has this shape."""
    if shape.startswith("{"):
        assert isinstance(value, dict), where
        known = dict(named(shape[1:-1]))
        assert value.keys() <= {name.lstrip("?") for name in known}, f"{where}: sent, and not declared"
        for name, kind in known.items():
            if name.lstrip("?") in value:
                check(f"{where}.{name}", value[name.lstrip("?")], kind)
            else:
                assert name.startswith("?"), f"{where}.{name} is not sent"
    elif shape.startswith("["):
        assert isinstance(value, list), where
        for one in value:
            check(where, one, shape[1:-1])
    else:
        kinds = {"str": str, "int": int, "bool": bool, "null": type(None), "object": dict}
        assert type(value) in {kinds[kind] for kind in shape.split("|")}, f"{where}: {value!r} is no {shape}"


def named(text: str) -> list[tuple[str, str]]:
    """``a int, b {c str}`` as names and shapes."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    split = [re.match(r"\s*(\S+)\s+(.*)", part, re.DOTALL) for part in (*parts, text[start:])]
    return [(one[1], one[2].strip()) for one in split if one]
