"""Writes tools as typed declarations, from what servers say of them: all of it is hostile text."""
