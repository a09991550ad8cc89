"""What a Python program's report says (E1, E2), run as the sandbox does, under each interpreter that is here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROGRAM = Path(__file__).parents[2] / "src/gloveport/guest/python/program.py"
PYTHONS = sorted({path for path in (sys.executable, "/usr/bin/python3") if Path(path).exists()})
LIMIT = 32 * 1024
DRIVER = f"""
import gc, json, os, sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("program", {str(PROGRAM)!r})
program = module_from_spec(spec)
spec.loader.exec_module(program)
directory = sys.argv[1]
jobs = json.load(open(directory + "/jobs"))
if len(jobs) > 1:  # of each job these would be most of its time
    import asyncio, linecache, traceback
gc.freeze()
for number, (source, limit) in enumerate(jobs):
    if len(jobs) == 1 or not os.fork():
        report = program.run(source, "program.py", limit)
        with open(f"{{directory}}/{{number}}", "w") as file:
            json.dump(report, file)
        os._exit(report["exit_code"])
    os.wait()
"""


def spawn(python, tmp_path, sources, limit=LIMIT):
    """Run each source in a process of its own, as the sandbox's first process does."""
    (tmp_path / "jobs").write_text(json.dumps([(source, limit) for source in sources]))
    return subprocess.run(
        [python, "-I", "-c", DRIVER, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        check=False,
        timeout=30,
    )


def run_all(python, tmp_path, sources, limit=LIMIT):
    """Run each source; return the reports, and what the process returned."""
    done = spawn(python, tmp_path, sources, limit)
    reports = [json.loads((tmp_path / str(number)).read_text()) for number in range(len(sources))]
    return reports, done


@pytest.fixture(params=PYTHONS)
def run(request, tmp_path):
    """Run one source: ``report, exit code, stdout, stderr``."""

    def run_one(source, limit=LIMIT):
        (report,), done = run_all(request.param, tmp_path, [source], limit)
        assert done.returncode == report["exit_code"]
        return report, done.stdout.decode(), done.stderr.decode()

    return run_one


VALUES = {
    "": None,
    "1 + 1": 2,
    "'hello'": "hello",
    "x = 3\nx": 3,
    "x = 3": None,
    "print": ("<built-in function print>", "builtin_function_or_method"),
    "[1, (2, 3), {'a': None}, True, 1.5]": [1, [2, 3], {"a": None}, True, 1.5],
    "{1: 2}": ("{1: 2}", "dict"),
    "{1, }": ("{1}", "set"),
    "(1, {2})": ("(1, {2})", "tuple"),
    "({2},)": ("({2},)", "tuple"),
    "frozenset([1])": ("frozenset({1})", "frozenset"),
    "set()": ("set()", "set"),
    "b'x'": ("b'x'", "bytes"),
    "float('nan')": ("nan", "float"),
    "[float('inf')]": ("[inf]", "list"),
    "-0.0": -0.0,
    "10**4000": 10**4000,
    "1 << 200000": (hex(1 << 200000)[: LIMIT - 3] + "…", "int", True),
    "1 << 60000": (hex(1 << 60000), "int"),
    "'\\ud800'": ("'\\ud800'", "str"),
    "{'\\ud800': 1}": ("{'\\ud800': 1}", "dict"),
    "'\\U0001f600\\0'": "\U0001f600\0",
    "class A:\n  def __repr__(self): return '\\ud800'\nA()": ("\\ud800", "A"),
    "class A(int): pass\n[A(3)]": ("[3]", "list"),
    "import enum\nclass E(enum.IntEnum): X = 1\nE.X": ("<E.X: 1>", "E"),
    "import collections\ncollections.Counter('a')": ("Counter({'a': 1})", "collections.Counter"),
    "class A:\n  def __repr__(self): raise SystemExit(4)\nA()": ("<A object: repr raised SystemExit>", "A"),
    "class A:\n  def __repr__(self): return repr(self)\nA()": ("<A object: repr raised RecursionError>", "A"),
    "class A:\n  def __repr__(self): return 3\nA()": ("<A object: repr raised TypeError>", "A"),
    "class M(type):\n  def __hash__(self): raise OSError\n  __eq__ = __hash__\nclass A(metaclass=M): pass\nA()": (
        "<A object: repr raised OSError>",
        "A",
    ),
    "class M(type):\n  @property\n  def __module__(self): raise OSError\nclass A(metaclass=M):\n"
    "  def __repr__(self): return 'a'\nA()": ("a", "object"),
    "class A:\n  __class__ = property(lambda self: 1 / 0)\n  def __repr__(self): return 'a'\nA()": ("a", "A"),
    "class A:\n  def __repr__(self): return 'x' * 10**7\nA()": ("x" * (LIMIT - 3) + "…", "A", True),
    "x = []; x.append(x); x": ("[[...]]", "list"),
    "x = {}; x['a'] = [x, x]; x": ("{'a': [{...}, {...}]}", "dict"),
    "x = []\nfor _ in range(50000): x = [x]\nx": ("[" * 100 + "[...]" + "]" * 100, "list"),
    "list(range(10**6))": (str(list(range(10**4)))[: LIMIT - 3] + "…", "list", True),
    "'é' * 10**6": ("'" + "é" * ((LIMIT - 4) // 2) + "…", "str", True),
    "async def main():\n  return 5\nmain()": 5,
    "async def main():\n  return 5\nawait main()": 5,
    "import asyncio\nasync def f(x): return x\nawait asyncio.sleep(0)\nasyncio.gather(f(1), f(2))": [1, 2],
    "import asyncio\nasync def main():\n  return 5\nasyncio.run(main())": 5,
    "async def g():\n  yield 1\n[x async for x in g()]": [1],
    "async def g():\n  yield 1\nasync for x in g(): pass\nreturn x": 1,
    "async def main(): return 7\nreturn main()": 7,
    "return 3": 3,
    "return": None,
    "if True:\n  return {'a': 1}\n2": {"a": 1},
    "if False:\n  return 1\n2": 2,
    "if False:\n  return 1\nx = 2": None,
    "try:\n  return 1\nexcept BaseException:\n  return 2\nfinally:\n  x = 3": 1,
    "try:\n  return 1\nfinally:\n  return 2": 2,
    "for i in range(3):\n  try:\n    return 1\n  finally:\n    continue\n'end'": "end",
    "with open('/dev/null') as f:\n  return f.closed": False,
    "match 3:\n  case y: return y": 3,
    "x: int = 3\n(y): int = 4\nz: str\nif x: return [x, y, sorted(__annotations__)]": [3, 4, ["x", "z"]],
    "from __future__ import annotations\nx: Missing = 3\nreturn [__annotations__['x'], annotations.optional[0]]": [
        "Missing",
        3,
    ],
    "'doc'\nreturn __doc__": "doc",
    "class A:\n  n: int = 1\n  def f(self): return super().__init__().__class__.__name__\n"
    "return [A.__qualname__, A().f()]": ["A", "NoneType"],
    "exec('y = 5')\nx = 1\nz = [x for x in range(3)]\nreturn [x, y, locals()['x'], locals() is globals()]": [
        1,
        5,
        1,
        True,
    ],
    "def f(): return w\n[w := i for i in range(4)]\nreturn [f(), 'w' in globals()]": [3, True],
    "fs = [lambda: x for x in range(2)]\nx = 'mine'\nreturn [fs[0](), x]": [1, "mine"],
    "import sys\nreturn [sys.argv, __name__, __file__, sys.modules['__main__'].__dict__ is globals()]": [
        ["program.py"],
        "__main__",
        "program.py",
        True,
    ],
    "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n  x: 'int'\n"
    "pickle.loads(pickle.dumps(P(3))) == P(3)": True,
    "import typing\nclass A:\n  x: 'A'\ntyping.get_type_hints(A)['x'] is A": True,
    "import multiprocessing\ndef f(x): return x * x\n"
    "with multiprocessing.get_context('fork').Pool(1) as pool: r = pool.map(f, [2, 3])\nr": [4, 9],
    "import inspect\ndef f():\n  '\\f'\n  return 1\ninspect.getsource(f)": "def f():\n  '\\f'\n  return 1\n",
    "\ufeffx = 1\r\nx\r\n": 1,
    "import threading\nthreading.current_thread() is threading.main_thread()": True,
}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_value_is_that_of_the_last_expression_or_return(python, tmp_path):
    """E1, E2: JSON is itself; what is no JSON is its bounded repr with its type; top-level await and return work."""
    reports, _ = run_all(python, tmp_path, list(VALUES))
    for (source, expected), report in zip(VALUES.items(), reports, strict=True):
        value, kind, truncated = (*expected, False)[:3] if isinstance(expected, tuple) else (expected, None, False)
        wanted = {"value": value, "value_type": kind, "value_truncated": truncated, "error": None, "exit_code": 0}
        assert report == wanted, (source, report["error"])


ERRORS = {
    "1 / 0": ("ZeroDivisionError", "division by zero", "1 / 0\n    ~~^~~"),
    "import json\njson.loads('{')": ("json.decoder.JSONDecodeError", "Expecting property", "in raw_decode"),
    "class E(Exception): pass\nraise E('x')": ("E", "x", "\nE: x\n"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", "", "\nKeyboardInterrupt\n"),
    "raise GeneratorExit": ("GeneratorExit", "", "\nGeneratorExit\n"),
    "x = (1,\n": ("SyntaxError", "never closed", "    x = (1,\n        ^\n"),
    "x = 1\n  y = 2": ("IndentationError", "unexpected indent", 'File "program.py", line 2\n    y = 2'),
    "x = 1\nbreak": ("SyntaxError", "'break' outside loop", "    break\n    ^^^^^"),
    "x = 1\nyield x\nreturn 2": ("SyntaxError", "'yield' outside function", "    yield x\n    ^^^^^^^"),
    "nonlocal x\nreturn 2": ("SyntaxError", "nonlocal declaration not allowed at module level", "    nonlocal x\n"),
    "from os import *\nreturn 2": ("SyntaxError", "import * only allowed at module level", "    from os import *\n"),
    "if 1:\n  return 3\nawait = 3": ("SyntaxError", "invalid syntax", "line 3\n"),
    "def f(): return f()\nf()": ("RecursionError", "maximum recursion depth exceeded", "more times]"),
    "name = 1\nnane": ("NameError", "name 'nane' is not defined", "Did you mean: 'name'?"),
    "[].apend": ("AttributeError", "no attribute 'apend'", "Did you mean: 'append'?"),
    "raise ExceptionGroup('g', [ValueError(1), OSError(2, 'x')])": ("ExceptionGroup", "g (2 sub", "| ValueError: 1"),
    "try: 1 / 0\nexcept Exception as e: raise OSError(28, 'full') from e": (
        "OSError",
        "[Errno 28] full",
        "direct cause",
    ),
    "e = ValueError('x')\ne.add_note('look here')\nraise e": ("ValueError", "x", "ValueError: x\nlook here\n"),
    "class E(Exception):\n  def __str__(self): raise OSError\nraise E": (
        "E",
        "<E object: str raised OSError>",
        "\nE: ",
    ),
    "raise ValueError('\\ud800')": ("ValueError", "\\ud800", "ValueError: \\ud800"),
    "raise ValueError('x' * 10**6)": ("ValueError", "characters left out", "characters left out"),
    "async def main():\n  raise ValueError('in main')\nmain()": ("ValueError", "in main", "line 2, in main\n"),
    "async def main():\n  raise ValueError('in main')\nawait main()": ("ValueError", "in main", "line 3, in <module>"),
    "if 1:\n  return 1 / 0": ("ZeroDivisionError", "division by zero", "line 2, in <module>\n    return 1 / 0\n"),
    "input()": ("EOFError", "EOF when reading a line", "    input()\n"),
    "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n  if n: f(n - 1)\n  else: 1 / 0\nf(50000)": (
        "ZeroDivisionError",
        "division by zero",
        "    f(50000)\n",
    ),
    "eval('(' * 5000)": ("SyntaxError", "too many nested parentheses", "    eval('(' * 5000)\n"),
    "-" * 10**5 + "1": ("", "", ""),
}


@pytest.mark.parametrize("python", PYTHONS)
def test_an_error_is_reported_as_the_interpreter_would_print_it(python, tmp_path):
    """E2: type, message, and a traceback of the program's own lines and what they call, none of ours."""
    reports, done = run_all(python, tmp_path, list(ERRORS))
    for (source, (kind, message, traceback)), report in zip(ERRORS.items(), reports, strict=True):
        error = report["error"]
        assert (report["exit_code"], report["value"]) == (1, None)
        assert error["type"] == kind or not kind, source
        assert message in error["message"], source
        assert traceback in error["traceback"], error["traceback"]
        assert str(PROGRAM) not in error["traceback"]
        assert "asyncio" not in error["traceback"]
        assert "another exception" not in error["traceback"], source
        assert len(error["traceback"].encode()) < 17 * 1024
    assert done.stderr == b""


@pytest.mark.parametrize("python", PYTHONS)
def test_errno_is_that_of_the_operating_system_error_behind_an_error(python, tmp_path):
    causes = [
        "open('/missing')",
        "try: open('/missing')\nexcept OSError as e: raise ValueError from e",
        "try: open('/missing')\nexcept OSError as e: raise ValueError",
        "raise ValueError",
        "raise OSError('none')",
    ]
    reports, _ = run_all(python, tmp_path, causes)
    assert [report["error"]["errno"] for report in reports] == [2, 2, 2, None, None]


EXITS = {
    "": (0, None),
    "0": (0, None),
    "3": (3, "3"),
    "-1": (255, "-1"),
    "10**30": (255, str(10**30)),
    "True": (1, "True"),
    "'stop'": (1, "stop"),
}


@pytest.mark.parametrize("python", PYTHONS)
def test_exit_ends_the_program_with_its_code(python, tmp_path):
    """E2: zero is no error; a message goes to stderr; handlers run."""
    sources = [f"import atexit, sys\natexit.register(print, 'end')\nsys.exit({argument})" for argument in EXITS]
    reports, done = run_all(python, tmp_path, sources)
    for (argument, (code, message)), report in zip(EXITS.items(), reports, strict=True):
        error = {"type": "SystemExit", "message": message, "traceback": "", "errno": None}
        assert (report["exit_code"], report["error"]) == (code, None if message is None else error), argument
    assert (done.stdout, done.stderr) == (b"end\n" * len(EXITS), b"stop\n")


def test_exit_inside_a_task_ends_the_program(run):
    report, _, _ = run("import sys\nasync def main(): sys.exit(4)\nmain()")
    assert report["exit_code"] == 4


def test_what_was_printed_before_a_kill_has_left_the_process(tmp_path):
    """E2: partial output survives."""
    source = "import os, signal\nprint('partial \\ud800', end='')\nos.kill(os.getpid(), signal.SIGKILL)"
    done = spawn(sys.executable, tmp_path, [source])
    assert (done.returncode, done.stdout) == (-9, b"partial \\ud800")


def test_the_end_is_that_of_the_interpreter(run, tmp_path):
    """Threads are joined, exit handlers run, objects are finalised, files and streams written, in this order."""
    report, out, err = run(
        "import atexit, sys, threading, typing\n"
        "class A:\n  def __del__(self): print('deleted', A.__name__)\n"
        "typing.Optional[A]\n"
        "a = A()\n"
        "file = open('unclosed', 'w'); file.write('content')\n"
        "atexit.register(lambda: print('exit'))\n"
        "event = threading.Event()\n"
        "threading.Thread(target=lambda: (event.wait(), print('thread'))).start()\n"
        "async def never(): pass\n"
        "never()\n"
        "sys.stdout = open(1, 'w', closefd=False)\n"
        "event.set()\n"
        "1 / 0"
    )
    assert report["error"]["type"] == "ZeroDivisionError"
    assert out == "thread\nexit\ndeleted A\n"
    assert "coroutine 'never' was never awaited" in err
    assert (tmp_path / "unclosed").read_text() == "content"


@pytest.mark.parametrize("python", PYTHONS)
def test_a_program_that_closes_its_output_still_has_a_report(python, tmp_path):
    ways = ["sys.stdout.close()", "os.close(1)", "sys.stdout = None", "del sys.stdout, sys.stderr"]
    reports, _ = run_all(python, tmp_path, [f"import os, sys\n{close}\n5" for close in ways])
    assert [report["value"] for report in reports] == [5] * 4


def test_a_forked_child_that_runs_to_the_end_makes_no_report(run):
    """The child ends as a child of the interpreter would, with its traceback on stderr."""
    report, out, err = run(
        "import os\npid = os.fork()\nif not pid:\n  print('child')\n  raise ValueError('c')\n"
        "os.waitstatus_to_exitcode(os.wait()[1])"
    )
    assert (report["value"], report["error"], out) == (1, None, "child\n")
    assert err.endswith("ValueError: c\n")


def test_leftover_tasks_are_cancelled(run):
    _, out, _ = run(
        "import asyncio\n"
        "async def work():\n  try: await asyncio.sleep(60)\n  finally: print('cancelled')\n"
        "task = asyncio.create_task(work())\nawait asyncio.sleep(0)"
    )
    assert out == "cancelled\n"


def test_an_exception_hook_of_the_program_is_called(run):
    report, out, _ = run("import sys\nsys.excepthook = lambda kind, *_: print('hook', kind.__name__)\n1 / 0")
    assert (report["error"]["type"], out) == ("ZeroDivisionError", "hook ZeroDivisionError\n")


def test_a_warning_of_the_compiler_comes_once(run):
    _, _, err = run("x = 1\nif x is 1: return 2")
    assert err.count("SyntaxWarning") == 1


def test_a_program_that_prints_its_own_traceback_shows_its_lines(run):
    _, _, err = run("import traceback\ntry:\n  1 / 0\nexcept Exception:\n  traceback.print_exc()")
    assert "    1 / 0\n" in err


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(values=st.lists(JSON_VALUES, min_size=12, max_size=12))
def test_json_comes_back_as_it_is(values, tmp_path):
    """E2: a value that is JSON is reported as that JSON, and one that is none as its repr."""
    limit = 200
    sources = [f"import json\njson.loads({json.dumps(value)!r})" for value in values]
    reports, _ = run_all(sys.executable, tmp_path, sources, limit)
    for value, report in zip(values, reports, strict=True):
        encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        if len(encoded) <= limit:
            assert (json.dumps(report["value"]), report["value_type"]) == (json.dumps(value), None)
        else:
            assert report["value_type"] == type(value).__name__
            shown = report["value"].removesuffix("…")
            assert repr(value).startswith(shown)
            assert len(report["value"].encode()) <= limit
