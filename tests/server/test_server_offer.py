"""What a server says of itself before it has loaded what would say it."""

from gloveport.server.offer_document import render_offer
from gloveport.server.server_offer import LISTING


async def test_the_tools_are_listed_as_the_sdk_lists_them():
    """O4: ``scripts/generate_docs.py`` writes the file anew."""
    assert LISTING.read_text() == await render_offer()
