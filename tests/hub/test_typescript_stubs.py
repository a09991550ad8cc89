"""Tools as TypeScript declarations: whatever a server says, what is made of it parses, and says what is known. H2."""

import os
import re
import subprocess
import time

import deno
from hypothesis import given, settings
from tests.hub.schemas import GENERATED, HOSTILE, OBJECTS, SCHEMAS, definition
from tests.hub.test_python_stubs import every_module

from gloveport.hub.stubs.typescript_stubs import module, signature, stub


def checked(directory):
    """What Deno's type checker says of a directory's program; without a network, and without leaving anything."""
    environment = {"PATH": os.environ["PATH"], "DENO_DIR": str(directory / "cache"), "NO_COLOR": "1"}
    command = [deno.find_deno_bin(), "check", "--no-remote", "--no-npm", "--no-config", "program.ts"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_a_signature_is_one_line_that_tells_all():
    """H2, H4."""
    issue = {"type": "object", "title": "Issue", "properties": {"id": {"type": "integer"}}}
    assert signature(definition(SCHEMAS["usual"], issue), "create_issue") == (
        'create_issue(args: {title: string, labels?: string[], state?: "open" | "closed", count?: number | null}): '
        "Promise<Issue>"
    )


def test_a_stub_has_types_and_texts():
    """H2."""
    issue = {
        "type": "object",
        "title": "Issue",
        "properties": {"a-b": {"description": "Its\nnumber"}},
        "required": ["a-b"],
    }
    assert (
        stub(definition(SCHEMAS["usual"], issue), "delete")
        == """\
export interface Issue {
  /**
   * Its
   * number
   */
  "a-b": unknown;
}

export interface Github {
  /** Create an issue. */
  delete(args: {
    /** Title of the issue */
    title: string;
    labels?: string[];
    state?: "open" | "closed";
    count?: number | null;
  }): Promise<Issue>;
}
"""
    )


def test_what_is_not_declared_is_said_to_be_so():
    """H2: no schema at all, and an absent output schema."""
    assert signature(definition({}), "do") == "do(args?: {[name: string]: unknown}): Promise<unknown>"
    assert signature(definition({"type": "object", "properties": {}}), "do") == "do(): Promise<unknown>"
    assert "does not declare what the result looks like" in stub(definition({}), "do")


def test_tuples_unions_and_tables():
    """H2."""
    text = stub(definition(SCHEMAS["tables and tuples"]), "put")
    assert "tuple?: [number, string, ...boolean[]];" in text
    assert '"old tuple"?: [number, string];' in text
    assert "table?: {[name: string]: number};" in text
    assert "one?: string | string[];" in stub(definition(SCHEMAS["together"]), "put")
    assert 'mixed?: 1 | true | null | "a" | 1.5 | -0.0;' in stub(definition(SCHEMAS["values"]), "put")
    assert "export type Json = string | number | boolean | null | Json[] | {[name: string]: Json};" in stub(
        definition(SCHEMAS["any json"]), "put"
    )


def test_what_is_endless_is_cut():
    for name, schema in SCHEMAS.items():
        tool = definition(schema, schema, description="long " * 200_000)
        began = time.thread_time()
        assert len(stub(tool, "tool")) < 1_000_000, name
        assert len(signature(tool, "tool")) < 8_000, name
        assert time.thread_time() - began < 1, name


def test_nothing_that_a_server_says_becomes_code():
    """T2: no text ends its comment or its literal."""
    text = module(
        "server", HOSTILE, {"a": definition({"properties": {"b": {"description": HOSTILE}}}, description=HOSTILE)}
    )
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("*/") == text.count("/**")


def test_all_of_it_and_what_chance_makes_satisfies_a_type_checker(tmp_path):
    """H2: typed stubs; and a program that uses them is checked by them."""
    tools = []

    @settings(database=None, max_examples=settings.default.max_examples // 2)
    @given(GENERATED | OBJECTS, GENERATED | OBJECTS)
    def collect(taken, given_back):
        taken = taken if isinstance(taken, dict) else {}
        tools.append(definition(taken, given_back if isinstance(given_back, dict) else None))

    collect()
    (tmp_path / "chance.d.ts").write_text(module("chance", "", {f"tool{at}": tool for at, tool in enumerate(tools)}))
    (tmp_path / "everything.d.ts").write_text(module("everything", HOSTILE, every_module()))
    (tmp_path / "program.ts").write_text(
        'import type { Chance } from "./chance.d.ts";\n'
        'import type { Everything } from "./everything.d.ts";\n'
        "export type A = Chance;\n"
        "declare const tools: Everything;\n"
        'const made = await tools.usual({ title: "x", labels: ["a"] });\n'
        "const title: string = made.title;\n"
        'await tools.awkward_names({ "max-size": title, undeclared: 1, constructor: title });\n'
        "await tools.usual({ title: 1 });\n"
    )
    said = checked(tmp_path).stderr
    assert re.findall(r"TS\d+", said) == ["TS2322"], said
    assert "Type 'number' is not assignable to type 'string'" in said
    assert re.findall(r"at file:\S+/(\w[\w.]+:\d+):", said)[:1] == ["program.ts:8"], said
