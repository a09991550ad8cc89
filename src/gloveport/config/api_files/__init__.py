"""Reads APIs in files of their own: ours and CodeForge's."""
