"""Shows values that are more than text: figures and pictures become files in ``/out``, tables text of bounded size.

A value says itself as which media types it can be shown, as it does to notebooks: by ``_repr_mimebundle_``, then
``_repr_png_`` and the others. One of them is saved: the best for a reader of answers. HTML and SVG are saved and never
run. Imported when a program first shows something. Standard library only.
"""

import base64
import json

import gloveport_notebook
from gloveport_notebook import files, tables

TEXT_CHARACTERS = 32_000
METHODS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
    "application/pdf": "_repr_pdf_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
}
SUFFIXES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/svg+xml": "svg",
    "text/html": "html",
    "application/pdf": "pdf",
    "application/json": "json",
}
"""Media types that are saved, the best first."""

TEXTS = "text/markdown", "text/latex", "text/plain"


def display(*values, **_options):
    """Show values in the answer: figures, pictures, tables, and other forms that a notebook would show."""
    for value in values:
        text = show(value)
        if text:
            print(text)


def show(value):
    """Show one value; returns the text to print."""
    text = describe(value)
    return text if text is not None else (value if type(value) is str else repr(value))


def describe(value):
    """Save a value that is more than text; returns its description. None for any other value."""
    kind = type(value)
    root = kind.__module__.partition(".")[0] if type(kind.__module__) is str else ""
    if root == "matplotlib" and hasattr(value, "savefig"):
        return gloveport_notebook.load("charts").keep_figure(value)
    if root == "PIL" and hasattr(value, "save") and hasattr(value, "size"):
        return keep_picture(value)
    if root == "plotly" and hasattr(value, "to_html"):
        return keep_plotly(value)
    if (table := tables.describe(value)) is not None:
        return table
    return keep_bundle(value)


def keep_picture(picture):
    """Save a picture of Pillow's."""
    width, height = picture.size
    about = f"{type(picture).__name__} {width}x{height} {picture.mode}"
    form = "JPEG" if picture.mode == "CMYK" else "PNG"
    plain = picture if picture.mode in {"1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"} else picture.convert("RGB")
    path = files.keep("picture", "jpg" if form == "JPEG" else "png", lambda path: plain.save(path, form), about)
    return f"[{about}: {path}]" if path else f"[{about}]"


def keep_plotly(figure):
    """Save a figure of plotly's as a page that draws it, since a picture would need a browser."""
    spec = figure.to_dict()
    layout = spec.get("layout") or {}
    data = (spec.get("data") or ())[:12]
    series = [f"{one.get('type', 'scatter')} {one.get('name') or ''}".rstrip() for one in data]
    title = layout.get("title") or {}
    title = title.get("text", "") if isinstance(title, dict) else title
    axes = [f"{axis} {name!r}" for axis in ("x", "y") if (name := axis_title(layout.get(f"{axis}axis")))]
    about = "; ".join([f"plotly chart {title!r}" if title else "plotly chart", *axes, ", ".join(series)])
    path = files.keep("chart", "html", lambda path: figure.write_html(path, include_plotlyjs="cdn"), about)
    return f"[{about}: {path}]" if path else f"[{about}]"


def axis_title(axis):
    """The title of an axis of plotly's."""
    title = (axis or {}).get("title") or ""
    return title.get("text", "") if isinstance(title, dict) else title


def keep_bundle(value):
    """Save the best form that a value offers to notebooks; None where it offers none."""
    bundle = bundle_of(value)
    text = describe_vega(value) or next((bundle[kind] for kind in TEXTS if type(bundle.get(kind)) is str), None)
    for kind in [*SUFFIXES, *(kind for kind in bundle if kind.endswith("+json"))]:
        data = bundle.get(kind)
        if data is None:
            continue
        if text is None:
            text = f"[{type(value).__name__}]" if type(value).__repr__ is object.__repr__ else repr(value)
        path = files.keep(
            name_of(kind), SUFFIXES.get(kind, "json"), lambda path, data=data: write(path, data), text[:200]
        )
        return f"{text[:TEXT_CHARACTERS]}\n[{kind}: {path}]" if path else text[:TEXT_CHARACTERS]
    return text if text is None else text[:TEXT_CHARACTERS]


def describe_vega(value):
    """A chart of altair's in words: its mark, and what its axes and the like show."""
    if not type(value).__module__.startswith("altair.") or not hasattr(value, "to_dict"):
        return None
    spec = value.to_dict()
    mark, encoding = spec.get("mark"), spec.get("encoding") or {}
    parts = [str(mark.get("type") if isinstance(mark, dict) else mark)] if mark else []
    for channel, how in encoding.items():
        if isinstance(how, dict) and (how.get("field") or how.get("aggregate")):
            parts.append(f"{channel} {how.get('aggregate') or ''} {how.get('field') or ''}".replace("  ", " ").strip())
    title = spec.get("title")
    return "; ".join([f"altair chart {title!r}" if isinstance(title, str) else "altair chart", *parts])


def name_of(kind):
    """The name of files of a media type."""
    return "picture" if kind.startswith("image/") else "chart" if "vega" in kind or "plotly" in kind else "display"


def bundle_of(value):
    """Media type → data, as the value offers them."""
    kind, bundle = type(value), {}
    if isinstance(value, type):
        return bundle
    if callable(getattr(kind, "_repr_mimebundle_", None)):
        output = value._repr_mimebundle_(include=None, exclude=None)
        output = output[0] if type(output) is tuple and output else output
        if isinstance(output, dict):
            bundle.update((name, data) for name, data in output.items() if type(name) is str)
    for mime, method in METHODS.items():
        if mime not in bundle and callable(getattr(kind, method, None)):
            output = getattr(value, method)()
            output = output[0] if type(output) is tuple and output else output
            if output is not None:
                bundle[mime] = output
    return bundle


def write(path, data):
    """Write one form of a value to a file. A picture may come as base64, as in notebooks."""
    if isinstance(data, str) and path.endswith((".png", ".jpg", ".webp", ".gif", ".pdf")):
        data = base64.b64decode(data)
    if not isinstance(data, (bytes, bytearray)):
        data = (data if isinstance(data, str) else json.dumps(data, default=str)).encode("utf-8", "backslashreplace")
    with open(path, "wb") as file:
        file.write(data)


# -- Hooks -----------------------------------------------------------------------------------------------------------


def hook_pillow(module):
    """Have ``image.show()`` show the image in the answer: there is no image viewer."""
    module.Image.show = lambda self, *_arguments, **_options: display(self)


def hook_plotly(module):
    """Have ``figure.show()`` show the figure in the answer: there is no browser."""
    module.show = lambda figure, *_arguments, **_options: display(figure)
