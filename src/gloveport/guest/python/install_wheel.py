"""Installs a wheel and compiles its modules. Runs as a program of its own, in a sandbox with nothing else.

    python -I install_wheel.py DIRECTORY COMMAND…

The command installs the wheel in the directory. It could compile as well, but would start interpreters for that, which
takes longer than most wheels do. Standard library only.
"""

import compileall
import os
import py_compile
import subprocess
import sys

MANY_FILES = 200
"""From this number on, further interpreters are worth their start."""


def main() -> None:
    """See the module. A module that can't be compiled stays as source."""
    directory, *command = sys.argv[1:]
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)
    files = sum(len(names) for _, _, names in os.walk(directory))
    compileall.compile_dir(
        directory,
        quiet=2,
        workers=0 if files >= MANY_FILES else 1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


if __name__ == "__main__":
    main()
