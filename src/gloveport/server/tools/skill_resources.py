"""Offers skills to clients: resources ``skill://``, a prompt, and the extension of MCP for skills (SEP-2640).

An entry names every file with its digest, so that a client can bind what its user approves to exactly these bytes.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams
from msgspec import Struct
from pydantic import Field

from gloveport.engine.caller import Transport
from gloveport.engine.skill_search import SkillSearch
from gloveport.errors import ConfigError, Denied
from gloveport.server.request_caller import share_of
from gloveport.server.server_offer import SKILLS_EXTENSION, SKILLS_SETTINGS
from gloveport.skills.frontmatter import FILE
from gloveport.skills.skill_library import KeptSkill, SkillLibrary
from gloveport.skills.skill_threads import SKILL_READS, SKILL_SEARCHES
from gloveport.untrusted_text import one_line

SCHEME: Final = "skill://"

_PAGE: Final = 50
_DIRECTORY: Final = "inode/directory"
_TTL_MS: Final = 0
"""Clients must not cache skills, since they are not notified of changes."""

_MIME: Final = {
    "md": "text/markdown",
    "py": "text/x-python",
    "ts": "text/typescript",
    "js": "text/javascript",
    "sh": "text/x-shellscript",
    "json": "application/json",
}


class ListParams(RequestParams):
    """Parameters of ``skills/list``."""

    cursor: Annotated[str | None, Field(max_length=100)] = None


class UriParams(RequestParams):
    """Parameters of ``skills/get`` and ``resources/directory/read``."""

    uri: Annotated[str, Field(max_length=1000)]
    cursor: Annotated[str | None, Field(max_length=100)] = None


class SkillExtension(Extension):
    """``skills/list``, ``skills/get`` and ``resources/directory/read``."""

    identifier = SKILLS_EXTENSION

    def __init__(self, library: SkillLibrary, transport: Transport) -> None:
        self._library, self._transport = library, transport

    def settings(self) -> dict[str, Any]:
        """See ``Extension``."""
        return dict(SKILLS_SETTINGS)

    def methods(self) -> Sequence[MethodBinding]:
        """See ``Extension``."""
        return [
            MethodBinding("skills/list", ListParams, self._list),
            MethodBinding("skills/get", UriParams, self._get),
            MethodBinding("resources/directory/read", UriParams, self._read_directory),
        ]

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: ListParams) -> HandlerResult:
        return await SKILL_SEARCHES.run(self._page, params.cursor or "", share_of(ctx, self._transport))

    def _page(self, after: str, owner: str) -> dict[str, Any]:
        names = [name for name, _ in self._library.places() if name > after]
        entries = [_entry(entry) for name in names[:_PAGE] if (entry := _find(self._library, name, owner)) is not None]
        more = {"nextCursor": names[_PAGE - 1]} if len(names) > _PAGE else {}
        return {"skills": entries, **more, "ttlMs": _TTL_MS, "cacheScope": "private"}

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: UriParams) -> HandlerResult:
        name, path = split_uri(params.uri)
        entry = await SKILL_READS.run(_find, self._library, name, share_of(ctx, self._transport))
        if entry is None or path not in ("", FILE):
            raise _unknown_resource(params.uri)
        return {"skill": _entry(entry), "ttlMs": _TTL_MS, "cacheScope": "private"}

    async def _read_directory(self, ctx: ServerRequestContext[Any, Any], params: UriParams) -> HandlerResult:
        name, path = split_uri(params.uri)
        entry = await SKILL_READS.run(_find, self._library, name, share_of(ctx, self._transport))
        below = f"{path}/" if path else ""
        children: dict[str, str] = {}
        for file in sorted(entry.skill.snapshot.files) if entry else ():
            if file.startswith(below):
                first, slash, _ = file[len(below) :].partition("/")
                children[f"{below}{first}"] = _DIRECTORY if slash else _mime_of(first)
        if not children or params.uri.endswith("/") or params.cursor:
            raise _unknown_resource(params.uri)
        return {
            "resources": [
                {"uri": _uri_of(name, child), "name": child.rpartition("/")[2], "mimeType": mime}
                for child, mime in children.items()
            ]
        }


class SkillListing(Struct, frozen=True, kw_only=True):
    """Middleware that lists skills as resources, the first by name if there are very many."""

    search: SkillSearch
    transport: Transport

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass everything on."""
        result = await call_next(ctx)
        if ctx.method != "resources/list" or not isinstance(result, dict):
            return result
        found = await SKILL_SEARCHES.run(self.search.search, "", 200, share_of(ctx, self.transport))
        listed = [
            {
                "uri": f"{SCHEME}{one.indexed.name}/{FILE}",
                "name": one.indexed.name,
                "description": one_line(one.indexed.description, 1024),
                "mimeType": "text/markdown",
            }
            for one in found.best
        ]
        return {**result, "resources": [*result["resources"], *listed]}


class SkillTexts(Struct, frozen=True, kw_only=True):
    """The resources and the prompt of skills."""

    library: SkillLibrary
    transport: Transport

    async def resource(self, ctx: Context[Any, Any], name: str) -> str:
        """A skill's ``SKILL.md``, by CodeForge's short name of it."""
        text = await self.file(ctx, name, FILE)
        return text if isinstance(text, str) else text.decode(errors="replace")

    async def file(self, ctx: Context[Any, Any], name: str, path: str) -> str | bytes:
        """A file of a skill."""
        entry = await self._find(ctx, name)
        data = None if entry is None else entry.skill.snapshot.files.get(path)
        if data is None:
            raise ResourceNotFoundError(f"there is no {SCHEME}{name[:80]}/{path[:200]}")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    async def prompt(self, ctx: Context[Any, Any], name: str) -> str:
        """Run a skill by its name."""
        entry = await self._find(ctx, name)
        if entry is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no skill {name[:80]!a}")
        takes = "".join(
            f"\n- {one.name} ({one.type}, {json.dumps(one.default)} by itself) {one.description}"
            for one in entry.skill.parameters
        )
        return (
            f"Run the skill `{entry.skill.name}` with the tool run_skill. It comes from: {one_line(entry.origin, 200)}"
            f"; it is {'approved' if entry.rights else 'a candidate'}. Of itself it says: "
            f"{json.dumps(one_line(entry.skill.head.description, 1024))}"
            + (f"\nIts arguments:{takes}" if takes else "\nIt takes no arguments.")
        )

    async def _find(self, ctx: Context[Any, Any], name: str) -> KeptSkill | None:
        owner = share_of(ctx.request_context, self.transport)
        return await SKILL_READS.run(_find, self.library, name, owner)


def add_skill_texts(server: MCPServer[Any], texts: SkillTexts) -> None:
    """Add the resources, and the prompt that has a skill run."""
    server.resource("skill://{name}/{+path}", name="skill", description="")(texts.file)
    server.resource("skill://{name}", name="skill_md", description="", mime_type="text/markdown")(texts.resource)
    server.prompt("run_skill", title="Run a skill")(texts.prompt)


def split_uri(uri: str) -> tuple[str, str]:
    """Split a URI into the name of a skill and the path of a file in it; empty if the URI is not ours."""
    name, _, path = uri.removeprefix(SCHEME).partition("/") if uri.startswith(SCHEME) else ("", "", "")
    return name, unquote(path)


def _uri_of(name: str, path: str) -> str:
    return f"{SCHEME}{name}/{quote(path)}"


def _find(library: SkillLibrary, name: str, owner: str) -> KeptSkill | None:
    try:
        entry = library.find(name)
    except (Denied, ConfigError):
        return None
    return entry if entry.is_shown_to(owner) else None


def _entry(entry: KeptSkill) -> dict[str, Any]:
    name = entry.skill.name
    return {
        "uri": _uri_of(name, FILE),
        "frontmatter": entry.skill.head.as_written(),
        "resources": [
            {"uri": _uri_of(name, path), "digest": f"sha256:{digest}"}
            for path, digest in entry.skill.snapshot.digests.items()
        ],
        "_meta": {"gloveport/state": entry.state, "gloveport/origin": entry.origin},
    }


def _mime_of(name: str) -> str:
    return _MIME.get(name.rpartition(".")[2], "application/octet-stream")


def _unknown_resource(uri: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=f"there is no {uri[:200]!a}")
