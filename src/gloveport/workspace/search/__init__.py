"""Text search in the workspace. Matching runs in a sandbox, by ripgrep or by our own program on hosts without it: a
regular expression with catastrophic backtracking blocks only that process, and only for seconds.
"""

from gloveport.workspace.search.answer import search_text

__all__ = ["search_text"]
