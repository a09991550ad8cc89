"""Pure decisions: what a request is granted, and whether an action is allowed. No I/O, no clock, no state."""
