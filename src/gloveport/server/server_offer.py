"""What a server offers to clients: its identity, instructions and tools. Needs nothing of the SDK.

The SDK makes schemas of the tools' functions, which takes longer than all else before the first answer. So its result
is stored in ``server_offer.json``, which ``scripts/generate_docs.py`` writes; a test compares the two.
"""

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gloveport.config import Config
from gloveport.model import MIB
from gloveport.server.environment_text import environments_text

NAME: Final = "gloveport"
TITLE: Final = "Gloveport"
CODE_INSTRUCTIONS: Final = (
    "Runs Python, TypeScript, JavaScript and shell programs in sealed sandboxes. Do work in one program rather than in "
    "many calls, and print little."
)
WORKSPACE_INSTRUCTIONS: Final = (
    " A workspace of the owner is open: read and search it, change files with edit_file, apply_patch or"
    " apply_changes, run commands with exec_command. Paths are relative to it. What is refused with"
    " PERMISSION_REQUIRED, request_permissions asks for."
)
STATELESS: Final = "2026-07-28"
"""The version of the protocol whose sessions begin without a handshake."""

PREFIX: Final = "io.modelcontextprotocol/"
"""The prefix of the protocol's names in ``_meta``."""

SKILLS_EXTENSION: Final = f"{PREFIX}skills"
SKILLS_SETTINGS: Final = {"directoryRead": True}
"""The offered parts of the extension of MCP for skills (draft SEP-2640)."""

LISTING: Final = Path(__file__).with_name("server_offer.json")

_CAPABILITIES: Final = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_STATELESS_CAPABILITIES: Final = {
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}


class ServerOffer(Struct, frozen=True, kw_only=True):
    """What a server offers.

    Attributes:
        config: The effective configuration, with the view of the workspace among its mounts.
        packages: The packages that Python programs can import, in words; empty if not known.
        writable: Where programs may write to the workspace; empty for nowhere.
    """

    config: Config
    packages: str = ""
    writable: str = ""

    @property
    def has_workspace(self) -> bool:
        """Whether the tools of a workspace are offered."""
        return self.config.workspace.root is not None and "workspace" in self.config.workspace.toolsets

    @property
    def has_code(self) -> bool:
        """Whether ``execute_code`` and the tools about its runs are offered."""
        return "code" in self.config.workspace.toolsets or not self.has_workspace

    @property
    def has_skills(self) -> bool:
        """Whether the tools, resources and prompt for skills are offered."""
        return "skills" in self.config.workspace.toolsets and self.has_code

    def instructions(self) -> str:
        """Instructions that the client may give to its model."""
        code, workspace = CODE_INSTRUCTIONS * self.has_code, WORKSPACE_INSTRUCTIONS * self.has_workspace
        return f"{code}{workspace}".strip()

    def initialize_result(self, version: str) -> dict[str, Any]:
        """The result of ``initialize`` in this version of the protocol."""
        return {
            "capabilities": _CAPABILITIES,
            "instructions": self.instructions(),
            "protocolVersion": version,
            "serverInfo": {"name": NAME, "title": TITLE, "version": version_of_gloveport()},
        }

    def discover_result(self) -> dict[str, Any]:
        """The result of ``server/discover``, with which sessions without a handshake begin."""
        extensions = {"extensions": {SKILLS_EXTENSION: SKILLS_SETTINGS}} if self.has_skills else {}
        return {
            "cacheScope": "private",
            "capabilities": {**extensions, **_STATELESS_CAPABILITIES},
            "instructions": self.instructions(),
            "supportedVersions": [STATELESS],
            "ttlMs": 0,
            **stateless_members(),
        }

    def suffixes(self) -> dict[str, str]:
        """Texts that are appended to the descriptions of tools, by the tools' names."""
        found = {"search_tools": " Finds skills too."} if self.has_skills else {}
        words = " environment is one of those of execute_code." if self.has_code else environments_text(self.config)
        commands = {"exec_command": words} if self.config.environments else {}
        return {"execute_code": self._execute_suffix(), **commands, **found}

    def _execute_suffix(self) -> str:
        """Describe the operator's limits, packages and mounts, for the description of ``execute_code``.

        Requests above a limit are lowered to it silently.
        """
        policy, sessions = self.config.policy, self.config.sessions
        words = (
            f" Limits: {policy.limits.wall_seconds:g} s (without timeout_seconds {policy.default_wall_seconds:g} s) and"
            f" {policy.limits.memory_bytes // MIB} MiB; more can't be had."
            f" A session ends {sessions.idle_seconds / 60:g} min after its last call, at latest after"
            f" {sessions.life_seconds / 3600:g} h; at most {sessions.per_caller} are yours."
        )
        if self.packages and "python" in policy.languages:
            words += f" {self.packages}."
        words += environments_text(self.config)
        if read := [mount.target for mount in policy.mounts if mount.target != self.writable]:
            words += f" Files of the owner to read: {', '.join(read)}."
        if self.writable:
            words += f" To read and write: {self.writable}."
        return words

    def tools(self, *, with_schemas: bool) -> list[dict[str, Any]]:
        """List the tools, in order; ``with_schemas``: with output schemas."""
        listed = _read_listing()
        files: Sequence[Mapping[str, Any]] = listed["workspace"] if self.has_workspace else ()
        named = {tool["name"] for tool in files}
        code = [*(listed["code"] if self.has_code else ()), *(listed["skills"] if self.has_skills else ())]
        tools = [dict(tool) for tool in (*(tool for tool in code if tool["name"] not in named), *files)]
        suffixes = self.suffixes()
        for tool in tools:
            tool["description"] += suffixes.get(tool["name"], "")
            if not with_schemas:
                tool.pop("outputSchema", None)
        return tools

    def resource_templates(self) -> list[dict[str, Any]]:
        """The templates of resources."""
        listed = _read_listing()
        return [*listed["templates"], *(listed["skill_templates"] if self.has_skills else ())]

    def prompts(self) -> list[dict[str, Any]]:
        """The prompts."""
        prompts: list[dict[str, Any]] = _read_listing()["skill_prompts"] if self.has_skills else []
        return prompts


def version_of_gloveport() -> str:
    """The version of this installation."""
    return importlib.metadata.version(NAME)


@cache
def stateless_members() -> Mapping[str, Any]:
    """The fields that every complete result has in a protocol without handshake."""
    server = {"name": NAME, "title": TITLE, "version": version_of_gloveport()}
    return {"resultType": "complete", "_meta": {f"{PREFIX}serverInfo": server}}


@cache
def _read_listing() -> dict[str, Any]:
    listing: dict[str, Any] = json.loads(LISTING.read_text())
    return listing
