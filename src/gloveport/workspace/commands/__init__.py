"""Programs that run in the workspace, and outlive the requests that began them.

retained  one stream's first and last bytes, by their offsets
command   one command: what it has said, how it stands
registry  all of them: who may see which, how many there may be, how long they are kept
answers   one command as a client is told of it
"""
