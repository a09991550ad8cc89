"""Changes to files of the workspace: parsed, staged in memory, then all written or none.

changes     what is asked besides patches: changes of lines by number, one text in place of another
file_swap   one file takes another's place, with mode, owner and attributes
journal     what is being written at this moment
staging     files as they would be, and what is told of them
operations  what is asked, staged
commit      all of it written, through the journal
undo        what the last changes replaced, and taking them back
writer      the front
"""
