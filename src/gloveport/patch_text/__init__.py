"""Parses patches in the V4A dialect, and applies them to the text of files. No I/O.

Standard library only, and no other module of ours: the command ``apply_patch`` of sandboxes uses this package too, so
that a patch has the same effect in both.

patch_error  the error of a patch that can't be parsed or applied
parsing      the grammar
text         a file as lines, comparison of lines, and replacement of lines
matching     finds the places of a patch's hunks
"""
