"""What programs that were written for a notebook expect: figures that show, ``display``, ``!command`` (E3)."""

import struct

import pytest

from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.model import Narrowing, Request
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio

PLOT = "import matplotlib.pyplot as plt\n"


@pytest.fixture(scope="module")
async def engine(tmp_path_factory):
    """An engine whose sandboxes wait with what programs draw with imported."""
    environ = {"GLOVEPORT_STATE": str(tmp_path_factory.mktemp("state"))}
    config = read_value(Config, {"pool": {"forked": 1, "booted": 0}})
    async with app.assemble(config, environ) as assembled:
        yield assembled


@pytest.fixture
def run(engine):
    async def call(code, **rest):
        return await engine.execute(Request(language="python", code=code, **rest), caller="test")

    call.engine = engine
    return call


def named(result):
    return {one.path: one for one in result.artifacts.files}


def about(result):
    return {one.path: one.about for one in result.artifacts.files}


async def test_a_figure_is_kept_when_it_is_shown_and_told_in_words(run):
    result = await run(
        f"{PLOT}plt.plot([1, 2, 3], [4, 5, 6], label='north')\nplt.title('Sales'); plt.xlabel('month')\nplt.show()"
    )
    assert (result.status, result.stderr.text) == ("ok", "")  # no warning that nothing can be shown
    assert result.stdout.text == "[figure: /out/figure-1.png]\n"
    (one,) = result.artifacts.files
    assert (one.path, one.mime_type) == ("/out/figure-1.png", "image/png")
    assert one.about == "'Sales', x 'month', line 'north': 3 points, x 1..3, y 4..6"


async def test_figures_that_are_open_in_the_end_are_kept_and_those_that_were_shown_are_not_kept_twice(run):
    result = await run(
        f"{PLOT}plt.plot([1]); plt.show(); plt.figure(); plt.bar(['a', 'b'], [1, 2])\nplt.figure(); None"
    )
    assert list(named(result)) == ["/out/figure-1.png", "/out/figure-2.png"]  # and an empty one is nothing
    assert about(result)["/out/figure-2.png"] == "bars: 2, 1..2 (a, b)"


async def test_a_figure_that_the_program_has_saved_to_out_is_that_file(run):
    result = await run(f"{PLOT}plt.scatter([1, 2], [3, 4]); plt.savefig('/mnt/data/mine'); None")
    assert about(result) == {"/out/mine.png": "points: 2, x 1..2, y 3..4"}


async def test_a_figure_that_was_changed_after_it_was_saved_is_kept_as_it_is_then(run):
    result = await run(f"{PLOT}plt.plot([1, 2]); plt.savefig('/out/mine.png'); plt.plot([3, 4, 5]); None")
    assert list(named(result)) == ["/out/figure-1.png", "/out/mine.png"]


async def test_figures_are_kept_though_the_program_fails(run):
    result = await run(f"{PLOT}plt.plot([1, 2])\n1 / 0")
    assert (result.status, list(named(result))) == ("error", ["/out/figure-1.png"])


async def test_a_figure_as_a_value_is_shown(run):
    result = await run(f"{PLOT}fig, ax = plt.subplots(); ax.plot([1, 2]); fig")
    assert (result.value, result.value_type) == ("[figure: /out/figure-1.png]", "matplotlib.figure.Figure")
    assert list(named(result)) == ["/out/figure-1.png"]


async def test_a_huge_figure_is_drawn_no_larger_than_models_see(run):
    result = await run(f"{PLOT}plt.figure(figsize=(60, 20)); plt.plot([1, 2]); plt.show()")
    (one,) = result.artifacts.files
    assert max(one.width, one.height) <= 1568


async def test_a_figure_is_cut_to_what_it_shows_and_not_where_it_shows_something_beyond_its_edges(run):
    result = await run(
        f"""{PLOT}
for spot in (0.5, 1.3):
    figure, axes = plt.subplots(dpi=50, facecolor='none')
    axes.patch.set_visible(False)
    axes.text(spot, 0.5, 'far out')
    plt.show()
from PIL import Image
pictures = [Image.open(f'/out/figure-{{number}}.png') for number in (1, 2)]
axes.text(1.5, 0.5, 'farther')
figure.savefig('/tmp/whole.png', dpi=50, bbox_inches='tight')
alone = plt.subplots(dpi=50)[0]
canvas = alone.canvas
display(alone)
alone.canvas is canvas, [
    (one.mode, one.size) for one in (*pictures, Image.open('/tmp/whole.png'), Image.open('/out/figure-3.png'))
]"""
    )
    is_same_canvas, [cut, whole, wider, opaque] = result.value
    assert is_same_canvas
    assert (cut[0], whole[0], opaque[0]) == ("RGBA", "RGBA", "RGB")
    assert cut[1][0] < 320 < whole[1][0] < wider[1][0]  # it is 320 pixels wide itself
    assert abs(opaque[1][0] - cut[1][0]) < 3


async def test_a_figure_whose_drawing_fails_takes_nothing_else_with_it(run):
    code = f"{PLOT}plt.plot([1]); plt.title('$\\\\frac{{$')\nplt.figure(); plt.plot([2])\nprint('on'); 41 + 1"
    result = await run(code)
    assert (result.status, result.value, result.stdout.text) == ("ok", 42, "on\n")


async def test_fonts_of_the_host_are_used_for_what_matplotlib_s_own_can_not_draw(run):
    code = f"""{PLOT}
from fontTools.ttLib import TTFont
from matplotlib import font_manager
font = TTFont(font_manager.findfont('DejaVu Sans'))
for record in font['name'].names:
    if record.nameID in (1, 4, 16):
        record.string = 'Elsewhere'
font.save('/tmp/elsewhere.ttf')
charts = display.__globals__['load']('charts')
charts.FONTS = ('/tmp/elsewhere.ttf', '/not/there.ttc')
charts.add_fonts()
plt.title('bold', fontweight='bold'); plt.plot([1]); plt.show()
[plt.rcParams['font.family'][-1], str(font_manager.fontManager.findfont('Elsewhere'))]
"""
    result = await run(code)
    assert result.value == ["Elsewhere", "/tmp/elsewhere.ttf"], result.error
    assert result.stderr.text == ""


async def test_a_picture_of_pillow_is_shown_as_value_by_display_and_by_show(run):
    code = "from PIL import Image\nimage = Image.new('RGB', (30, 20))\nimage.show()\ndisplay(image)\nimage"
    result = await run(code, limits=Narrowing(wall_seconds=30))
    assert list(named(result)) == [f"/out/picture-{number}.png" for number in (1, 2, 3)]
    assert result.value == "[Image 30x20 RGB: /out/picture-3.png]"
    read = run.engine.artifacts.find(result.artifacts.files[0].uri, "test").read(0, 100)
    assert struct.unpack_from(">II", read, 16) == (30, 20)


BUNDLE = """\
class Chart:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'application/vnd.vegalite.v5+json': {'mark': 'bar'}, 'text/plain': 'a chart'}
class Both:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'image/png': 'iVBORw0KGgo=', 'text/html': '<p>'}, {}
    def _repr_html_(self): raise RuntimeError
class Page:
    def _repr_html_(self): return '<script>alert(1)</script>'
class Nothing:
    def _repr_html_(self): return None
    def __repr__(self): return 'nothing'
class Fails:
    def _repr_png_(self): raise RuntimeError
    def __repr__(self): return 'fails'
"""


@pytest.mark.parametrize(
    ("made", "value", "files"),
    [
        ("Chart()", "a chart\n[application/vnd.vegalite.v5+json: /out/chart-1.json]", {"/out/chart-1.json"}),
        ("Both()", "[Both]\n[image/png: /out/picture-1.png]", {"/out/picture-1.png"}),
        ("Page()", "[Page]\n[text/html: /out/display-1.html]", {"/out/display-1.html"}),
        ("Nothing()", "nothing", set()),
        ("Fails()", "fails", set()),
        ("Page", "<class '__main__.Page'>", set()),
    ],
)
async def test_what_a_value_offers_to_notebooks_is_asked_in_their_order(run, made, value, files):
    result = await run(BUNDLE + made)
    assert (result.value, set(named(result))) == (value, files)


async def test_a_page_with_a_script_is_kept_as_what_it_is_and_not_run(run):
    result = await run(f"{BUNDLE}Page()")
    (one,) = result.artifacts.files
    assert one.mime_type == "text/html"


async def test_a_table_is_bounded_text_with_shape_and_types_and_whole_in_a_file(run):
    code = "import pandas as pd\nframe = pd.DataFrame({'a': range(500), 'b': 1.5})\ndisplay(frame.head(2))\nframe"
    result = await run(code)
    assert result.stdout.text == "   a    b\n0  0  1.5\n1  1  1.5\n[2 rows x 2 columns: a int64, b float64]\n"
    *lines, shape, whole = result.value.splitlines()
    assert len(lines) == 22
    assert (shape, whole) == ("[500 rows x 2 columns: a int64, b float64]", "[all of it: /out/table-1.csv]")
    (one,) = result.artifacts.files
    read = run.engine.artifacts.find(one.uri, "test").read(0, 1 << 20).decode()
    assert (one.mime_type, read.count("\n"), read[:12]) == ("text/csv", 501, "a,b\n0,1.5\n1,")


async def test_rows_that_are_too_many_for_a_value_are_a_table(run):
    result = await run("rows = [{'name': f'n{i}', 'n': i} for i in range(5000)]\nrows")
    assert result.value_type == "list"
    assert result.value.splitlines()[0].split() == ["name", "n"]
    assert "[5000 rows x 2 columns: name str, n int]" in result.value
    assert list(named(result)) == ["/out/table-1.csv"]
    few = await run("[{'a': 1}] * 30")
    assert (few.value, few.artifacts.files) == ([{"a": 1}] * 30, ())  # what is JSON comes as JSON


async def test_a_table_that_is_too_large_for_a_file_leaves_none(run):
    result = await run("display([{'a': 'x' * 1_000_000}] * 40)")
    assert "too large" in result.stdout.text
    assert result.artifacts.files == ()


async def test_display_prints_what_is_only_text(run):
    result = await run("display('text', 1, [2]); display()")
    assert result.stdout.text == "text\n1\n[2]\n"


async def test_who_imports_the_display_of_ipython_has_ours_where_there_is_none(run):
    code = """\
from IPython.display import HTML, Image, Markdown, clear_output, display
import IPython, importlib.util
display(Markdown('# title'))
display(HTML('<b>'))
clear_output(wait=True)
open('a.png', 'wb').write(bytes.fromhex('89504e470d0a1a0a'))
Image('a.png')
"""
    result = await run(code)
    assert result.status == "ok", result.error
    assert result.stdout.text == "# title\n<HTML>\n[text/html: /out/display-1.html]\n"
    assert result.value == "<Image>\n[image/png: /out/picture-1.png]"
    drawn = await run(f"from IPython.display import display\n{PLOT}plt.plot([1, 2])\ndisplay(plt.gcf())")
    assert (drawn.status, list(named(drawn))) == ("ok", ["/out/figure-1.png"]), drawn.error
    missing = await run("import IPython.kernel")
    assert missing.error.type == "ModuleNotFoundError"


async def test_commands_and_magics_of_notebooks_run_where_they_stand(run):
    code = """\
%matplotlib inline
!echo one; echo two >&2
if True:
    found = !printf 'a\\nb'
s = '''
!echo not this
%nor this
'''
print(found, s.count("!"))
%cd /out
import os
os.getcwd()
"""
    result = await run(code)
    assert (result.status, result.value) == ("ok", "/out"), result.error
    assert result.stdout.text == "one\n['a', 'b'] 1\n"
    assert result.stderr.text == "two\n"
    assert (await run("%%bash\nfor i in 1 2; do echo $i; done")).stdout.text == "1\n2\n"


@pytest.mark.parametrize(
    "line",
    [
        "%pip install requests",
        "%conda install x",
        "!pip install -q requests",
        "!python3 -m pip install x",
        "!apt-get install -y jq",
        "!npm i left-pad",
    ],
)
async def test_who_wants_to_install_is_told_how_packages_are_had(run, line):
    result = await run(f"x = 1\n{line}")
    assert (result.status, result.error.type) == ("error", "PackagesError")
    assert result.error.message == "no index of packages can be reached from here"
    assert result.hint.endswith("; nothing can be installed")
    assert "Python" in result.hint  # what there is
    assert "line 2" in result.error.traceback


async def test_a_line_that_is_wrong_in_a_program_with_percents_is_told_as_it_stands(run):
    result = await run("x = 7 % 2\ny = = 3")
    assert result.error.type == "SyntaxError"
    assert "y = = 3" in result.error.traceback
    unknown = await run("%frobnicate now")
    assert "no magic %frobnicate" in unknown.error.message


async def test_who_asks_for_input_is_told_that_nobody_answers(run):
    result = await run("name = input('who? ')")
    assert (result.error.type, result.error.message) == (
        "EOFError",
        "nobody answers input(): write the value into the program",
    )
    assert "gloveport" not in result.error.traceback


async def test_in_a_session_each_call_shows_its_own(run):
    first = await run(f"{PLOT}plt.plot([1, 2]); plt.show()", session="new")
    again = await run("plt.plot([1, 2, 3])\nplt.show()", session=first.session.id)
    assert (list(named(first)), list(named(again))) == (["/out/figure-1.png"], ["/out/figure-2.png"])
    assert "3 points" in about(again)["/out/figure-2.png"]
    magic = await run("!echo hi", session=first.session.id)
    assert magic.stdout.text == "hi\n"


async def test_a_program_that_uses_none_of_it_has_none_of_it_imported(run):
    result = await run("import sys\nsorted(name for name in sys.modules if name.startswith('gloveport_notebook'))")
    assert result.value == ["gloveport_notebook"]
