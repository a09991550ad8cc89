"""The tools that clients see, one thin function each, and the dialog with a client about a running program."""
