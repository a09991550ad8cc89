"""Files of the workspace, opened, listed and read while a hostile program may change the tree.

descriptors      system calls on open directories and files
birth_time       when a file was made, which no program can set
spelling         the spelling on the wire of a path of any bytes
tree             a guest's path becomes a descriptor, here and nowhere else
globs            patterns for paths, with matching in bounded time
gitignore        which files are left out
walk             the entries below a directory, within bounds
file_listing     the names in a directory, the files below one
line_reader      lines of a text file, and its revision
file_threads     files are read and written in few threads of their own, few large ones held at a time
documents        PDFs and notebooks as text
file_contents    lines of one or several files
"""
