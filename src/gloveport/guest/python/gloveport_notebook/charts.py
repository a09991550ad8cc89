"""Keeps matplotlib's figures as PNG when they are shown, are open in the end, or are a value; and describes them.

The words are for readers who can't see the picture: axes, and of each series its name, number of points and range.
Imported after ``pyplot``. Standard library only, apart from modules that the program has imported itself.
"""

import logging
import os
import sys

from gloveport_notebook import files, png, show

LONG_EDGE = 1568  # in pixels: models see no more
MOST_AXES, MOST_SERIES, MOST_LABELS = 6, 8, 8
FONTS = (
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf",
    "/usr/share/fonts/gdouros-symbola/Symbola.ttf",
)
"""Fonts of the host, if installed, for characters that matplotlib's own fonts lack: CJK, and emoji without colours,
the only emoji that matplotlib can draw."""

_saved_figures = {}
"""Figures saved to a file: number → the figure, its description then, and the file's path."""


def hook_pyplot(pyplot):
    """Have ``show`` keep figures, and notice ``savefig``."""
    figure_class = pyplot.Figure
    save = figure_class.savefig

    def savefig(self, fname, *arguments, **options):
        save(self, fname, *arguments, **options)
        if isinstance(fname, (str, bytes)) or hasattr(fname, "__fspath__"):
            notice(self, fname)

    savefig.__doc__, savefig.__wrapped__ = save.__doc__, save
    figure_class.savefig = savefig
    figure_class.show = show_figure
    pyplot.show = show_open_figures
    add_fonts()


def show_figure(figure, *_arguments, **_options):
    """``figure.show()``."""
    show.display(figure)


def show_open_figures(*_arguments, **_options):
    """Show all open figures, and close them, as a notebook does."""
    for figure in open_figures():
        show.display(figure)
        sys.modules["matplotlib.pyplot"].close(figure)


def open_figures():
    """The figures that pyplot manages, the oldest first."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return [manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()] if helpers else []


def keep_open_figures():
    """Keep open figures that no file has in their present state."""
    for figure in open_figures():
        if figure.axes:
            keep_figure(figure)


def notice(figure, path):
    """Note that the program has saved a figure."""
    words = describe(figure)
    path = os.fsdecode(path)
    path = path if os.path.splitext(path)[1] else f"{path}.png"
    if files.note(path, words):
        _saved_figures[id(figure)] = figure, words, path


def keep_figure(figure):
    """Keep a figure; returns its description."""
    entry = _saved_figures.get(id(figure))
    if entry and entry[0] is figure and entry[1] == describe(figure):
        return f"[figure: {entry[2]}]"
    words = []

    def tell():
        words.append(describe(figure))
        return words[0]

    path = files.keep("figure", "png", lambda path: draw(figure, path), tell)
    if path is None:
        return "[figure]"
    _saved_figures[id(figure)] = figure, words[0], path
    return f"[figure: {path}]"


def draw(figure, path):
    """Draw a figure to a file, with a narrow margin.

    ``bbox_inches="tight"`` would lay the figure out twice, to find its used area. So the figure is drawn once and cut
    to that area; if it draws beyond its edges, it is drawn again.
    """
    from matplotlib import rcParams

    width, height = figure.get_size_inches()
    dots = min(figure.dpi, LONG_EDGE / max(width, height, 0.01))
    box = "tight"
    if rcParams["savefig.facecolor"] == "auto" and not rcParams["savefig.transparent"]:
        pixels, box = render(figure, dots)
        is_inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        box = box.padded(rcParams["savefig.pad_inches"])
        if is_inside:
            rows = len(pixels)
            top, bottom = max(0, int(rows - box.y1 * dots)), int(rows - box.y0 * dots) + 1
            left, right = max(0, int(box.x0 * dots)), int(box.x1 * dots) + 1
            png.write(pixels[top:bottom, left:right], path)
            return
    save = getattr(type(figure).savefig, "__wrapped__", type(figure).savefig)
    save(figure, path, format="png", dpi=dots, bbox_inches=box, pil_kwargs=png.PILLOW)


def render(figure, dots):
    """A figure's pixels at ``dots`` per inch, an array of rows of RGBA, and its used area in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from numpy import asarray

    canvas, dpi = figure.canvas, figure.dpi
    try:
        figure.dpi = dots
        drawing = FigureCanvasAgg(figure)
        drawing.draw()
        return asarray(drawing.buffer_rgba()), figure.get_tightbbox(drawing.get_renderer())
    finally:
        figure.dpi = dpi
        figure.set_canvas(canvas)


# -- Words -----------------------------------------------------------------------------------------------------------


def describe(figure):
    """A figure in words."""
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
    parts = [repr(title)] if title else []
    parts += [describe_axes(axes) for axes in figure.axes[:MOST_AXES]]
    if len(figure.axes) > MOST_AXES:
        parts.append(f"and {len(figure.axes) - MOST_AXES} more axes")
    return " | ".join(filter(None, parts)) or "an empty figure"


def describe_axes(axes):
    """One of its axes: title, labels, series."""
    parts = [repr(axes.get_title())] if axes.get_title() else []
    for axis, label in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
        if label:
            parts.append(f"{axis} {label!r}")
    series = [*describe_series(axes)]
    parts += series[:MOST_SERIES]
    if len(series) > MOST_SERIES:
        parts.append(f"and {len(series) - MOST_SERIES} more series")
    return ", ".join(parts)


def describe_series(axes):
    """Lines, bars, points, pictures and the other artists of axes."""
    for line in axes.lines:
        x, y = line.get_xdata(orig=True), line.get_ydata(orig=True)
        yield f"line{label_of(line)}: {len(y)} points, x {ends(x)}, y {span(line.get_ydata())}"
    for bars in axes.containers:
        patches = getattr(bars, "patches", None)
        if patches:
            lies = bars.orientation == "horizontal"
            lengths = [patch.get_width() if lies else patch.get_height() for patch in patches]
            yield f"bars{label_of(bars)}: {len(patches)}, {span(lengths)}{categories(axes, bars)}"
    for collection in axes.collections:
        points = collection.get_offsets() if type(collection).__name__ == "PathCollection" else ()
        if len(points):
            xs, ys = zip(*points, strict=True)
            yield f"points{label_of(collection)}: {len(points)}, x {span(xs)}, y {span(ys)}"
        else:
            yield f"{type(collection).__name__}{label_of(collection)}"
    for image in axes.images:
        yield f"image {' x '.join(map(str, image.get_array().shape))}"
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    if wedges:
        parts = [f"{patch.get_label()} {(patch.theta2 - patch.theta1) / 3.6:.3g} %" for patch in wedges[:MOST_LABELS]]
        yield f"pie: {', '.join(parts)}"


def label_of(artist):
    """An artist's label, if the program has given it one."""
    label = str(artist.get_label() or "")
    return "" if not label or label.startswith("_") else f" {label[:60]!r}"


def categories(axes, bars):
    """The categories of bars, if they are words."""
    axis = axes.yaxis if bars.orientation == "horizontal" else axes.xaxis
    words = [label.get_text() for label in axis.get_ticklabels()]
    words = [word for word in words if word and not word.replace(".", "").replace("\u2212", "").isdigit()]
    return f" ({', '.join(word[:30] for word in words[:MOST_LABELS])})" if words else ""


def span(numbers):
    """The least and the greatest."""
    finite = [float(number) for number in numbers if number is not None and number - number == 0]
    return f"{min(finite):.4g}..{max(finite):.4g}" if finite else "none"


def ends(values):
    """The first and the last."""
    return f"{short(values[0])}..{short(values[-1])}" if len(values) else "none"


def short(value):
    """A value in a few characters."""
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)[:30]


# -- Fonts -----------------------------------------------------------------------------------------------------------


def add_fonts():
    """Have matplotlib draw glyphs that its own fonts lack with the fonts of the host."""
    present = [path for path in FONTS if os.path.exists(path)]
    if not present:
        return
    from matplotlib import font_manager, rcParams

    manager = font_manager.fontManager
    families = [*rcParams["font.family"]]
    for path in present:
        count = len(manager.ttflist)
        manager.addfont(path)
        families += [font.name for font in manager.ttflist[count:] if font.name not in families]
    find = manager.findfont

    def findfont(prop, fontext="ttf", directory=None, *arguments, **options):
        # With MPL_IGNORE_SYSTEM_FONTS it would search its own fonts only, even for an added one.
        return find(prop, fontext, directory or "/", *arguments, **options)

    manager.findfont = findfont
    # These fonts have one weight: a warning for each bold word helps nobody.
    logging.getLogger("matplotlib.font_manager").addFilter(
        lambda record: (
            not (record.msg.startswith("findfont: Failed to find font weight") and record.args[1] in families)
        )
    )
    rcParams["font.family"] = families
    sys.modules["matplotlib"].rcParamsDefault["font.family"] = families
