"""Text search in the workspace. What matches is decided in a sandbox, by ripgrep or by our own program for hosts
without it: an expression that explodes stops nobody but that process, and it for seconds only.
"""

from gloveport.workspace.search.answer import search_text

__all__ = ["search_text"]
