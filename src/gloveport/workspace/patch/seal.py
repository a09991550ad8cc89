"""A line of JSON with its checksum, in files of our own: what was torn by a kill or a power cut is seen to be."""

from hashlib import sha256


def sealed(text: bytes) -> bytes:
    """A text without line breaks, as a line."""
    return b"%s %s\n" % (sha256(text).hexdigest().encode(), text)


def unsealed(content: bytes) -> bytes | None:
    """The text of the first line, if it is whole."""
    line, ending, _ = content.partition(b"\n")
    digest, _, text = line.partition(b" ")
    return text if ending and digest == sha256(text).hexdigest().encode() else None
