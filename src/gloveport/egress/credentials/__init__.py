"""The owner's credentials in requests: what of a program's own goes, what is put in its place, and where."""
