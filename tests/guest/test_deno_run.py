"""What a TypeScript or JavaScript program's report says (E1, E2), run by Deno with the flags of the sandbox."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from deno import find_deno_bin

RUN = Path(__file__).parents[2] / "src/gloveport/guest/deno/run.mjs"
FLAGS = ("--no-prompt", "--no-check", "--no-remote", "--no-npm", "--cached-only", "--no-config", "--no-lock")
LIMIT = 1000
COLD, WAITING = (), ("wait",)


def start(directory, *arguments):
    """Start the runner as the sandbox does, with a scratch directory and a report's path beneath ``directory``."""
    scratch = directory / "scratch"
    scratch.mkdir(parents=True)
    permissions = (f"--allow-read={scratch}", f"--allow-write={scratch},{directory / 'report'}")
    return subprocess.Popen(
        [find_deno_bin(), "run", *FLAGS, *permissions, str(RUN), str(directory / "report"), *arguments],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env={"DENO_DIR": str(directory.parent / "cache"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
    )


def finish(process, text):
    """Let a waiting runner say so, send it ``text``, and return what the process left."""
    with process:
        if "wait" in process.args:
            assert process.stdout.read(1) == b"R", process.stderr.read()
        stdout, stderr = process.communicate(text.encode(), timeout=30)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout.decode(), stderr.decode())


def spawn(directory, mode, language, source, types=""):
    """Run one program; return its report and what the process returned."""
    process = start(directory, *mode)
    report = directory / "report"
    name = "program.ts" if language == "typescript" else "program.js"
    job = {"source": source, "name": name, "language": language, "types": types, "value_bytes": LIMIT}
    done = finish(process, json.dumps(job))
    assert report.exists(), done.stderr
    last = json.loads(report.read_text().splitlines()[-1])
    last.pop("last", None)
    return last, done


@pytest.fixture(scope="module")
def run_in(tmp_path_factory):
    """Run many programs in one mode, two at a time; return pairs of report and process."""
    base, numbers = tmp_path_factory.mktemp("deno"), count()
    with ThreadPoolExecutor(2) as pool:
        yield lambda mode, jobs: list(
            pool.map(lambda job: spawn(base / str(next(numbers)), mode, *job), jobs, timeout=60)
        )


@pytest.fixture(scope="module")
def run_all(run_in):
    """Run many programs, every twelfth in an interpreter that has waited, which takes twice as much of a processor.

    What a program does must not depend on it: ``test_a_program_finds_nothing_of_the_warm_up`` compares all that there
    is, and a boot each would be all that differs here.
    """

    def run(jobs):
        done = [run_in(mode, jobs[place::12]) for place, mode in enumerate((WAITING, *[COLD] * 11))]
        return [done[place % 12][place // 12] for place in range(len(jobs))]

    return run


@pytest.fixture
def run(run_in):
    """Run one program."""
    return lambda source, language="typescript": run_in(COLD, [(language, source)])[0]


TS, JS = "typescript", "javascript"
VALUES = {
    (TS, ""): None,
    (JS, "1 + 1"): 2,
    (TS, "const a: number = 3;\ninterface A { x: number }\na + 1 as number"): 4,
    (TS, "enum A { X = 5 }\nnamespace N { export const y = 1 }\nA.X + N.y"): 6,
    (TS, "class P { constructor(private x: number) {} get y(): number { throw 1 } }\nnew P(3)"): ("P { x: 3 }", "P"),
    (TS, "const id = <T,>(x: T) => x;\nid<number>(3)"): 3,
    (TS, "let x = 1; x++; [x, {a: x, b: undefined}]"): [2, {"a": 2}],
    (JS, "let a = 1, b = 2\na, b"): 2,
    (JS, "main()\nfunction main() { return 'hoisted' }"): "hoisted",
    (JS, "(() => 1)"): ("[Function (anonymous)]", "Function"),
    (JS, "const x = 3"): None,
    (JS, "#!/usr/bin/env deno\n3 // comment"): 3,
    (JS, "'use strict'"): "use strict",
    (JS, "export default 4"): 4,
    (JS, "let a = 0; export default a + 4; a = 7; a"): 4,
    (JS, "Promise.resolve([1])"): [1],
    (JS, "new Promise(() => {})"): ("Promise { <pending> }", "Promise"),
    (TS, "const x: number = await Promise.resolve(5);\nx"): 5,
    (JS, "for await (const x of [1, 2]) globalThis.y = x\ny"): 2,
    (TS, "if (true) { try { return { a: 1 } } finally { globalThis.x = 1 } }\n2"): {"a": 1},
    (JS, "if (false) return 1\n2"): 2,
    (JS, "return await Promise.all([1, Promise.resolve(2)])"): [1, 2],
    (TS, "import { sep } from 'node:path';\nconst x: string = sep;\nreturn x;"): "/",
    (TS, "const main: boolean = import.meta.main;\nmain"): True,
    (TS, "import { Missing } from './types.ts';\nconst x: Missing | number = 1;\nx"): 1,
    (JS, "[null, true, 1.5, 'é😀', -1e21]"): [None, True, 1.5, "é😀", -1e21],
    (JS, "({ __proto__: null, ['__proto__']: 1 })"): {"__proto__": 1},
    (JS, "[1, , 2]"): ("[ 1, <1 empty item>, 2 ]", "Array"),
    (JS, "[undefined]"): ("[ undefined ]", "Array"),
    (JS, "({ f() {} })"): ("{ f: [Function: f] }", "Object"),
    (JS, "({ get a() { throw 1 } })"): ("{ a: [Getter] }", "Object"),
    (JS, "({ toJSON() { for (;;); } })"): ("{ toJSON: [Function: toJSON] }", "Object"),
    (JS, "new Map([[1, 2]])"): ("Map(1) { 1 => 2 }", "Map"),
    (JS, "new Date(0)"): ("1970-01-01T00:00:00.000Z", "Date"),
    (JS, "NaN"): ("NaN", "Number"),
    (JS, "[10n]"): ("[ 10n ]", "Array"),
    (JS, "'\\ud83d'"): ('"\\ud83d"', "String"),
    (JS, "const a = []; a.push(a, a); a"): ("<ref *1> [ [Circular *1], [Circular *1] ]", "Array"),
    (JS, "({ [Symbol.for('Deno.customInspect')]() { throw new TypeError } })"): (
        "[Object: inspecting it threw TypeError]",
        "Object",
    ),
    (JS, "new Proxy({}, { getOwnPropertyDescriptor() { throw 1 }, getPrototypeOf() { throw 1 } })"): ("{}", "Object"),
    (JS, "'x'.repeat(2000)"): ('"' + "x" * 996 + "…", "String", True),
    (JS, "'é'.repeat(2000)"): ('"' + "é" * 498 + "…", "String", True),
    (
        JS,
        """
        JSON.stringify = Deno.writeTextFileSync = Deno.inspect = Object.assign = () => { throw 1 };
        Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = () => 3;
        ({ a: [1, 'x'] })
        """,
    ): {"a": [1, "x"]},
}


def test_the_value_is_that_of_the_last_expression_or_return(run_all):
    """E1, E2: JSON is itself; what is no JSON is inspected, with its type; top-level await and return work."""
    for (job, expected), (report, done) in zip(VALUES.items(), run_all(list(VALUES)), strict=True):
        value, kind, truncated = (*expected, False)[:3] if isinstance(expected, tuple) else (expected, None, False)
        wanted = {"value": value, "value_type": kind, "value_truncated": truncated, "error": None, "exit_code": 0}
        assert (report, done.returncode, done.stdout, done.stderr) == (wanted, 0, "", ""), job


NOT_CAPABLE = 'Requires read access to "/etc/passwd": this sandbox has no such permission'
ERRORS = {
    (TS, "enum A { X }\nfunction f(): never {\n   throw new TypeError('é');\n}\n\nA.X; f()"): (
        "TypeError",
        "é",
        "TypeError: é\n   throw new TypeError('é');\n         ^\n    at f (program.ts:3:10)\n    at program.ts:6:6\n",
    ),
    (JS, "let x = 1; 'é'; if (x) { throw new RangeError('r', { cause: new Error('c') }) }"): (
        "RangeError",
        "r",
        (
            "RangeError: r\nlet x = 1; 'é'; if (x) { throw new RangeError('r', { cause: new Error('c') }) }\n"
            f"{' ' * 31}^\n    at program.js:1:32\nCaused by: Error: c\n    at program.js:1:61\n"
        ),
    ),
    (JS, "function f() {\n  null.x\n}\nlet y = 1; f()"): (
        "TypeError",
        "Cannot read properties of null (reading 'x')",
        "    at f (program.js:2:8)\n    at program.js:4:12\n",
    ),
    (JS, "if (1) {\n  return null.x\n}"): ("TypeError", "Cannot read", "    at program.js:2:15\n"),
    (JS, "throw new AggregateError([new Error('a'), 'b'], 'agg')"): (
        "AggregateError",
        "agg",
        '    Error: a\n        at program.js:1:27\n    "b"\n',
    ),
    (TS, "class Mine extends Error {}\nthrow new Mine('x')"): ("Mine", "x", "    at program.ts:2:7\n"),
    (JS, "throw { a: 1 }"): ("Object", "{ a: 1 }", "Uncaught { a: 1 }\n"),
    (JS, "throw new Proxy(new Error('x'), { get() { throw 1 } })"): ("Object", "describing it threw Number", ""),
    (TS, "const a = 1;\nlet x: = 4;"): (
        "SyntaxError",
        "Unexpected token `=`",
        "2 | let x: = 4;\n  |        ~\n    at program.ts:2:8",
    ),
    (JS, "const a = 1;\nlet x = = 4;"): ("SyntaxError", "Expression expected", "    at program.js:2:9\n"),
    (JS, "const a = 1;\nconst a = 2;"): ("SyntaxError", "'a' has already been declared", "\nconst a = 2;\n      ^\n"),
    (TS, "const t = <div/>"): ("SyntaxError", "", "1 | const t = <div/>"),
    (JS, "const x = 1\nexport { x }\nreturn x"): ("SyntaxError", "a program with a top-level return can't export", ""),
    (JS, "const x = 1\nimport 'node:fs'\nreturn x"): ("SyntaxError", "its imports must stand before all else", ""),
    (JS, "missing('fs')"): ("ReferenceError", "missing is not defined", "missing('fs')\n^\n    at program.js:1:1\n"),
    (JS, "Deno.readTextFileSync('/etc/passwd')"): ("NotCapable", NOT_CAPABLE, "    at program.js:1:6\n"),
    (JS, "import 'file:///etc/passwd'"): ("TypeError", NOT_CAPABLE, "    at program.js:1:8\n"),
    (JS, "await import('file:///etc/passwd')"): ("TypeError", NOT_CAPABLE, "    at async program.js:1:1\n"),
    (JS, "import 'npm:chalk'"): ("TypeError", "npm specifiers were requested", "    at program.js:1:8\n"),
    (JS, "import 'https://example.com/x.js'"): ("TypeError", "A remote specifier was requested", ""),
    (JS, "setTimeout(() => { throw new Error('late') }, 1)"): ("Error", "late", "_onTimeout (program.js:1:26)\n"),
    (JS, "Promise.reject(new Error('rejected'))"): ("Error", "rejected", "    at program.js:1:16\n"),
    (JS, "const f = async () => { throw new Error('in f') }\nf()"): ("Error", "in f", "    at f (program.js:1:31)\n"),
    (JS, "await new Promise(() => {})"): ("Error", "Top-level await promise never resolved", ""),
    (JS, "await 1; return new Promise(() => {})"): ("Error", "Top-level await promise never resolved", ""),
    (JS, "throw new Error('x'.repeat(100000))"): ("Error", "bytes left out", "bytes left out"),
    (JS, "function r() { r() } r()"): ("RangeError", "Maximum call stack size exceeded", "    at r (program.js:1:"),
    (JS, "Object.prototype.toJSON = () => 3; throw new Error('x')"): ("Error", "x", "    at program.js:1:42\n"),
    (JS, "reportError(new Error('reported'))"): ("Error", "reported", "    at program.js:1:13\n"),
}


def test_an_error_is_reported_as_deno_would_print_it(run_all):
    """E2: type, message, and the frames of the program alone, with its lines; the exit code is 1."""
    for (job, (kind, message, traceback)), (report, done) in zip(ERRORS.items(), run_all(list(ERRORS)), strict=True):
        error = report["error"]
        assert error, job
        assert (error["type"], report["exit_code"], done.returncode) == (kind, 1, 1), job
        assert message in error["message"], job
        assert traceback in error["traceback"], error["traceback"]
        assert not re.search(r"run\.mjs|ext:|blob:|file:///program", error["traceback"]), error["traceback"]
        assert len(error["traceback"].encode()) < 17 * 1024


def test_errno_is_that_of_the_operating_system_error_behind_an_error(run_all):
    jobs = [
        (JS, "Deno.writeTextFileSync('a/b', 'x')"),
        (JS, "try { Deno.openSync('a') } catch (cause) { throw new Error('x', { cause }) }"),
        (JS, "import fs from 'node:fs'\nfs.readFileSync('a')"),
        (JS, "throw new Error('x')"),
    ]
    assert [report["error"]["errno"] for report, _ in run_all(jobs)] == [2, 2, 2, None]


def test_exit_ends_the_program_with_its_code(run_all):
    """E2: by Deno.exit, node's process, Deno.exitCode, and from a timer."""
    jobs = [
        (JS, "Deno.exit(7)"),
        (JS, "import process from 'node:process'\nprocess.exit(7)"),
        (JS, "Deno.exitCode = 7; 'value'"),
        (JS, "setTimeout(() => Deno.exit(7), 1); 'value'"),
    ]
    done = [(report["exit_code"], done.returncode, report["value"], report["error"]) for report, done in run_all(jobs)]
    assert done == [(7, 7, None, None)] * 2 + [(7, 7, "value", None)] * 2


def test_the_program_decides_about_uncaught_errors_before_we_do(run_all):
    """Its own listeners, and those of node's process, may take an error; then there is none."""
    throw_late, reject = "setTimeout(() => { throw new Error('taken') }, 1); 1", "Promise.reject(new Error('taken')); 1"
    process = "import process from 'node:process'\nprocess.on"
    jobs = [
        (JS, f"addEventListener('error', (e) => {{ console.log(e.error.message); e.preventDefault() }})\n{throw_late}"),
        (JS, f"onunhandledrejection = (e) => {{ console.log(e.reason.message); e.preventDefault() }}\n{reject}"),
        (JS, f"{process}('uncaughtException', (e) => console.log(e.message))\n{throw_late}"),
        (JS, f"{process}('unhandledRejection', (e) => console.log(e.message))\n{reject}"),
    ]
    assert [(r["value"], r["error"], done.stdout) for r, done in run_all(jobs)] == [(1, None, "taken\n")] * 4


def test_the_event_loop_is_drained_before_the_end(run):
    report, done = run(
        "setTimeout(() => console.log('timer'), 20)\naddEventListener('unload', () => console.log('unload'))\n1"
    )
    assert (report["value"], done.stdout) == (1, "timer\nunload\n")


def test_standard_input_is_at_its_end(run):
    report, _ = run("Deno.stdin.readSync(new Uint8Array(9))")
    assert (report["value"], report["error"]) == (None, None)


def test_stacks_that_the_program_prints_name_its_lines(run):
    _, done = run("const x: number = 1;\n\nconsole.error(new Error('shown'));\nx")
    assert "at file:///program.ts:3:15" in done.stderr


def test_nothing_of_the_runner_is_reachable_from_the_globals(run):
    report, _ = run(
        "Object.getOwnPropertyNames(globalThis).filter((name) => /report|job|acorn|gloveport/i.test(name))", JS
    )
    assert report["value"] == ["reportError"]


WITH_DECORATORS = {
    (TS, "function log(x: unknown, _: unknown) { console.log('decorated') }\n@log\nclass A {}\n3"): 3,
    (
        TS,
        "enum E { X = 5 }\nconst d: any = () => {};\n@d export class A { @d m(): number { return E.X } }\nnew A().m()",
    ): 5,
    (
        TS,
        "const d = { e: () => (..._: any[]) => {} };\nconst A = @d.e() class { @(d.e()) x = 1 };\nreturn new A().x",
    ): 1,
    (TS, "class A { static accessor y = 2; accessor x: number = 1 }\n[new A().x, A.y, Object.keys(new A())]"): [
        1,
        2,
        [],
    ],
    (TS, "class A { accessor = 4; static accessor() { return 5 } }\n[new A().accessor, A.accessor()]"): [4, 5],
    (JS, "const d = () => {};\n@d class A { accessor x = 1 }\nnew A().x // @"): 1,
}


def test_decorators_and_accessors_take_no_value_away(run_all):
    reports = [report for report, _ in run_all(list(WITH_DECORATORS))]
    assert [(report["error"], report["value"]) for report in reports] == [
        (None, value) for value in WITH_DECORATORS.values()
    ]


def test_an_error_beside_a_decorator_and_an_accessor_has_its_place(run):
    source = "const d = (..._: any[]) => {};\n@d\nclass A {\n  accessor x: number = 1;\n}\nnull.x"
    report, _ = run(source)
    assert "program.ts:6:" in report["error"]["traceback"]


COMMON_JS = """const { join } = require("path");
const main = () => join("a", "b");
if (require.main === module) globalThis.answer = main();
module.exports = { main };
answer"""


def test_a_program_written_for_node_finds_require(run):
    report, _ = run(COMMON_JS, JS)
    assert (report["error"], report["value"]) == (None, "a/b")


def test_a_package_that_is_not_there_is_named_by_require(run):
    report, _ = run("require('lodash')", JS)
    assert "lodash" in report["error"]["message"]


def test_a_large_value_is_cut(run):
    report, _ = run("Array.from({ length: 1e7 }, (_, i) => i)", JS)
    assert (report["value_type"], report["value_truncated"]) == ("Array", True)
    assert len(report["value"].encode()) <= LIMIT


def test_all_listeners_of_the_end_run_before_the_process_ends(run_all):
    """Those of the global and those of node's process, which may still set the exit code."""
    listen = """
        import process from "node:process";
        addEventListener("unload", () => console.log("unload"));
        onunload = () => console.log("onunload");
        process.on("exit", (code) => console.log("exit", code));
        """
    jobs = [
        (JS, listen),
        (JS, f"{listen} process.exitCode = 3"),
        (JS, f"{listen} process.on('exit', () => {{ process.exitCode = 4 }})"),
        (JS, f"{listen} process.on('exit', () => process.exit(5))"),
        (JS, f"{listen} setTimeout(() => process.exit(6), 1)"),
    ]
    ends = [(done.returncode, done.stdout.replace("\n", " ").strip()) for _, done in run_all(jobs)]
    assert ends == [
        (0, "unload onunload exit 0"),
        (3, "unload onunload exit 3"),
        (4, "unload onunload exit 0"),
        (5, "unload onunload exit 0"),
        (6, "exit 6 unload onunload"),
    ]


def test_the_end_waits_for_workers(run):
    report, done = run("""
        const text = "postMessage(typeof Deno.args); setTimeout(() => { console.log('worker'); close() }, 5)";
        const worker = new Worker(URL.createObjectURL(new Blob([text])), { type: "module" });
        await new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data));
        """)
    assert (report["error"], done.stdout) == (None, "worker\n")


def test_a_program_larger_than_a_pipe_is_read_whole(run):
    report, _ = run(f"const text: string = `{'é' * 200_000}`;\ntext.length")
    assert report["value"] == 200_000


# What a program could tell a warm-up by that no object shows.
STATE = """
console.log(JSON.stringify({
  matched: [RegExp.input, RegExp.$1], frames: Error.stackTraceLimit, marks: performance.getEntries().length,
  args: Deno.args, argv: process.argv, events: process.eventNames(), exitCode: Deno.exitCode, main: import.meta.main,
  meta: Object.keys(import.meta), resources: Deno[Deno.internal].core.resources(), files: [...Deno.readDirSync(".")],
  timer: +setTimeout(() => {}), input: Deno.stdin.readSync(new Uint8Array(1)),
}));
addEventListener("load", () => console.log("load"));
"""

# Whatever can be reached from the global object, getters not asked.
WORLD = """
const show = (value) => Object(value) !== value ? JSON.stringify(value) ?? String(value)
  : typeof value === "function" ? `function ${value.name}` : Object.prototype.toString.call(value);
const queue = [[globalThis, "globalThis"]], paths = new Map(queue), lines = [];
for (const [object, path] of queue) {
  const note = (part, name, flags = "") => {
    lines.push(`${name} ${flags} ${paths.get(part) ?? show(part)}`);
    if (Object(part) === part && !paths.has(part)) paths.set(part, name), queue.push([part, name]);
  };
  note(Object.getPrototypeOf(object), `${path}.[[Prototype]]`);
  for (const key of Reflect.ownKeys(object)) {
    const { value, get, set, ...flags } = Object.getOwnPropertyDescriptor(object, key);
    for (const [kind, part] of Object.entries({ value, get, set })) {
      note(part, `${path}.${String(key)} ${kind}`, JSON.stringify(flags));
    }
  }
}
console.log(lines.join("\\n"));
"""


def test_a_program_finds_nothing_of_the_warm_up(run_in):
    """It finds what it finds after a cold start, once node's modules are loaded, as the eraser of types loads them."""
    typed = "const typed: boolean = true;"
    jobs = [(JS, STATE), (TS, typed + STATE), (JS, f"import 'node:module';{WORLD}"), (TS, typed + WORLD)]
    cold, waiting = ([done.stdout.splitlines() for _, done in run_in(mode, jobs)] for mode in (COLD, WAITING))
    assert [len(lines) > least for lines, least in zip(cold, (0, 0, 10_000, 10_000), strict=True)] == [True] * 4
    assert waiting == cold


TYPES = """/** What an API answers. */
export interface Repository { name: string; status: Status }
declare function get<T>(path: string): Promise<T>;
enum Status { Open = "open", Closed = "closed" }
"""
DECORATED = "function note(one: any, _: any) { return one }\n@note class A {}\n"
WITH_TYPES = {
    "Status.Open": "open",
    'const one: Repository = { name: "x", status: Status.Open };\none': {"name": "x", "status": "open"},
    "const one: Status = Status.Closed;\nreturn [one]": ["closed"],
    "import { join } from 'node:path'; const one: Repository | null = null;\njoin(Status.Open, 'x')": "open/x",
    "#!/usr/bin/env deno\nfunction f() { return Status.Open }\nf()": "open",
    "import.meta.main && Status.Open": "open",
    "": None,
    f"{DECORATED}console.log(Status.Open);": None,
}


def test_the_types_of_apis_stand_before_a_program_and_change_nothing_else(run_all):
    """N9: with the code in them, such as enums."""
    for source, (report, _) in zip(WITH_TYPES, run_all([(TS, source, TYPES) for source in WITH_TYPES]), strict=True):
        assert (report["error"], report["value"]) == (None, WITH_TYPES[source]), source


def test_the_types_of_apis_shift_no_line(run_all):
    """N9."""
    sources = [
        "const one: Repository | null = null;\n\nthrow new Error(Status.Open);",
        "import 'node:path'; console.log(1);\n\nthrow new Error(Status.Open);",
        "1;\n\nthrow new Error(Status.Open);\nreturn 1",
        f"{DECORATED}throw new Error(Status.Open);",
    ]
    for report, done in run_all([(TS, source, TYPES) for source in sources]):
        assert report["error"]["message"] == "open", done
        assert "program.ts:3:" in report["error"]["traceback"]
        assert "throw new Error(Status.Open)" in report["error"]["traceback"]
    stack = "const one: Repository | null = null;\nconsole.log(new Error().stack)"
    assert "program.ts:2:13" in run_all([(TS, stack, TYPES)])[0][1].stdout


def test_a_fault_in_types_is_not_the_programs(run_all):
    """N9: and one of the program is not theirs."""
    theirs = run_all([(TS, "1", "interface {"), (TS, "1", DECORATED)])
    for report, _ in theirs:
        assert report["error"]["type"] == "SyntaxError"
        assert report["error"]["message"].startswith("in the types of the APIs, not in the program: ")
        assert "program.ts" not in report["error"]["traceback"]
    ((report, _),) = run_all([(TS, "1;\nx =", TYPES)])
    assert report["error"]["message"] == "Expression expected"
    assert "program.ts:2:4" in report["error"]["traceback"]


@pytest.mark.parametrize("mode", [COLD, WAITING], ids=["cold", "waiting"])
def test_a_runner_that_gets_no_job_ends_quietly(tmp_path, mode):
    """So a pool that shrinks just closes the pipe."""
    done = finish(start(tmp_path, *mode), "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list((tmp_path / "scratch").iterdir())
