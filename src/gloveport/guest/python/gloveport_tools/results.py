"""Results of tools as a program sees them: the value, every block, and errors that say what to do.

Standard library only, and little of it: this is loaded for every program that may call tools.
"""

import binascii


class ToolError(Exception):
    """A call of a tool, or a question to the language model, that came to nothing.

    Attributes:
        tool: What was called, as ``server/tool``.
        code: Why, for programs: ``tool_error`` where the tool itself says so; ``unavailable``, ``too_large``, or the
            host's reason, such as ``unknown_tool`` or ``invalid_arguments``.
        text: Why, in words.
        hint: What to do about it; may be empty.
    """

    __module__ = "__main__"  # where programs have it from; so tracebacks call it by its name alone

    def __init__(self, tool, code, text, hint=""):
        super().__init__(tool, code, text, hint)
        self.tool, self.code, self.text, self.hint = self.args

    @property
    def expected(self):
        """What the tool takes, in words, where the host says that."""
        return {"tool_error": self.hint, "invalid_arguments": self.text}.get(self.code, "")

    def __str__(self):
        return f"{self.tool}: {self.text}" + (f"\nhint: {self.hint}" if self.hint else "")


class SkillError(ToolError):
    """A call of a skill that came to nothing.

    Attributes:
        code: Why: ``skill_error`` where its program has failed, ``skill_timeout`` and the like where it was ended, or
            the host's reason, such as ``unknown_skill``, ``invalid_arguments`` or ``not_of_this_skill``.
    """

    __module__ = "__main__"  # as above

    @property
    def skill(self):
        """Its name."""
        return self.tool


class ToolResult:
    """All that a tool has answered.

    Attributes:
        kind: What ``value`` is: ``structured``, ``json``, ``text``, or ``blocks`` where there is no single value.
        value: Structured content, else the JSON in the only text block, else the text of all blocks.
        blocks: Every block of the answer.
    """

    __slots__ = ("blocks", "kind", "value")

    def __init__(self, answer):
        self.kind = answer["kind"]
        self.value = answer["value"]
        self.blocks = tuple(Block(block) for block in answer["blocks"])

    @property
    def text(self):
        """The texts of all blocks that have one, a line break between them."""
        return "\n".join(block.text for block in self.blocks if block.text is not None)

    @property
    def usual(self):
        """What a plain call returns: the value, or all of this where there is none."""
        return self if self.kind == "blocks" else self.value

    def __repr__(self):
        return f"ToolResult({self.kind}, [{', '.join(map(repr, self.blocks))}])"


class Block:
    """One block of an answer.

    Attributes:
        wire: The block as MCP has it.
        type: ``text``, ``image``, ``audio``, ``resource`` or ``resource_link``.
    """

    __slots__ = ("type", "wire")

    def __init__(self, wire):
        self.wire = wire
        self.type = wire.get("type", "")

    @property
    def text(self):
        """The text of a text block or of a resource that is text; else None."""
        return self.content.get("text")

    @property
    def data(self):
        """The bytes of an image, audio or resource; of a text in UTF-8. Raises ValueError for a link: it has none."""
        content = self.content
        if "text" in content:
            return content["text"].encode()
        if "data" not in content and "blob" not in content:
            raise ValueError(f"{self!r} has no content of its own; ask a tool of its server for {self.uri}")
        return binascii.a2b_base64(content["data"] if "data" in content else content["blob"])

    @property
    def mime_type(self):
        """Its media type, such as ``image/png``; None where it is not said."""
        return self.content.get("mimeType")

    @property
    def uri(self):
        """The URI of a resource or a link; else None."""
        return self.content.get("uri")

    @property
    def name(self):
        """The name of a link; else None."""
        return self.content.get("name")

    @property
    def content(self):
        """Where the content is: in the block, or in the resource that is embedded in it."""
        return self.wire.get("resource", self.wire) if self.type == "resource" else self.wire

    def save(self, path):
        """Write the bytes to a file, and return its path."""
        with open(path, "wb") as file:
            file.write(self.data)
        return path

    def __repr__(self):
        content = self.content
        if "text" in content:
            size = f"{len(content['text'])} characters"
        else:
            size = f"{len(content.get('data') or content.get('blob') or '') * 3 // 4} bytes"
        words = (self.type, self.mime_type, self.uri, None if self.type == "resource_link" else size)
        return f"<{', '.join(word for word in words if word)}>"


class AwaitableText(str):
    """A text that can be awaited, which gives the text, and iterated over asynchronously, which gives it once."""

    __slots__ = ()

    def __await__(self):
        yield from ()
        return str(self)

    async def __aiter__(self):
        yield str(self)

    def __reduce__(self):
        return str, (str(self),)


class FoundTools(list):
    """The tools that a search has found, the best first. Can be awaited, which gives the same.

    Attributes:
        total: How many there were in all.
        missing: Servers that could not be asked: ``{"server", "reason"}``.
    """

    def __init__(self, tools, total, missing):
        super().__init__(tools)
        self.total = total
        self.missing = missing

    def __await__(self):
        yield from ()
        return self

    def __reduce__(self):
        return list, (list(self),)


# Subclasses whose objects are JSON as what they derive from: a program may end with one, and that is its value.
PLAIN = ((AwaitableText, str), (FoundTools, list))
