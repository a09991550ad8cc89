"""The workspace: the directory of the owner's that an agent reads, searches, patches and runs commands in.

errors     why a tool can't do what was asked
program    what runs one program in a sandbox that can write nothing
tool_types kinds of arguments, and parts of answers, that several tools share
files      paths become descriptors; names and lines of files, what a .gitignore leaves out
protected  what commands must not write, and which mounts keep them from it
images     pictures, identified and measured, and made smaller in a sandbox
search     text search, by ripgrep or by our own program
git        what git says of the workspace
patch      changes of files, all or none
commands   programs that outlive the requests that began them
"""
