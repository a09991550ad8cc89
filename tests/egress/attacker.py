"""What a hostile program has at hand: sockets of its own, and a way to tell what it saw past every scrubber."""

from pathlib import Path

PRELUDE = Path(__file__).with_name("attacker_inside.py").read_text()
"""Stands before a program in Python."""

_MASK = 0x5A


def unmasked(told: str) -> bytes:
    """What the program saw: it tells it in a form that no scrubber knows."""
    return bytes(byte ^ _MASK for byte in bytes.fromhex(told))


def fragments(text: bytes, size: int = 8) -> list[bytes]:
    """Every part of a text that is long enough to be no chance."""
    return [text[at : at + size] for at in range(len(text) - size + 1)]


def left(secret: bytes, seen: bytes, size: int = 8) -> list[bytes]:
    """Parts of a secret, or of a form of it, that were seen."""
    return [part for part in fragments(secret, size) if part in seen]
