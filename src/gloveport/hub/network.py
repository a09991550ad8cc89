"""Adds the door to tools, skills and a language model to the network of a sandbox. Pure."""

from gloveport.model import GUEST
from gloveport.model.hub import DOOR, Sampling, Toolbox
from gloveport.sandbox.plan import Network

_SKILL_COMMAND = f"{GUEST}/shell/skills"
"""The directory of ``skill``, put first on PATH: systems have an old command of this name, which sends signals."""

VARIABLE = "GLOVEPORT_HUB"
"""The environment variable with the door's address, for the stubs of ``guest``."""


def with_hub(network: Network, toolbox: Toolbox, sampling: Sampling, *, skills: bool = False) -> Network:
    """Add the door to tools, skills and the language model to a network, if any of the three is offered."""
    if not toolbox.servers and not sampling.enabled and not skills:
        return network
    address = f"{DOOR[0]}:{DOOR[1]}"
    return network.model_copy(
        update={
            "doors": (*network.doors, DOOR),
            "env": {**network.env, VARIABLE: address},
            "path": (*network.path, _SKILL_COMMAND) if skills else network.path,
        },
    )
