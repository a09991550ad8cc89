"""A patch is applied and the process killed before each system call that changes something; a fresh process recovers.

``python -m tests.workspace.patch.killed DIRECTORY WAY`` prints a JSON document: what was found after each kill. The way
``links`` takes the system call away that exchanges two names, as on a network file system.

The tracer is the parent (ptrace): a filter of the child (seccomp) stops it before each such call, and the tracer counts
them, and kills with SIGKILL.
"""

import ctypes
import gc
import json
import os
import platform
import secrets
import shutil
import signal
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.writer import Writer

TRACEME, CONT, SETOPTIONS, GET_SYSCALL_INFO = 0, 7, 0x4200, 0x420E
TRACESECCOMP, EXITKILL = 0x80, 0x100000
CHANGING = {
    # write pwrite64 openat linkat unlinkat mkdirat renameat renameat2 fchmod fchown fsetxattr fremovexattr ftruncate
    # fsync fdatasync
    "x86_64": (1, 18, 257, 265, 263, 258, 264, 316, 91, 93, 190, 199, 77, 74, 75),
    "aarch64": (64, 68, 56, 37, 35, 34, 38, 276, 52, 55, 7, 16, 46, 82, 83),
}[platform.machine()]
OPENAT, RENAMEAT2 = CHANGING[2], CHANGING[7]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long

PATCHES = {
    "one file": "*** Update File: a\n-1\n+one",
    "new file": "*** Add File: n\n+n",
    "file gone": "*** Delete File: b",
    "many": "*** Update File: a\n-1\n+one\n*** Delete File: b\n*** Add File: new/dir/x\n+x\n*** Add File: new/y\n+y\n"
    "*** Update File: c\n*** Move to: d\n-3\n+three\n*** Update File: e\n*** Move to: sub/f",
}
FILES = {"a": "1\n", "b": "2\n", "c": "3\n", "d": "4\n", "e": "5\n", "sub/g": "6\n"}


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def answer_calls(numbers: tuple[int, ...], answer: int) -> None:
    """From now on a filter of this process has an answer of its own to these system calls."""
    jumps = [(0x15, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    lines = [(0x20, 0, 0, 0), *jumps, (6, 0, 0, 0x7FFF0000), (6, 0, 0, answer)]
    code = b"".join(struct.pack("HBBI", *line) for line in lines)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(lines), code)), 0, 0) == 0


def without_exchange() -> None:
    """From now on renameat2 is a system call that the file system does not know: EINVAL."""
    answer_calls((RENAMEAT2,), 0x50000 | 22)


def with_stops() -> None:
    """From now on the tracer is asked before each call that changes something."""
    answer_calls(CHANGING, 0x7FF00000)


def snapshot(root: Path) -> list:
    def told(path: Path) -> list:
        status = path.lstat()
        content = path.read_text() if path.is_file() else None
        return [str(path.relative_to(root)), stat.filemode(status.st_mode), status.st_nlink * path.is_file(), content]

    return sorted(map(told, root.rglob("*")), key=lambda each: each[0])


def fresh(place: Path) -> Writer:
    shutil.rmtree(place, ignore_errors=True)
    root = place / "root"
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "d").chmod(0o750)
    return Writer(TREES.enter(root), place / "state")


class TREES:
    """The tree of this process's present workspace."""

    held = None

    @classmethod
    def enter(cls, root: Path) -> Tree:
        cls.held = Tree.open_tree(root)
        return cls.held.__enter__()


def in_child(act: Callable[[], None], kill_at: int = 0) -> bool:
    """Act in a child process, which is killed before its call of that number; whether it got to its end."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if kill_at:
                libc.ptrace(TRACEME, 0, None, None)
                os.kill(os.getpid(), signal.SIGSTOP)
                with_stops()
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if kill_at:
        libc.ptrace(SETOPTIONS, child, None, TRACESECCOMP | EXITKILL)
        calls = 0
        while os.WIFSTOPPED(status):
            calls += entering(child)
            if calls >= kill_at:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return False
            libc.ptrace(CONT, child, None, None)
            _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return True


def entering(child: int) -> bool:
    """Whether a child that stopped is about to make a system call that changes something."""
    info = ctypes.create_string_buffer(88)
    libc.ptrace(GET_SYSCALL_INFO, child, 88, info)
    number, _, _, flags = struct.unpack_from("4Q", info.raw, 24)
    return info.raw[0] == 3 and (number != OPENAT or bool(flags & os.O_CREAT))


def sweep(place: Path, patch: str, way: str) -> list[dict]:
    def apply() -> None:
        if way == "links":
            without_exchange()
        writer.apply_patch(f"*** Begin Patch\n{patch}\n*** End Patch")

    def recover() -> None:
        if way == "links":
            without_exchange()
        outcome.write_text(writer.recover().outcome)

    outcome = place.parent / "outcome"
    writer = fresh(place)
    root = place / "root"
    old = snapshot(root)
    in_child(apply)
    new = snapshot(root)
    found: list[dict] = []

    def judge(kill_at: int, recovery: int) -> None:
        there = snapshot(root)
        state = "old" if there == old else "new" if there == new else there
        told = outcome.read_text()
        found.append({"killed": kill_at, "recovery": recovery, "state": state, "told": told})
        if state == "new":
            writer.undo()
            found[-1]["undone"] = snapshot(root) == old

    kill_at, ended = 0, False
    while not ended:
        kill_at += 1
        writer = fresh(place)
        ended = in_child(apply, kill_at)
        in_child(recover)
        judge(kill_at, 0)
    turn = next(each["killed"] for each in found if each["state"] == "new")
    # The two states from which recovery has most to do: all is swapped, and is not or just is committed.
    for at in (turn - 1, turn) if patch == PATCHES["many"] else ():
        # Each run tries every other call, from the first or the second: in a few runs it has been each of them.
        recovery, ended = secrets.randbelow(2) - 1, False
        while not ended:
            recovery += 2
            writer = fresh(place)
            in_child(apply, at)
            ended = in_child(recover, recovery)
            in_child(recover)
            judge(at, recovery)
    return found


def main() -> None:
    place, way = Path(sys.argv[1]), sys.argv[2]
    names = PATCHES if way == "exchange" else ("many",)
    gc.freeze()  # else each child would copy what it looks through
    json.dump({name: sweep(place / "tree", PATCHES[name], way) for name in names}, sys.stdout)


if __name__ == "__main__":
    main()
