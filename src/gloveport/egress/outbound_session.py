"""State of outbound traffic, of the server and of each execution: connections, credentials, budgets, sent secrets."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.errors import Denied, UpstreamError
from gloveport.fairness import CrowdedTurns, Pace
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
"""How many URLs with a secret a run may request: each refusal shows that a guess is right."""

# Otherwise the connections of one run could hold half a gigabyte of this server's memory together.
_WHOLE_BODIES = 4
_WINDOWS = 8


class Gateway(Struct, eq=False, dict=True):
    """The outbound traffic that all executions of a server share. Its parts are imported and made on first use.

    Attributes:
        tasks: Runs the tasks of kept connections.
    """

    vault: Vault
    tasks: TaskGroup
    proxy: ForwardProxy

    @cached_property
    def authority(self) -> "ca.CertificateAuthority":
        """The certificate authority that sandboxes trust."""
        return ca.CertificateAuthority()

    @cached_property
    def upstreams(self) -> "connection_pool.ConnectionPool":
        """The pool of connections to servers."""
        return connection_pool.ConnectionPool(self.tasks, proxy=upstream_proxy.UpstreamProxy(owner=self.proxy))

    @cached_property
    def injector(self) -> "inject.Injector":
        """Injects the owner's credentials."""
        return inject.Injector(self.vault, access_tokens.AccessTokens(self.vault, self.upstreams.post))


class RequestJournal(Struct, kw_only=True):
    """The requests of one run, for its answer.

    Attributes:
        total: The number of requests, refused ones included.
        connections: The number of opened connections, of every protocol.
        guesses: The number of requests that were refused for a secret in their URL.
        listed: The first requests that have ended.
    """

    total: int = 0
    connections: int = 0
    guesses: int = 0
    listed: list[Exchange] = field(default_factory=list)

    def add(
        self, *, method: str, url: str, status: int | None = None, code: str | None = None, reason: str | None = None
    ) -> None:
        """Note a request that has ended or was refused."""
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(Exchange(method=method, url=url, status=status, code=code, reason=reason))


class OutboundLoad(Struct, frozen=True, kw_only=True):
    """Bounds the memory and the time that the requests of one run take from this server at once.

    Attributes:
        whole_bodies: Limits the requests whose bodies are held in memory.
        windows: Limits the answers whose decoding takes much memory.
        hashes: Held while a password is hashed, as often as a server wants, so that a run computes one hash at a time,
            and its others don't queue before the work of other runs.
        turns: Turns of its connections that are always busy.
        pace: Paces the search for secrets in its requests, of all its connections together.
    """

    whole_bodies: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WHOLE_BODIES))
    windows: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(_WINDOWS))
    hashes: anyio.Lock = field(default_factory=anyio.Lock)
    turns: CrowdedTurns = field(default_factory=CrowdedTurns)
    pace: Pace = field(default_factory=Pace)


class OwnText:
    """The secrets that one execution has itself sent to servers without credentials.

    If a server echoed thousands of guesses, scrubbing them would show the program which one is a secret, by the name in
    its place. Its own text tells it nothing new. So in answers of servers without credentials, secrets that the program
    has sent in this run stay. Answers of servers with credentials are scrubbed completely, for there the secret may
    come from the server.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._needles: scrub.Needles | None = None
        self._found: set[str] = set()

    @property
    def names(self) -> Collection[str]:
        """The names of these secrets; none after a secret was replaced, for its name may mean another value then."""
        return self._found if self._needles is self._vault.needles else ()

    def finder(self) -> "scrub.Finder":
        """Make the finder for one stream, which has to be fed all data before it is sent."""
        needles = self._vault.needles
        if needles is not self._needles:
            self._needles, self._found = needles, set()
        return scrub.Finder(needles, self._found)


class EgressSession(Struct, frozen=True, kw_only=True, dict=True):
    """The outbound traffic of one execution.

    Attributes:
        names: The granted names, by their loopback addresses in the sandbox.
        placeholders: The placeholder strings of this execution, by the names of their variables.
        load: Bounds what it costs this server, skills that it calls included.
        sessions: Its sessions in databases: host, port, and the key that cancels a query of the session.
    """

    gateway: Gateway
    guard: Guard
    names: Mapping[str, str]
    placeholders: Mapping[str, str]
    journal: RequestJournal = field(default_factory=RequestJournal)
    load: OutboundLoad = field(default_factory=OutboundLoad)
    sessions: set[tuple[str, int, bytes]] = field(default_factory=set)

    @cached_property
    def redactions(self) -> "scrub.Needles":
        """Strings that no request may hold."""
        return scrub.Needles.literal(self.guard.grant.egress.redact, "REDACTED")

    @cached_property
    def own_text(self) -> OwnText:
        """The secrets that the execution has itself sent."""
        return OwnText(self.gateway.vault)

    def require_budget(self) -> None:
        """Count one more request. The first refusal for too many requests, or too many guesses, is audited.

        Raises:
            Denied: There were too many.
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
            is_first = self.journal.total == most + 1
        else:
            return
        if is_first:
            self.guard.deny("fetch", denial, {})
        raise denial

    def require_connection(self) -> None:
        """Count one more connection: a handshake costs as much as a request.

        Raises:
            OSError: There were many more than the limit of requests.
        """
        self.journal.connections += 1
        if self.journal.connections > self._most + _SPARE_CONNECTIONS:
            raise OSError("it opens too many connections")

    def deny(self, denial: Denied, *, method: str = "", url: str = "") -> None:
        """Audit the refusal of a request that is too malformed to be decided as an action. ``method`` and ``url``,
        without its query, are what could be read of it.
        """
        if self._is_spent():
            return
        self.guard.deny("fetch", denial, {"method": method, "url": url})
        self.journal.add(method=self.clean(method), url=url, code=denial.code, reason=self.explain(denial))

    def explain(self, error: Denied | UpstreamError) -> str:
        """Explain in the run's answer why a request was refused or failed, and what to do."""
        return self.clean(f"{error.args[0]} {error.hint}".rstrip())

    def message(self, error: Denied | UpstreamError) -> str:
        """Tell the program. A refusal quotes only the program, and is not scrubbed: that would show which guess is a
        secret.
        """
        return str(error.args[0]) if isinstance(error, Denied) else self.clean(str(error.args[0]))

    def hint(self, error: Denied | UpstreamError) -> str:
        """Tell the program what to do, scrubbed by the same rule."""
        return error.hint if isinstance(error, Denied) else self.clean(error.hint)

    def clean(self, text: str) -> str:
        """Remove secrets from a text."""
        return self.gateway.vault.clean(text)

    @property
    def _most(self) -> int:
        return self.guard.grant.limits.requests

    def _is_spent(self) -> bool:
        """Count one more request; return whether it is over the limit: nobody is to fill the log with refusals."""
        self.journal.total += 1
        return self.journal.total > self._most
