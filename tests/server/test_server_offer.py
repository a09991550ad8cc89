"""What a server says of itself before it has loaded what would say it."""

import json

from gloveport.config import Config
from gloveport.config.schema import Workspace
from gloveport.server.offer_document import render_offer
from gloveport.server.server_offer import LISTING, ServerOffer


async def test_the_tools_are_listed_as_the_sdk_lists_them():
    """O4: ``scripts/generate_docs.py`` writes the file anew."""
    assert LISTING.read_text() == await render_offer()


def test_a_server_without_skills_says_nothing_of_them():
    """S1: a client pays for each tool with every request."""

    def said(*toolsets):
        offer = ServerOffer(config=Config(workspace=Workspace(toolsets=toolsets)))
        tools = offer.tools(with_schemas=True)
        return json.dumps([tools, offer.resource_templates(), offer.prompts(), offer.discover_result()])

    assert "skill" not in said("code")
    for offered in ("run_skill", "skill://{name}", "io.modelcontextprotocol/skills", "Finds skills too."):
        assert offered in said("code", "skills"), offered
