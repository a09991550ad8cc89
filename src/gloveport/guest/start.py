"""Runs another file of ours from its cached bytecode: Python would compile a script anew at each start.

    python -I -B [-S] start.py FILE ARGUMENT…

The file runs as if it had been started itself. If it has no bytecode of this interpreter's version, or bytecode that is
older than the file, its text is compiled. Standard library only.
"""

import sys
from _frozen_importlib_external import SourceFileLoader  # importlib itself would be one more to import

del sys.argv[0]
__file__ = sys.argv[0]
exec(SourceFileLoader(__name__, __file__).get_code(__name__))  # trusted: the owner has mounted that file
