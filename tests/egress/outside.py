"""The doors of one execution without its sandbox, for clients that run beside the tests."""

import contextlib
import functools
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gloveport import door
from gloveport.audit import read
from gloveport.audit.log import AuditLog
from gloveport.audit.record import Record
from gloveport.egress.outbound_session import EgressSession, Gateway
from gloveport.egress.proxy.handler import answer
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.guard import Guard
from gloveport.model import Grant
from gloveport.model.egress import Api, Egress
from gloveport.model.proxy import Proxy
from gloveport.model.reading import read_value
from gloveport.policy.hosts.authorities import exact_places
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault
from gloveport.task_group import open_task_group

DOOR = "127.0.0.12"


@dataclass(frozen=True)
class Outside:
    """An execution that is nothing but its way out.

    Attributes:
        session: Its way out. All names lead to ``DOOR``.
        ca_file: What its programs trust.
        audit: Directory of the log.
    """

    session: EgressSession
    ca_file: str
    audit: Path

    def records(self, kind: str = "") -> list[Record]:
        wanted = read.Filter(kind=kind or None)
        return [record for record in read.records(self.audit) if wanted.matches(record)]

    def written(self) -> str:
        return "".join(path.read_text() for path in self.audit.glob("*.jsonl"))


@contextlib.asynccontextmanager
async def outside(directory: Path, name: str, secrets: Mapping[str, str], **apis) -> AsyncIterator[Outside]:
    """Open the doors of an execution that may use these APIs, all of which are at one name."""
    vault = Vault(Sources(secrets))
    egress = Egress(apis={key: read_value(Api, api) for key, api in apis.items()})
    with contextlib.ExitStack() as stack:
        log = AuditLog.open(directory / "audit", max_file_bytes=1 << 20, clean=vault.clean_fields)
        audit = stack.enter_context(log)
        async with open_task_group() as tasks:
            gateway = Gateway(vault, tasks, ForwardProxy(settings=Proxy(), vault=vault))
            (directory / "ca.pem").write_text(gateway.authority.certificate)
            session = EgressSession(
                gateway=gateway,
                guard=Guard(grant=Grant(egress=egress), audit=audit, caller="tester", run_id="run-1"),
                names={DOOR: name},
                placeholders={},
            )
            listeners = [socket.create_server((DOOR, place.port)) for place in exact_places(egress)]
            for listener in listeners:
                listener.settimeout(0)
                stack.callback(listener.close)
            async with door.open_door(listeners, functools.partial(answer, session)):
                yield Outside(session, str(directory / "ca.pem"), directory / "audit")
