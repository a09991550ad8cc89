"""A persistent Python interpreter: runs call after call in one namespace, and forks copies to rewind to.

    supervisor → interpreter   {"call": n, "do": "run", "source", "name", "value_bytes", "heap_bytes"}
                               {"call": n, "do": "variables"}
                               {"call": n, "do": "inspect", "expression", "value_bytes"}
    interpreter → supervisor   {"call": n, "report", "variables", "checkpoint": "" or why none will be made}
    supervisor → interpreter   {"checkpoint": true, "reap": [pid…]}, or false where none is made
    interpreter → supervisor   {"checkpoint": pid or null}, and with it the socket on which the twin waits
    host → interpreter         {"call": n, "do": "run", …}
    interpreter → host         its answer; where it finds no room, the supervisor gets it
    interpreter → supervisor   {"call": n, "is_told": true, "checkpoint"}

A message from the host is taken once the supervisor has checkpointed the state after the run before; that of the first
run at once.

A twin is a fork that sleeps until a byte comes, and then becomes the interpreter; it ends when its socket is closed. A
program's own ``wait`` does not find it. It has no threads, and nothing of what the event loop was about to do.

SIGINT interrupts a call, and means nothing between calls. Standard library only.
"""

import _signal  # without enumerations, which cost more than the rest of a call's start
import _socket  # unchanged even if a program has replaced parts of ``socket``
import contextlib
import ctypes
import errno
import json
import linecache
import os
import platform
import resource
import select
import signal
import socket
import sys
import time
from types import ModuleType

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STATM_BYTES = 256
WALL = 0x40000000  # __WALL: waits for children that send no signal when they end
SYS_CLONE = {"x86_64": 56}
VARIABLES_SECONDS = 0.01
CANCEL_SECONDS = 1.0
INSPECTED_BYTES = 16 * 1024
REHEARSAL = "<rehearsal>"
BREATH_SECONDS = 0.002  # work immediately after an answer would keep the host from taking it
SHORT_BREATH_SECONDS = 0.0003  # if the last call came soon, so will the next: its checkpoint should be made by then
HURRY_SECONDS = 0.005
REST_SECONDS = 0.001  # a call that follows directly on its checkpoint has come by then
UNHANDLED = _signal.SIG_IGN, _signal.SIG_DFL, _signal.default_int_handler

_getrusage, _RUSAGE_SELF = resource.getrusage, resource.RUSAGE_SELF
_monotonic = time.monotonic
_python = ctypes.pythonapi
_libc = ctypes.PyDLL(None, use_errno=True)
_byte = ctypes.create_string_buffer(1)


def fork_unseen(sleep):
    """Fork a child that the parent's ``wait`` does not see. In the child this returns after ``sleep``.

    If there are threads, libc has to handle its own locks: then it is an ordinary fork, which ``wait`` does see.
    """
    clone = SYS_CLONE.get(platform.machine())
    if clone is None or len(os.listdir("/proc/self/task")) > 1:
        pid = os.fork()
        if pid == 0:
            sleep()
        return pid
    _python.PyOS_BeforeFork()
    pid = _libc.syscall(clone, 0, 0, 0, 0, 0)
    if pid == 0:
        sleep()  # before the interpreter's own work after a fork: most children are never woken
        _python.PyOS_AfterFork_Child()
    else:
        _python.PyOS_AfterFork_Parent()
    if pid < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return pid


def sleep_until_woken(connection, others):
    """Close descriptors, and wait for a byte on a socket; exit if it closes. Touches little memory."""
    for other in others:
        _libc.close(other)
    while (size := _libc.recv(connection, _byte, 1, 0)) < 0 and ctypes.get_errno() == errno.EINTR:
        continue
    if size != 1:
        _libc._exit(0)  # noqa: SLF001 - its name in libc


def count_heap_bytes(least=0):
    """Anonymous memory of this process, which a twin may come to duplicate. Below ``least`` the result may be 0."""
    if _getrusage(_RUSAGE_SELF).ru_maxrss <= least >> 10:  # its peak, files included: a single call
        return 0
    statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)  # ``open`` takes four times as long
    try:
        _, resident, shared, *_ = map(int, os.read(statm, STATM_BYTES).split())
    finally:
        os.close(statm)
    return (resident - shared) * PAGE_BYTES


def rehearse(program, variables):
    """Warm up what every call needs, in a process that will be forked. It leaves no trace but speed."""
    host, handler = sys.modules["__main__"], signal.getsignal(signal.SIGINT)
    try:
        call = {"do": "run", "source": "None", "name": REHEARSAL, "value_bytes": INSPECTED_BYTES, "heap_bytes": 0}
        json.loads(json.dumps(Interpreter(None, None, program, variables, {}, ()).answer(call)))
    finally:
        sys.modules["__main__"] = host
        signal.signal(signal.SIGINT, handler)
        linecache.cache.pop(REHEARSAL, None)


class Interpreter:
    """Runs calls until its supervisor is gone.

    Attributes:
        link: To the supervisor. A twin has its own.
        direct: To the host; None where there is no such channel.
        program: The module that compiles programs and describes their outcome.
        task: The running call's task in the event loop.
        can_interrupt: Whether a SIGINT ends the running code.
        dying: Numbers of twins that were killed, and nobody has waited for.
        is_kept: Whether the supervisor has checkpointed the state after the last run.
        note: The note that the supervisor has yet to get on a call that the host has the answer to; else None.
        answered: When the host was given its last answer, in seconds of the monotonic clock.
        is_hurried: Whether the last call came soon after the answer to the one before.
    """

    def __init__(self, link, direct, program, variables, names, plain):
        self.link = link
        self.direct = direct
        self.program = program
        self.plain = plain
        self.loop = None
        self.task = None
        self.is_cancelled = False
        self.can_interrupt = False
        self.dying = []
        self.is_kept = True
        self.note = None
        self.answered, self.is_hurried = 0.0, False
        main = ModuleType("__main__")
        main.__dict__.update(names)
        sys.modules["__main__"] = main
        self.namespace = main.__dict__
        self.variables = variables(self.namespace)

    def serve(self):
        """Answer messages until no more will come."""
        signal.signal(signal.SIGINT, self.interrupt)
        if not sys.stdout.write_through:
            self.program.open_streams()
        self.program.attempt(self.rehearse)
        while (message := self.wait()) is not None:
            try:
                if "call" in message:
                    self.send({"call": message["call"], **self.answer(message)}, message)
                else:
                    self.is_kept = True
                    if message["checkpoint"]:
                        self.checkpoint(message)
            except KeyboardInterrupt:  # one that came too late
                continue
        os._exit(0)

    def send(self, answer, message):
        """Send the answer to the sender of the message, if there is room for it."""
        if message["do"] == "run":
            self.is_kept = False
        if message.get("is_direct"):
            self.note = {"call": answer["call"], "is_told": True, "checkpoint": answer["checkpoint"]}
            if self.direct.send(answer):
                self.answered = _monotonic()
                return
            self.note = None
        self.link.send(answer)

    # -- Wait --------------------------------------------------------------------------------------------------------

    def wait(self):
        """The next message. Tasks left in the event loop run on meanwhile."""
        if self.note is not None:
            if not self.link.has_frame():
                breath = SHORT_BREATH_SECONDS if self.is_hurried else BREATH_SECONDS
                select.select([self.link, self.direct], [], [], breath)
            self.link.send(self.note)
            self.note = None
        if self.loop is not None and not self.loop.is_closed() and not self.link.has_frame():
            self.program.attempt(self.run_loop_until_readable)
        while self.is_kept and self.direct is not None and not self.link.has_frame():
            link = self.link.connection.fileno()
            if link in select.select([link, self.direct.connection.fileno()], [], [])[0]:
                break
            if (message := self.direct.take()) is not None:
                message["is_direct"] = True
                self.is_hurried = _monotonic() - self.answered < HURRY_SECONDS
                return message
        return self.link.receive()

    def run_loop_until_readable(self):
        """Run the tasks left in the event loop until a message comes."""
        import asyncio

        if not asyncio.all_tasks(self.loop) and not self.loop._scheduled:  # noqa: SLF001 - nothing is left to do
            return
        readable = self.loop.create_future()
        sources = [self.link.fileno()] + ([self.direct.fileno()] if self.is_kept and self.direct is not None else [])
        for source in sources:
            self.loop.add_reader(source, lambda: readable.done() or readable.set_result(None))
        try:
            self.loop.run_until_complete(readable)
        finally:
            for source in sources:
                self.loop.remove_reader(source)

    def interrupt(self, _signal, _frame):
        """Handle SIGINT: cancel an ``await`` first; if that does not help, interrupt the running code."""
        if not self.can_interrupt:
            return
        if self.task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self.task.cancel()
            self.loop.call_soon_threadsafe(lambda: None)  # it may be waiting
            return
        raise KeyboardInterrupt

    # -- Run ---------------------------------------------------------------------------------------------------------

    def answer(self, message):
        """The answer to a call."""
        if message["do"] == "variables":
            return {"report": None, "variables": {"changed": self.variables.list(), "removed": [], "is_complete": True}}
        if message["do"] == "inspect":
            return {"report": self.run(message["expression"], "inspect", message["value_bytes"], self.inspect)}
        report = self.run(message["source"], message["name"], message["value_bytes"], self.evaluate)
        found = self.program.attempt(self.variables.changes, VARIABLES_SECONDS)
        heap = count_heap_bytes(message["heap_bytes"])
        too_large = f"it holds {heap >> 20} MiB" if heap > message["heap_bytes"] else ""
        return {"report": report, "variables": found, "checkpoint": too_large}

    def run(self, source, name, value_bytes, evaluate):
        """Evaluate a text, and report as ``program.run`` does."""
        program = self.program
        report = {"value": None, "value_type": None, "value_truncated": False, "error": None, "exit_code": 0}
        pid = os.getpid()
        if _signal.getsignal(_signal.SIGINT) in UNHANDLED:
            signal.signal(signal.SIGINT, self.interrupt)
        try:
            try:
                self.is_cancelled = False
                self.can_interrupt = True
                value = evaluate(source, name)
                report.update(program.describe_value(value, value_bytes, self.plain))
                del value
            finally:
                self.can_interrupt = False
        except SystemExit as stop:
            report.update(program.describe_exit(stop))
        except BaseException as error:
            report.update(error=program.describe_error(error, sys.exc_info()[2]), exit_code=1)
        if os.getpid() == pid:
            program.finish_shown(report)
        for stream in ("stdout", "stderr"):
            program.attempt(lambda stream=stream: getattr(sys, stream).flush())
        if os.getpid() != pid:  # the program forked, and its child came to the end of the call
            os._exit(report["exit_code"])
        return report

    def evaluate(self, source, name):
        """Run the text in the namespace; its value. Raises whatever it raises."""
        program = self.program
        sys.argv = [name]
        source = source.removeprefix("\ufeff")
        program.keep_lines(source, name)
        code = program.compile_program(source, name, self.namespace)
        value = eval(code, self.namespace)
        if not code.co_flags & program.CO_COROUTINE:
            value = self.namespace.pop(program.VALUE, value)
            if not program.is_unstarted(value):
                return value
        return self.run_in_loop(value)

    def run_in_loop(self, coroutine):
        """Await in the event loop, which stays."""
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.task = self.loop.create_task(self.program.settle(coroutine, self.namespace, asyncio.isfuture))
        try:
            return self.loop.run_until_complete(self.task)
        except asyncio.CancelledError as error:
            if not self.is_cancelled:
                raise
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        finally:
            task, self.task = self.task, None
            if not task.done():  # interrupted while it was waiting
                task.cancel()
                self.program.attempt(lambda: self.loop.run_until_complete(asyncio.wait([task], timeout=CANCEL_SECONDS)))

    def inspect(self, expression, name):
        """The value of an expression, as text."""
        value = eval(compile(expression, name, "eval"), self.namespace)
        lines = [f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")]
        if callable(value):
            import inspect

            with contextlib.suppress(TypeError, ValueError):
                lines[0] += f" {inspect.signature(value)}"
            lines.append(inspect.getdoc(value) or "")
        elif hasattr(value, "dtypes") and hasattr(value, "head"):
            lines += [f"shape {getattr(value, 'shape', '')}", str(value.dtypes), str(value.head())]
        else:
            lines += [f"{what} {getattr(value, what)}" for what in ("shape", "dtype") if hasattr(value, what)]
            if type(value) in (list, tuple, dict, set, frozenset, str, bytes):
                lines.append(f"length {len(value)}")
            lines.append(self.program.show(value, INSPECTED_BYTES)[0])
        return "\n".join(filter(None, lines))

    # -- Checkpoint --------------------------------------------------------------------------------------------------

    def checkpoint(self, message):
        """Fork a twin, and give its socket to the supervisor. In the twin this returns when the twin is woken."""
        self.dying += message["reap"]
        ours, theirs = socket.socketpair()
        pid = self.fork_twin(theirs.fileno(), [ours.fileno(), self.link.fileno()])
        if pid == 0:
            ours.detach()
            self.link.connection.detach()
            self.link = type(self.link)(theirs)
            self.loop = None  # it shares its descriptors with the original's
            self.is_kept = False
            self.dying = []
            return
        theirs.close()
        self.link.send({"checkpoint": pid}, [] if pid is None else [ours.fileno()])
        ours.close()
        self.reap(os.WNOHANG)
        if pid is not None:
            self.program.attempt(self.rehearse)

    def fork_twin(self, connection, others):
        """The number of a sleeping twin, None where none can be made; 0 in the twin, when it is woken."""

        def sleep():
            sleep_until_woken(connection, others)

        try:
            return fork_unseen(sleep)
        except OSError:
            self.reap(0)  # they count as long as nobody has waited for them
        try:
            return fork_unseen(sleep)
        except OSError:
            return None

    def reap(self, options):
        """Wait for the twins that were killed; with ``WNOHANG`` for those that are dead by now."""
        self.dying = [pid for pid in self.dying if self.program.attempt(os.waitpid, pid, WALL | options) == (0, 0)]

    def rehearse(self):
        """Warm up a call while nobody waits: after a fork, the first write to each page has to copy it."""
        sources = [self.link] if self.direct is None else [self.link, self.direct]
        is_awaited = self.link.has_frame() or select.select(sources, [], [], REST_SECONDS)[0]
        if is_awaited or sys.gettrace() or sys.getprofile():  # a program's tracer must not see it
            return
        arguments = sys.argv
        call = {"call": 0, "do": "run", "source": "None", "name": REHEARSAL, "value_bytes": INSPECTED_BYTES}
        near, far = map(type(self.link), _socket.socketpair())
        for _ in range(2):
            far.send(call)
            message = near.receive()
            report = self.run(message["source"], message["name"], message["value_bytes"], self.evaluate)
            near.send(call)  # nothing reads it, so it must fit into the buffer
        near.close()
        far.close()
        sys.argv = arguments
        linecache.cache.pop(REHEARSAL, None)
        type(self.variables)(self.namespace).names()
        json.loads(json.dumps({"report": report, "heap": count_heap_bytes()}))
