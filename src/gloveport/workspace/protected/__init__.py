"""What commands must not write although the workspace is theirs to write, by the mounts that keep them from it.

descent          directories below a descriptor, through no link
git_directory    what in a git directory makes git run something
protected_scan   the search, which commands may try to mislead
mount_plan       which places are mounted where there are too many
protected_paths  what was found, what is mounted of it, what commands have changed
protected_state  what the next server has to know of it
"""
