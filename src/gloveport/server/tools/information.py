"""Tools that describe the workspace and what commands find: ``server_info`` and ``check_exec_environment``."""

from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from msgspec import Struct

from gloveport.model import SCRATCH
from gloveport.model.json_value import JsonValue
from gloveport.model.workspace import GATES, Gate, WorkspacePolicy
from gloveport.policy.decisions.modes import stance
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import reply
from gloveport.server.request_caller import caller_of
from gloveport.server.server_offer import NAME, TITLE
from gloveport.untrusted_text import one_line
from gloveport.workspace.commands.retained import HEAD_BYTES, TAIL_BYTES
from gloveport.workspace.files.file_listing import list_dir
from gloveport.workspace_service.service import WorkspaceService

_TMP: Final = "allowed"
"""Each command has a /tmp of its own."""

_LINE_CHARACTERS: Final = 120
"""Most characters to show of a running command."""

_INSTRUCTIONS: Final = frozenset({"AGENTS.MD", "CLAUDE.MD"})


class InformationTools(Struct, frozen=True, kw_only=True):
    """The tools; ``names`` are the names of all tools of the server."""

    service: WorkspaceService
    version: str
    names: list[str]

    async def server_info(self, ctx: Context[Any, Any]) -> RunReply:
        """The workspace, the mode, the limits, and the permissions that hold."""
        service, settings = self.service, self.service.settings
        share = caller_of(ctx, service.transport).share
        permits: JsonValue = [
            {"id": one.id, "permission": one.request.gate, "scope": one.scope, "subject": one.request.subject}
            for one in service.permissions.permits_of(share)
        ]
        fields = {
            **await self._common(),
            "server": NAME,
            "title": TITLE,
            "version": self.version,
            "supported_protocol_versions": [*SUPPORTED_PROTOCOL_VERSIONS],
            "endpoint_path": "/mcp",
            "auth_enabled": False,  # over HTTP the kernel identifies the caller, who need not authenticate
            "annotation_override": None,
            "dangerously_skip_all_permissions": settings.mode == "dangerous",
            "exec_policy": {
                "shell_expansion": _stance_text(settings, "shell_expansion"),
                "inline_script": _stance_text(settings, "inline_script"),
                "global_tmp_write": _TMP,
                "secret_env_filter": "enabled",
            },
            "shell_env_inherit": "core",
            "shell_env_include_only": [*settings.inherit],
            "shell_env_exclude": [],
            "project_context": {
                "root_instruction_files": await service.list_in_turn(share, self._instruction_files),
                "nested_instruction_files": [],
                "warnings": [],
            },
            "permissions": {gate: stance(settings, gate) for gate in GATES},
            "grants": permits,
            "output_retention": {
                "buffer_bytes_per_stream": HEAD_BYTES + TAIL_BYTES,
                "head_bytes_per_stream": HEAD_BYTES,
                "completed_command_ttl_seconds": 300,
                "max_retained_completed_commands": 32,
            },
            "tools": self.names,
            "tool_count": len(self.names),
        }
        return reply(fields, texts.server_info(fields))

    async def check_exec_environment(self, ctx: Context[Any, Any]) -> RunReply:
        """What commands find in their sandbox, and which of yours run."""
        running = self.service.sandboxes.commands.active_of(caller_of(ctx, self.service.transport).share)
        fields = {
            **await self._common(),
            "commands": [
                {
                    "command_id": one.id,
                    "cmd": one_line(one.line, _LINE_CHARACTERS),
                    "elapsed_ms": round(1000 * one.elapsed),
                }
                for one in running
            ],
        }
        return reply(fields, texts.environment(fields))

    def _instruction_files(self) -> list[JsonValue]:
        """List names alone: their content is untrusted text of the workspace, and not to look like our instruction."""
        listed = list_dir(self.service.tree, max_entries=10_000)
        return [entry["path"] for entry in listed["entries"] if entry["name"].upper() in _INSTRUCTIONS]

    async def _common(self) -> dict[str, Any]:
        sandboxes, settings = self.service.sandboxes, self.service.settings
        warnings = (await sandboxes.look()).warnings()
        workers = sandboxes.workers
        ran = await workers.run(("true",))
        abi = workers.walls.landlock if workers.walls and ran.exit_code == 0 else 0
        return {
            "workspace": sandboxes.target,
            "permission_mode": settings.mode,
            "network_allowed": stance(settings, "network") == "allow" or bool(settings.hosts),
            "global_tmp_write": _TMP,
            "runtime_dir": SCRATCH,
            "home": SCRATCH,
            "tmpdir": SCRATCH,
            "cache_dir": "/cache" if settings.caches else "",
            "landlock_enabled": abi > 0,
            "landlock_abi": abi,
            "landlock": {"available": abi > 0, "abi_version": abi, "enabled": abi > 0},
            "workspace_mutation_policy": {
                "mode": "unrestricted",
                "write_paths": [],
                "enforced": True,
                "enforced_by": "mounts",
                "structured_write_tools": ["edit_file", "apply_patch", "apply_changes", "undo_patch"],
                "warnings": warnings,
            },
            "warnings": warnings,
        }


def _stance_text(settings: WorkspacePolicy, gate: Gate) -> str:
    return "allowed" if stance(settings, gate) == "allow" else "blocked"
