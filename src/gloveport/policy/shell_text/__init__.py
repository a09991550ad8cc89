"""Reads the text of a shell command: which programs it starts, and which gates those come to.

This is advice only: the sandbox is the boundary. Text that can't be read reliably counts as an inline script, and comes
to each rule whose words it has (docs/decisions/0032).
"""
