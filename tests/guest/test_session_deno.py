"""TypeScript and JavaScript in a session (E7): what stays from call to call, how calls end, and what is told of it."""

import sys

import pytest
from tests.guest.supervised import open_session


@pytest.fixture
def session(tmp_path):
    with open_session(tmp_path, sys.executable, "typescript") as opened:
        yield opened


def test_every_kind_of_declaration_stays_and_may_be_made_anew(session):
    session.call("const a: number = 1; let b = 2; var c = 3; class D { constructor(public n: number) {} }")
    session.call("function f(x: number): number { return x + a } enum E { P = 5 } interface I { x: number }")
    assert session.value("[a, b, c, new D(4).n, E.P, f(1)]") == [1, 2, 3, 4, 5, 2]
    session.call("const a = 10; class D { n = 7 }; b += 1; const { x, y: [z] } = { x: 1, y: [2] }")
    assert session.value("[a, b, new D().n, f(1), x, z]") == [10, 3, 7, 11, 1, 2]


def test_both_languages_share_one_scope(session):
    session.call("const shared: string = 'x'")
    assert session.call("shared + 'y'", language="javascript")["report"]["value"] == "xy"


def test_awaits_stand_anywhere_and_values_are_awaited(session):
    assert session.value("const v = await Promise.resolve(6); v * 7") == 42
    assert session.value("for await (const x of [Promise.resolve(1)]) await x\nPromise.resolve([v])") == [6]


VALUES = {
    "1; let x = 2": None,
    "5; function f() {}": 5,
    "if (true) { 1 }": None,
    "export const y = 1; export default y + 1": 2,
    "return 8; 9": 8,
    "const x = 1; if (x) { return { a: x } } 2": {"a": 1},
    "const x = 1; function f() { return 2 } if (!x) return 0; f();": 2,
    "'use strict'; 3": 3,
    "#!/usr/bin/env deno\n4": 4,
    "// nothing": None,
    "": None,
    "undefined": None,
    "let s = `${1}`; s": "1",
}


def test_a_value_is_that_of_the_last_expression_or_of_a_return(session):
    for source, value in VALUES.items():
        assert session.value(source) == value, source


def test_what_is_no_json_is_told_as_deno_shows_it(session):
    report = session.call("new Map([[1, new Set([2])]])")["report"]
    assert (report["value"], report["value_type"]) == ("Map(1) { 1 => Set(1) { 2 } }", "Map")


def test_imports_stay_and_paths_are_those_of_the_directory(session, tmp_path):
    module = "export const v: number = 3; export default 5; export function fail() {\n  throw new Error('inside') }"
    (tmp_path / "directory/module.ts").write_text(module)
    (tmp_path / "directory/data.json").write_text('{"a": 1}')
    code = (
        "import d, { v as w } from './module.ts'\nimport * as all from './module.ts'; import 'node:path'\n"
        "import data from './data.json' with { type: 'json' }; import type { T } from './nowhere.ts'"
    )
    assert session.call(code)["report"]["error"] is None
    assert session.value("[d, w, all.v, data.a, (await import('./module.ts')).v]") == [5, 3, 3, 1, 3]
    assert session.value("[import.meta.main, import.meta.dirname === Deno.cwd(), require('node:os').EOL]") == [
        True,
        True,
        "\n",
    ]
    trace = session.call("\nall.fail()")["report"]["error"]["traceback"]
    assert "module.ts:2:9" in trace
    assert "call-4.ts:2:5" in trace


def test_errors_name_the_calls_and_lines_that_they_come_from_and_nothing_of_ours(session):
    session.call("type T = string\nfunction f(x: T) {\n  return (null as any).x\n}")
    assert session.call("\nf('')")["report"]["error"]["traceback"] == (
        "TypeError: Cannot read properties of null (reading 'x')\n"
        "    at f (call-1.ts:3:24)\n"
        "f('')\n"
        "^\n"
        "    at call-2.ts:2:1\n"
    )
    session.call(
        "enum A { X }\nclass P { constructor(private n: number) {} }\n\nfunction g() {\n  throw new Error('g')\n}"
    )
    assert "at g (call-3.ts:5:9)" in session.call("g()")["report"]["error"]["traceback"]
    assert session.value("new Error('x').stack.split('\\n').length") == 2


def test_a_syntax_error_says_where_it_is(session):
    for source, language, position in (
        ("let a = 1\nlet b = ;", "typescript", "call-1.ts:2:9"),
        ("let a: = 1", "typescript", "call-2.ts:1:8"),
        ("1\n{", "javascript", "call-3.js:2:"),
    ):
        error = session.call(source, language=language)["report"]["error"]
        assert error["type"] == "SyntaxError", source
        assert position in error["traceback"], source


def test_what_is_thrown_where_nobody_catches_it_is_written_and_ends_nothing(session):
    session.call("let x = 1; setTimeout(() => { throw new Error('late') }); Promise.reject(new Error('nobody')); 0")
    assert session.value("await new Promise((done) => setTimeout(done, 10)); x") == 1
    lines = [session.process.stderr.readline().decode().strip() for _ in range(4)]
    assert [line for line in lines if line.startswith("Uncaught")] == ["Uncaught Error: nobody", "Uncaught Error: late"]


def test_an_exit_ends_the_call_and_not_the_session(session):
    for end in ("Deno.exit(3)", "process.exit(3)", "await 0; Deno.exit(3)"):
        answer = session.call(f"let x = 1\n{end}\nx = 2")
        assert (answer["state"], answer["report"]["exit_code"], answer["report"]["error"]) == ("kept", 3, None), end
        assert session.value("x") == 1, end


def test_what_computes_too_long_is_ended_and_the_variables_stay(session):
    session.call("let x = 1")  # before the clock runs: a busy host may begin late
    answer = session.call("while (true) x++", wall_seconds=0.2)
    assert (answer["state"], answer["report"]["error"]["type"]) == ("kept", "Interrupted")
    assert session.value("x >= 1")


def test_an_interrupt_ends_the_waiting_for_an_await(session):
    session.begin("let x = 1; console.log('running'); await new Promise(() => {})")
    session.wait_running()
    answer = session.interrupt()
    assert (answer["state"], answer["report"]["error"]["type"]) == ("kept", "Interrupted")
    assert session.value("x") == 1


def test_an_interrupt_between_calls_means_nothing(session):
    session.call("let x = 1")
    session.send({"interrupt": session.number})
    assert session.value("x") == 1


def test_what_does_not_stop_is_killed_and_the_answer_says_what_is_lost(session):
    session.call("x = 1", language="python")
    session.call("let x = 1")
    session.begin("await 0; console.log('running'); while (true);")
    session.wait_running()
    session.send({"interrupt": session.number})
    answer = session.kill()
    assert (answer["state"], answer["undone"]) == ("lost", [2, 3])
    assert (
        answer["why"] == "the call did not stop, and was killed: the variables of TypeScript are gone, and nothing else"
    )
    assert session.value("typeof x") == "undefined"
    assert session.call("x", language="python")["report"]["value"] == 1


def test_changed_variables_are_told_with_type_and_size(session):
    code = "const x = 1; let name = 'abc'; let rows = [1, 2]; const m = new Map([[1, 2]]); let o = {a: 1}"
    told = {
        one.pop("name"): one for one in session.call(f"{code}; function f() {{}} let _p = 1")["variables"]["changed"]
    }
    assert told == {
        "x": {"type": "number", "preview": "1"},
        "name": {"type": "string", "shape": "3", "preview": '"abc"'},
        "rows": {"type": "Array", "shape": "2"},
        "m": {"type": "Map", "shape": "1"},
        "f": {"type": "function"},
        "o": {"type": "Object", "preview": "{ a }"},
    }
    changed = session.call("const x = 1; rows.push(3); o = {a: 1}; name = 'abc'")["variables"]["changed"]
    assert sorted(one["name"] for one in changed) == ["o", "rows"]


def test_no_code_of_a_program_runs_for_what_is_told_of_its_variables(session):
    trap = "() => { while (true); }"
    code = (
        f"const p = new Proxy({{}}, {{ get: {trap}, ownKeys: {trap}, getOwnPropertyDescriptor: {trap} }});\n"
        f"const g = Object.defineProperty({{}}, 'x', {{ get: {trap}, enumerable: true }});\n"
        f"const i = {{ [Symbol.for('Deno.customInspect')]: {trap}, toJSON: {trap} }}; null"
    )
    assert {one["name"] for one in session.call(code)["variables"]["changed"]} == {"p", "g", "i"}


def test_variables_and_inspect_run_no_call(session):
    session.call("const x = { a: [1] }; function f(n: number) { return n }")
    assert [one["name"] for one in session.call(do="variables")["variables"]["changed"]] == ["x", "f"]
    assert session.call(do="inspect", expression="x")["report"]["value"] == "Object\n{ a: [ 1 ] }"
    assert session.call(do="inspect", expression="nothing")["report"]["error"]["type"] == "ReferenceError"
    assert session.call(do="inspect", expression="a b")["report"]["error"]["type"] == "SyntaxError"


def test_what_a_program_does_to_the_globals_confuses_no_call(session):
    code = (
        "JSON.parse = JSON.stringify = Array.prototype.map = () => { throw 1 }; Error.prepareStackTrace = () => 5;\n"
        "globalThis.Map = globalThis.Promise = null; Object.prototype.timeout = 0; delete globalThis.Deno; 7"
    )
    assert session.call(code)["report"]["value"] == 7
    assert session.call("6 * 7")["report"]["value"] == 42
