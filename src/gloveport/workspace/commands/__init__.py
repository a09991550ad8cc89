"""Programs that run in the workspace, and outlive the requests that began them.

retained  one stream's first and last bytes, by their offsets
command   one command: its output and its state
registry  all commands: who may see which, how many there may be, how long they are kept
answers   a client's view of one command
"""
