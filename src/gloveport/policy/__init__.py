"""Pure decisions: what a request is granted, and whether an action is allowed. No I/O, no clock, no state."""

from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.grant import grant_for

__all__ = ["decide", "grant_for"]
