"""The protected paths of a workspace, which commands must not write, and the mounts that enforce this.

descent          opens directories below a descriptor, through no link
git_directory    the parts of a git directory that make git run programs
config_text      reads and edits the text of a git configuration
config_copies    takes over changes that commands make in their copy of a git configuration
protected_scan   the search, which commands may try to mislead
mount_plan       which paths are mounted if there are too many
protected_paths  the found paths, their mounts, and changes by commands
protected_state  what the next server has to know of them
"""
