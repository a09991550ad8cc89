"""Connects a program in a sandbox to the terminal of whoever has called us.

output_filter  what may reach that terminal of what the program writes
front          a small process that owns the terminal's settings, and stands for us in the shell's jobs
relay          moves what is typed and what is written
"""
