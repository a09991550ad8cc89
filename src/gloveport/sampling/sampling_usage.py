"""Counts what a run has asked a language model, its nested runs included."""

from msgspec import Struct


class SamplingUsage(Struct, kw_only=True):
    """The questions of one run to a language model.

    Attributes:
        rounds: The number of questions, failed ones included.
        tokens: Tokens of the answers, and reserved ones.
    """

    rounds: int = 0
    tokens: int = 0
