"""Runs another file of ours from the bytecode that Python keeps of it: a script's own text is compiled at each start.

    python -I -B [-S] start.py FILE ARGUMENT…

To the file it looks as if it had been started itself. Where no bytecode of this interpreter's version lies beside it,
or one that is older than the file, its text is compiled. Standard library only.
"""

import sys
from _frozen_importlib_external import SourceFileLoader  # importlib itself would be one more to import

del sys.argv[0]
__file__ = sys.argv[0]
exec(SourceFileLoader(__name__, __file__).get_code(__name__))  # whatever lies there was mounted by the owner
