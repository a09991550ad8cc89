"""Changes to files of the workspace: parsed, staged in memory, then all written or none.

changes     requests besides patches: changes of lines by number, one text in place of another
file_swap   replaces one file by another, with mode, owner and attributes
journal     the write-ahead journal of the commit
staging     files as they would be, and the report about them
operations  stages requests
commit      writes all of a change, through the journal
undo        the files that the last changes replaced, and their return
writer      the front
"""
