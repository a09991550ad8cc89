"""The workspace: the owner's directory that an agent reads, searches, patches and runs commands in.

errors      why a tool can't do a request
program     runs one program in a sandbox that can write nothing
tool_types  arguments and parts of answers that several tools share
files       opens paths as descriptors; reads names and lines of files, and .gitignore rules
protected   the paths that commands must not write, and the mounts that enforce this
images      identifies and measures pictures, and makes them smaller in a sandbox
search      text search, by ripgrep or by our own program
git         git's view of the workspace
patch       changes of files, all or none
commands    programs that outlive the requests that began them
"""
