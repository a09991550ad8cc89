"""The tools as a tree of attributes: ``tools.github.create_issue(title="x")``.

Nothing is requested before it is needed: a plain call is one request, whatever its name. The host is asked for lists
and descriptions when a program looks: ``dir``, ``repr``, ``help``, ``inspect.signature``.
"""

import functools
import operator
from keyword import iskeyword
from types import ModuleType

from gloveport_tools.arguments import as_list, properties_of, require_json, typed_by
from gloveport_tools.results import ToolError, ToolResult

TYPES = {"string": str, "boolean": bool, "integer": int, "number": float, "array": list, "object": dict}


def documentation_of(called):
    """The ``__doc__`` of a tool or skill: its description and its typed declaration."""
    answer = called.describe()
    return f"{answer['description']}\n\n{answer['python']}".strip()


def parameters_of(called):
    """The ``__signature__`` of a tool or skill, from its schema."""
    return signature_of(called.describe()["input_schema"])


class ToolsModule(ModuleType):
    """Servers by attribute, such as ``tools.github``, or by their own name, such as ``tools["my-server"]``."""

    def __init__(self, host, **names):
        super().__init__("tools", "The tools that this program may call. `print(tools)` shows the servers.")
        self.__dict__.update(names, _host=host)

    def __getattr__(self, name):
        return ToolServer(self._host, check_name(self, name))

    def __getitem__(self, name):
        return ToolServer(self._host, name)

    def __dir__(self):
        own = [name for name in self.__dict__ if not name.startswith("_")]
        return [*(server["exposed"] for server in self._host.ask("tools", "tree")["servers"]), *own]

    def __repr__(self):
        return text_or_error("tools", servers_of, self._host)


class ToolServer:
    """Tools of one server by attribute, or by their own name: ``server["create-issue"]``."""

    __slots__ = ("_host", "_name")

    def __init__(self, host, name):
        self._host = host
        self._name = name

    def __getattr__(self, name):
        return Tool(self._host, self._name, check_name(self, name))

    def __getitem__(self, name):
        return Tool(self._host, self._name, name)

    def __dir__(self):
        (server,) = self._host.ask(self._name, "tree", server=self._name)["servers"]
        return [tool["exposed"] for tool in server["tools"]]

    def __repr__(self):
        return text_or_error(f"tools.{self._name}", tools_of, self._host, self._name)


class Tool:
    """A tool. Call it with its parameters by name; those whose names are no identifiers in a dict before them.

    ``tool(…)`` returns the value, ``await tool.aio(…)`` does without blocking, so that many calls may go on at once.
    ``tool.blocks(…)`` and ``await tool.aio_blocks(…)`` return a ``ToolResult`` with every block.
    """

    def __init__(self, host, server, name):
        self._host = host
        self._server = server
        self.__name__ = self.__qualname__ = name
        self._label = f"{server}/{name}" if server else name

    def __call__(self, *arguments, **named):
        """Call it."""
        return self.blocks(*arguments, **named).usual

    async def aio(self, *arguments, **named):
        """Call it while others go on."""
        return (await self.aio_blocks(*arguments, **named)).usual

    def blocks(self, *arguments, **named):
        """Call it, for all that it answers."""
        return ToolResult(self._host.ask(self._label, "call", **self._request(arguments, named)))

    async def aio_blocks(self, *arguments, **named):
        """Call it while others go on, for all that it answers."""
        return ToolResult(await self._host.aio(self._label, "call", **self._request(arguments, named)))

    def _request(self, arguments, named):
        merged = merge_arguments(self._label, arguments, named)
        return {"server": self._server, "tool": self.__name__, "arguments": merged}

    def describe(self):
        """All that is known of it, its schemas among that."""
        return self._host.ask(self._label, "describe", server=self._server, tool=self.__name__)

    __doc__ = property(documentation_of)
    __signature__ = property(parameters_of)

    def __repr__(self):
        return text_or_error(f"tools.{self._server}.{self.__name__}", declaration_of, self)


def merge_arguments(label, arguments, named):
    """The parameters of a call by name. Raises TypeError for other arguments."""
    if len(arguments) > 1 or not all(isinstance(positional, dict) for positional in arguments):
        raise TypeError(
            f"{label} takes its parameters by name\nhint: write (name=value), and those whose names are no "
            'identifiers in a dict before them: ({"the-name": value}, name=value)'
        )
    positional = arguments[0] if arguments else {}
    for name in named.keys() & positional.keys():
        raise TypeError(f"{label} got multiple values for argument {name!r}")
    merged = {**positional, **named}
    require_json(merged, "")
    return merged


def check_name(owner, name):
    """A name that may be a server's or a tool's. Python itself looks up others, which must not exist."""
    if name.startswith("__"):
        raise AttributeError(f"{type(owner).__name__} has no attribute {name}")
    return name


def text_or_error(name, text_of, *arguments):
    """A text for a reader; if it can't be fetched, the error as text."""
    try:
        return text_of(*arguments)
    except ToolError as error:
        return f"<{name}: {error}>"


def servers_of(host):
    """The servers as a text."""
    servers = host.ask("tools", "tree")["servers"]
    rows = [(f"tools.{server['exposed']}", server["state"], server["description"]) for server in servers]
    more = "print(tools.NAME) shows a server's tools, print(tools.NAME.TOOL) one of them."
    return f"{table(rows)}\n{more}" if rows else "There are no servers."


def tools_of(host, name):
    """A server's tools as a text."""
    (server,) = host.ask(name, "tree", server=name)["servers"]
    rows = [(tool["exposed"], tool["summary"]) for tool in server["tools"]]
    head = f"tools.{server['exposed']} ({server['state']})"
    head = f"{head}: {server['description']}" if server["description"] else head
    return f"{head}\n{table(rows, '    ')}" if rows else f"{head}\n    no tools"


def declaration_of(tool):
    """A tool as a text: its typed declaration."""
    return tool.describe()["python"].rstrip()


def table(rows, indent=""):
    """Rows of texts as lines, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def signature_of(schema):
    """The signature of a call, required parameters first. ``...`` is the default of the others."""
    from inspect import Parameter, Signature

    properties, required = properties_of(schema), as_list(schema.get("required"))
    plain = [name for name in properties if name.isidentifier() and not iskeyword(name)]
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in required else ...,
            annotation=annotation_of(properties[name]),
        )
        for name in sorted(plain, key=lambda name: name not in required)
    ]
    if len(plain) < len(properties):
        parameters.insert(0, Parameter("arguments", Parameter.POSITIONAL_ONLY, annotation=dict))
    if not properties and schema.get("additionalProperties") is not False:
        parameters.append(Parameter("arguments", Parameter.VAR_KEYWORD))
    return Signature(parameters)


def annotation_of(schema):
    """The Python type of a parameter, if its schema states one plainly."""
    from inspect import Parameter

    kinds = [TYPES[kind] for kind in sorted(typed_by(schema)) if kind in TYPES]
    return functools.reduce(operator.or_, kinds) if kinds else Parameter.empty
