"""Connects a program in a sandbox to the caller's terminal.

output_filter  removes from the program's output what may not reach the terminal
front          a small process that owns the terminal's settings, and is the shell's job
relay          relays input and output
"""
