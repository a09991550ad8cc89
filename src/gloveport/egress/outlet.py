"""The way out of one server, and of each of its executions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio

from gloveport.egress.ca import Authority
from gloveport.egress.inject import Injector
from gloveport.egress.messages import Route
from gloveport.egress.own_text import OwnText
from gloveport.egress.request import Site
from gloveport.egress.upstream import Upstreams
from gloveport.errors import Denied, UpstreamError
from gloveport.guard import Guard
from gloveport.model.egress import Exchange
from gloveport.secrets.scrub import Needles
from gloveport.secrets.vault import Vault

_MOST_LISTED = 50
_SPARE_CONNECTIONS = 256
_MOST_GUESSES = 3
"""URLs with a secret in them that a run may ask for: each refusal tells that one of its guesses is right."""

# All connections of a run together could else hold half a gigabyte and more of this server's memory.
_WHOLE_BODIES = 4
_WINDOWS = 8


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """What all executions of a server share on their way out."""

    authority: Authority
    upstreams: Upstreams
    injector: Injector
    vault: Vault


@dataclass(kw_only=True)
class Journal:
    """What a run's answer says of its requests.

    Attributes:
        begun: How many there were, the refused ones among them.
        connections: How many were opened, whatever was said on them.
        guesses: How many were refused for a secret in their URL.
        listed: The first of those that are over.
    """

    begun: int = 0
    connections: int = 0
    guesses: int = 0
    listed: list[Exchange] = field(default_factory=list)

    def add(
        self, *, method: str, url: str, status: int | None = None, code: str | None = None, reason: str | None = None
    ) -> None:
        """Note one that is over, or refused."""
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(Exchange(method=method, url=url, status=status, code=code, reason=reason))


@dataclass(frozen=True, kw_only=True)
class Outlet:
    """The way out of one execution.

    Attributes:
        names: The granted names, by the loopback address that each has inside.
        placeholders: The string that stands for a secret in this execution, by the name of its variable.
        redactions: What leaves in no request.
        routes: Those that were taken, by the API's name and the place.
        whole_bodies: Places for requests whose bodies are held whole; who finds none waits.
        windows: Places for answers that are decoded with much memory.
        hashes: The place for a password that is hashed as often as a server wants: the others wait here, and not where
            they would be before what other executions compute.
        own_text: Which secrets it has itself sent.
        sessions: Its sessions in databases: host, port, and the key by which a query of the session is cancelled.
    """

    gateway: Gateway
    guard: Guard
    names: Mapping[str, str]
    placeholders: Mapping[str, str]
    redactions: Needles
    journal: Journal = field(default_factory=Journal)
    routes: dict[tuple[str, Site], Route] = field(default_factory=dict)
    whole_bodies: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WHOLE_BODIES))
    windows: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WINDOWS))
    hashes: anyio.Lock = field(default_factory=anyio.Lock)
    own_text: OwnText = field(init=False)
    sessions: set[tuple[str, int, bytes]] = field(default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_text", OwnText(self.gateway.vault))

    def require_budget(self) -> None:
        """Let one more request be made. That there were too many, or too many guesses, is written down once.

        Raises:
            Denied: There were.
        """
        spent = self._is_spent()
        if self.journal.guesses >= _MOST_GUESSES:
            denial = Denied(
                "too_many_secrets",
                f"This run has asked for {_MOST_GUESSES} URLs with a credential of the owner's in them: it makes no "
                "more requests.",
                hint="Leave credentials to the proxy.",
            )
            if self.journal.guesses == _MOST_GUESSES:
                self.journal.guesses += 1
                self.guard.deny("fetch", denial, {})
            raise denial
        if spent:
            most = self._most
            denial = Denied(
                "too_many_requests",
                f"A run may make {most} requests.",
                hint="Ask for more at once, or do the work in several runs.",
            )
            if self.journal.begun == most + 1:
                self.guard.deny("fetch", denial, {})
            raise denial

    def require_connection(self) -> None:
        """Let one more connection be opened: a handshake costs as much as a request.

        Raises:
            OSError: There were many more than there may be requests.
        """
        self.journal.connections += 1
        if self.journal.connections > self._most + _SPARE_CONNECTIONS:
            raise OSError("it opens too many connections")

    def deny(self, denial: Denied, *, method: str = "", url: str = "") -> None:
        """Write down the refusal of what is no action, so that nothing could decide on it.

        Args:
            denial: Why.
            method: What was asked, as far as it could be read.
            url: Of where. Without a query.
        """
        if self._is_spent():
            return
        self.guard.deny("fetch", denial, {"method": method, "url": url})
        self.journal.add(method=self.clean(method), url=url, code=denial.code, reason=self.said(denial))

    def said(self, error: Denied | UpstreamError) -> str:
        """What the run's answer says of a request that was refused or failed, and what to do."""
        return self.clean(f"{error.args[0]} {error.hint}".rstrip())

    def message(self, error: Denied | UpstreamError) -> str:
        """What the program is told. A refusal quotes nobody else: scrubbed, it would tell which guess is a secret."""
        return str(error.args[0]) if isinstance(error, Denied) else self.clean(str(error.args[0]))

    def hint(self, error: Denied | UpstreamError) -> str:
        """What to do about it, likewise."""
        return error.hint if isinstance(error, Denied) else self.clean(error.hint)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return self.gateway.vault.clean(text)

    @property
    def _most(self) -> int:
        return self.guard.grant.limits.requests

    def _is_spent(self) -> bool:
        """Count one more, and tell whether it is too many: to fill the log must not be a way to stop it."""
        self.journal.begun += 1
        return self.journal.begun > self._most
