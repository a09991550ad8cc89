"""The workspace: the directory of the owner's that an agent reads, searches, patches and runs commands in.

tree       a guest's path becomes a descriptor, here and nowhere else
reading    lines of a text file, and its revision
images     pictures, identified and measured and never decoded
globs      patterns for paths, whose matching can't explode
ignoring   which files are left out
walking    what lies below a directory, within bounds
listing    the names in a directory, the files below one
"""
