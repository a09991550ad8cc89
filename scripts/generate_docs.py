"""Write the generated files anew: pages of docs/, and the list of tools. Tests prove that they are current."""

from pathlib import Path

import anyio

from gloveport.config.reference.document import reference
from gloveport.server.offer_document import render_offer
from gloveport.server.server_offer import LISTING

DOCS = Path(__file__).parent.parent / "docs"

if __name__ == "__main__":
    (DOCS / "config.md").write_text(reference())
    LISTING.write_text(anyio.run(render_offer))
