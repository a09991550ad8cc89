"""Amounts as people write them. Inside they are whole cents."""


def parse(text: str) -> int:
    """Cents of ``12.5``, ``12`` or ``-0.05``."""
    sign = -1 if text.startswith("-") else 1
    whole, _, part = text.lstrip("-").partition(".")
    return sign * (int(whole) * 100 + int(f"{part}00"[:2]))


def written(cents: int) -> str:
    """As people write it."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
