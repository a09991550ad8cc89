"""Write the generated pages of docs/ anew; tests prove that they are current."""

from pathlib import Path

from gloveport.config.reference.document import reference

DOCS = Path(__file__).parent.parent / "docs"

if __name__ == "__main__":
    (DOCS / "config.md").write_text(reference())
