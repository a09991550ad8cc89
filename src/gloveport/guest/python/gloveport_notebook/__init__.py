"""Supports programs written for a notebook: ``display``, figures that show, ``!command`` and ``%magic``.

This part loads the others when they are needed, and runs functions of ours right after certain modules have been
imported. A program that imports none of those modules pays a table lookup for each new import. Standard library only.
"""

import builtins
import importlib
import importlib.machinery
import sys

HOOKS = {
    "matplotlib.pyplot": ("charts", "hook_pyplot"),
    "PIL.Image": ("show", "hook_pillow"),
    "plotly.io": ("show", "hook_plotly"),
}
"""Imported module → our part and its function that is called with the module."""

STAND_INS = {"IPython", "IPython.display"}


def load(part):
    """A part of ours: ``show``, ``charts``, ``files`` or ``magics``."""
    return importlib.import_module(f"{__name__}.{part}")


def display(*values, **_options):
    """Show values in the answer: figures, pictures, tables, and other forms that a notebook would show."""
    load("show").display(*values)


def ask_nobody(prompt=""):
    """``input``: reads a line if there is one; else it says what to do instead."""
    try:
        return read_line(prompt)
    except EOFError:
        raise EOFError("nobody answers input(): write the value into the program") from None


read_line = builtins.input


class HookedLoader:
    """Loads a module as its own loader does, and then calls a function."""

    def __init__(self, loader, call):
        self.loader = loader
        self.call = call

    def create_module(self, spec):
        """See ``importlib.abc.Loader``."""
        return self.loader.create_module(spec)

    def exec_module(self, module):
        """See ``importlib.abc.Loader``."""
        module.__spec__.loader = module.__loader__ = self.loader  # from now on no trace of this loader
        self.loader.exec_module(module)
        try:
            self.call(module)
        except Exception:  # an unknown version of the module: leave it as it is
            return


class HookFinder:
    """A finder of ``sys.meta_path`` that finds nothing itself."""

    def find_spec(self, name, path=None, target=None):
        """See ``importlib.abc.MetaPathFinder``."""
        if name not in HOOKS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = HookedLoader(spec.loader, run_hook)
                return spec
        return None


class StandInFinder:
    """The last finder of ``sys.meta_path``: provides stand-ins for well-known modules that are not installed."""

    def find_spec(self, name, *_where):
        """See ``importlib.abc.MetaPathFinder``."""
        return importlib.machinery.ModuleSpec(name, self) if name in STAND_INS else None

    def create_module(self, spec):
        """See ``importlib.abc.Loader``."""
        return load("ipython").make(spec.name)

    def exec_module(self, module):
        """See ``importlib.abc.Loader``."""


def run_hook(module):
    """Call the function that belongs to an imported module."""
    part, function = HOOKS[module.__name__]
    getattr(load(part), function)(module)


def install():
    """Install the finders, and give programs ``display``. Call it before any of the modules is imported."""
    if builtins.input is ask_nobody:
        return
    ask_nobody.__name__ = ask_nobody.__qualname__ = "input"
    if not any(type(finder) is HookFinder for finder in sys.meta_path):
        sys.meta_path.insert(0, HookFinder())
        sys.meta_path.append(StandInFinder())
    builtins.display, builtins.input = display, ask_nobody
