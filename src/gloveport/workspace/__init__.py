"""The workspace: the directory of the owner's that an agent reads, searches, patches and runs commands in.

tree       a guest's path becomes a descriptor, here and nowhere else
"""
