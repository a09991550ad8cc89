"""The command ``apply_patch`` of a workspace's shells: the tool of that name, with the rights of whoever calls it.

It takes a patch in the V4A dialect as its argument or on standard input, and parses it with the tool's own code. All
files are made in memory first. It exits with 0; with 1 where the patch does not fit or a file can't be written, with
the reason on standard error; and with 2 for wrong usage.
"""

import os
import stat
import sys

from gloveport.patch_text.matching import place_hunks
from gloveport.patch_text.parsing import Add, Delete, parse_patch
from gloveport.patch_text.patch_error import PatchError
from gloveport.patch_text.text import FileText

FAILED, WRONG_USAGE = 1, 2
NEW_FILE_MODE = 0o666
USAGE = """\
usage: apply_patch PATCH
       apply_patch < FILE
       apply_patch <<'EOF'
       *** Begin Patch
       *** Update File: PATH
       @@
        a line that stays
       -a line that goes
       +a line that comes
       *** End Patch
       EOF"""


class StagedFiles:
    """Planned files: by path, the present content, the new content (None for no file), and the mode."""

    def __init__(self):
        self.before = {}
        self.after = {}
        self.modes = {}
        self.summary = []
        self.warnings = []

    def read(self, name):
        """The path of a file, links resolved, and its planned content. Raises PatchError, OSError."""
        path = os.path.realpath(name)
        if path not in self.before:
            content, self.modes[path] = read_file(path)
            self.before[path] = self.after[path] = content
        return path, self.after[path]

    def demand(self, name):
        """As ``read``, of a file that must exist."""
        path, content = self.read(name)
        if content is None:
            raise PatchError("NOT_FOUND", f"{name} does not exist")
        return path, content

    def stage(self, operation):
        """Do one operation of a patch. Raises PatchError, OSError."""
        name = operation.path
        if isinstance(operation, Add):
            path, _ = self.read(name)
            self.after[path] = "".join(f"{line}\n" for line in operation.lines).encode()
            self.summary.append(f"A {name}")
            return
        path, content = self.demand(name)
        if isinstance(operation, Delete):
            self.after[path] = None
            self.summary.append(f"D {name}")
            return
        if operation.hunks:
            text = FileText.decode(content, name)
            placed = place_hunks(operation.hunks, text.lines(), name)
            content = text.apply(placed.splices)
            self.warnings += placed.warnings
        self.after[path] = content
        self.summary.append(f"M {operation.destination or name}")
        if operation.destination:
            target, _ = self.read(operation.destination)
            self.after[path] = None
            self.after[target], self.modes[target] = content, self.modes[path]

    def write(self):
        """Write all files; if one can't be written, restore them all. Raises OSError."""
        done = []
        try:
            for path, content in self.after.items():
                if content != self.before[path]:
                    replace_file(path, content, self.modes[path])
                    done.append(path)
        except OSError:
            for path in done:
                replace_file(path, self.before[path], self.modes[path])
            raise


def read_file(path):
    """The content and mode of a file, None where there is none. Raises PatchError where it is no file, OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, NEW_FILE_MODE & ~current_umask()
    with open(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise PatchError("NOT_A_FILE", f"{path} is no file")
        return file.read(), stat.S_IMODE(mode)


def replace_file(path, content, mode):
    """Replace a file whole, or remove it. Raises OSError."""
    if content is None:
        os.unlink(path)
        return
    directory, name = os.path.split(path)
    os.makedirs(directory, exist_ok=True)
    temporary = os.path.join(directory, f".{name[:200]}.{os.getpid()}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def current_umask():
    """The umask, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def apply(patch):
    """Apply a patch; returns the changes, in lines. Raises PatchError, OSError."""
    operations = parse_patch(patch)
    names = [os.path.realpath(operation.path) for operation in operations]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise PatchError("PATCH_FAILED", f"two operations of the patch are about {name}", hint="make one of them")
    staged = StagedFiles()
    for operation in operations:
        staged.stage(operation)
    staged.write()
    return [
        *(f"warning: {warning}" for warning in staged.warnings),
        "Success. Updated the following files:",
        *staged.summary,
    ]


def describe(error):
    """An error of a patch in lines, with the text near its place."""
    yield f"apply_patch: {error.code}: {error}"
    if error.hint:
        yield f"hint: {error.hint}"
    if near := error.details.get("nearby_text"):
        yield f"the nearest lines:\n{near}"
    for one in error.details.get("candidates", ()):
        yield f"near line {one['line']}:\n{one['text']}"


def main(arguments):
    """Do what the command line says; return the exit code."""
    if len(arguments) > 1 or arguments in (["-h"], ["--help"]):
        print(USAGE, file=sys.stderr)
        return WRONG_USAGE
    try:
        patch = arguments[0] if arguments and arguments != ["-"] else sys.stdin.buffer.read().decode()
        print("\n".join(apply(patch)))
    except PatchError as error:
        print("\n".join(describe(error)), file=sys.stderr)
        return FAILED
    except UnicodeDecodeError:
        print("apply_patch: the patch is not UTF-8", file=sys.stderr)
        return FAILED
    except OSError as error:
        path = error.filename2 or error.filename
        print(f"apply_patch: {path}: {error.strerror}; nothing was changed", file=sys.stderr)
        return FAILED
    return 0
