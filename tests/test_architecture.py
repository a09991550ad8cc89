"""The layers of docs/architecture.md, proved from the code's own imports."""

import ast
import gc
import graphlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gloveport

ROOT = Path(gloveport.__file__).parent
LAYERS = [
    {"late_module", "late_pattern"},
    {"late_libraries"},
    {"model"},
    {
        "ascii_json",
        "atomic_file",
        "errors",
        "executables",
        "file_descriptors",
        "event_loop",
        "fairness",
        "image_header",
        "openat2",
        "patch_text",
        "real_paths",
        "spooled_bytes",
        "task_group",
        "untrusted_text",
    },
    {"background_jobs", "policy", "user_directories"},
    {"sandbox", "runtimes", "artifacts", "audit", "environments", "limits", "oauth", "secrets", "approvals"},
    {"guard", "door", "rpc", "skills", "forward_proxy"},
    {"egress", "hub", "sampling", "workspace"},
    {"engine", "config"},
    {"import_config", "workspace_service"},
    {"bootstrap"},
    {"server"},
    {"cli"},
]
# Package → what it holds, subpackages and modules, layer by layer: each may import what is in those before its own.
SUBPACKAGES = {
    "workspace": [
        {"errors", "program"},
        {"tool_types"},
        {"files"},
        {"protected", "images", "git", "patch", "commands"},
        {"search"},
    ],
    "workspace/files": [
        {"birth_time", "descriptors", "globs", "spelling"},
        {"tree"},
        {"gitignore", "line_reader", "file_threads"},
        {"documents", "walk"},
        {"file_contents", "file_listing"},
    ],
    "workspace/protected": [
        {"config_text", "descent", "git_directory", "mount_plan"},
        {"protected_scan"},
        {"protected_paths"},
        {"config_copies", "protected_state"},
    ],
    "workspace/search": [{"engines", "file_types", "matches"}, {"answer"}],
    "workspace/git": [{"invocation", "patches"}, {"blame", "diff", "log", "show", "status", "tracked"}],
    "workspace/patch": [
        {"changes", "file_swap"},
        {"journal"},
        {"staging"},
        {"operations", "commit"},
        {"out_directory"},
        {"undo"},
        {"writer"},
    ],
    "patch_text": [{"patch_error"}, {"parsing", "text"}, {"matching"}],
    "workspace/commands": [{"retained"}, {"command"}, {"registry", "answers"}],
    "config": [
        {"schema"},
        {"toml_text"},
        {"sources"},
        {"validation"},
        {"preset_tables"},
        {"api_files", "checks", "reference"},
        {"host_paths"},
        {"loading"},
    ],
    "config/schema": [{"keys"}, {"package_tables", "server_tables", "workspace_tables"}, {"root_table"}],
    "config/sources": [{"directories", "layers", "owned_files"}, {"trust"}, {"selection"}],
    "config/validation": [{"misplaced_secrets"}, {"type_descriptions"}, {"faults"}, {"sound_parts"}],
    "config/api_files": [{"codeforge"}, {"api_directory"}],
    "config/checks": [
        {"accounts", "mounts", "package_rules", "rule_order", "secret_places", "tool_rules"},
        {"apis"},
        {"upstream_servers"},
        {"cross_checks"},
    ],
    "config/reference": [{"docstrings"}, {"document"}],
    "config/host_paths": [{"outside_workspaces"}, {"workspace_root"}, {"owner_programs", "toolchains"}],
    "config/loading": [{"load", "watch"}, {"edit", "reload"}],
    "import_config": [
        {"client_files", "loader_variables", "secrets", "variables"},
        {"drafts", "file_reader", "review"},
        {"local", "remote"},
        {"entries"},
        {"import_plan"},
        {"apply"},
    ],
    "secrets": [
        {"form_tree", "log_scrubbing", "secret_files", "strength"},
        {"forms", "secret_commands"},
        {"scrub", "sources"},
        {"vault"},
    ],
    "workspace_service": [
        {
            "approval_text",
            "missing_programs",
            "refused_requests",
            "command_types",
            "own_directories",
            "permissions",
            "sandbox_ports",
        },
        {"fork_servers", "prefetch", "readonly_workers"},
        {"command_environments", "protected_sandboxes"},
        {"foreground", "sandboxes", "write_actions"},
        {"kept_sandbox"},
        {"command_sessions", "program_sandboxes"},
        {"service"},
        {"command_requests", "hooks"},
    ],
    "egress": [
        {"transport", "sandbox_network", "scrubbed_output"},
        {"http"},
        {"access_tokens"},
        {"credentials"},
        {"outbound_session"},
        {"tunnel"},
        {"databases"},
        {"proxy"},
    ],
    "sandbox": [
        {"clock", "connectors", "console", "plan", "seccomp", "reaper"},
        {"base", "cgroups"},
        {"run"},
        {"launch"},
        {"pool"},
        {"detection"},
    ],
    "hub": [
        {"definition", "ledger", "names", "network"},
        {"results", "catalog", "pins", "server_state"},
        {"stubs"},
        {"schema_size"},
        {"arguments"},
        {"hub"},
        {"connection", "credentials"},
        {"connect"},
        {"calls"},
        {"discovery"},
    ],
    "hub/connection": [
        {"breaker", "server_command", "server_launch", "standard_error", "unreadable"},
        {"bounded_http", "server_process", "wire"},
        {"listing", "http_connection", "stdio_connection"},
        {"link"},
        {"upstream"},
    ],
    "hub/credentials": [
        {"login_storage", "loopback", "oauth_endpoint"},
        {"stored_login"},
        {"auth"},
        {"login_flow"},
        {"login_desk"},
    ],
    "hub/stubs": [{"shapes"}, {"schema_reader"}, {"interface"}, {"python_stubs", "typescript_stubs"}],
    "policy": [{"npm_requests", "wildcards", "wording"}, {"hosts", "package_requests", "shell_text"}, {"decisions"}],
    "policy/hosts": [{"addresses", "authorities", "headers", "url_paths"}],
    "policy/decisions": [
        {"command_variables", "conditions", "git_config_keys", "input_files", "modes", "protected_names", "subjects"},
        {"command_gates", "gate_decisions", "inherited_variables", "outbound", "sampling", "skill_grant", "tools"},
        {"decide", "grant", "write_gates"},
    ],
    "policy/shell_text": [
        {"rulebook", "words"},
        {"directory"},
        {"programs"},
        {"reader"},
        {"rule_hits"},
    ],
    "skills": [
        {"hidden_text", "search_replace", "skill_threads"},
        {"frontmatter"},
        {"parameters", "snapshot"},
        {"skill_files", "skill_store"},
        {"skill_records"},
        {"skill_library"},
    ],
    "audit": [{"record"}, {"log_files"}, {"retention", "read"}, {"log", "linked_lines"}, {"verify"}],
    "approvals": [{"database", "patterns", "process", "question"}, {"store"}, {"desk"}],
    "server": [
        {"environment_text", "request_caller"},
        {"server_offer"},
        {"process", "rendering"},
        {"fast_path"},
        {"startup"},
        {"transports"},
        {"tools"},
        {"protocol"},
        {"offer_document"},
    ],
    "server/transports": [
        {
            "disconnect",
            "file_transfer",
            "jsonrpc_errors",
            "jsonrpc_messages",
            "line_writer",
            "paced_parsing",
            "peers",
            "session_end",
            "web_pages",
        },
        {"acceptor", "message_limit", "overload", "sdk_session", "session_beginning"},
        {"sessionless"},
        {"http", "stdio"},
    ],
    "server/tools": [
        {
            "argument_check",
            "artifact_tool",
            "client_sampling",
            "health",
            "lean_schema",
            "name_limit",
            "progress",
            "session_tool",
        },
        {"elicitation", "file_tools", "command_tools", "information", "run_calls", "write_tools"},
        {"code", "fast_execute", "permission", "skill_resources"},
        {"gated_calls", "skill_tools"},
        {"offer"},
        {"fast_tools"},
    ],
}
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
FILES = sorted(path for path in ROOT.rglob("*.py") if "guest" not in path.relative_to(ROOT).parts)
GUEST_FILES = sorted((ROOT / "guest").rglob("*.py"))


def package_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


@cache
def parse(path: Path) -> ast.Module:
    # What is collected meanwhile may be told with a traceback, for which Python 3.11 parses lines: it then finds its
    # own count of depths wrong (gh-106905).
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those in a module or a statement, at any depth: no expression has one."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, part, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


@cache
def imports(path: Path) -> list[str]:
    """What a module imports, at any depth."""
    found: list[str] = []
    for node in statements(parse(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return found


def packages_imported(path: Path) -> set[str]:
    found = set()
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "gloveport" and len(parts) > 1:
            found.add(parts[1])
    return found


def test_imports_point_strictly_down_the_layers():
    for path in FILES:
        package = package_of(path)
        for other in packages_imported(path) - {package} if package != "__init__" else ():
            assert LAYER[other] < LAYER[package], (
                f"{path}: layer {LAYER[package]} imports {other} (layer {LAYER[other]})"
            )


def test_imports_point_strictly_down_the_layers_of_each_package():
    for package, layers in SUBPACKAGES.items():
        layer = {part: number for number, parts in enumerate(layers) for part in parts}
        prefix, seen = f"gloveport.{package.replace('/', '.')}.", set()
        for path in (ROOT / package).rglob("*.py"):
            part = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
            if part == "__init__":
                continue
            seen.add(part)
            assert part in layer, f"{package}/{part} has no layer"
            others = {name.removeprefix(prefix).partition(".")[0] for name in imports(path) if name.startswith(prefix)}
            for other in others - {part}:
                assert layer[other] < layer[part], f"{path}: {part} (layer {layer[part]}) imports {other}"
        assert seen == set(layer), f"{package}: nothing is left of {set(layer) - seen}"


def test_no_module_imports_itself_by_way_of_others():
    modules = {".".join(("gloveport", *path.relative_to(ROOT).with_suffix("").parts)): path for path in FILES}
    graph = {
        name: {
            other for imported in imports(path) for other in (imported, imported.rpartition(".")[0]) if other in modules
        }
        for name, path in modules.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def test_no_library_code_imports_inside_a_function():
    for path in FILES:
        if package_of(path) == "cli":
            continue  # commands import what they need, so that --help is quick
        for function in statements(parse(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                assert not any(isinstance(each, ast.Import | ast.ImportFrom) for each in statements(function)), path


def test_every_module_that_is_named_to_be_imported_later_is_there():
    """A linter does not see that a module is gone whose name stands in a text."""
    for path in FILES:
        for name in re.findall(r"""["']gloveport\.([\w.]+)["']""", path.read_text()):
            first, *rest = name.split(".")
            if rest and (ROOT / first).is_dir():
                assert ROOT.joinpath(first, *rest).with_suffix(".py").exists(), f"{path}: gloveport.{name}"


def test_the_host_never_imports_guest_files_and_they_never_import_the_host():
    """But for what is mounted beside them, and is the standard library's alone."""
    for path in FILES:
        assert not any(name.startswith("gloveport.guest") for name in imports(path)), path
    mounted = "gloveport.patch_text."
    for path in GUEST_FILES:
        assert not any(name.split(".")[0] == "gloveport" for name in imports(path) if not name.startswith(mounted))
    for path in (ROOT / "patch_text").glob("*.py"):
        for name in imports(path):
            assert name.startswith(mounted) or name.partition(".")[0] in sys.stdlib_module_names, f"{path}: {name}"


def test_no_path_is_resolved_by_a_method_that_a_loop_of_links_breaks():
    """``Path.resolve`` raises RuntimeError for one before Python 3.13, where OSError is expected or nothing at all."""
    calls = [path for path in FILES if re.search(r"\.resolve\((strict=True)?\)", path.read_text())]
    assert calls == []


def test_every_package_has_a_layer():
    packages = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}
    assert packages == set(LAYER)


def test_every_module_says_its_duty():
    assert [str(path) for path in (*FILES, *GUEST_FILES) if not ast.get_docstring(parse(path))] == []
