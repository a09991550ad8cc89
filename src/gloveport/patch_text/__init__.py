"""Reads patches in the V4A dialect, and finds their places in files: text in, text out.

Standard library only, and nothing else of ours: the command ``apply_patch`` of sandboxes is made of it as well, so that
a patch means the same in both.

patch_error  what is wrong with a patch
parsing      the grammar
text         a file as lines, when one counts as one of a patch, and what replaces some of them
matching     where the hunks of a patch belong
"""
