"""The tools that clients see: one thin function each, and how a client attends to what goes on."""
