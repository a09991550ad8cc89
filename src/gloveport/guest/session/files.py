"""Checkpoints the files of a session's directory in memory without a name, and restores them.

Plain files, directories and links are kept, with modes and times. Sockets, pipes and open descriptors are not. A file
that still exists is rewritten in place, so processes that have it open go on with it. Standard library only.
"""

import contextlib
import os
import stat

MOST_ENTRIES = 20_000
CHUNK_BYTES = 1 << 20


class TooMuchError(Exception):
    """The files are larger than a checkpoint may be."""


def list_entries(root):
    """Yield ``(path, status)`` of each entry below ``root``, directories before their entries. Follows no link."""
    pending = [root]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:  # removed meanwhile, or closed to its owner
            continue
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            yield entry.path, status
            if stat.S_ISDIR(status.st_mode):
                pending.append(entry.path)


def sign(status):
    """A signature that changes whenever a file does: no program can set its ctime."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


class Snapshot:
    """A copy of the entries below ``root``.

    Attributes:
        entries: Path → ``(status, place in memory or the link's target)``.
        memory: Descriptor of the concatenated contents.
    """

    def __init__(self, root):
        self.root = root
        self.entries = {}
        self.memory = None

    def close(self):
        """Forget the contents."""
        if self.memory is not None:
            os.close(self.memory)
            self.memory = None


def is_current(snapshot):
    """Whether nothing below the root has changed since."""
    count = 0
    for path, status in list_entries(snapshot.root):
        entry = snapshot.entries.get(path)
        if entry is None or sign(entry[0]) != sign(status):
            return False
        count += 1
    return count == len(snapshot.entries)


def take(root, most_bytes):
    """Copy the entries below ``root``. Raises TooMuchError, OSError."""
    snapshot = Snapshot(root)
    snapshot.memory = os.memfd_create("files", os.MFD_CLOEXEC)
    try:
        size = 0
        for path, status in list_entries(root):
            require_room(len(snapshot.entries) < MOST_ENTRIES)
            place = None
            if stat.S_ISREG(status.st_mode):
                require_room(size + status.st_size <= most_bytes)
                place = size, copy_in(path, snapshot.memory, size, most_bytes - size)
                size += place[1]
            elif stat.S_ISLNK(status.st_mode):
                place = os.readlink(path)
            elif not stat.S_ISDIR(status.st_mode):
                continue
            snapshot.entries[path] = status, place
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def require_room(is_there):
    """Raise TooMuchError where there is none."""
    if not is_there:
        raise TooMuchError


def copy_in(path, memory, offset, room):
    """Append a file to the memory; returns how many bytes. The file may grow meanwhile; holes count as read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:  # its owner has made it unreadable: until that changes, nobody writes to it either
        return 0
    try:
        copied = 0
        while data := os.read(file, CHUNK_BYTES):
            require_room(copied + len(data) <= room)
            os.pwrite(memory, data, offset + copied)
            copied += len(data)
        return copied
    finally:
        os.close(file)


def bring_back(snapshot):
    """Restore the entries below the root, skipping those that fail."""
    now = dict(list_entries(snapshot.root))
    for path in sorted(now, reverse=True):  # a directory after its entries
        entry = snapshot.entries.get(path)
        is_kept = stat.S_IFMT(now[path].st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)
        if is_kept and (entry is None or stat.S_IFMT(entry[0].st_mode) != stat.S_IFMT(now[path].st_mode)):
            with contextlib.suppress(OSError):
                os.rmdir(path) if stat.S_ISDIR(now.pop(path).st_mode) else os.unlink(path)
    for path, (status, place) in snapshot.entries.items():
        with contextlib.suppress(OSError):
            if path not in now or sign(now[path]) != sign(status):
                bring_back_one(snapshot.memory, path, status, place)
    for path, (status, _) in reversed(snapshot.entries.items()):
        if stat.S_ISDIR(status.st_mode):
            with contextlib.suppress(OSError):
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.chmod(path, stat.S_IMODE(status.st_mode))


def bring_back_one(memory, path, status, place):
    """Restore one entry. Raises OSError."""
    if stat.S_ISDIR(status.st_mode):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            os.chmod(path, 0o700)
    elif stat.S_ISLNK(status.st_mode):
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(place, path)
    else:
        if os.path.lexists(path):
            os.chmod(path, 0o600)
        file = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
        )
        try:
            offset, size = place
            while size and (data := os.pread(memory, min(size, CHUNK_BYTES), offset)):
                os.write(file, data)
                offset, size = offset + len(data), size - len(data)
            os.fchmod(file, stat.S_IMODE(status.st_mode))
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(file)
