"""Makes previews of pictures that programs have left, small enough to be shown.

This process decodes none of them. Pillow makes large pictures smaller in a sandbox of its own, whose answer is checked
anew; a picture that this sandbox does not survive is not shown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct

from gloveport.artifacts.artifact_store import ArtifactStore, Bundle, Found, Preview
from gloveport.engine.artifacts import write_inputs
from gloveport.engine.reach import Reach
from gloveport.errors import SandboxError
from gloveport.image_header import find_kind, read_size
from gloveport.model import GUEST, OUT, SCRATCH, Policy, Request
from gloveport.model.artifact import Artifact, Artifacts
from gloveport.policy.decisions.grant import grant_for
from gloveport.runtimes import Runtime
from gloveport.sandbox.base import Child, Sandbox
from gloveport.sandbox.plan import System, make_plan
from gloveport.sandbox.run.out_files import OutFiles
from gloveport.sandbox.run.sinks import DiscardedOutput

LONG_EDGE: Final = 1568
"""In pixels: clients' models see no more detail, and some end the conversation at a larger picture."""

MOST_SHOWN: Final = 4
SHOWN_BYTES: Final = 510_000
"""Of all pictures of an answer together. As base64 680,000: with its text an answer stays below 950,000."""

_PREVIEW_SECONDS: Final = 10.0
_ALL_PREVIEWS_SECONDS: Final = 20.0
"""Of an answer together. Meanwhile the run holds its place, though its own time is over."""

_PREVIEW_SOURCE: Final = f"""\
import importlib.util  # what needs matplotlib has Pillow imported
spec = importlib.util.spec_from_file_location("resize_image", "{GUEST}/python/resize_image.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.resize_file("{SCRATCH}/picture", "{OUT}/picture", %d, %d, %d)
"""
_NO_VALUE_BYTES: Final = 256


class Previewer(Struct, frozen=True, kw_only=True):
    """Makes pictures small enough to be shown, in sandboxes like those of any program.

    Attributes:
        reach: The reach of all programs; the doors of these are not answered.
        runtime: The runtime of Python.
    """

    policy: Policy
    reach: Reach
    runtime: Runtime
    system: System
    sandbox: Sandbox

    async def add_previews(self, files: Artifacts, bundle: Bundle | None) -> Artifacts:
        """The files' metadata, with previews of the first pictures that need one, or with the reason why there is
        none.
        """
        pictures = [number for number, one in enumerate(files.files, 1) if is_picture(one)]
        if bundle is None or not pictures:
            return files
        shown = pictures[:MOST_SHOWN]
        most = SHOWN_BYTES // len(shown)
        updated = [*files.files]
        done = 0
        with anyio.move_on_after(_ALL_PREVIEWS_SECONDS):
            for number in shown:
                updated[number - 1] = await self.add_preview(Found(bundle, number), most)
                done += 1
        for position, number in enumerate(pictures[done:], done):  # not noted in the store: each can be read
            why = f"an answer shows {MOST_SHOWN} pictures" if position >= MOST_SHOWN else "its preview took too long"
            updated[number - 1] = updated[number - 1].model_copy(update={"not_shown": f"{why}; read_artifact shows it"})
        return files.model_copy(update={"files": tuple(updated)})

    async def add_preview(self, found: Found, most_bytes: int = SHOWN_BYTES) -> Artifact:
        """The metadata of a picture, after making a preview if it needs one."""
        one = found.artifact
        if found.preview is not None or fits(one, most_bytes):
            return one
        if one.width is None or one.height is None:
            return self._note(found, "its header tells no size")
        data = found.read(0, one.bytes)
        source = _PREVIEW_SOURCE % (most_bytes, LONG_EDGE, LONG_EDGE)
        try:
            picture = await self._run(source, {"picture": data})
        except (SandboxError, OSError):
            picture = None
        kind = find_kind(picture) if picture else None
        size = read_size(kind, picture) if picture and kind else None
        if picture is None or kind is None or size is None or max(size) > LONG_EDGE or len(picture) > most_bytes:
            return self._note(found, f"{one.width}x{one.height} could not be made small enough")
        found.bundle.previews[found.number] = Preview(mime_type=kind, data=picture)
        return one

    async def _run(self, source: str, files: Mapping[str, bytes]) -> bytes | None:
        """Run a program of ours on hostile input; returns its output ``OUT/picture``, if any."""
        most, reach = self.policy.limits, self.reach
        limits = most.model_copy(update={"wall_seconds": min(_PREVIEW_SECONDS, most.wall_seconds)})
        request = Request(language="python", code=source)
        grant = grant_for(self.policy, reach.egress, request, toolbox=reach.toolbox, sampling=reach.sampling)
        grant = grant.model_copy(update={"limits": limits})
        program = self.runtime.prepare(source, grant)
        async with self.sandbox.start(make_plan(program, grant, self.system, reach.network)) as child:
            await write_inputs(child, files)
            nowhere = DiscardedOutput()
            await child.run(program, value_bytes=_NO_VALUE_BYTES, stdout=nowhere, stderr=nowhere)
            return await _read_output(child)

    @staticmethod
    def _note(found: Found, why: str) -> Artifact:
        noted = found.artifact.model_copy(update={"not_shown": why})
        found.bundle.files[found.number - 1] = noted
        return noted


def is_picture(one: Artifact) -> bool:
    """Whether it is a picture that clients show."""
    return one.mime_type in ("image/png", "image/jpeg", "image/webp", "image/gif")


def has_picture(files: Artifacts) -> bool:
    """Whether there is a picture among them."""
    return any(map(is_picture, files.files))


def fits(one: Artifact, most_bytes: int = SHOWN_BYTES) -> bool:
    """Whether a picture can be shown as it is."""
    return one.width is not None and max(one.width, one.height or 0) <= LONG_EDGE and one.bytes <= most_bytes


def shown_pictures(store: ArtifactStore, files: Sequence[Artifact], owner: str) -> Sequence[Preview]:
    """The pictures among these files that an answer shows: as many as it can hold."""
    pictures: list[Preview] = []
    remaining_bytes = SHOWN_BYTES
    for one in [one for one in files if is_picture(one)][:MOST_SHOWN]:
        found = store.find(one.uri, owner)
        picture = None if found is None else picture_of(found)
        if picture is not None and len(picture.data) <= remaining_bytes:
            pictures.append(picture)
            remaining_bytes -= len(picture.data)
    return pictures


def picture_of(found: Found) -> Preview | None:
    """The shown form of a picture; None if its preview could not be made."""
    if found.preview is not None:
        return found.preview
    one = found.artifact
    return Preview(mime_type=one.mime_type, data=found.read(0, one.bytes)) if fits(one) else None


async def _read_output(child: Child) -> bytes | None:
    """Read the file ``OUT/picture`` that a program of ours has left."""
    await child.wait_dead()
    contents: dict[str, bytearray] = {}

    def take(path: str) -> Callable[[bytes], None]:
        return contents.setdefault(path, bytearray()).extend

    await to_thread.run_sync(OutFiles().collect, child.directories.out, SHOWN_BYTES, take)
    return bytes(contents["picture"]) if "picture" in contents else None
