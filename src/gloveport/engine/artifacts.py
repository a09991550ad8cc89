"""Collects artifacts: takes files out of a sandbox, scrubs and keeps them; and stages the files of a request."""

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from msgspec import Struct

from gloveport.artifacts.artifact_store import ArtifactStore, Bundle
from gloveport.audit.log import AuditLog
from gloveport.engine.run_context import Execution
from gloveport.late_module import late_module
from gloveport.model import OUT
from gloveport.model.artifact import Artifacts
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Child
from gloveport.sandbox.run.in_files import write_files
from gloveport.sandbox.run.out_files import FileVersion, OutFiles, has_entries
from gloveport.secrets.vault import Vault
from gloveport.untrusted_text import one_line

if TYPE_CHECKING:
    from gloveport.secrets import scrub
    from gloveport.workspace.patch.out_directory import OutDirectory
else:
    scrub = late_module("gloveport.secrets.scrub")

_ABOUT_CHARACTERS: Final = 600
_MOST_ABOUT: Final = 64
_NOTHING: Final = Artifacts()


class Collector(Struct, frozen=True, kw_only=True):
    """Collects the files that programs left in their sandboxes.

    Attributes:
        out: The workspace's directory for such files, if it has one.
        audit: Records which files are put there.
    """

    store: ArtifactStore
    vault: Vault
    audit: AuditLog
    out: "OutDirectory | None"

    async def collect(
        self, child: Child, run: Execution, report: JsonValue, versions: dict[str, FileVersion] | None
    ) -> tuple[Artifacts, Bundle | None]:
        """Collect and keep the files that a program left, which has ended. Without any it costs a single look.

        ``versions`` has, in a session, the file versions after the previous call, and is updated to those of now. It is
        None where the sandbox has run its only program: all of it is dead before anything is read.

        Raises:
            AuditError: Files for the workspace can't be recorded, and were not put there.
        """
        out = child.directories.out
        if not has_entries(out):
            return _NOTHING, None
        if versions is None:
            await child.wait_dead()
        grant, about = run.guard.grant, _read_about(report)
        found, bundle = OutFiles(known_versions=versions or {}), Bundle(self.store.directory, run.share)
        most_bytes = int(grant.limits.out_bytes)
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(functools.partial(self._take, found, bundle, out, most_bytes, about))
        if versions is not None:
            versions.clear()
            versions.update(found.taken_versions)
        if bundle.files and not self.store.keep(bundle):
            found.leave_out(OUT, "there is no room to keep it")
            bundle.files.clear()
        artifacts = Artifacts(
            files=tuple(bundle.files),
            left_out=tuple(f"{OUT}/{line}" for line in found.left_out),
            left_out_total=found.left_out_total,
            expires_in_seconds=round(self.store.bounds.seconds) if bundle.files else 0,
        )
        if not bundle.files:
            return artifacts, None
        if self.out is not None and self.out.view in (*grant.mounts, *grant.writable):
            artifacts = await self._deliver(self.out, run, artifacts, bundle)
        return artifacts, bundle

    def _take(self, found: OutFiles, bundle: Bundle, directory: int, most_bytes: int, about: Mapping[str, str]) -> None:
        """Copy all files, without secrets; runs in a thread, since it may be much."""
        scrubber = scrub.Scrubber(self.vault.needles)
        taking: list[str] = []

        def end() -> None:
            if taking:
                bundle.write(scrubber.finish())
                path = taking.pop()
                bundle.end(path, f"{OUT}/{path}", about.get(path, ""))

        def take(path: str) -> Callable[[bytes], None]:
            nonlocal scrubber
            end()
            taking.append(path)
            scrubber = scrub.Scrubber(self.vault.needles)
            bundle.begin()
            return lambda data: bundle.write(scrubber.feed(data))

        try:
            found.collect(directory, most_bytes, take)
            end()
        except OSError as error:  # our disk is full: complete files are kept
            found.leave_out(taking[0] if taking else "…", f"it can't be kept: {error.strerror}")

    async def _deliver(self, out: "OutDirectory", run: Execution, found: Artifacts, bundle: Bundle) -> Artifacts:
        """Put the files into the workspace too, once that is recorded; returns their updated metadata."""
        files: list[JsonValue] = [{"path": one.path, "bytes": one.bytes, "sha256": one.sha256} for one in bundle.files]
        self.audit.append(
            "artifacts.written", {"caller": run.guard.caller, "run": run.id, "directory": out.path, "files": files}
        )
        with anyio.CancelScope(shield=True):
            failed = await to_thread.run_sync(out.put, bundle)
        directory = out.path if len(failed) < len(bundle.files) else ""
        return found.model_copy(update={"directory": directory, "not_written": tuple(failed)})


def _read_about(report: JsonValue) -> Mapping[str, str]:
    """The descriptions of files below ``OUT``, by path, as the interpreter reports them. The program may forge them."""
    descriptions = report.get("shown") if isinstance(report, dict) else None
    about: dict[str, str] = {}
    for one in descriptions[:_MOST_ABOUT] if isinstance(descriptions, list) else ():
        path, text = (one.get("path"), one.get("about")) if isinstance(one, dict) else (None, None)
        if isinstance(path, str) and isinstance(text, str):
            about[path] = one_line(text, _ABOUT_CHARACTERS)
    return about


def write_inputs(child: Child, files: Mapping[str, bytes]) -> Awaitable[None]:
    """Write the files that come with a program into its working directory. Raises OSError if there is no room."""
    return to_thread.run_sync(write_files, child.directories.scratch, files, child.uid)
