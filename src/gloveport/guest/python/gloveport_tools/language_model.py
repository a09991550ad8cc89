"""``llm.ask`` and ``llm.think``: questions to a language model, as far as the operator lets programs ask any."""

from types import SimpleNamespace

from gloveport_tools.arguments import require_json
from gloveport_tools.results import AwaitableText


def language_model(host):
    """What programs have as ``llm``. Both functions also come with ``.aio``, for many questions at once.

    The answer is a text. It can also be awaited, and with ``async for`` it comes as one piece, as where it is streamed.
    """

    def ask(prompt, system_prompt="", max_tokens=1000, model="", stream=False):  # noqa: ARG001, FBT002 - see above
        """Ask one question; return the answer."""
        return AwaitableText(
            host.ask("llm.ask", "sample", **question(prompt, system_prompt, max_tokens, model))["text"]
        )

    async def ask_aio(prompt, system_prompt="", max_tokens=1000, model="", stream=False):  # noqa: ARG001, FBT002
        """Ask one question while others go on; return the answer."""
        answer = await host.aio("llm.ask", "sample", **question(prompt, system_prompt, max_tokens, model))
        return AwaitableText(answer["text"])

    def think(messages, model="", max_tokens=1000, system_prompt="", stream=False):  # noqa: ARG001, FBT002
        """Continue a conversation of ``{"role": "user" | "assistant", "content": text}``; return the next message."""
        return AwaitableText(
            host.ask("llm.think", "sample", **conversation(messages, system_prompt, max_tokens, model))["text"]
        )

    async def think_aio(messages, model="", max_tokens=1000, system_prompt="", stream=False):  # noqa: ARG001, FBT002
        """Continue a conversation while others go on; return the next message."""
        answer = await host.aio("llm.think", "sample", **conversation(messages, system_prompt, max_tokens, model))
        return AwaitableText(answer["text"])

    ask.aio, think.aio = ask_aio, think_aio
    return SimpleNamespace(ask=ask, think=think)


def question(prompt, system_prompt, max_tokens, model):
    """The request for one question."""
    return conversation([{"role": "user", "content": prompt}], system_prompt, max_tokens, model)


def conversation(messages, system_prompt, max_tokens, model):
    """The request for a conversation. Content in blocks of text counts as their text."""
    if not isinstance(messages, (list, tuple)) or not all(isinstance(message, dict) for message in messages):
        raise TypeError('messages must be a list\nhint: write [{"role": "user", "content": "…"}], or use llm.ask')
    request = {
        "messages": [{**message, "content": content_of(message)} for message in messages],
        "system": system_prompt or "",
        "max_tokens": max_tokens,
        "model": model or "",
    }
    require_json(request, "")
    return request


def content_of(message):
    """The text of a message; the host refuses other content."""
    content = message.get("content")
    return "\n".join(block["text"] for block in content) if isinstance(content, list) else content
