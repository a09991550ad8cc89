"""Reads the docstrings of a model's fields from its source, only where the reference is written.

pydantic's ``use_attribute_docstrings`` would parse the source of each model whenever Gloveport starts.
"""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from gloveport.model import Value


def read_field_docstrings(model: type[Value]) -> dict[str, str]:
    """Map the fields of a model, inherited ones too, to their docstrings; a field that has none is left out."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, Value):
            found |= _read_classes(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _read_classes(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _read_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _read_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(ast.Constant(str(docstring))):
                    found[field.target.id] = inspect.cleandoc(docstring)
                case _:
                    pass
    return found
