"""What a program has left becomes artifacts: taken out of its sandbox, scrubbed, kept, and made small enough to show.

Nothing of it is decoded in this process. A picture that is too large to be shown is made smaller by Pillow in a sandbox
of its own, whose answer is looked at anew; what that sandbox does not survive is not shown.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio
from anyio import to_thread
from pydantic import JsonValue

from gloveport.artifacts.store import ArtifactStore, Bundle, Found, Preview
from gloveport.errors import SandboxError
from gloveport.image_header import find_kind, read_size
from gloveport.model import GUEST, OUT, SCRATCH
from gloveport.model.artifact import Artifact, Artifacts
from gloveport.sandbox.base import Child
from gloveport.sandbox.run.in_files import write_files
from gloveport.sandbox.run.out_files import FileVersion, OutFiles, has_entries
from gloveport.secrets.scrub import Scrubber
from gloveport.secrets.vault import Vault
from gloveport.untrusted_text import one_line

LONG_EDGE: Final = 1568
"""In pixels: clients' models see no more of a picture, and some end the conversation at a larger one."""

MOST_SHOWN: Final = 4
SHOWN_BYTES: Final = 510_000
"""Of all pictures of an answer together. As base64 680,000: with its text an answer stays below 950,000."""

_PREVIEW_SECONDS: Final = 10.0
_PREVIEW_SOURCE: Final = f"""\
import importlib.util  # what needs matplotlib has Pillow imported
spec = importlib.util.spec_from_file_location("resize_image", "{GUEST}/python/resize_image.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.resize_file("{SCRATCH}/picture", "{OUT}/picture", %d, %d, %d)
"""
_ABOUT_CHARACTERS: Final = 600
_MOST_ABOUT: Final = 64

RunAlone: TypeAlias = Callable[[str, Mapping[str, bytes], float], Awaitable[bytes | None]]
"""Runs a Python program of ours: text, files beside it, seconds. What it has left as ``OUT/picture``, if anything."""


@dataclass(frozen=True)
class Collector:
    """Takes out of sandboxes what programs have left."""

    store: ArtifactStore
    vault: Vault

    async def collect(
        self, child: Child, owner: str, most_bytes: int, report: JsonValue, known: dict[str, FileVersion] | None
    ) -> tuple[Artifacts, Bundle | None]:
        """What a program has left, and where it is kept. It costs a look where there is nothing.

        Args:
            child: Its sandbox, in which it has ended.
            owner: For whom it is kept; opaque.
            most_bytes: Of all files together.
            report: What the program's interpreter has reported.
            known: Of a session: what was there after the call before; becomes what is there now. None where the
                sandbox has run its only program: it is dead before anything is read.
        """
        out = child.directories.out
        if not has_entries(out):
            return Artifacts(), None
        if known is None:
            await child.wait_dead()
        about = _read_about(report)
        found, bundle = OutFiles(known=known or {}), Bundle(self.store.directory, owner)
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(functools.partial(self._take, found, bundle, out, most_bytes, about))
        if known is not None:
            known.clear()
            known.update(found.taken)
        if bundle.files and not self.store.keep(bundle):
            found.leave_out(OUT, "there is no room to keep it")
            bundle.files.clear()
        return (
            Artifacts(
                files=tuple(bundle.files),
                left_out=tuple(f"{OUT}/{line}" for line in found.left_out),
                left_out_total=found.left_out_total,
                expires_in_seconds=round(self.store.bounds.seconds) if bundle.files else 0,
            ),
            bundle if bundle.files else None,
        )

    def _take(self, found: OutFiles, bundle: Bundle, directory: int, most_bytes: int, about: Mapping[str, str]) -> None:
        """Copy all of it, without secrets; in a thread, since it may be much."""
        scrubber = Scrubber(self.vault.needles)
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
            scrubber = Scrubber(self.vault.needles)
            bundle.begin()
            return lambda data: bundle.write(scrubber.feed(data))

        try:
            found.collect(directory, most_bytes, take)
            end()
        except OSError as error:  # our disk is full: what was ended is kept
            found.leave_out(taking[0] if taking else "…", f"it can't be kept: {error.strerror}")


def _read_about(report: JsonValue) -> Mapping[str, str]:
    """What an interpreter says of files below ``OUT``, by their paths there. It is the program's word."""
    told = report.get("shown") if isinstance(report, dict) else None
    about: dict[str, str] = {}
    for one in told[:_MOST_ABOUT] if isinstance(told, list) else ():
        path, text = (one.get("path"), one.get("about")) if isinstance(one, dict) else (None, None)
        if isinstance(path, str) and isinstance(text, str):
            about[path] = one_line(text, _ABOUT_CHARACTERS)
    return about


@dataclass(frozen=True)
class Previewer:
    """Makes pictures small enough to be shown."""

    run: RunAlone

    async def add_previews(self, files: Artifacts, bundle: Bundle | None) -> Artifacts:
        """The same, and previews of the first pictures are with them, where they need some; or it says why not."""
        numbers = [number for number, one in enumerate(files.files, 1) if is_picture(one)][:MOST_SHOWN]
        if bundle is None or not numbers:
            return files
        most = SHOWN_BYTES // len(numbers)
        told = [*files.files]
        for number in numbers:
            told[number - 1] = await self.add_preview(Found(bundle, number), most)
        return files.model_copy(update={"files": tuple(told)})

    async def add_preview(self, found: Found, most_bytes: int = SHOWN_BYTES) -> Artifact:
        """What is known of a picture, which has a preview from now on where it needs one."""
        one = found.artifact
        if found.preview is not None or fits(one, most_bytes):
            return one
        if one.width is None or one.height is None:
            return self._note(found, "its header tells no size")
        data = found.read(0, one.bytes)
        source = _PREVIEW_SOURCE % (most_bytes, LONG_EDGE, LONG_EDGE)
        try:
            made = await self.run(source, {"picture": data}, _PREVIEW_SECONDS)
        except (SandboxError, OSError):
            made = None
        kind = find_kind(made) if made else None
        size = read_size(kind, made) if made and kind else None
        if made is None or kind is None or size is None or max(size) > LONG_EDGE or len(made) > most_bytes:
            return self._note(found, f"{one.width}x{one.height} could not be made small enough")
        found.bundle.previews[found.number] = Preview(mime_type=kind, data=made)
        return one

    @staticmethod
    def _note(found: Found, why: str) -> Artifact:
        noted = found.artifact.model_copy(update={"not_shown": why})
        found.bundle.files[found.number - 1] = noted
        return noted


def is_picture(one: Artifact) -> bool:
    """Whether it is one that clients show."""
    return one.mime_type in ("image/png", "image/jpeg", "image/webp", "image/gif")


def has_picture(files: Artifacts) -> bool:
    """Whether there is one among them."""
    return any(map(is_picture, files.files))


def fits(one: Artifact, most_bytes: int = SHOWN_BYTES) -> bool:
    """Whether a picture can be shown as it is."""
    return one.width is not None and max(one.width, one.height or 0) <= LONG_EDGE and one.bytes <= most_bytes


def shown_pictures(store: ArtifactStore, files: Sequence[Artifact], owner: str) -> Sequence[Preview]:
    """What an answer shows of the pictures among these: as many, and as much, as it can hold."""
    shown: list[Preview] = []
    left = SHOWN_BYTES
    for one in [one for one in files if is_picture(one)][:MOST_SHOWN]:
        found = store.find(one.uri, owner)
        picture = None if found is None else picture_of(found)
        if picture is not None and len(picture.data) <= left:
            shown.append(picture)
            left -= len(picture.data)
    return shown


def picture_of(found: Found) -> Preview | None:
    """What is shown of a picture; None where that was not made."""
    if found.preview is not None:
        return found.preview
    one = found.artifact
    return Preview(mime_type=one.mime_type, data=found.read(0, one.bytes)) if fits(one) else None


async def read_output(child: Child) -> bytes | None:
    """What a program of ours has left as ``OUT/picture``."""
    await child.wait_dead()
    left: dict[str, bytearray] = {}

    def take(path: str) -> Callable[[bytes], None]:
        return left.setdefault(path, bytearray()).extend

    await to_thread.run_sync(OutFiles().collect, child.directories.out, SHOWN_BYTES, take)
    return bytes(left["picture"]) if "picture" in left else None


def write_inputs(child: Child, files: Mapping[str, bytes]) -> Awaitable[None]:
    """Write the files that come with a program to where it begins.

    Raises:
        OSError: There is no room.
    """
    return to_thread.run_sync(write_files, child.directories.scratch, files, child.uid)
