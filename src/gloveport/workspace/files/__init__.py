"""Files of the workspace, opened, listed and read while a hostile program may change the tree.

descriptors    what the kernel is asked about directories that are held open
birth_time     when a file was made, which no program can set
spelling       how a path of any bytes is written on the wire
tree           a guest's path becomes a descriptor, here and nowhere else
globs          patterns for paths, whose matching can't explode
gitignore      which files are left out
walk           what lies below a directory, within bounds
file_listing   the names in a directory, the files below one
line_reader    lines of a text file, and its revision
large_files    few of them are held at a time
documents      PDFs and notebooks as text
file_contents  lines of a file, or of several
"""
