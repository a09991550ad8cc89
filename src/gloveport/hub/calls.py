"""Handles one call of a tool by a program: finds, checks, decides, counts, audits, calls, scrubs.

Everything in a program's request is untrusted: only its shape is checked before it is used.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
import pydantic_core
from msgspec import Struct

from gloveport.errors import Denied, UpstreamError
from gloveport.fairness import compute
from gloveport.guard import Ending, Guard
from gloveport.hub.arguments import describe_parameters, faults
from gloveport.hub.definition import Definition
from gloveport.hub.hub import Hub
from gloveport.hub.ledger import Ledger
from gloveport.hub.names import split_legacy
from gloveport.hub.results import error_text, result_of
from gloveport.model import Deny
from gloveport.model.hub import CallTool, ToolCall
from gloveport.model.json_value import JsonValue
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.tools import hosts_to_confirm, hosts_to_look_up, is_visible, servers_in_words
from gloveport.policy.wording import FINAL, join_listed, quote_sent
from gloveport.rpc import DoorRequest
from gloveport.untrusted_text import shorten

if TYPE_CHECKING:
    import mcp_types as wire


class Clean(Protocol):
    """Removes secrets from a text, except those that ``sent`` holds itself (``Vault.clean``)."""

    def __call__(self, text: str, sent: bytes = b"") -> str: ...  # noqa: D102


LookUp: TypeAlias = Callable[[str], Awaitable[tuple[str, ...]]]
"""Looks up the present addresses of a host; empty if it can't be resolved."""

_MOST_NAMED = 40
_NAME_CHARACTERS = 512
_REASON_CHARACTERS = 500


class Calls(Struct, frozen=True, kw_only=True):
    """The calls of one execution."""

    hub: Hub
    guard: Guard
    clean: Clean
    look_up: LookUp
    ledger: Ledger

    async def call(self, request: DoorRequest) -> JsonValue:
        """Call a tool: ``{server, tool, arguments}`` → ``{kind, value, blocks}``.

        Raises:
            Denied: The policy forbids the call, or its arguments are wrong.
            UpstreamError: The server does not answer, or the tool reports a failure.
        """
        server, tool, arguments = self.name_call(request)
        started = time.monotonic()
        code: str | None = "cancelled"
        reason: str | None = None
        try:
            value = await self._call(server, tool, arguments)
            code = None
        except (Denied, UpstreamError) as raised:
            code = raised.code
            reason = shorten(self.clean(f"{raised.args[0]} {raised.hint}".rstrip()), _REASON_CHARACTERS)
            raise self.scrub_error(raised, request) from None
        finally:
            self.ledger.add(
                ToolCall(
                    tool=shown_name(self.clean(f"{server}/{tool}")),
                    duration_ms=round((time.monotonic() - started) * 1000),
                    code=code,
                    reason=reason,
                )
            )
        return value

    def scrub_error(self, error: Denied | UpstreamError, request: DoorRequest | None = None) -> Denied | UpstreamError:
        """Return the error without secrets: a server may put one into its tools' descriptions and into its errors. What
        a refusal quotes of the program's own request stays: a redaction would tell which guess is a secret.
        """
        message, hint = str(error.args[0]), error.hint
        clean_message, clean_hint = self.clean(message), self.clean(hint)
        if request is not None and isinstance(error, Denied) and (message, hint) != (clean_message, clean_hint):
            sent = pydantic_core.to_json(request)
            clean_message, clean_hint = self.clean(message, sent), self.clean(hint, sent)
        return type(error)(error.code, clean_message, hint=clean_hint)

    def name_call(self, request: DoorRequest) -> tuple[str, str, Mapping[str, JsonValue]]:
        """Read the server's own name, the tool's name and the arguments from a request.

        Raises:
            Denied: The request has another shape.
        """
        server, tool, arguments = request.get("server", ""), request.get("tool"), request.get("arguments", {})
        if not isinstance(server, str) or not isinstance(tool, str) or not isinstance(arguments, dict):
            raise Denied("malformed_call", "A call has a server, a tool and an object of arguments.", hint=FINAL)
        if max(len(server), len(tool)) > _NAME_CHARACTERS:  # each is scrubbed, looked up, and written down
            raise Denied("malformed_call", f"A name has {_NAME_CHARACTERS} characters at most.", hint=FINAL)
        granted = self.guard.grant.toolbox.servers
        if not server:
            for first, second in split_legacy(tool):
                own = first if first in granted else self.hub.names.get(first, first)
                if own in granted:
                    return own, second, arguments
        return (server if server in granted else self.hub.names.get(server, server)), tool, arguments

    def require_server(self, server: str, tool: str = "") -> None:
        """Raise Denied for a server, asked for with this tool, that this execution may not know of."""
        toolbox = self.guard.grant.toolbox
        if server not in toolbox.servers:
            reason = f"There is no server {quote_sent(server)} that this program may use."
            if not server:  # the tool's name has no server in it, as mcp__SERVER__TOOL would have
                reason = f"{quote_sent(tool)} names no server that this program may use."
            raise Denied("tool_not_granted", reason, hint=f"{servers_in_words(toolbox)} {FINAL}")

    async def definition(self, server: str, tool: str) -> Definition:
        """Find a tool that this execution may know of.

        Raises:
            Denied: There is no such tool, or it is held back.
            UpstreamError: Its server can't be reached.
        """
        self.require_server(server, tool)
        toolbox = self.guard.grant.toolbox
        found = await self.hub.find(server, tool)
        if found is None or not is_visible(toolbox, server, found.name, found.read_only, found.destructive):
            visible = (
                own
                for own, other in self.hub.states[server].tools.items()
                if is_visible(toolbox, server, own, other.read_only, other.destructive)
            )
            names = [*islice(visible, _MOST_NAMED)]
            raise Denied(
                "unknown_tool",
                f"The server {quote_sent(server)} has no tool {quote_sent(tool)} that this program may call.",
                hint=f"There are: {join_listed(sorted(names))}." if names else "It has none.",
            )
        return found

    async def _call(self, server: str, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        data = msgspec.json.encode(arguments)  # twice as fast as other encoders, and it blocks the event loop
        sent = len(data)
        definition, action = await self._prepare(server, tool, arguments, data)
        del data
        async with self.guard.admit(action) as ending:
            await self._confirm(action, sent, ending)
            result, size = await self._perform(definition, arguments, sent, ending)
        clean = self._cleaner(definition, arguments)
        if result.is_error:  # after the action has ended: the audit log holds no text of a server
            text = await compute(size, lambda: clean(error_text(result)))
            raise UpstreamError("tool_error", text, hint=describe_parameters(definition))
        return await compute(max(size, sent), result_of, result, definition, clean)

    def _cleaner(self, definition: Definition, arguments: Mapping[str, JsonValue]) -> Callable[[str], str]:
        """Make the scrubber of a tool's answer. Of a server without secrets it leaves what the program sent itself."""
        server = self.hub.states[definition.server].server
        if server.secret_env or server.auth:
            return self.clean

        def clean(text: str) -> str:
            scrubbed = self.clean(text)
            return text if scrubbed == text else self.clean(text, pydantic_core.to_json(arguments))

        return clean

    async def _prepare(
        self, server: str, tool: str, arguments: Mapping[str, JsonValue], data: bytes
    ) -> tuple[Definition, CallTool]:
        """Find the tool and make the action to be decided. A refusal before that is audited too."""
        sent = len(data)
        try:
            self._require_budget(sent)
        except Denied as denial:
            if self.ledger.total <= self.guard.grant.limits.tool_calls + 1:  # nobody is to fill the log with refusals
                self.guard.deny("call", denial, self._facts(server, tool))
            raise
        try:
            definition = await self.definition(server, tool)
            await compute(sent, _require_right, definition, arguments, data)
        except (Denied, UpstreamError) as error:
            clean_denial = Denied(error.code, self.clean(str(error.args[0])))
            self.guard.deny("call", clean_denial, self._facts(server, tool))
            raise
        # Not validated: that would copy the arguments, which were read from JSON just now.
        action = CallTool(
            kind="call",
            server=server,
            tool=definition.name,
            read_only=definition.read_only,
            destructive=definition.destructive,
            arguments=arguments,
            bytes=sent,
            sha256=await compute(sent, _sha256, data),
            addresses={},
        )
        while hosts := await compute(sent, hosts_to_look_up, self.guard.grant.toolbox, action):
            action = await self._look_up_hosts(action, hosts)
        return definition, action

    async def _look_up_hosts(self, action: CallTool, hosts: frozenset[str]) -> CallTool:
        found = {host: await self.look_up(host) for host in sorted(hosts)}
        return action.model_copy(update={"addresses": {**action.addresses, **found}})

    async def _confirm(self, action: CallTool, sent: int, ending: Ending) -> None:
        """Look up the hosts of a call that a person has approved, and decide it again with their addresses.

        Raises:
            Denied: A rule forbids one of the addresses.
        """
        hosts = await compute(sent, hosts_to_confirm, self.guard.grant.toolbox, action)
        if not hosts:
            return
        resolved_action = await self._look_up_hosts(action, hosts)
        ending.fields["addresses"] = {host: list(addresses) for host, addresses in resolved_action.addresses.items()}
        match await compute(sent, decide, self.guard.grant, resolved_action):
            case Deny(code=code, reason=reason, hint=hint):
                raise Denied(code, reason, hint=hint)
            case _:
                pass

    def _facts(self, server: str, tool: str) -> dict[str, JsonValue]:
        return {"server": shown_name(self.clean(server)), "tool": shown_name(self.clean(tool))}

    async def _perform(
        self, definition: Definition, arguments: Mapping[str, JsonValue], sent: int, ending: Ending
    ) -> "tuple[wire.CallToolResult, int]":
        """Call the tool; return the result and its size in bytes."""
        started = time.monotonic()
        try:
            result = await self.hub.call(definition, arguments, sent, self.ledger)
        except UpstreamError as error:  # scrubbed here too, for the audit log
            raise self.scrub_error(error) from None
        finally:
            ending.fields["duration_ms"] = round((time.monotonic() - started) * 1000, 2)
        body = result.model_dump_json(by_alias=True, exclude_none=True).encode()  # small: bounded when it was received
        self.ledger.bytes += len(body)
        self.hub.account(definition.server, len(body))
        ending.fields |= {
            "outcome": "error" if result.is_error else "ok",
            "result_bytes": len(body),
            "result_sha256": await compute(len(body), _sha256, body),
        }
        if self.ledger.bytes > self.guard.grant.limits.tool_bytes:
            raise _too_many_bytes(self.guard)
        return result, len(body)

    def _require_budget(self, size: int) -> None:
        ledger, limits = self.ledger, self.guard.grant.limits
        ledger.total += 1
        if ledger.total > limits.tool_calls:
            raise Denied(
                "too_many_calls",
                f"A run may make {limits.tool_calls} calls of tools.",
                hint="Ask for more at once, or do the work in several runs.",
            )
        ledger.bytes += size
        if ledger.bytes > limits.tool_bytes:
            raise _too_many_bytes(self.guard)


def _require_right(definition: Definition, arguments: Mapping[str, JsonValue], data: bytes) -> None:
    if wrong := faults(definition, arguments, data):
        raise Denied("invalid_arguments", "\n".join(wrong), hint="Nothing was called.")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _too_many_bytes(guard: Guard) -> Denied:
    most = int(guard.grant.limits.tool_bytes)
    return Denied(
        "too_many_tool_bytes",
        f"The calls of a run may send and bring {most} bytes together.",
        hint="Ask for less: a page, a filter, fewer fields.",
    )


def shown_name(name: str) -> str:
    """Write a name that a program has sent, printable and short."""
    return quote_sent(name)[1:-1]
