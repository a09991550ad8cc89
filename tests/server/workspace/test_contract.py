"""W1: names, fields, bounds, defaults, answers and errors of the tools, against those of coding-tools-mcp 0.5.0.

The tables hold what 0.5.0 has. Where ours is another, ``OURS`` says so, and why.
"""

import re
import struct
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

INPUTS = {
    "server_info": "",
    "check_exec_environment": "",
    "read_file": "path* str 1..; start_line int 1.. =1; end_line int 1..; max_lines int 1..;"
    " max_bytes int 1..1048576 =131072; encoding utf-8 =utf-8",
    "list_dir": "path str =.; recursive bool =false; max_depth int 1..20 =1; max_entries int 1..10000 =1000;"
    " include_hidden bool =false; include_ignored bool =false; sort name|type|modified =name",
    "list_files": "path str =.; patterns [str]; glob str; exclude_patterns [str]; include_hidden bool =false;"
    " include_ignored bool =false; max_results int 1..50000 =5000; sort path|modified =path",
    "search_text": "query* str 1..; path str =.; regex bool =false; case_sensitive bool =false; include_globs [str];"
    " glob str; exclude_globs [str]; context_lines int 0..5 =0; max_results int 1..10000 =1000;"
    " max_preview_bytes int 80..4096 =512",
    "apply_patch": "patch* str 1..; dry_run bool =false; idempotency_key str 1..128",
    "apply_changes": "changes* [object] ..100; dry_run bool =false; idempotency_key str 1..128",
    "exec_command": "cmd* str 1..; workdir str =.; cwd str; timeout_ms int 1..600000 =300000;"
    " yield_time_ms int 0..30000 =10000; max_output_bytes int 1..1048576 =65536; verbosity summary|preview|full;"
    " preview_bytes int 1..1048576 =4096; stdin str =; tty bool =false; env object",
    "write_stdin": "command_id* str 1..; chars str =; yield_time_ms int 0..30000 =10000;"
    " max_output_bytes int 1..1048576 =65536; verbosity summary|preview|full; preview_bytes int 1..1048576 =4096",
    "kill_command": "command_id* str 1..; signal TERM|KILL|INT =TERM; wait_ms int 0..30000 =5000;"
    " kill_wait_ms int 0..30000 =2000; max_output_bytes int 1..1048576 =65536; verbosity summary|preview|full;"
    " preview_bytes int 1..1048576 =4096",
    "read_output": "output_ref* str 1..; stream stdout|stderr; offset int 0.. =0; limit int 1..1048576 =4096",
    "git_status": "path str =.; include_untracked bool =true; max_entries int 1..10000 =1000",
    "git_diff": "path str; paths [str]; staged bool =false; unstaged bool =true; include_untracked bool =true;"
    " context_lines int 0..20 =3; max_bytes int 1..1048576 =262144",
    "git_log": "path str =.; ref str =HEAD; max_count int 1..100 =20; skip int 0..10000 =0",
    "git_show": "rev str =HEAD; path str; paths [str]; include_diff bool =true; context_lines int 0..20 =3;"
    " max_bytes int 1..1048576 =262144",
    "git_blame": "path* str 1..; rev str; start_line int 1.. =1; end_line int 1..; max_lines int 1..1000 =200",
    "request_permissions": "tool_name* exec_command|apply_patch; permission* network|destructive_command|long_timeout|"
    "sensitive_env|shell_expansion|inline_script|privileged_executable; reason* str 1..; arguments* object;"
    " scope once|session =once; ttl_seconds int 1..3600 =300",
    "view_image": "path* str 1..; max_bytes int 1024..10485760 =5242880; max_width int 1..10000 =2000;"
    " max_height int 1..10000 =2000; auto_resize bool =true",
}
"""``name* type least..most =default``; ``*`` is required."""

OURS = {
    # "" is no path, and is refused before anything is looked up, as it was after.
    ("list_dir", "path"): "str 1.. =.",
    ("list_files", "path"): "str 1.. =.",
    ("search_text", "path"): "str 1.. =.",
    ("git_status", "path"): "str 1.. =.",
    ("git_log", "path"): "str 1.. =.",
    # Patterns are bounded in number: they cost time for every file.
    ("list_files", "patterns"): "[str] ..100",
    ("list_files", "exclude_patterns"): "[str] ..100",
    ("search_text", "include_globs"): "[str] ..100",
    ("search_text", "exclude_globs"): "[str] ..100",
    ("git_diff", "paths"): "[str] ..100",
    ("git_show", "paths"): "[str] ..100",
    # The gate long_timeout decides, not the schema (CT-G5); and a pipe can be fed, a terminal sized (CT-L9, CT-L10).
    ("exec_command", "timeout_ms"): "int 1..3600000 =300000",
    ("exec_command", "cmd"): "str 1..1048576",
    ("exec_command", "keep_stdin"): "bool =false",
    ("exec_command", "rows"): "int 1..1000",
    ("exec_command", "columns"): "int 1..1000",
    ("write_stdin", "rows"): "int 1..1000",
    ("write_stdin", "columns"): "int 1..1000",
    # No id of ours is longer.
    ("write_stdin", "command_id"): "str 1..256",
    ("kill_command", "command_id"): "str 1..256",
    ("read_output", "output_ref"): "str 1..256",
    # All tools and gates that can ask (CT-G5); the reason is read by a person.
    ("request_permissions", "tool_name"): "exec_command|apply_patch|apply_changes",
    ("request_permissions", "permission"): "network|destructive_command|long_timeout|sensitive_env|shell_expansion|"
    "inline_script|privileged_executable|write_generated_or_ignored",
    ("request_permissions", "reason"): "str 1..2000",
}

READS, WRITES, RUNS, FEEDS = (
    (True, False, True, False),
    (False, True, False, False),
    (False, True, False, True),
    (False, False, False, False),
)
ANNOTATIONS = {
    "server_info": ("Server info", READS),
    "check_exec_environment": ("Check exec environment", READS),
    "read_file": ("Read file", READS),
    "list_dir": ("List directory", READS),
    "list_files": ("List files", READS),
    "search_text": ("Search text", READS),
    "apply_patch": ("Apply patch", WRITES),
    "apply_changes": ("Apply changes", WRITES),
    "exec_command": ("Execute command", RUNS),
    "write_stdin": ("Write stdin", FEEDS),
    "kill_command": ("Kill command", WRITES),
    "read_output": ("Read output", READS),
    "git_status": ("Git status", READS),
    "git_diff": ("Git diff", READS),
    "git_log": ("Git log", READS),
    "git_show": ("Git show", READS),
    "git_blame": ("Git blame", READS),
    "request_permissions": ("Request permissions", FEEDS),  # not READS, as there: ours grants something
    "view_image": ("View image", READS),
}

FILES = "[{path str, type str, size_bytes int, modified str}]"
CUT = "truncated bool, truncated_by str|null, output_lines int, output_bytes int, warnings [str]"
WRITTEN = (
    "dry_run bool, clean bool, already_applied bool, revision_algorithm str, summary str, additions int, removals int,"
    " warnings [str], ?idempotent_replay bool, affected_files [{path str, operation str, ?revision str,"
    " total_lines int, changed_ranges [{start_line int, end_line int, added_lines int, removed_lines int}],"
    " ?old_path str, ?match_quality str}]"
)
ACTION = "{tool str, arguments object}"
STREAMS = "".join(
    f", ?{name} str, ?{name}_truncated bool, ?{name}_truncated_by str|null, ?{name}_output_lines int,"
    f" ?{name}_output_bytes int, {name}_dropped_bytes int, ?{name}_omitted_bytes int"
    for name in ("stdout", "stderr")
)
COMMAND = (
    "command_id str, status str, operation_outcome str, exit_code int|null, signal str|null, timed_out bool,"
    " truncated bool, ?warnings [str], ?diagnostics [{code str, severity str, evidence str, suggested_fix str}],"
    f" ?next_action {ACTION}, ?next_actions [{ACTION}], ?output_ref str, ?output_stream str,"
    " ?output_refs {stdout str, stderr str}, ?output_truncated bool, ?truncated_output_streams [str], ?summary str,"
    f" ?preview str, ?preview_truncated bool{STREAMS}"
)
ENVIRONMENT = (
    "workspace str, permission_mode str, network_allowed bool, runtime_dir str, home str, tmpdir str, cache_dir str,"
    " global_tmp_write str, landlock_enabled bool, landlock_abi int|null,"
    " landlock {available bool, abi_version int, enabled bool}, workspace_mutation_policy {mode str, write_paths [str],"
    " enforced bool, enforced_by str, structured_write_tools [str], warnings [str]}, warnings [str]"
)
DIFFED = "[{path str, status str, binary bool}]"
OUTPUTS = {
    "server_info": f"{ENVIRONMENT}, server str, title str, version str, supported_protocol_versions [str],"
    " auth_enabled bool, dangerously_skip_all_permissions bool, annotation_override null, exec_policy {shell_expansion"
    " str, inline_script str, global_tmp_write str, secret_env_filter str}, shell_env_inherit str,"
    " shell_env_include_only [str], shell_env_exclude [str], output_retention {buffer_bytes_per_stream int,"
    " head_bytes_per_stream int, completed_command_ttl_seconds int, max_retained_completed_commands int}, endpoint_path"
    " str, project_context {root_instruction_files [str], nested_instruction_files [str], warnings [str]}, tools [str],"
    " tool_count int, permissions object, grants [object]",
    "check_exec_environment": ENVIRONMENT,
    "read_file": "path str, content str, encoding str, revision str, revision_algorithm str, max_bytes int, start_line"
    " int, end_line int, total_lines int, total_bytes int, bytes_read int, truncated bool, truncated_by str|null,"
    " first_line_exceeds_limit bool, output_lines int, output_bytes int, next_start_line int|null, warnings [str],"
    f" ?next_action {ACTION}",
    "list_dir": "path str, entries [{name str, path str, type str, size_bytes int, modified str, is_hidden bool,"
    f" is_ignored bool, ?symlink_target str}}], {CUT}",
    "list_files": f"path str, files {FILES}, {CUT}",
    "search_text": "query str, matches [{path str, line int, column int, preview str, before [str], after [str],"
    " ?preview_truncated bool, ?preview_truncated_by str}], total_matches int, total_matches_exact bool, engine str,"
    f" {CUT}",
    "apply_patch": WRITTEN,
    "apply_changes": WRITTEN,
    "exec_command": f"{COMMAND}, elapsed_ms int",
    "write_stdin": COMMAND,
    "kill_command": f"{COMMAND}, killed bool, evicted bool, signal_sent str|null",
    "read_output": "command_id str, operation_outcome str, output_ref str, stream_output_ref str, stream str, offset"
    " int, requested_offset int, limit int, content str, next_offset int|null, total_retained_bytes int,"
    " head_retained_bytes int, evicted_gap_bytes int, retained_start_offset int, total_stream_bytes int,"
    " stdout_dropped_bytes int, stderr_dropped_bytes int, stream_dropped_bytes int, omitted_bytes int, truncated bool,"
    f" warnings [str], ?next_action {ACTION}",
    "git_status": "is_repo bool, branch str|null, head str, upstream str|null, ahead int, behind int, clean bool,"
    " entries [{path str, original_path str|null, index_status str, worktree_status str}], truncated bool,"
    " warnings [str]",
    "git_diff": f"is_repo bool, diff str, files {DIFFED}, include_untracked bool, {CUT}",
    "git_log": "is_repo bool, ref str, path str, max_count int, skip int, commits [{hash str, short_hash str,"
    " author_name str, author_email str, author_date str, subject str}], truncated bool, warnings [str],"
    f" ?next_action {ACTION}",
    "git_show": f"is_repo bool, rev str, content str, files {DIFFED}, {CUT}",
    "git_blame": "is_repo bool, path str, rev str|null, start_line int, end_line int, max_lines int, lines [{commit"
    " str, original_line int, line int, author str, author_mail str, author_time int, summary str, content str}],"
    f" truncated bool, warnings [str], ?next_action {ACTION}",
    "request_permissions": "status str, grant_id str|null, expires_at str|null, constraints {permission str, scope str,"
    " subject str}, warnings [str], message str",
}
"""``name type``; ``?`` comes only when it applies. Nothing else is sent (CT-U6)."""

PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+zwei\n*** Add File: {0}\n+x\n*** End Patch\n"
CALLS = [
    ("server_info", {}),
    ("check_exec_environment", {}),
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"path": "a.txt", "max_bytes": 5}),
    ("list_dir", {"recursive": True}),
    ("list_dir", {"max_entries": 1}),
    ("list_files", {"max_results": 1}),
    ("search_text", {"query": "two", "context_lines": 1}),
    ("search_text", {"query": "wide", "max_preview_bytes": 80}),
    ("apply_patch", {"patch": PATCH.format("b.txt"), "dry_run": True}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: c.txt\n+1\n*** End Patch", "idempotency_key": "k"}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: c.txt\n+1\n*** End Patch", "idempotency_key": "k"}),
    (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Update File: c.txt\n*** Move to: d.txt\n@@\n-1\n+2\n*** End Patch"},
    ),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: d.txt\n*** End Patch"}),
    ("apply_changes", {"changes": [{"action": "create", "path": "e.txt", "content": "1\n2\n"}]}),
    ("exec_command", {"cmd": "echo 1; echo 2 >&2; exit 3"}),
    ("exec_command", {"cmd": "seq 100000", "max_output_bytes": 100}),
    ("exec_command", {"cmd": "seq 100", "verbosity": "summary"}),
    ("exec_command", {"cmd": "seq 100", "verbosity": "preview", "preview_bytes": 10}),
    ("exec_command", {"cmd": "nonexistent"}),
    ("exec_command", {"cmd": "sleep 9", "timeout_ms": 50}),
    ("git_status", {}),
    ("git_diff", {"max_bytes": 10}),
    ("git_log", {"max_count": 1}),
    ("git_show", {}),
    ("git_blame", {"path": "a.txt", "max_lines": 1}),
    (
        "request_permissions",
        {"tool_name": "exec_command", "permission": "network", "reason": "r", "arguments": {"cmd": "true"}},
    ),
]

PATHS = [("/etc/passwd", "ABSOLUTE_PATH_DENIED"), ("C:\\x", "ABSOLUTE_PATH_DENIED"), ("../x", "PATH_OUTSIDE_WORKSPACE")]
PATHS += [("a/../b", "PATH_OUTSIDE_WORKSPACE"), ("a\0b", "INVALID_ARGUMENT"), ("out", "SYMLINK_ESCAPE")]
PATHS += [("up/passwd", "PATH_OUTSIDE_WORKSPACE"), ("none", "NOT_FOUND")]

MOVE = {"action": "move", "path": "a.txt", "destination": "picture.png"}
ERRORS = [
    *(("read_file", {"path": path}, code, set()) for path, code in PATHS),
    ("read_file", {"path": "."}, "IS_DIRECTORY", set()),
    ("read_file", {"path": "binary"}, "BINARY_FILE", set()),
    ("read_file", {"path": "latin"}, "UNSUPPORTED_ENCODING", set()),
    ("read_file", {"path": "a.txt", "end_line": 3, "max_lines": 1}, "INVALID_ARGUMENT", set()),
    ("list_dir", {"path": "a.txt"}, "NOT_A_DIRECTORY", set()),
    ("list_files", {"path": "none"}, "NOT_FOUND", set()),
    ("search_text", {"query": "(", "regex": True}, "INVALID_ARGUMENT", set()),
    ("apply_patch", {"patch": "nonsense"}, "PATCH_FAILED", set()),
    (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Update File: a.txt\n@@\n-no such\n+x\n*** End Patch"},
        "PATCH_CONTEXT_NOT_FOUND",
        {"nearest_line", "nearby_text"},
    ),
    (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Update File: same\n@@\n-s\n+x\n*** End Patch"},
        "PATCH_CONTEXT_AMBIGUOUS",
        {"match_count", "candidate_lines", "candidates"},
    ),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: .env\n+x\n*** End Patch"}, "PROTECTED_PATH", set()),
    ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: out\n+x\n*** End Patch"}, "SYMLINK_ESCAPE", set()),
    ("apply_changes", {"changes": [{"action": "write", "path": "a.txt", "content": ""}]}, "REVISION_REQUIRED", set()),
    (
        "apply_changes",
        {"changes": [{"action": "write", "path": "a.txt", "content": "", "revision": "0"}]},
        "REVISION_MISMATCH",
        {"path", "expected_revision", "current_revision", "revision_algorithm", "total_lines", "next_action"},
    ),
    ("apply_changes", {"changes": []}, "PATCH_FAILED", set()),
    ("apply_changes", {"changes": [MOVE]}, "REVISION_REQUIRED", set()),
    ("exec_command", {"cmd": "true", "workdir": "none"}, "NOT_FOUND", set()),
    ("exec_command", {"cmd": "true", "workdir": "a.txt"}, "NOT_A_DIRECTORY", set()),
    ("exec_command", {"cmd": "true", "workdir": "x", "cwd": "y"}, "INVALID_ARGUMENT", set()),
    ("exec_command", {"cmd": "git reset --hard"}, "PERMISSION_REQUIRED", {"permission", "command"}),
    ("exec_command", {"cmd": "true", "env": {"LD_PRELOAD": "x"}}, "PERMISSION_REQUIRED", {"permission", "env_keys"}),
    ("write_stdin", {"command_id": "none"}, "COMMAND_NOT_FOUND", set()),
    ("kill_command", {"command_id": "none"}, "COMMAND_NOT_FOUND", set()),
    ("read_output", {"output_ref": "nonsense"}, "INVALID_ARGUMENT", set()),
    ("read_output", {"output_ref": "command:x:stdout"}, "COMMAND_NOT_FOUND", set()),
    ("git_log", {"ref": "-x"}, "INVALID_ARGUMENT", set()),
    ("git_log", {"ref": "none"}, "GIT_ERROR", set()),
    ("git_blame", {"path": "none"}, "NOT_FOUND", set()),
    ("view_image", {"path": "a.txt"}, "BINARY_FILE", set()),
    ("view_image", {"path": "picture.png", "max_bytes": 1024, "auto_resize": False}, "OUTPUT_TOO_LARGE", set()),
]
RETRYABLE = {"PATCH_CONTEXT_NOT_FOUND", "PATCH_CONTEXT_AMBIGUOUS", "REVISION_REQUIRED", "REVISION_MISMATCH"}
RETRYABLE |= {"PERMISSION_REQUIRED"}  # CT-G4: as permission_request says, for somebody can permit it

WRONG = [
    ({}, "path: is missing"),
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
    """A line of ``INPUTS``, by names."""
    split = [one.strip().partition(" ") for one in text.split(";") if one.strip()]
    return {name.rstrip("*"): {**field(rest), "required": name.endswith("*")} for name, _, rest in split}


def field(text: str) -> dict[str, Any]:
    words, equals, default = text.partition(" =") if " =" in text else (text, "", "")
    kind, _, bounds = words.partition(" ")
    least, _, most = bounds.partition("..")
    values = {"true": True, "false": False}
    typed = int(default) if kind == "int" and equals else values.get(default, default)
    return {"kind": kind, "least": least, "most": most, "default": typed if equals else None}


def as_field(schema: dict[str, Any], default: Any, *, required: bool) -> dict[str, Any]:
    """A property of a served schema, as ``field`` has it."""
    kinds = {"string": "str", "integer": "int", "boolean": "bool", "object": "object"}
    kind = kinds.get(schema.get("type", ""), "")
    if schema.get("type") == "array":
        kind = f"[{kinds[schema['items']['type']]}]"
    if choices := schema.get("enum") or [schema[name] for name in ("const",) if name in schema]:
        kind = "|".join(choices)
    bounds = [[schema.get(f"{end}{what}") for what in ("imum", "Length", "Items")] for end in ("min", "max")]
    least, most = (next((str(one) for one in every if one is not None), "") for every in bounds)
    return {"kind": kind, "least": least, "most": most, "default": default, "required": required}


@pytest.mark.parametrize("name", INPUTS)
async def test_a_tool_takes_what_it_is_known_to_take(served, name):
    """W1. CT-U10, CT-G5: bounds and defaults are those that the table, and the tool, really have."""
    expected = fields(INPUTS[name])
    for (tool, argument), text in OURS.items():
        if tool == name:
            expected[argument] = {**field(text), "required": expected.get(argument, {}).get("required", False)}
    tool = next(one for one in offer.describe(served.service, "0") if one.name == name)
    listed = next(one for one in (await served.client.list_tools()).tools if one.name == name)
    properties, required = listed.input_schema["properties"], listed.input_schema.get("required", [])
    models = tool.fn_metadata.arg_model.model_fields
    got = {
        argument: as_field(
            schema, None if argument in required else models[argument].default, required=argument in required
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


async def test_tools_are_annotated_as_what_they_are(served):
    """W1. CT-U9: nothing changes these; CT-U5: a third of the size in which 0.5.0 serves them."""
    listed = (await served.client.list_tools()).tools
    got = {one.name: (one.title, tuple(one.annotations.model_dump(by_alias=False).values())[1:]) for one in listed}
    assert {name: got[name] for name in ANNOTATIONS} == ANNOTATIONS
    ours = [one for one in listed if one.name in {*ANNOTATIONS, "undo_patch", "kill_session"}]
    assert len(ours) == len(ANNOTATIONS) + 2
    assert sum(len(one.model_dump_json(exclude_none=True, by_alias=True)) for one in ours) < 16_000


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_an_answer_has_the_fields_that_it_is_known_to_have_and_no_others(served, tool, arguments):
    """W1. CT-U6."""
    answer = await served.told(tool, **arguments)
    check(tool, {name: value for name, value in answer.items() if name != "ok"}, f"{{{OUTPUTS[tool]}}}")


async def test_a_command_that_goes_on_is_told_of_in_the_same_fields(served):
    """W1. CT-U7: nothing is no line. CT-U12: what to do next is always a call."""
    begun = await served.told("exec_command", cmd="sleep 60", yield_time_ms=0)
    assert (begun["status"], begun["stdout_output_lines"]) == ("running", 0)
    assert begun["next_action"]["tool"] == "write_stdin"
    polled = await served.told("write_stdin", command_id=begun["command_id"], yield_time_ms=0)
    killed = await served.told("kill_command", command_id=begun["command_id"])
    read = await served.told("read_output", output_ref=f"command:{begun['command_id']}:stdout")
    for tool, answer in (("write_stdin", polled), ("kill_command", killed), ("read_output", read)):
        check(tool, {name: value for name, value in answer.items() if name != "ok"}, f"{{{OUTPUTS[tool]}}}")
    assert (killed["killed"], killed["evicted"]) == (True, False)


@pytest.mark.parametrize(("tool", "arguments", "code", "details"), ERRORS)
async def test_an_error_has_the_shape_and_the_code_that_clients_know(served, tool, arguments, code, details):
    """W1."""
    answer = await served.call(tool, **arguments)
    assert answer.is_error
    told = answer.structured_content
    check("error", told["error"], "{code str, message str, category str, retryable bool, details object}")
    error = told["error"]
    assert (error["code"], error["category"]) == (code, WORKSPACE_CODES[code])
    assert error["retryable"] == (code in RETRYABLE)
    assert details <= error["details"].keys()
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
