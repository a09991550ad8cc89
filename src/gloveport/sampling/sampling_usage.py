"""Counts what a run has asked a language model, its nested runs included."""

import anyio
from msgspec import Struct, field


class SamplingUsage(Struct, kw_only=True):
    """The questions of one run to a language model.

    Attributes:
        rounds: The number of questions, failed ones included.
        tokens: Tokens of the answers, and reserved ones.
        turn: Held while one question is searched for secrets, so that the others don't queue before the work of other
            runs.
    """

    rounds: int = 0
    tokens: int = 0
    turn: anyio.Lock = field(default_factory=anyio.Lock)
