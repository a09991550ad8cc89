"""Takes over changes that commands make in their copy of a git configuration: key by key, and only harmless ones.

The copy belongs to the command: nothing in it reaches the owner's git. Its differences from the given text are read
here, as hostile text, and decided on (``git_config_keys``). We write permitted changes ourselves, in place: a replaced
file would lose the mounts that protect it from other commands. So it is extended, or padded with empty lines, in one
write, before it is truncated: it is never half a configuration.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from io import FileIO
from typing import Final

from msgspec import Struct, field

from gloveport.file_descriptors import READ
from gloveport.openat2 import open_beneath
from gloveport.policy.decisions.git_config_keys import ConfigKey, Repository, may_write, resolve_address
from gloveport.sandbox.plan import PathProtection
from gloveport.untrusted_text import printable, shorten
from gloveport.workspace.files.descriptors import read_all
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import config_text, git_directory
from gloveport.workspace.protected.config_text import Values
from gloveport.workspace.protected.descent import Mark, descend, mark_of
from gloveport.workspace.protected.protected_paths import ProtectedPaths

_MOST_BYTES: Final = 1 << 16
_MOST_CHANGES: Final = 128
_MOST_NAMED: Final = 12
_REFUSED: Final = (
    "GIT_CONFIG_REFUSED: of what it wrote to {path} this held for it alone, or its session, and is not kept: {keys}. "
    "Kept are user.name and user.email, the upstream of a branch at a remote that is there, pull.rebase and pull.ff, "
    "and submodules as .gitmodules has them: what else git does later is the owner's to say"
)


class ConfigCopy(Struct, eq=False, kw_only=True):
    """A sandbox's copy of the configuration of a repository.

    Attributes:
        number: Number of the copy in the sandbox.
        path: Path of the configuration in the workspace.
        given_text: The text that the sandbox was given.
        last_text: The text of the copy at the last look.
        agreed: Its values that the configuration itself also has since then.
    """

    number: int
    path: bytes
    given_text: bytes
    last_text: bytes
    agreed: Values = field(default_factory=dict)

    @property
    def expected_values(self) -> Values:
        """The configuration's values, as far as the sandbox can know. Raises ValueError."""
        values = {**config_text.read_values(config_text.decode(self.given_text)), **self.agreed}
        return {key: found for key, found in values.items() if found}


class Saved(Struct, kw_only=True):
    """The result of taking changes over.

    Attributes:
        words: What was written and what not, for people.
        marks: New mark and old mark of each written file.
    """

    words: list[str] = field(default_factory=list)
    marks: dict[Mark, Mark] = field(default_factory=dict)


def copies_in(protections: Sequence[PathProtection], target: str) -> list[ConfigCopy]:
    """The copies in a sandbox with these protected paths, with the workspace mounted at ``target``."""
    copied = [(path, text.encode("latin-1")) for path, _, *texts in protections for text in texts]
    return [
        ConfigCopy(number=number, path=os.fsencode(path.removeprefix(f"{target}/")), given_text=text, last_text=text)
        for number, (path, text) in enumerate(copied)
    ]


def read_changed(private: int, copies: Sequence[ConfigCopy]) -> list[tuple[ConfigCopy, bytes]]:
    """The copies of a sandbox that have changed since the last look, with their text. ``private`` is the descriptor of
    their directory.
    """
    changed = []
    for copy in copies:
        text = _read(private, b"git/%d/config" % copy.number)
        if text != copy.last_text:
            copy.last_text = text
            changed.append((copy, text))
    return changed


def save(tree: Tree, found: ProtectedPaths, changed: Sequence[tuple[ConfigCopy, bytes]]) -> Saved:
    """Write the permitted ones of these changes, from ``read_changed``, to the configurations themselves. Call it in a
    thread.
    """
    saved = Saved()
    with tree.open_directory(".") as root:
        for copy, text in changed:
            shown_path = shorten(printable(spell_path(copy.path)))
            try:
                _save(root.descriptor, found, copy, text, saved, shown_path)
            except (ValueError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                saved.words.append(f"GIT_CONFIG_REFUSED: what it wrote to {shown_path} is not kept: {why}")
    return saved


def _save(root: int, found: ProtectedPaths, copy: ConfigCopy, text: bytes, saved: Saved, shown_path: str) -> None:
    if copy.path not in found.read_only:
        raise ValueError("it is not there any more")
    if not text:
        raise ValueError("it is empty, too large, or no file")
    expected, new_values = copy.expected_values, config_text.read_values(config_text.decode(text))
    keys = [key for key in {**expected, **new_values} if expected.get(key) != new_values.get(key)]
    if len(keys) > _MOST_CHANGES:
        raise ValueError(f"it changed {len(keys)} keys")
    above, _, name = copy.path.rpartition(b"/")
    with descend(root, above) as git:
        if git is None:
            raise ValueError("it is not there any more")
        with _lock(git, name), FileIO(open_beneath(git, name, READ | os.O_RDWR), "r+") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode) or before.st_nlink != 1:
                raise ValueError("it is no file of one name")
            old = read_all(file.fileno(), _MOST_BYTES)
            if old is None:
                raise ValueError("it is too large")
            there = config_text.read_values(config_text.decode(old))
            repository = Repository(
                remotes={key.subsection for key in there if key.section == "remote" and key.subsection},
                submodules=_read_submodules(root, found, above, there),
            )
            changes = {key: new_values.get(key, ()) for key in keys}
            agreed = {key: values for key, values in changes.items() if there.get(key, ()) == values}
            new = {
                key: values
                for key, values in changes.items()
                if key not in agreed and there.get(key) == expected.get(key) and may_write(key, values, repository)
            }
            if new:
                edited = config_text.encode(config_text.set_values(config_text.decode(old), new))
                _overwrite(file.fileno(), old, edited)
                saved.marks[mark_of(os.fstat(file.fileno()))] = mark_of(before)
    copy.agreed = {**copy.agreed, **agreed, **new}
    if new:
        saved.words.append(f"it wrote to {shown_path}: {'; '.join(_first([_describe(*item) for item in new.items()]))}")
    if refused := [_name(key) for key in keys if key not in agreed and key not in new]:
        saved.words.append(_REFUSED.format(path=shown_path, keys=", ".join(_first(refused))))


def _overwrite(descriptor: int, old: bytes, new: bytes) -> None:
    """Replace the text of a file in place. Raises ValueError if that is too long."""
    if len(new) > git_directory.MOST_COPIED_BYTES:
        raise ValueError("there would be too much in it")
    os.pwrite(descriptor, new + b"\n" * (len(old) - len(new)), 0)
    os.ftruncate(descriptor, len(new))
    os.fsync(descriptor)


@contextlib.contextmanager
def _lock(git: int, name: bytes) -> Iterator[None]:
    """Take git's own lock of a configuration. Raises OSError if somebody else has it."""
    lock = name + b".lock"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=git))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(lock, dir_fd=git)


def _read_submodules(root: int, found: ProtectedPaths, git: bytes, there: Values) -> dict[str, set[str]]:
    """The values of the owner's ``.gitmodules`` of a repository; empty if a command has made it."""
    checkout, _, name = git.rpartition(b"/")
    path = checkout + b"/.gitmodules" if checkout else b".gitmodules"
    if name != b".git" or path not in found.read_only or path in found.made_by_commands:
        return {}
    with descend(root, checkout) as directory:
        text = git_directory.text(directory, b".gitmodules") if directory is not None else b""
    remotes = [values for key, values in there.items() if (key.section, key.name) == ("remote", "url")]
    addresses: dict[str, set[str]] = {}
    with contextlib.suppress(ValueError):
        for key, values in config_text.read_values(config_text.decode(text)).items():
            if key.section == "submodule" and key.subsection and key.name == "url" and values[-1]:
                url = values[-1]
                addresses[key.subsection] = {url, *(resolve_address(url, one[0]) for one in remotes if one[0])}
    return addresses


def _read(directory: int, path: bytes) -> bytes:
    """A file of the sandbox; empty if it is no regular file, or too long for a configuration."""
    with contextlib.suppress(OSError), FileIO(open_beneath(directory, path, READ)) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return read_all(file.fileno(), _MOST_BYTES) or b""
    return b""


def _first(words: list[str]) -> list[str]:
    more = len(words) - _MOST_NAMED
    return words if more <= 0 else [*words[:_MOST_NAMED], f"and {more} more"]


def _describe(key: ConfigKey, values: Sequence[str | None]) -> str:
    return f"{_name(key)} = {shorten(printable(str(values[0])))}" if values else f"{_name(key)} removed"


def _name(key: ConfigKey) -> str:
    return shorten(printable(str(key)))
