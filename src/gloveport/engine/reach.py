"""What the executions of a server can reach, and all that is derived from it; replaced as a whole on a reload."""

from collections.abc import Mapping
from functools import cached_property

from gloveport.egress.sandbox_network import names_of, network_of
from gloveport.hub.network import with_hub
from gloveport.model.egress import Egress
from gloveport.model.hub import Sampling, Server, Toolbox
from gloveport.policy.decisions.tools import toolbox_of
from gloveport.sandbox.plan import Network


class Reach:
    """Immutable; compared by identity.

    Attributes:
        egress: The operator's policy for HTTP and TCP.
        servers: The policy for other MCP servers.
        toolbox: The servers' tools that programs may call.
        sampling: The policy for language models.
        skills: Whether there are skills that programs may call.
        network: The network of every sandbox under it.
        way_out: The network of commands, without a door to the tools: commands call none.
    """

    def __init__(
        self,
        egress: Egress,
        certificate: str,
        servers: Mapping[str, Server],
        sampling: Sampling,
        *,
        skills: bool = False,
    ) -> None:
        self.egress = egress
        self.servers = servers
        self.toolbox: Toolbox = toolbox_of(servers)
        self.sampling = sampling
        self.skills = skills
        self._certificate = certificate
        self.way_out: Network = network_of(egress, certificate)
        self.network: Network = with_hub(self.way_out, self.toolbox, sampling, skills=skills)

    def with_skills(self) -> "Reach":
        """The same, now that there are skills."""
        return Reach(self.egress, self._certificate, self.servers, self.sampling, skills=True)

    @cached_property
    def has_tools(self) -> bool:
        """Whether programs can call tools or ask a language model."""
        return bool(self.toolbox.servers) or self.sampling.enabled

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The granted names, by the loopback address that each has inside."""
        return names_of(self.egress)

    @cached_property
    def has_secrets(self) -> bool:
        """Whether a secret can come back in an answer."""
        return (
            any(api.active and api.auth for api in self.egress.apis.values())
            or any(server.active and (server.secret_env or server.auth) for server in self.servers.values())
            or self.sampling.secret is not None
        )
