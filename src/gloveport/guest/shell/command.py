"""The command ``tools`` of shell programs; ``llm``, which is ``tools --llm``; ``skill``, which is ``tools --skill``.

It exits with 0; with 1 where a call failed, with the reason on standard error; and with 2 for wrong usage. Standard
library only; it starts anew for each call, so it imports little.
"""

import json
import os
import sys

from gloveport_tools.arguments import as_list, compact, properties_of, require_json, typed_by
from gloveport_tools.channel import Channel
from gloveport_tools.host import HostClient
from gloveport_tools.results import SkillError, ToolError, ToolResult
from gloveport_tools.tree import table

DOOR = "GLOVEPORT_HUB"
FAILED, WRONG_USAGE = 1, 2
USAGE = """\
usage: tools                                      the servers
       tools SERVER                               its tools
       tools SERVER TOOL --help                   what a tool takes
       tools SERVER TOOL [--NAME VALUE]…          call it: text as it is, everything else as JSON; --NAME and
                                                  --no-NAME for true and false
       tools SERVER TOOL --json OBJECT            call it with these arguments; - reads them from standard input
       tools --blocks SERVER TOOL …               call it, and print every block of its answer as JSON
       tools --search WORD…                       find tools
       tools --export DIRECTORY                   write typed declarations of all tools there, a file for each server
       tools --llm [--system TEXT] [--model NAME] [--max-tokens N] PROMPT
                                                  ask a language model; - reads the prompt from standard input
       skill                                      names of skills
       skill NAME --help                          what one does and takes
       skill NAME [--NAME VALUE]…                 run it, and print its value; options as for a tool"""


class WrongUsageError(Exception):
    """The command line is malformed."""


def main(arguments):
    """Do what the command line says; return the exit code."""
    try:
        for text in run(arguments):
            print(text)
        sys.stdout.flush()
    except WrongUsageError as error:
        print(f"tools: {error}", file=sys.stderr)
        return WRONG_USAGE
    except BrokenPipeError:  # `tools | head`: the reader has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except (ToolError, TypeError, OSError) as error:  # a SkillError is a ToolError
        print(error if isinstance(error, ToolError) else f"tools: {error}", file=sys.stderr)
        return FAILED
    return 0


def run(arguments):
    """Return the output, as texts. Raises WrongUsageError, ToolError, TypeError, OSError."""
    if arguments in (["--help"], ["-h"]):
        return [USAGE]
    if DOOR not in os.environ:
        hint = "This sandbox has been granted no servers and no skills."
        raise ToolError("tools", "unavailable", "there are none", hint)
    channel = Channel(os.environ[DOOR])
    host = HostClient(channel)
    match arguments:
        case []:
            done = servers(host)
        case ["--search", _, *_]:
            done = search(host, " ".join(arguments[1:]))
        case ["--export", directory]:
            done = export(host, directory)
        case ["--llm", *options]:
            done = ask(host, options)
        case ["--skill", *words]:
            done = skill(HostClient(channel, SkillError), words)
        case ["--blocks", server, tool, *options]:
            done = [compact([block.wire for block in call(host, server, tool, options).blocks])]
        case [server, *words] if not server.startswith("-"):
            done = run_of(host, server, words)
        case _:
            raise WrongUsageError(f"not understood: {' '.join(arguments)}\n{USAGE}")
    return done


def run_of(host, server, words):
    """Return the output of a command line about one server."""
    match words:
        case [] | ["--help" | "-h"]:
            return tools(host, server)
        case [tool, "--help" | "-h"]:
            return usage_of(host.ask(f"{server}/{tool}", "describe", server=server, tool=tool))
        case [tool, *options]:
            return [text_of(call(host, server, tool, options))]


# -- Look ------------------------------------------------------------------------------------------------------------


def servers(host):
    """The servers, one a line."""
    found = host.ask("tools", "tree")["servers"]
    yield (
        table([(server["name"], server["state"], server["description"]) for server in found]) if found else "no servers"
    )


def tools(host, name):
    """The tools of a server, one a line."""
    (server,) = host.ask(name, "tree", server=name)["servers"]
    found = server["tools"]
    yield table([(tool["name"], tool["summary"]) for tool in found]) if found else "no tools"


def search(host, words):
    """The tools that a search finds, the best first."""
    found = host.ask("search", "search", query=words, limit=20, detail="names")
    rows = [(f"{tool['server']} {tool['name']}", tool["description"]) for tool in found["tools"]]
    if rows:
        yield table(rows)
    if found["total"] > len(rows):
        yield f"and {found['total'] - len(rows)} more"
    for server in found["missing"]:
        print(f"tools: {server['server']} could not be asked: {server['reason']}", file=sys.stderr)


def usage_of(tool):
    """The usage of a tool."""
    schema = tool["input_schema"]
    required = as_list(schema.get("required"))
    rows = [
        (f"--{name}", "|".join(sorted(typed_by(one))), "required" if name in required else "", about(one))
        for name, one in properties_of(schema).items()
    ]
    yield f"usage: tools {tool['server']} {tool['name']} [--NAME VALUE]…\n\n{tool['description']}".rstrip()
    if rows:
        yield f"\n{table(rows, '  ')}"
    yield f"\n{tool['python'].rstrip()}"


def about(schema):
    """A parameter's schema in words, on one line."""
    return " ".join(str(schema.get("description", "")).split()) if isinstance(schema, dict) else ""


def export(host, directory):
    """Write the typed declarations of all tools; returns their paths."""
    for language in ("python", "typescript"):
        for file in host.ask("export", "stubs", language=language)["files"]:
            path = os.path.join(directory, file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as text:
                text.write(file["text"])
            yield path


# -- Call ------------------------------------------------------------------------------------------------------------


def call(host, server, tool, options):
    """Call a tool with the arguments that options give."""
    name = f"{server}/{tool}"
    needs_types = len(options) > 2 or options[:1] not in ([], ["--json"])
    schema = host.ask(name, "describe", server=server, tool=tool)["input_schema"] if needs_types else {}
    arguments = arguments_of(options, schema, f"try: tools {server} {tool} --help")
    require_json(arguments, "")
    return ToolResult(host.ask(name, "call", server=server, tool=tool, arguments=arguments))


def text_of(result):
    """The text to print of an answer."""
    if result.kind == "blocks":
        return "\n".join(repr(block) if block.text is None else block.text for block in result.blocks)
    return result.value if isinstance(result.value, str) else compact(result.value)


def arguments_of(options, schema, hint):
    """The arguments that options give, typed by the schema. Raises WrongUsageError."""
    arguments, rest = {}, iter(options)
    for option in rest:
        name, equals, text = option.removeprefix("--").partition("=")
        if not option.startswith("--") or not name:
            raise WrongUsageError(f"{option} belongs to no option\nhint: {hint}")
        if name == "json":
            arguments |= object_of(text if equals else following(rest, option, hint))
            continue
        parameter, negated = parameter_of(name, schema, hint)
        kinds = typed_by(properties_of(schema).get(parameter))
        if not equals and (negated or kinds == {"boolean"}):
            arguments[parameter] = not negated
        else:
            arguments[parameter] = value_of(text if equals else following(rest, option, hint), kinds, option)
    return arguments


def following(rest, option, hint):
    """The word after an option."""
    for word in rest:
        return word
    raise WrongUsageError(f"{option} lacks a value\nhint: {hint}")


def parameter_of(name, schema, hint):
    """The parameter that an option names (``-`` and ``_`` are the same), and whether the option negates it."""
    parameters = properties_of(schema)
    if name in parameters:
        return name, False
    alike = {parameter.replace("-", "_"): parameter for parameter in parameters}
    plain = name.replace("-", "_")
    if plain in alike:
        return alike[plain], False
    if plain.startswith("no_") and typed_by(parameters.get(alike.get(plain[3:]))) == {"boolean"}:
        return alike[plain[3:]], True
    if parameters and schema.get("additionalProperties") in (None, False):
        raise WrongUsageError(f"there is no parameter --{name}; there are: --{', --'.join(parameters)}\nhint: {hint}")
    return name, False


def value_of(text, kinds, option):
    """Parse a text as one of the allowed types; any type, where none are given."""
    if kinds == {"string"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        if not kinds or "string" in kinds:
            return text
        raise WrongUsageError(f"{option} takes {' or '.join(sorted(kinds))}, as JSON; {text!r} is none") from None


def object_of(text):
    """The arguments in a text, or on standard input."""
    try:
        arguments = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise WrongUsageError(f"--json takes an object of JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise WrongUsageError('--json takes an object of JSON, such as \'{"title": "x"}\'')
    return arguments


# -- Run a skill -----------------------------------------------------------------------------------------------------


def skill(host, words):
    """The description of a skill, or the result of running it."""
    match words:
        case []:
            answer = host.ask("skills", "skills")
            yield from answer["names"] or ["no skills"]
            if answer["total"] > len(answer["names"]):
                yield f"and {answer['total'] - len(answer['names'])} more"
        case [name, "--help" | "-h"]:
            yield usage_of_skill(host.ask(name, "describe_skill", skill=name))
        case [name, *options] if not name.startswith("-"):
            needs_types = len(options) > 2 or options[:1] not in ([], ["--json"])
            schema = host.ask(name, "describe_skill", skill=name)["input_schema"] if needs_types else {}
            arguments = arguments_of(options, schema, f"try: skill {name} --help")
            require_json(arguments, "")
            value = host.ask(name, "run_skill", skill=name, arguments=arguments)["value"]
            yield value if isinstance(value, str) else compact(value)
        case _:
            raise WrongUsageError(f"not understood: {' '.join(words)}\n{USAGE}")


def usage_of_skill(answer):
    """The usage of a skill."""
    rows = [
        (f"--{name}", "|".join(sorted(typed_by(one))), compact(one.get("default")), about(one))
        for name, one in properties_of(answer["input_schema"]).items()
    ]
    usage = f"usage: skill {answer['name']} [--NAME VALUE]…\n\n{answer['description']}"
    state = f"[{answer['state']}, {answer['origin']}]"
    return "\n\n".join([usage, *([table(rows, "  ")] if rows else []), state])


# -- Ask a language model --------------------------------------------------------------------------------------------

QUESTION = {
    "properties": {
        "system": {"type": "string"},
        "model": {"type": "string"},
        "max_tokens": {"type": "integer"},
    }
}


def ask(host, words):
    """The answer to a question."""
    hint = 'write: llm [--system TEXT] [--model NAME] [--max-tokens N] "PROMPT"'
    if not words or (words[-1].startswith("-") and words[-1] != "-"):
        raise WrongUsageError(f"there is no prompt\nhint: {hint}")
    *options, prompt = words
    request = {"system": "", "model": "", "max_tokens": 1000, **arguments_of(options, QUESTION, hint)}
    prompt = sys.stdin.read() if prompt == "-" else prompt
    yield host.ask("llm", "sample", messages=[{"role": "user", "content": prompt}], **request)["text"]
