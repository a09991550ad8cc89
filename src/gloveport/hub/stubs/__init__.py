"""Writes tools as typed declarations, from the servers' own definitions, which are hostile text."""
