"""Commands trace processes of their own sandbox where the operator says so (E9, P3)."""

import pytest
from tests.server.workspace.served import opened

pytestmark = pytest.mark.anyio

TRACE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
TRACE_ME, PEEK, SEIZE = 0, 2, 0x4206
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long
held = ctypes.c_long(41)
pid = os.fork()
if not pid:
    libc.ptrace(TRACE_ME, 0, None, None)
    os.kill(os.getpid(), 19)
    os._exit(0)
os.waitpid(pid, os.WUNTRACED)
ctypes.set_errno(0)
print(libc.ptrace(PEEK, pid, ctypes.addressof(held), None), libc.ptrace(SEIZE, 1, None, None), ctypes.get_errno())
os.kill(pid, 9)
"""


@pytest.mark.parametrize(("ptrace", "told"), [(True, "41 -1 1\n"), (False, "-1 -1 1\n")])
async def test_a_command_reads_the_memory_of_a_child_that_it_traces(tmp_path, ptrace, told):
    """And never traces pid 1 of its sandbox, which is not the program's."""
    async with opened(tmp_path, tables={"policy": {"ptrace": ptrace}}) as one:
        one.write("trace.py", TRACE)
        assert await one.out("python3 trace.py") == told
        # Sanitizers trace to find leaks, and would fail.
        assert await one.out("echo $LSAN_OPTIONS") == ("\n" if ptrace else "detect_leaks=0\n")
