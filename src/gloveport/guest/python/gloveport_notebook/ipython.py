"""Stands in for ``IPython.display`` if there is no IPython: shows values as ``display`` would.

Standard library only.
"""

from types import ModuleType

from gloveport_notebook import display

VERSION = 8, 24, 0
"""The IPython version that this imitates: matplotlib asks for it, and uses nothing that is missing here from it on."""

KINDS = {
    "HTML": "text/html",
    "Markdown": "text/markdown",
    "Latex": "text/latex",
    "Math": "text/latex",
    "SVG": "image/svg+xml",
    "JSON": "application/json",
    "Pretty": "text/plain",
}


class DisplayObject:
    """Data of a media type, or a file of it."""

    kind = "text/plain"

    def __init__(self, data=None, filename=None, **_options):
        self.data = data
        self.filename = filename

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def _repr_mimebundle_(self, **_options):
        data = self.data
        if data is None and self.filename is not None:
            with open(self.filename, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and self.kind.startswith("text/"):
            data = data.decode("utf-8", "replace")
        return {self.kind: data}


class Image(DisplayObject):
    """A picture: bytes, or the path of a file."""

    kind = "image/png"

    def __init__(self, data=None, url=None, filename=None, **_options):
        if isinstance(data, str):  # as IPython has it: a path, or an address that nobody fetches
            data, filename = None, data
        super().__init__(data, filename or url)

    def _repr_mimebundle_(self, **_options):
        data = super()._repr_mimebundle_()[self.kind]
        kind = "image/jpeg" if data[:2] == b"\xff\xd8" else "image/gif" if data[:3] == b"GIF" else self.kind
        return {kind: data}


def display_in_notebook(*values, raw=False, **options):
    """``IPython.display.display``: with ``raw`` the values are bundles of media types."""
    for value in values:
        if raw and isinstance(value, dict):
            display(Raw(value))
        else:
            display(value, **options)


class Raw:
    """A bundle of media types, shown unchanged."""

    def __init__(self, bundle):
        self.bundle = bundle

    def _repr_mimebundle_(self, **_options):
        return self.bundle


def do_nothing(*_arguments, **_options):
    """Stand in for functions without an effect here: there is nothing to clear."""


def make(name):
    """The module ``IPython`` or ``IPython.display``."""
    module = ModuleType(name)
    if name == "IPython":
        module.__path__ = []
        module.get_ipython = do_nothing
        module.version_info, module.__version__ = VERSION, ".".join(map(str, VERSION))
        return module
    classes = {kind: type(kind, (DisplayObject,), {"kind": mime}) for kind, mime in KINDS.items()}
    names = {**classes, "Image": Image, "display": display_in_notebook, "clear_output": do_nothing}
    for each in (f"display_{kind}" for kind in ("html", "markdown", "png", "svg", "pretty", "json", "latex")):
        names[each] = display_in_notebook
    vars(module).update(names)
    return module
