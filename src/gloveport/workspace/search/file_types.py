"""File types by name, for searches: one table for both engines."""

from collections.abc import Mapping
from typing import Final

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "c": ("*.c", "*.h"),
    "cmake": ("*.cmake", "CMakeLists.txt"),
    "cpp": ("*.cc", "*.cpp", "*.cxx", "*.c++", "*.h", "*.hh", "*.hpp", "*.hxx", "*.inl"),
    "css": ("*.css", "*.scss", "*.sass", "*.less"),
    "docker": ("Dockerfile", "Dockerfile.*", "*.dockerfile", "Containerfile"),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.html", "*.htm", "*.xhtml"),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "json": ("*.json", "*.jsonc", "*.json5", "*.jsonl"),
    "kotlin": ("*.kt", "*.kts"),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak"),
    "markdown": ("*.md", "*.markdown", "*.mdx"),
    "perl": ("*.pl", "*.pm", "*.t"),
    "py": ("*.py", "*.pyi", "*.pyw"),
    "python": ("*.py", "*.pyi", "*.pyw"),
    "ruby": ("*.rb", "*.rake", "*.gemspec", "Gemfile", "Rakefile"),
    "rust": ("*.rs",),
    "sh": ("*.sh", "*.bash", "*.zsh", "*.ksh"),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "yaml": ("*.yaml", "*.yml"),
}


def find_globs(file_type: str) -> tuple[str, ...]:
    """Globs for names of a file type, or else for names with this extension."""
    return TYPES.get(file_type, (f"*.{file_type}",))
