# expect: value "blocked"
# proves: E4, E9
# tries: crash, to make the host write a core file or start its core handler with the crashed memory
import ctypes, os, signal
os.chdir("/tmp")
wrong = {}
for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT, signal.SIGBUS):
    child = os.fork()
    if child == 0:
        signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable
        os.kill(os.getpid(), number)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != number:
        wrong[number.name] = f"it did not crash: {status}"
    if os.WCOREDUMP(status):
        wrong[number.name] = "ESCAPED: a core was dumped"
if os.listdir("/tmp") != ["program.py"]:
    wrong["files"] = os.listdir("/tmp")
wrong or "blocked"
