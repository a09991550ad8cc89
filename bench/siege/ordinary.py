"""The same siege as an ordinary user, when root starts it: ``python -m bench.siege.ordinary …``.

The checkout and its interpreter may lie where no other user can go; ``tests/escape/ordinary.py`` shows them.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tests.escape.ordinary import reveal

_UID: Final = 65531  # of no account, and not that of the test suite, which may run meanwhile


def main() -> None:
    """Become that user, and go on."""
    root = Path(__file__).resolve().parents[2]
    needed = {root, Path(sys.prefix), Path(sys.base_prefix).resolve()}
    reveal(sorted(path for path in needed if not any(path != other and path.is_relative_to(other) for other in needed)))
    os.setgroups([])
    os.setresgid(_UID, _UID, _UID)
    os.setresuid(_UID, _UID, _UID)
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, "-B", "-m", "bench.siege.siege", *sys.argv[1:]])


if __name__ == "__main__":
    main()
