"""Where a sandbox finds the door to the tools. Pure."""

from gloveport.model.hub import DOOR, Sampling, Toolbox
from gloveport.sandbox.plan import Network

VARIABLE = "GLOVEPORT_HUB"
"""Environment variable that tells the stubs of ``guest`` where the door is."""


def with_hub(network: Network, toolbox: Toolbox, sampling: Sampling) -> Network:
    """Add a door to the tools and the language model to a network, where there are any."""
    if not toolbox.servers and not sampling.enabled:
        return network
    address = f"{DOOR[0]}:{DOOR[1]}"
    return network.model_copy(
        update={"doors": (*network.doors, DOOR), "env": {**network.env, VARIABLE: address}},
    )
