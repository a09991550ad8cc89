"""``Config``: the whole configuration as one value."""

from collections.abc import Iterator, Mapping

from gloveport.config.schema.keys import KeyPath
from gloveport.config.schema.package_tables import Packages
from gloveport.config.schema.server_tables import (
    AdmissionSettings,
    Approvals,
    ArtifactSettings,
    Audit,
    Clients,
    PoolSettings,
    Runtimes,
    Sandboxing,
    SessionSettings,
    SkillSettings,
)
from gloveport.config.schema.workspace_tables import Exec, Workspace
from gloveport.model import Policy, Value
from gloveport.model.egress import Api, ApiName, Egress, EgressSettings
from gloveport.model.hub import Sampling, Server, ServerName
from gloveport.model.packages import Environment, EnvironmentName
from gloveport.model.proxy import Proxy


class Config(Value):
    """The whole configuration. Everything has a default, so that no file at all is valid."""

    policy: Policy = Policy()
    """What a caller may do. A request can only narrow it."""

    api: Mapping[ApiName, Api] = {}
    """The HTTP APIs and TCP services that programs may reach. Nothing else can be reached."""

    egress: EgressSettings = EgressSettings()
    """Settings for all outbound requests, to any API."""

    proxy: Proxy = Proxy()
    """The HTTP proxy for outbound requests, if this host has to use one."""

    environments: Mapping[EnvironmentName, Environment] = {}
    """Named environments of packages that programs can import: each is built once, in a sandbox, and mounted
    read-only."""

    packages: Packages = Packages()
    """Where packages come from, and which of them programs may ask for."""

    servers: Mapping[ServerName, Server] = {}
    """The other MCP servers whose tools programs may call."""

    sampling: Sampling = Sampling()
    """Whether and how programs may ask a language model."""

    approvals: Approvals = Approvals()
    """How a person is asked to decide where a rule or a gate says `ask`."""

    sessions: SessionSettings = SessionSettings()
    """How long sessions live, and how many there may be."""

    artifacts: ArtifactSettings = ArtifactSettings()
    """Files that programs leave in `/out`, and how long they are kept."""

    admission: AdmissionSettings = AdmissionSettings()
    """How many programs run at once, and how many may wait."""

    pool: PoolSettings = PoolSettings()
    """Sandboxes that are made ahead and wait for their one program, so that a run starts at once."""

    sandbox: Sandboxing = Sandboxing()
    """How sandboxes are built on this host."""

    runtimes: Runtimes = Runtimes()
    """The interpreters that run programs inside the sandbox."""

    workspace: Workspace = Workspace()
    """The directory that an agent works in by the tools of the workspace, and what its commands may use."""

    exec: Exec = Exec()
    """Programs that a person runs in the sandbox by `gloveport exec`."""

    skills: SkillSettings = SkillSettings()
    """Programs that are kept under names."""

    clients: Clients = Clients()
    """What clients get besides the text for the model."""

    audit: Audit = Audit()
    """The audit log, in which every action is recorded."""

    @property
    def way_out(self) -> Egress:
        """All that programs may reach, and how: ``api`` and ``egress`` in one."""
        return Egress(apis=self.api, **dict(self.egress.items()))

    @property
    def secret_tables(self) -> dict[str, object]:
        """The tables that say where secrets are, as JSON has them. They are written one by one: see ``Value``."""
        return {
            "api": {name: api.model_dump(mode="json") for name, api in self.api.items()},
            "servers": {name: server.model_dump(mode="json") for name, server in self.servers.items()},
            "sampling": self.sampling.model_dump(mode="json"),
            "proxy": self.proxy.model_dump(mode="json"),
        }


def leaves(table: Value | Mapping[str, Value]) -> Iterator[tuple[KeyPath, object]]:
    """Yield every key below a table that is no table of keys itself, in file order.

    For example ``(("policy", "limits", "processes"), 64)``; a server's variables are one key.
    """
    for name, value in table.items():
        if isinstance(value, Value) or (
            isinstance(value, Mapping) and all(isinstance(below, Value) for below in value.values())
        ):
            yield from (((name, *below), leaf) for below, leaf in leaves(value))
        else:
            yield (name,), value
