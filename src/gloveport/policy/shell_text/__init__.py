"""Reads the text of a shell command: which programs it starts, and which gates those come to.

Advice only, for the sandbox holds. What can't be read plainly is an inline script, and comes to each rule whose words
are in it (docs/decisions/0032).
"""
