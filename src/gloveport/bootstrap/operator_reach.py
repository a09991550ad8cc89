"""The operator's whole grant, and what programs can reach under it: the inputs of a sandbox's plan."""

from typing import TYPE_CHECKING

from gloveport.config import Config
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.reach import Reach
from gloveport.model import Grant
from gloveport.policy.decisions.tools import toolbox_of

if TYPE_CHECKING:
    from gloveport.egress.outbound_session import Gateway


def whole_grant(config: Config) -> Grant:
    """The grant of all that the operator's policy allows anybody."""
    policy = config.policy
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        ptrace=policy.ptrace,
        limits=policy.limits,
        egress=config.way_out,
        toolbox=toolbox_of(config.servers),
        sampling=config.sampling,
    )


def reach_of(config: Config, gateway: "Gateway | None", *, skills: bool = False) -> Reach:
    """What programs can reach. ``gateway`` has the certificate that they trust; None only if nothing can be reached."""
    certificate = gateway.authority.certificate if gateway is not None and leads_out(config.way_out) else ""
    return Reach(config.way_out, certificate, config.servers, config.sampling, skills=skills)
