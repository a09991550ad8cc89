"""The tools of files, git and pictures: one thin function each, with the names and fields of coding-tools-mcp."""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Concatenate, Final, Literal, ParamSpec, TypeAlias

import mcp_types as wire
from anyio import to_thread
from pydantic import Field

from gloveport.fairness import compute
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.workspace_replies import Words, clean_refusal, refusal, reply
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files import listing, reading
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.files.walk import Include
from gloveport.workspace.git.blame import git_blame
from gloveport.workspace.git.diff import git_diff
from gloveport.workspace.git.log import git_log
from gloveport.workspace.git.show import git_show
from gloveport.workspace.git.status import git_status
from gloveport.workspace.images.view import view
from gloveport.workspace.program import RunProgram
from gloveport.workspace.search import search_text
from gloveport.workspace.search.engines import SearchQuery
from gloveport.workspace_service.service import Fields, WorkspaceService

Arguments = ParamSpec("Arguments")
Path: TypeAlias = Annotated[str, Field(min_length=1)]
Line: TypeAlias = Annotated[int, Field(ge=1)]
Bytes: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)]
Lines: TypeAlias = Annotated[int, Field(ge=0, le=20)]
Globs: TypeAlias = Annotated[list[str] | None, Field(max_length=100)]

_DIFF_BYTES: Final = 262_144
_ENTRY_BYTES: Final = 256


@dataclass(frozen=True, kw_only=True)
class FileTools:
    """The tools that work on files; ``service`` is what they share."""

    service: WorkspaceService

    async def read_file(
        self,
        path: Path,
        start_line: Line = 1,
        end_line: Line | None = None,
        max_lines: Line | None = None,
        max_bytes: Bytes = 131_072,
        encoding: Literal["utf-8"] = "utf-8",  # noqa: ARG002 - the only one
    ) -> wire.CallToolResult:
        """Read lines of a text file, with the revision that edits by line name."""
        return await self._read(
            reading.read_file,
            texts.read_file,
            path,
            start_line=start_line,
            end_line=end_line,
            max_lines=max_lines,
            max_bytes=max_bytes,
        )

    async def list_dir(
        self,
        path: Path = ".",
        recursive: bool = False,  # noqa: FBT001, FBT002 - the tool's
        max_depth: Annotated[int, Field(ge=1, le=20)] = 1,
        max_entries: Annotated[int, Field(ge=1, le=10_000)] = 1000,
        include_hidden: bool = False,  # noqa: FBT001, FBT002
        include_ignored: bool = False,  # noqa: FBT001, FBT002
        sort: Literal["name", "type", "modified"] = "name",
    ) -> wire.CallToolResult:
        """List a directory; with recursive, as deep as max_depth, or 20 levels."""
        depth = (max_depth if max_depth > 1 else 20) if recursive else 1
        included = _entries(hidden=include_hidden, ignored=include_ignored)
        return await self._read(
            listing.list_dir,
            texts.list_dir,
            path,
            max_depth=depth,
            max_entries=max_entries,
            include=included,
            sort=sort,
        )

    async def list_files(
        self,
        path: Path = ".",
        patterns: Globs = None,
        glob: str | None = None,
        exclude_patterns: Globs = None,
        include_hidden: bool = False,  # noqa: FBT001, FBT002
        include_ignored: bool = False,  # noqa: FBT001, FBT002
        max_results: Annotated[int, Field(ge=1, le=50_000)] = 5000,
        sort: Literal["path", "modified"] = "path",
    ) -> wire.CallToolResult:
        """List files below a directory that match a pattern; .gitignore is respected."""
        included = _entries(hidden=include_hidden, ignored=include_ignored)
        return await self._read(
            listing.list_files,
            texts.list_files,
            path,
            patterns=_globs(patterns, glob),
            exclude_patterns=tuple(exclude_patterns or ()),
            max_results=max_results,
            include=included,
            sort=sort,
        )

    async def search_text(  # noqa: PLR0913, PLR0917 - they are the tool's
        self,
        query: Path,
        path: Path = ".",
        regex: bool = False,  # noqa: FBT001, FBT002
        case_sensitive: bool = False,  # noqa: FBT001, FBT002
        include_globs: Globs = None,
        glob: str | None = None,
        exclude_globs: Globs = None,
        context_lines: Annotated[int, Field(ge=0, le=5)] = 0,
        max_results: Annotated[int, Field(ge=1, le=10_000)] = 1000,
        max_preview_bytes: Annotated[int, Field(ge=80, le=4096)] = 512,
    ) -> wire.CallToolResult:
        """Find lines that hold a text, or match a regular expression; .gitignore is respected."""
        question = SearchQuery(
            expression=query,
            syntax="regex" if regex else "text",
            case="sensitive" if case_sensitive else "insensitive",
            path=path,
            includes=_globs(include_globs, glob),
            excludes=tuple(exclude_globs or ()),
            context=context_lines,
        )
        return await self._run(
            search_text,
            texts.search_text,
            question,
            engine=self.service.search_engine,
            max_results=max_results,
            max_preview_bytes=max_preview_bytes,
        )

    async def git_status(
        self,
        path: Path = ".",
        include_untracked: bool = True,  # noqa: FBT001, FBT002
        max_entries: Annotated[int, Field(ge=1, le=10_000)] = 1000,
    ) -> wire.CallToolResult:
        """Branch, and files that differ from the last commit."""
        return await self._run(
            git_status, texts.git_status, path=path, include_untracked=include_untracked, max_entries=max_entries
        )

    async def git_diff(
        self,
        path: str | None = None,
        paths: Globs = None,
        staged: bool = False,  # noqa: FBT001, FBT002
        unstaged: bool = True,  # noqa: FBT001, FBT002
        include_untracked: bool = True,  # noqa: FBT001, FBT002
        context_lines: Lines = 3,
        max_bytes: Bytes = _DIFF_BYTES,
    ) -> wire.CallToolResult:
        """What changed in the files, or what is staged, as a patch."""
        return await self._run(
            git_diff,
            texts.git_diff,
            paths=_globs(paths, path),
            staged=staged,
            unstaged=unstaged,
            include_untracked=include_untracked,
            context_lines=context_lines,
            max_bytes=max_bytes,
        )

    async def git_log(
        self,
        path: Path = ".",
        ref: str = "HEAD",
        max_count: Annotated[int, Field(ge=1, le=100)] = 20,
        skip: Annotated[int, Field(ge=0, le=10_000)] = 0,
    ) -> wire.CallToolResult:
        """Commits, the newest first."""
        return await self._run(git_log, texts.git_log, path=path, ref=ref, max_count=max_count, skip=skip)

    async def git_show(
        self,
        rev: str = "HEAD",
        path: str | None = None,
        paths: Globs = None,
        include_diff: bool = True,  # noqa: FBT001, FBT002
        context_lines: Lines = 3,
        max_bytes: Bytes = _DIFF_BYTES,
    ) -> wire.CallToolResult:
        """A commit with its patch, or a file as it was (`HEAD:name`)."""
        return await self._run(
            git_show,
            texts.git_show,
            rev=rev,
            paths=_globs(paths, path),
            include_diff=include_diff,
            context_lines=context_lines,
            max_bytes=max_bytes,
        )

    async def git_blame(
        self,
        path: Path,
        rev: str | None = None,
        start_line: Line = 1,
        end_line: Line | None = None,
        max_lines: Annotated[int, Field(ge=1, le=1000)] = 200,
    ) -> wire.CallToolResult:
        """Which commit each line comes from."""
        return await self._run(
            git_blame, texts.git_blame, path, rev=rev, start_line=start_line, end_line=end_line, max_lines=max_lines
        )

    async def view_image(
        self,
        path: Path,
        max_bytes: Annotated[int, Field(ge=1024, le=10_485_760)] = 5_242_880,
        max_width: Annotated[int, Field(ge=1, le=10_000)] = 2000,
        max_height: Annotated[int, Field(ge=1, le=10_000)] = 2000,
        auto_resize: bool = True,  # noqa: FBT001, FBT002
    ) -> wire.CallToolResult:
        """Look at a PNG, GIF, JPEG or WEBP picture."""
        try:
            fields, data = await view(
                self.service.tree,
                self.service.sandboxes.workers.run,
                path,
                most=(max_bytes, max_width, max_height),
                resizes=auto_resize,
            )
        except WorkspaceError as error:
            return refusal(error)
        picture = wire.ImageContent(
            type="image", data=base64.b64encode(data).decode(), mime_type=str(fields["mime_type"])
        )
        return reply(fields, texts.view_image(fields), picture)

    async def _read(
        self,
        read: Callable[Concatenate[Tree, Arguments], Fields],
        words: Words,
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> wire.CallToolResult:
        """The answer of work on files, which may wait for a disk: a thread's, and so is its rendering."""
        try:
            work = partial(read, self.service.tree, *args, **kwargs)
            return await to_thread.run_sync(lambda: self._reply(work(), words))
        except WorkspaceError as error:
            return clean_refusal(self.service, error)

    async def _run(
        self,
        look_up: Callable[Concatenate[Tree, RunProgram, Arguments], Awaitable[Fields]],
        words: Words,
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> wire.CallToolResult:
        """The answer of what has a program run."""
        try:
            fields = await look_up(self.service.tree, self.service.sandboxes.workers.run, *args, **kwargs)
            return await compute(_size(fields), self._reply, fields, words)
        except WorkspaceError as error:
            return clean_refusal(self.service, error)

    def _reply(self, fields: Fields, words: Words) -> wire.CallToolResult:
        clean = self.service.clean(fields)
        return reply(clean, words(clean))


def _size(fields: Fields) -> int:
    """About how many bytes an answer has."""
    return sum(
        len(value) if isinstance(value, str) else _ENTRY_BYTES * len(value) if isinstance(value, list) else 0
        for value in fields.values()
    )


def _globs(several: list[str] | None, one: str | None) -> tuple[str, ...]:
    return (*(several or ()), *((one,) if one else ()))


def _entries(*, hidden: bool, ignored: bool) -> frozenset[Include]:
    return frozenset({*(("hidden",) if hidden else ()), *(("ignored",) if ignored else ())})
