"""Runs tests in several processes, which are forked when all is imported and collected:

    python -m pytest -p tests.workers --workers 6

A file at a time each, in the order in which they were collected. Each process of xdist imports and collects all of it
itself, which takes as long as two hundred tests.
"""

import asyncio
import atexit
import contextlib
import functools
import gc
import inspect
import itertools
import os
import pickle
import secrets
import selectors
import signal
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import IO, Any

import pytest
from tests import forked

_FILE = struct.Struct("H")
_LENGTH = struct.Struct("I")
_PATIENCE_SECONDS = 600
"""Where nobody has said anything for so long, those that are left hang."""

_LAST_WORDS_SECONDS = 20
"""Then they have so long to show where their tasks wait, unless they hang outside of Python."""


def pytest_addoption(parser):
    """See the module."""
    parser.addoption("--workers", type=int, default=0, help="run tests in so many forked processes")
    parser.addoption("--once", action="store_true", help="of cold and warm sandboxes, try a test in one, by chance")


def pytest_collection_modifyitems(config, items):
    """Leave out one of each two tests that differ by whether a sandbox is built for them or has waited."""
    if not config.getoption("once"):
        return
    pairs = defaultdict(list)
    for item in items:
        params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        if {"cold", "warm"} & {params.pop("temperature", None), params.pop("opened", None)}:
            pairs[item.path, item.originalname, repr(params)].append(item)
    turn = secrets.randbelow(2)
    twins = [pair for pair in pairs.values() if len(pair) == 2]
    left_out = {pair[(turn + place) % 2] for place, pair in enumerate(twins)}
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """End this process when all is reported, and free nothing before: thousands of tests and all that they import."""
    if session.config.getoption("workers") and not session.config.option.collectonly:
        session.config.add_cleanup(functools.partial(_end_process, session))


def _end_process(session: pytest.Session) -> None:
    atexit._run_exitfuncs()
    for stream in (session.config.get_terminal_writer(), sys.stdout, sys.stderr):
        stream.flush()
    os._exit(session.exitstatus)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Have all tests run by workers, and report what they report."""
    config, count = session.config, session.config.getoption("workers")
    if not count or config.option.collectonly or session.testsfailed:
        return None
    with forked.shared_by_workers():
        _run(session, count)
    return True


def _run(session: pytest.Session, count: int) -> None:
    config = session.config
    files = [[*items] for _, items in itertools.groupby(session.items, lambda item: item.path)]
    queue, filling = os.pipe()
    os.write(filling, b"".join(map(_FILE.pack, range(len(files)))))
    os.close(filling)
    directory = config._tmp_path_factory.getbasetemp()
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for number in range(count):
            reading, writing = os.pipe()
            if (process := os.fork()) == 0:
                os.close(reading)
                place = directory / f"worker-{number}"
                place.mkdir(mode=0o700)
                config._tmp_path_factory._basetemp = place
                _become_worker(session, _take(files, queue), writing)
            os.close(writing)
            pipe = stack.enter_context(FileIO(reading))  # what a buffer held would be reported late, or never
            selector.register(pipe, selectors.EVENT_READ, _Worker(process))
        patience = _PATIENCE_SECONDS
        while selector.get_map():
            said = selector.select(patience)
            if not said:
                number = signal.SIGUSR1 if patience == _PATIENCE_SECONDS else signal.SIGABRT
                patience = _LAST_WORDS_SECONDS
                for key in selector.get_map().values():
                    os.kill(key.data.process, number)  # faulthandler shows where each was
            for key, _ in said:
                if not _report(session, key.fileobj, key.data):
                    selector.unregister(key.fileobj)
            if session.shouldfail or session.shouldstop:
                os.read(queue, 1 << 16)  # each ends after the file that it is at
    os.close(queue)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def _take(files: Sequence[Sequence[pytest.Item]], queue: int) -> Iterator[pytest.Item]:
    while number := os.read(queue, _FILE.size):
        yield from files[_FILE.unpack(number)[0]]


@dataclass
class _Worker:
    process: int
    last: str = "nothing"
    """The test of its last report."""


def _report(session: pytest.Session, pipe: FileIO, worker: _Worker) -> bool:
    """Report what a worker says next; whether there may be more."""
    config = session.config
    if head := _read(pipe, _LENGTH.size):
        told = pickle.loads(_read(pipe, *_LENGTH.unpack(head)))
        report = config.hook.pytest_report_from_serializable(config=config, data=told)
        worker.last = report.nodeid
        config.hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
        return True
    _, status = os.waitpid(worker.process, 0)
    if status:
        session.shouldfail = f"a worker ended with {os.waitstatus_to_exitcode(status)} after {worker.last}"
    return False


def _read(pipe: FileIO, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (more := pipe.read(size - len(data))):
        data += more
    return bytes(data)


class _Sender:
    def __init__(self, config: pytest.Config, pipe: IO[bytes]) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logreport(self, report):
        told = pickle.dumps(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
        self._pipe.write(_LENGTH.pack(len(told)) + told)
        self._pipe.flush()


def _become_worker(session: pytest.Session, items: Iterator[pytest.Item], writing: int) -> None:
    """Run these tests, and end."""
    status = 1
    try:
        atexit._clear()  # what the parent has it removes itself
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        capturing = plugins.getplugin("capturemanager")  # into files that are the parent's
        capturing.stop_global_capturing()
        signal.signal(signal.SIGUSR1, functools.partial(_show_tasks, os.fdopen(os.dup(2), "w")))
        capturing.start_global_capturing()
        with os.fdopen(writing, "wb") as pipe:
            plugins.register(_Sender(session.config, pipe))
            item = next(items, None)
            while item is not None:
                following = next(items, None)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                item = following
            atexit._run_exitfuncs()
        status = 0
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    finally:
        with contextlib.suppress(Exception):
            capturing.stop_global_capturing()
        os._exit(status)


def _show_tasks(file: IO[str], *_: object) -> None:
    """Show where each task of the event loop waits, and end by a signal, at which all threads are shown."""
    with contextlib.suppress(RuntimeError):  # no event loop runs
        for task in asyncio.all_tasks():
            print(task.get_name(), *_places(task.get_coro()), sep="\n  ", file=file, flush=True)
    os.abort()


def _places(waiting: Any) -> Iterator[str]:
    """Where a coroutine waits, from the outermost call on, as far as it can be followed."""
    while waiting is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(waiting, f"{kind}_frame")), None)
        if kind is None:
            of_generator = [
                one for one in gc.get_referents(waiting) if inspect.isasyncgen(one)
            ]  # ``asend`` has no name for it
            yield from _places(of_generator[0]) if of_generator else [repr(waiting)]
            return
        if frame := getattr(waiting, f"{kind}_frame"):
            yield f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
