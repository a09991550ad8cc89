"""What the executions of a server can reach, and all that follows from it. Replaced as a whole when that changes."""

from collections.abc import Mapping
from functools import cached_property

from gloveport.egress.network import names_of, network_of
from gloveport.model.egress import Egress
from gloveport.sandbox.base import Network
from gloveport.secrets.scrub import Needles


class Reach:
    """Immutable; each is equal to itself alone.

    Attributes:
        egress: What the operator's policy says.
        network: The network of every sandbox under it.
    """

    def __init__(self, egress: Egress, certificate: str) -> None:
        self.egress = egress
        self.network: Network = network_of(egress, certificate)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The granted names, by the loopback address that each has inside."""
        return names_of(self.egress)

    @cached_property
    def redactions(self) -> Needles:
        """What leaves in no request."""
        return Needles.literal(self.egress.redact, "REDACTED")

    @cached_property
    def has_secrets(self) -> bool:
        """Whether anything that is secret can come back."""
        return any(api.active and api.auth for api in self.egress.apis.values())
