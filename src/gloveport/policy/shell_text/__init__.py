"""Reads the text of a shell command: which programs it starts, and which gates those come to.

Advice only, for the sandbox holds. What can't be read passes as what it is, an inline script. A false alarm is a fault.
"""
