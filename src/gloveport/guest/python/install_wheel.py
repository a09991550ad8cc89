"""Installs a wheel and compiles its modules. Run as a program of its own, in a sandbox where nothing else is.

    python -I install_wheel.py DIRECTORY COMMAND…

The command installs it in the directory. It could compile as well, but starts interpreters of its own for that, which
take longer than most wheels do. Standard library only.
"""

import compileall
import os
import py_compile
import subprocess
import sys

MANY_FILES = 200
"""From so many on, further interpreters are worth it."""


def main() -> None:
    """See the module. What can't be compiled is imported, or fails to be, as it is."""
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
