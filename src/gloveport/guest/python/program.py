"""Runs one Python program in this process, and reports its outcome.

The program is ``__main__`` in every respect that it can see: a fresh module, one code object, its own lines in
tracebacks. Its value is that of its last expression statement or of a ``return`` at top level; a coroutine there is
awaited.

Invariants:
    * ``run`` raises nothing, and its report is finite, well-formed Unicode that ``json.dumps`` takes.
    * Of the program's code, the report runs ``__repr__`` and ``__str__`` of its values and exceptions, and what they
      offer to notebooks (``_repr_html_`` and its kin), contained.
    * The program shares this process, so the report is no more trustworthy than the program.

What counts as JSON is exact: ``None``, ``bool``, ``int`` of at most 4299 digits, finite ``float``, ``str`` without lone
surrogates, ``list``, ``tuple`` and ``dict`` with ``str`` keys, no subclasses, nested at most 100 deep. Anything else is
shown by its ``repr``.
"""

import _ast
import _json  # as in ``init.py``: modules with regular expressions are imported only to report an error
import atexit
import builtins
import gc
import io
import os
import sys
from _collections_abc import Callable, Iterator, Mapping, Sequence  # as in ``collections.abc``, which imports more
from _weakref import ref
from importlib.machinery import PathFinder
from types import CodeType, CoroutineType, MappingProxyType, ModuleType, TracebackType

MODULE = "<module>"
VALUE = "<value>"  # no identifier, so no name of the program can be it
CO_OPTIMIZED, CO_NEWLOCALS, CO_COROUTINE = 0x1, 0x2, 0x80

DEPTH = 100
ENOSPC = 28
INT_BITS = 14_280  # below 4300 decimal digits, where int() of the reader stops
TEXT_BYTES = 16 * 1024
FRAMES = 10_000
MOST_ROWS_AS_JSON = 20  # a longer list of dicts that is no JSON, or too large, is shown as a table

BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}
encode_json = _json.make_encoder(None, None, _json.encode_basestring, None, ":", ",", False, False, True)  # noqa: FBT003 - as ``json.dumps`` has it
DEFINITIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)


class NotJsonError(Exception):
    """The value is no JSON."""


class ValueTooLargeError(Exception):
    """The value's JSON is larger than the answer may be."""


class Loader:
    """``__loader__`` of the program; it lives exactly as long as the namespace does."""

    def __init__(self, source: str, namespace: dict) -> None:
        self.source = source
        self.namespace = namespace

    def get_source(self, _fullname: str) -> str:
        """Return the program's text, for whoever inspects ``__main__``."""
        return self.source


Plain = Sequence[tuple[type, type]]
"""Subclasses of JSON types whose objects count as JSON: each with the type of its plain copy."""


def run(
    source: str,
    name: str,
    value_bytes: int,
    *,
    names: Mapping[str, object] = MappingProxyType({}),
    plain: Plain = (),
    end: Callable[[], None] | None = None,
) -> dict:
    """Run ``source`` as ``__main__`` until its threads and exit handlers have ended.

    Args:
        source: The program's text.
        name: Its file name in tracebacks, ``__file__`` and ``sys.argv``; no such file need exist.
        value_bytes: Largest value, in bytes of compact UTF-8 JSON; a larger one is shown by the head of its ``repr``.
        names: Added to its namespace.
        plain: Further types that count as JSON.
        end: Ends the program's threads and runs its exit handlers; by default as the interpreter does.

    Returns:
        ``{"value": JSON, "value_type": str | None, "value_truncated": bool, "error": None | {"type": str,
        "message": str, "traceback": str, "errno": int | None, "is_scratch_full": bool | None}, "exit_code": int}``.
        And ``shown``, ``[{"path", "about"}]``, if files that the program has left in ``/out`` have descriptions.
        ``is_scratch_full`` explains ENOSPC; for other errors it is None or left out. ``value_type`` is None when
        ``value`` is the value itself, else the type's name, and ``value`` is its ``repr``, which ends in an ellipsis
        when ``value_truncated``.
    """
    pid, hook, host = os.getpid(), sys.excepthook, sys.modules["__main__"]
    source = source.removeprefix("\ufeff")
    if not sys.stdout.write_through:
        open_streams()
    sys.argv = [name]
    if "linecache" in sys.modules:
        keep_lines(source, name)
    main = ModuleType("__main__")
    main.__dict__.update(names, __file__=name, __builtins__=builtins, __loader__=Loader(source, main.__dict__))
    sys.modules["__main__"] = main
    loader = ref(main.__loader__)
    del main
    report = {"value": None, "value_type": None, "value_truncated": False, "error": None, "exit_code": 0}
    try:
        value = execute(source, name, sys.modules["__main__"].__dict__)
        report.update(describe_value(value, value_bytes, plain))
        del value
    except SystemExit as stop:
        report.update(describe_exit(stop))
    except BaseException as error:
        keep_lines(source, name)
        report.update(error=describe_error(error, sys.exc_info()[2]), exit_code=1)
        if sys.excepthook is not hook:  # the program's own, as the interpreter would call it
            attempt(sys.excepthook, type(error), error, error.__traceback__)
    forked = os.getpid() != pid
    if not forked:
        finish_shown(report)
    if forked and report["error"]:
        attempt(print, report["error"]["traceback"], end="", file=getattr(sys, "stderr", None))
    (end or end_program)()
    clear_up(host, loader)
    if forked:  # the program forked and its child came to the end: that is no second report
        os._exit(report["exit_code"])
    return report


REHEARSAL = """
import sys
def double(number: int) -> int:
    return 2 * number
class Pair(tuple):
    pass
numbers = [double(number) for number in range(3) if number]
print(f"{numbers[0]:>4}", {"sum": sum(numbers)}, Pair("ab"))
{"numbers": numbers, "text": "".join(["a", "b"])}
"""


def rehearse() -> None:
    """Warm up what every program needs: a forked process then has its own copy of that memory before its program comes.

    Call it while the standard streams lead nowhere. The program can't tell: all that is kept is replaced.
    """
    import linecache  # noqa: F401 - see ``run``

    encode_json(run(REHEARSAL, "program.py", TEXT_BYTES, end=lambda: None), 0)


def keep_lines(source: str, name: str) -> None:
    """Have tracebacks show the program's lines, whatever it has done to its file."""
    import linecache

    lines = io.StringIO(source.removesuffix("\n") + "\n", newline=None).readlines()
    linecache.cache[name] = (len(source), None, lines, name)


def open_streams() -> None:
    """Open the standard streams anew, as ``python -u`` does: what was printed before a SIGKILL has left the process."""
    for number, stream in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        raw.name = f"<{stream}>"
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)
        text.mode = "w"
        setattr(sys, stream, text)
        setattr(sys, f"__{stream}__", text)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 - lives on


# -- Compile ---------------------------------------------------------------------------------------------------------


def execute(source: str, name: str, namespace: dict) -> object:
    """Run the program and return its value. Raises whatever it raises."""
    code = compile_program(source, name, namespace)
    value = eval(code, namespace)
    if not code.co_flags & CO_COROUTINE:
        value = namespace.pop(VALUE, value)
        if not is_unstarted(value):
            return value
    import asyncio

    return asyncio.run(settle(value, namespace, asyncio.isfuture))


async def settle(coroutine: CoroutineType, namespace: dict, is_future: Callable) -> object:
    """Await the program, its value, and the value of that: a forgotten ``await`` at the end loses no work."""
    value = await coroutine
    value = namespace.pop(VALUE, value)
    return await value if is_unstarted(value) or is_future(value) else value


def is_unstarted(value: object) -> bool:
    """Tell whether ``value`` is a coroutine nobody has awaited."""
    if type(value) is not CoroutineType:
        return False
    return not value.cr_running and not value.cr_suspended and value.cr_frame is not None


def compile_program(source: str, name: str, namespace: dict) -> CodeType:
    """Compile to one code object that leaves its value under ``VALUE`` or returns it."""
    try:
        tree = parse(source, name)
    except SyntaxError:
        translation = from_notebook(source, name, namespace)
        if translation == source:
            raise
        source = translation
        tree = parse(source, name)
    if "return" in source and any(type(node) is _ast.Return for block in blocks(tree.body) for node in block):
        return compile_returning(source, name, namespace)
    if tree.body and type(tree.body[-1]) is _ast.Expr:
        last = tree.body[-1]
        tree.body[-1] = _ast.Assign([_ast.Name(VALUE, _ast.Store(), **place(last))], last.value, **place(last))
    return compile_tree(tree, name)


def from_notebook(source: str, name: str, namespace: dict) -> str:
    """Translate notebook lines in a source to Python; any other source is returned as it is."""
    if "!" not in source and "%" not in source:
        return source
    magics = attempt(lambda: load_notebook().load("magics"))
    translation = attempt(lambda: magics.to_python(source, lambda text: parse(text, name)))
    if translation is None:
        return source
    namespace[magics.NAME] = magics
    return translation


def compile_returning(source: str, name: str, namespace: dict) -> CodeType:
    """Compile a program with a ``return`` at top level: its body becomes a function whose names are all global.

    To return by an exception would run the program's own handlers, so it has to be a function. Its code object is then
    stripped of the marks of a function, so that ``locals()``, ``exec`` and tracebacks see a module.
    """
    import warnings

    with warnings.catch_warnings(action="ignore"):  # the compilation below repeats them
        plain = parse(source, name)
        for block in blocks(plain.body):
            block[:] = [without_return(node) for node in block]
        module = compile_tree(plain, name)  # raises what is an error in a module, though none in a function
    tree = parse(source, name)
    head = count_head(tree.body)
    future = [alias.name for node in tree.body[:head] for alias in getattr(node, "names", ())]
    lazy = "annotations" in future or sys.version_info >= (3, 14)
    for block in blocks(tree.body):
        block[:] = [new for node in block for new in without_annotation(node, namespace, lazy=lazy)]
    last = tree.body[-1]
    if type(last) is _ast.Expr:
        tree.body[-1] = _ast.Return(last.value, **place(last))
    wrapper = parse(("async " if module.co_flags & CO_COROUTINE else "") + "def body(): pass", name)
    function = wrapper.body[0]
    function.name = MODULE
    function.body = [_ast.Global(sorted(names_in(module)), **place(function)), *tree.body[head:]]
    tree.body[head:] = wrapper.body
    exec(compile_tree(tree, name), namespace)
    code = namespace.pop(MODULE).__code__
    return code.replace(
        co_flags=code.co_flags & ~(CO_OPTIMIZED | CO_NEWLOCALS),
        # Python 3.12 inlines comprehensions: locals() must not take their variables for the module's.
        co_varnames=tuple(f"<{variable}>" for variable in code.co_varnames),
        co_cellvars=tuple(f"<{variable}>" for variable in code.co_cellvars),
    )


def parse(source: str, name: str) -> _ast.Module:
    """Parse as a module that may await."""
    flags = _ast.PyCF_ONLY_AST | _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, name, "exec", flags, dont_inherit=True)


def compile_tree(tree: _ast.Module, name: str) -> CodeType:
    """Compile a module that may await."""
    return compile(tree, name, "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def blocks(body: list) -> Iterator[list]:
    """Yield each list of statements that runs in the module's own scope; each may be edited as it comes."""
    queue = [body]
    while queue:
        block = queue.pop()
        yield block
        for node in block:
            if not isinstance(node, DEFINITIONS):
                for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                    queue += [getattr(part, field) for field in ("body", "orelse", "finalbody") if hasattr(part, field)]


def count_head(body: list) -> int:
    """Count the statements that must stay at the head of a module: its docstring and ``from __future__``."""
    head = int(type(body[0]) is _ast.Expr and type(getattr(body[0].value, "value", None)) is str)
    while type(body[head]) is _ast.ImportFrom and body[head].module == "__future__":
        head += 1
    return head


def without_return(node: _ast.stmt) -> _ast.stmt:
    """Return ``node``, or the expression alone where it is a ``return``."""
    if type(node) is not _ast.Return:
        return node
    return _ast.Expr(node.value or _ast.Constant(None, **place(node)), **place(node))


def without_annotation(node: _ast.stmt, namespace: dict, *, lazy: bool) -> list:
    """Return the statements by which a function does what the annotated assignment ``node`` does in a module."""
    if type(node) is not _ast.AnnAssign:
        return [node]
    where = place(node)
    done = [_ast.Assign([node.target], node.value, **where)] if node.value else []
    if not node.simple:
        return [*done, _ast.Pass(**where) if lazy else _ast.Expr(node.annotation, **where)]
    namespace.setdefault("__annotations__", {})
    annotation = node.annotation
    if lazy:
        import ast

        annotation = _ast.Constant(ast.unparse(annotation), **where)
    table = _ast.Name("__annotations__", _ast.Load(), **where)
    entry = _ast.Subscript(table, _ast.Constant(node.target.id, **where), _ast.Store(), **where)
    return [*done, _ast.Assign([entry], annotation, **where)]


def names_in(code: CodeType) -> set[str]:
    """Return every name that ``code`` and its nested code may bind in the module; extra names do no harm."""
    names, queue = {"__name__"}, [code]  # a `global` statement has one at least
    while queue:
        code = queue.pop()
        names.update(code.co_names)
        queue += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names


def place(node: _ast.AST) -> dict[str, int]:
    """Return the position of ``node`` as keyword arguments for another."""
    return {field: getattr(node, field) for field in ("lineno", "col_offset", "end_lineno", "end_col_offset")}


# -- Value -----------------------------------------------------------------------------------------------------------


def describe_value(value: object, limit: int, plain: Plain) -> dict:
    """Return the report's three keys for the program's value."""
    fitting = attempt(fit_json, value, limit, plain)
    if fitting:
        return {"value": fitting[0]}
    if attempt(can_be_shown, value):
        description = attempt(lambda: load_notebook().load("show").describe(value))
        if type(description) is str and description:
            return {"value": clip(description, limit), "value_type": name_of(type(value))}
    text, whole = show(value, limit)
    return {"value": text, "value_type": name_of(type(value)), "value_truncated": not whole}


def can_be_shown(value: object) -> bool:
    """Tell whether ``value`` is more than text to notebooks: a figure, a picture, a table."""
    kind = type(value)
    if kind is list:
        return len(value) > MOST_ROWS_AS_JSON and type(value[0]) is dict
    return any(hasattr(kind, name) for name in ("_repr_mimebundle_", "_repr_html_", "_repr_png_", "_repr_svg_"))


def load_notebook() -> ModuleType:
    """Import the package ``gloveport_notebook``, under its name, by which it finds its own parts."""
    module = sys.modules.get("gloveport_notebook")
    if module is None:
        spec = PathFinder.find_spec("gloveport_notebook", [os.path.dirname(run.__code__.co_filename)])
        module = sys.modules[spec.name] = ModuleType(spec.name)
        module.__spec__, module.__file__, module.__path__ = spec, spec.origin, spec.submodule_search_locations
        module.__loader__, module.__package__ = spec.loader, spec.name
        spec.loader.exec_module(module)
    return module


def finish_shown(report: dict) -> None:
    """Keep the open figures, and add the descriptions of kept files to the report."""
    if "matplotlib._pylab_helpers" in sys.modules:
        attempt(lambda: load_notebook().load("charts").keep_open_figures())
    files = sys.modules.get("gloveport_notebook.files")
    if files:
        report["shown"] = attempt(files.take_shown)


def fit_json(value: object, limit: int, plain: Plain) -> tuple[object]:
    """Return a copy of ``value`` that is JSON of at most ``limit`` bytes. Raises when there is none."""
    copy = copy_json(value, JsonBudget(limit, plain), 0)
    if len("".join(encode_json(copy, 0)).encode()) > limit:
        raise ValueTooLargeError
    return (copy,)


class JsonBudget:
    """Bytes that are left for a value, and the further types that count as JSON in it."""

    def __init__(self, size: int, plain: Plain) -> None:
        self.remaining_bytes = size
        self.plain = plain

    def take(self, size: int) -> None:
        """Use ``size`` bytes. Raises ValueTooLargeError when there are not as many."""
        self.remaining_bytes -= size
        if self.remaining_bytes < 0:
            raise ValueTooLargeError


def copy_json(value: object, budget: JsonBudget, depth: int) -> object:
    """Return a copy made of JSON types, which no thread can change. Raises NotJsonError, ValueTooLargeError.

    ``budget`` counts a lower bound of the encoded size, so that a huge value costs no more than one that fits.
    """
    kind = type(value)
    budget.take(1)
    if value is None or kind is bool:
        return value
    if (kind is int and value.bit_length() <= INT_BITS) or (kind is float and value - value == 0):
        return value
    if kind is str:
        budget.take(len(value))
        value.encode()  # raises for a lone surrogate, at which most JSON readers stop
        return value
    if depth < DEPTH and (kind is list or kind is tuple):
        return [copy_json(item, budget, depth + 1) for item in value]
    if depth < DEPTH and kind is dict:
        return {copy_key(key, budget): copy_json(item, budget, depth + 1) for key, item in value.items()}
    for subclass, copy in budget.plain:
        if kind is subclass:
            return copy_json(copy(value), budget, depth)
    raise NotJsonError


def copy_key(key: object, budget: JsonBudget) -> str:
    """Return ``key`` if it is a string. Raises NotJsonError, ValueTooLargeError."""
    if type(key) is not str:
        raise NotJsonError
    return copy_json(key, budget, DEPTH)


def show(value: object, limit: int) -> tuple[str, bool]:
    """Return ``repr(value)`` within ``limit`` bytes of UTF-8, and whether that is all of it."""
    written, size = [], 0
    try:
        for piece in pieces(value, limit, ()):
            written.append(piece)
            size += len(piece)
            if size > limit:
                break
    except BaseException as error:
        written = [f"<{name_of(type(value))} object: repr raised {name_of(type(error))}>"]
    text = "".join(written)
    encoded = text[:limit].encode("utf-8", "backslashreplace")
    if len(text) <= limit and len(encoded) <= limit:
        return encoded.decode(), True
    return encoded[: limit - 3].decode("utf-8", "ignore") + "…", False


def pieces(value: object, limit: int, outer: tuple[int, ...]) -> Iterator[str]:
    """Yield ``repr(value)`` piece by piece, so that a huge value is formatted only as far as it is shown."""
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        yield repr(value[:limit])
    elif kind is int and value.bit_length() > INT_BITS:
        yield hex(value)  # in decimal it takes quadratic time, which Python refuses
    elif kind not in BRACKETS or not value:
        yield str.__str__(repr(value))
    elif id(value) in outer or len(outer) >= DEPTH:
        yield "...".join(BRACKETS[kind])
    else:
        opening, closing = BRACKETS[kind]
        outer += (id(value),)
        separator = opening
        for item in value.items() if kind is dict else value:
            yield separator
            separator = ", "
            if kind is dict:
                yield from pieces(item[0], limit, outer)
                yield ": "
            yield from pieces(item[1] if kind is dict else item, limit, outer)
        yield "," + closing if kind is tuple and len(value) == 1 else closing


def name_of(kind: type) -> str:
    """Return a class's name as tracebacks print it."""
    try:
        name, module = kind.__qualname__, kind.__module__
        return clip(str.__str__(name if module in {"__main__", "builtins"} else f"{module}.{name}"), 256)
    except BaseException:
        return "object"


# -- Failure ---------------------------------------------------------------------------------------------------------


def describe_exit(stop: SystemExit) -> dict:
    """Return the report's keys for ``sys.exit``; a message goes to stderr, as the interpreter prints it."""
    code = attempt(getattr, stop, "code")
    if code is None:
        return {}
    if issubclass(type(code), int):
        number = int.__int__(code)
        status = number & 0xFF if number.bit_length() < 64 else 0xFF
    else:
        attempt(print, code, file=getattr(sys, "stderr", None))
        status = 1
    error = {"type": "SystemExit", "message": clip(text_of(code), TEXT_BYTES), "traceback": "", "errno": None}
    return {"error": error if status else None, "exit_code": status}


def describe_error(error: BaseException, trace: TracebackType | None) -> dict:
    """Return the report's ``error``. Leaves only the program's frames in ``error``."""
    BaseException.with_traceback(error, own_frames(trace))
    attempt(cut_causes, error)
    attempt(add_source, error)
    number = attempt(errno_of, error)
    return {
        "type": name_of(type(error)),
        "message": clip(text_of(error), TEXT_BYTES),
        "traceback": clip(attempt(format_error, error) or f"{name_of(type(error))}: {text_of(error)}\n", TEXT_BYTES),
        "errno": number,
        "is_scratch_full": attempt(is_scratch_full) if number == ENOSPC else None,
    }


def add_source(error: BaseException) -> None:
    """Give a syntax error its line, which the compiler looks for in a file."""
    if isinstance(error, SyntaxError) and error.text is None:
        import linecache

        error.text = linecache.getline(error.filename, error.lineno) or None


def cut_causes(error: BaseException) -> None:
    """Remove our frames from the causes of ``error``, too."""
    seen, queue = set(), [error]
    while queue and len(seen) < DEPTH:
        error = queue.pop()
        if id(error) not in seen:
            seen.add(id(error))
            BaseException.with_traceback(error, own_frames(error.__traceback__))
            causes = [error.__cause__, error.__context__]
            if isinstance(error, BaseExceptionGroup):
                causes += error.exceptions
            queue += [cause for cause in causes if cause is not None]


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return ``trace`` without our frames, and without the middle of a very deep recursion.

    Ours are those that led to the program, and those by which it calls tools.
    """
    ours, here = run.__code__.co_filename, os.path.dirname(run.__code__.co_filename) + "/"
    frames = []
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if name == ours:
            frames.clear()
        elif not name.startswith(here):
            frames.append(trace)
        trace = trace.tb_next
    following = None
    for one in reversed(frames):
        if one.tb_next is not following:  # setting it takes time in proportion to the rest
            one.tb_next = following
        following = one
    if len(frames) > FRAMES:
        frames[FRAMES // 2].tb_next = frames[-FRAMES // 2]
    return frames[0] if frames else None


def format_error(error: BaseException) -> str:
    """Return what the interpreter prints for an uncaught ``error``."""
    import traceback

    text = "".join(traceback.TracebackException(type(error), error, error.__traceback__).format())
    if sys.version_info < (3, 12) and ("is not defined" in text or "has no attribute" in text):
        for line in print_error(error).splitlines():
            plain, suggestion, _ = line.partition(". Did you mean: ")
            if suggestion:
                text = text.replace(plain + "\n", line + "\n")
    return text


def print_error(error: BaseException) -> str:
    """Return what the interpreter's own printer says: until Python 3.12 it alone knows "Did you mean"."""
    if not is_alone():
        return ""  # another thread may be writing to sys.stderr
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


def errno_of(error: BaseException | None) -> int | None:
    """Return the error number of the first OSError among ``error`` and its causes."""
    for _ in range(DEPTH):
        if isinstance(error, OSError) and type(error.errno) is int and 0 < error.errno < 4096:
            return error.errno
        if error is not None:
            error = error.__context__ if error.__cause__ is None else error.__cause__
    return None


def is_scratch_full() -> bool:
    """Tell whether a file system of the program's own has room for no byte, or no file. Terminals run out as well."""
    return any(0 in (system.f_bavail, system.f_favail) for system in map(os.statvfs, ("/tmp", "/dev/shm")))


def text_of(value: object) -> str:
    """Return ``str(value)``, or a text which says that it failed."""
    try:
        return str.__str__(str(value))
    except BaseException as error:
        return f"<{name_of(type(value))} object: str raised {name_of(type(error))}>"


def clip(text: str, limit: int) -> str:
    """Return ``text`` as well-formed Unicode: all of it, or a head and a tail of ``limit`` bytes together."""
    half = limit // 2
    encoded = text[: limit + 1].encode("utf-8", "backslashreplace")
    if len(encoded) <= limit:
        return encoded.decode()
    head = encoded[:half].decode("utf-8", "ignore")
    tail = text[-half:].encode("utf-8", "backslashreplace")[-half:].decode("utf-8", "ignore")
    return f"{head}\n... {len(text) - len(head) - len(tail)} characters left out ...\n{tail}"


def attempt(call: Callable, *arguments: object, **options: object) -> object:
    """Return what ``call`` returns, or None when it raises."""
    try:
        return call(*arguments, **options)
    except BaseException:
        return None


# -- End -------------------------------------------------------------------------------------------------------------


def end_program() -> None:
    """End the program as the interpreter would: threads, then exit handlers."""
    if "threading" in sys.modules:
        attempt(getattr(sys.modules["threading"], "_shutdown", None))
    attempt(atexit._run_exitfuncs)  # noqa: SLF001 - the interpreter's own end, which os._exit would skip


def clear_up(host: ModuleType, loader: Callable[[], Loader | None]) -> None:
    """Let go of the program's objects, so that files are written."""
    sys.modules["__main__"] = host
    gc.collect()
    # What a cache elsewhere holds, typing's for one, keeps the namespace alive. A daemon thread may still be using it.
    remnant = loader() if is_alone() else None
    if remnant:
        for name in [name for name in reversed(remnant.namespace) if name != "__builtins__"]:
            remnant.namespace[name] = None
        gc.collect()
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        attempt(lambda name: getattr(sys, name).flush(), name)


def is_alone() -> bool:
    """Tell whether this is the only thread."""
    return len(sys._current_frames()) == 1  # noqa: SLF001 - sees threads that the module threading does not know
