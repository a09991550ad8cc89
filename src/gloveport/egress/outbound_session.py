"""Outbound traffic of a server and of each execution: shared connections, credentials, budgets, what was sent."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.errors import Denied, UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.guard import Guard
from gloveport.late_module import late_module
from gloveport.model.egress import Exchange
from gloveport.secrets.vault import Vault

if TYPE_CHECKING:
    from gloveport.egress import access_tokens
    from gloveport.egress.credentials import inject
    from gloveport.egress.http import connection_pool, upstream_proxy
    from gloveport.egress.transport import ca
    from gloveport.secrets import scrub
else:
    scrub = late_module("gloveport.secrets.scrub")
    access_tokens = late_module("gloveport.egress.access_tokens")
    inject = late_module("gloveport.egress.credentials.inject")
    connection_pool = late_module("gloveport.egress.http.connection_pool")
    upstream_proxy = late_module("gloveport.egress.http.upstream_proxy")
    ca = late_module("gloveport.egress.transport.ca")

OWNERS_HINT = "The owner of this computer has to repair it (gloveport doctor tells why); a program can't."

_MOST_LISTED = 50
_SPARE_CONNECTIONS = 256
_MOST_GUESSES = 3
"""URLs with a secret in them that a run may ask for: each refusal tells that one of its guesses is right."""

# All connections of a run together could else hold half a gigabyte and more of this server's memory.
_WHOLE_BODIES = 4
_WINDOWS = 8


class Gateway(Struct, eq=False, dict=True):
    """What all executions of a server share on their way out. Where there is none, nothing of it is made or imported.

    Attributes:
        vault: Knows every secret.
        tasks: Of connections that are kept.
        proxy: Through which requests go.
    """

    vault: Vault
    tasks: TaskGroup
    proxy: ForwardProxy

    @cached_property
    def authority(self) -> "ca.CertificateAuthority":
        """Whom sandboxes trust."""
        return ca.CertificateAuthority()

    @cached_property
    def upstreams(self) -> "connection_pool.ConnectionPool":
        """Connections to servers."""
        connections = connection_pool.ConnectionPool(proxy=upstream_proxy.UpstreamProxy(owner=self.proxy))
        self.tasks.start_soon(_keep_open, connections)
        return connections

    @cached_property
    def injector(self) -> "inject.Injector":
        """Puts in what is the owner's."""
        return inject.Injector(self.vault, access_tokens.AccessTokens(self.vault, self.upstreams.post))


async def _keep_open(connections: "connection_pool.ConnectionPool") -> None:
    async with connections:
        await anyio.sleep_forever()


class RequestJournal(Struct, kw_only=True):
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


class OwnText:
    """The secrets that one execution has itself sent to where no credential goes.

    Of secrets that a program may have guessed, its own text tells it nothing when it comes back. A server that echoes
    what it is sent would else tell of thousands of guesses at once which one is a secret: by the name that stands in
    its place. So where no credential goes, what the program has sent in this run comes back as it was. From where a
    credential goes everything is scrubbed, for there the secret may come from the server.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._needles: scrub.Needles | None = None
        self._found: set[str] = set()

    @property
    def names(self) -> Collection[str]:
        """Their names. None after a secret was exchanged: a name may be another value's by then."""
        return self._found if self._needles is self._vault.needles else ()

    def finder(self) -> "scrub.Finder":
        """What has to see all that is sent on one stream, before it is sent."""
        needles = self._vault.needles
        if needles is not self._needles:
            self._needles, self._found = needles, set()
        return scrub.Finder(needles, self._found)


class EgressSession(Struct, frozen=True, kw_only=True, dict=True):
    """What one execution has for its outbound traffic.

    Attributes:
        names: The granted names, by the loopback address that each has inside.
        placeholders: The string that stands for a secret in this execution, by the name of its variable.
        redactions: What leaves in no request.
        whole_bodies: Places for requests whose bodies are held whole; who finds none waits.
        windows: Places for answers that are decoded with much memory.
        hashes: The place for a password that is hashed as often as a server wants: the others wait here, and not where
            they would be before what other executions compute.
        sessions: Its sessions in databases: host, port, and the key by which a query of the session is cancelled.
    """

    gateway: Gateway
    guard: Guard
    names: Mapping[str, str]
    placeholders: Mapping[str, str]
    redactions: "scrub.Needles"
    journal: RequestJournal = field(default_factory=RequestJournal)
    whole_bodies: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WHOLE_BODIES))
    windows: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WINDOWS))
    hashes: anyio.Lock = field(default_factory=anyio.Lock)
    sessions: set[tuple[str, int, bytes]] = field(default_factory=set)

    @cached_property
    def own_text(self) -> OwnText:
        """Which secrets it has itself sent."""
        return OwnText(self.gateway.vault)

    def require_budget(self) -> None:
        """Let one more request be made. That there were too many, or too many guesses, is written down once.

        Raises:
            Denied: There were.
        """
        spent, most = self._is_spent(), self._most
        if self.journal.guesses >= _MOST_GUESSES:
            denial = Denied(
                "too_many_secrets",
                f"This run has asked for {_MOST_GUESSES} URLs with a credential of the owner's in them: it makes no "
                "more requests.",
                hint="Leave credentials to the proxy.",
            )
            is_first = self.journal.guesses == _MOST_GUESSES
            self.journal.guesses = _MOST_GUESSES + 1
        elif spent:
            hint = "Ask for more at once, or do the work in several runs."
            denial = Denied("too_many_requests", f"A run may make {most} requests.", hint=hint)
            is_first = self.journal.begun == most + 1
        else:
            return
        if is_first:
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
        self.journal.add(method=self.clean(method), url=url, code=denial.code, reason=self.explain(denial))

    def explain(self, error: Denied | UpstreamError) -> str:
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
