"""The task of ``bench.turns``: a type of parameter is added to click, as an agent would do it with either server.

Looked around, found, read in eight places, written in six files with a mistake in it, tested, mended, tried further,
taken back, looked over and committed. Each server's agent does each step in the fewest calls that the descriptions of
its tools offer. There are two: one that uses a tool for what a tool is there for, and one that prefers the shell.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

PROJECT: Final = ("click", "8.1.8")


class Call(Struct, frozen=True):
    """One call of a tool.

    Attributes:
        says: A regular expression that its answer has to match.
    """

    tool: str
    arguments: Mapping[str, Any]
    says: str


Turn: TypeAlias = tuple[Call, ...]
"""Calls of which none needs the answer of another: a model may ask for all of them at once."""

_FEATURE: Final = """\
*** Begin Patch
*** Update File: src/click/types.py
@@
     def __repr__(self) -> str:
         return "FLOAT"


+class PercentParamType(FloatParamType):
+    name = "percent"
+
+    def convert(
+        self, value: t.Any, param: t.Optional["Parameter"], ctx: t.Optional["Context"]
+    ) -> t.Any:
+        return super().convert(value.rstrip("%"), param, ctx) / 100
+
+    def __repr__(self) -> str:
+        return "PERCENT"
+
+
 class FloatRange(_NumberRangeBase, FloatParamType):
@@
 FLOAT = FloatParamType()

+#: A share, as ``12%`` or ``12``, which becomes ``0.12``.
+PERCENT = PercentParamType()
+
 #: A boolean parameter.  This is the default for boolean flags.  This can
*** Update File: src/click/__init__.py
@@
 from .types import Path as Path
+from .types import PERCENT as PERCENT
 from .types import STRING as STRING
*** Update File: docs/parameters.rst
@@
     A parameter that only accepts floating point values.

+:data:`click.PERCENT`:
+    A parameter that accepts a share, with or without ``%``. ``12%`` becomes
+    ``0.12``; a default that is a number is taken as it is.
+
 ``bool`` / :data:`click.BOOL`:
*** Update File: docs/api.rst
@@
 .. autodata:: FLOAT

+.. autodata:: PERCENT
+
 .. autodata:: BOOL
*** Update File: tests/test_types.py
@@
 def test_range(type, value, expect):
     assert type.convert(value, None, None) == expect


+@pytest.mark.parametrize(
+    ("value", "expect"), [("12%", 0.12), ("50", 0.5), ("250%", 2.5), (0.25, 0.25)]
+)
+def test_percent(value, expect):
+    assert click.PERCENT.convert(value, None, None) == pytest.approx(expect)
+
+
 @pytest.mark.parametrize(
     ("type", "value", "expect"),
     [
         (click.IntRange(0, 5), "6", "6 is not in the range 0<=x<=5."),
*** Update File: tests/test_info_dict.py
@@
             click.FLOAT, {"param_type": "Float", "name": "float"}, id="FLOAT ParamType"
         ),
+        pytest.param(
+            click.PERCENT,
+            {"param_type": "Percent", "name": "percent"},
+            id="PERCENT ParamType",
+        ),
*** End Patch
"""

_HEAD: Final = "*** Begin Patch\n*** Update File: src/click/types.py\n@@\n"
_MENDED: Final = '        return super().convert(value.rstrip("%"), param, ctx) / 100\n'
_BOUND: Final = '        return min(1.0, super().convert(value.rstrip("%"), param, ctx) / 100)\n'
_MEND: Final = (
    f"{_HEAD}+        if not isinstance(value, str):\n+            return super().convert(value, param, ctx)\n"
    f" {_MENDED}*** End Patch\n"
)
_TRY: Final = f"{_HEAD}-{_MENDED}+{_BOUND}*** End Patch\n"
_BACK: Final = f"{_HEAD}-{_BOUND}+{_MENDED}*** End Patch\n"

_TEST: Final = ".venv/bin/pytest -q -p no:cacheprovider"
_COMMIT: Final = "git add -A && git commit -qm 'Add PERCENT' && git log --oneline -1 --stat"
_PLACES: Final = (
    ("src/click/types.py", 540, 595),
    ("src/click/types.py", 1074, 1092),
    ("src/click/__init__.py", 54, 72),
    ("docs/parameters.rst", 58, 76),
    ("docs/api.rst", 116, 132),
    ("tests/test_types.py", 10, 42),
    ("tests/test_info_dict.py", 120, 142),
    ("CHANGES.rst", 1, 12),
)
_SEEN: Final = r"(?s)class FloatParamType.*def test_range.*Float.*Version 8\.1\.8"
_ONE_FAILS: Final = r"1 failed, \d{3} passed"
_ALL_PASS: Final = r"(?m)^\W*\d{3} passed|\\n\d{3} passed"
_CHANGED: Final = r"(?s)\+from \.types import PERCENT.*\+class PercentParamType.*\+def test_percent"


def _run(cmd: str, says: str) -> Call:
    return Call("exec_command", {"cmd": cmd, "yield_time_ms": 30_000}, says)


def _patch(patch: str) -> Call:
    return Call("apply_patch", {"patch": patch}, r"src/click/types\.py")


def _patch_and(patch: str, cmd: str, says: str) -> Call:
    return _run(f"apply_patch <<'EOF' && {cmd}\n{patch}EOF", says)


_LOOK: Final[Turn] = (
    Call("list_dir", {"recursive": True, "max_depth": 2}, "src/click"),
    Call("search_text", {"query": "FLOAT", "case_sensitive": True}, r"src/click/types\.py"),
)
_READ: Final[Turn] = tuple(
    Call("read_file", {"path": path, "start_line": first, "end_line": last}, r"click|Types|range|Float")
    for path, first, last in _PLACES
)
_READ_TOGETHER: Final[Turn] = (
    Call("read_file", {"paths": [f"{path}:{first}-{last}" for path, first, last in _PLACES]}, _SEEN),
)
_SHELL_LOOK: Final[Turn] = (_run("git ls-files . ':!examples' && git grep -n FLOAT", r"src/click/types\.py"),)
_SHELL_READ: Final[Turn] = (
    _run("\n".join(f"echo {path}; sed -n {first},{last}p {path}" for path, first, last in _PLACES), _SEEN),
)
_REVIEW: Final[Turn] = (Call("git_diff", {}, _CHANGED),)

_THEIR_EDITS: Final[tuple[Turn, ...]] = (
    (_patch(_FEATURE),),
    (_run(_TEST, _ONE_FAILS),),
    (_patch(_MEND),),
    (_run(_TEST, _ALL_PASS),),
    (_patch(_TRY),),
    (_run(_TEST, _ONE_FAILS),),
)
_OUR_EDITS: Final[tuple[Turn, ...]] = (
    (_patch_and(_FEATURE, _TEST, _ONE_FAILS),),
    (_patch_and(_MEND, _TEST, _ALL_PASS),),
    (_patch_and(_TRY, _TEST, _ONE_FAILS),),
)
_BACK_AND_REVIEW: Final[Turn] = (_patch_and(_BACK, "git diff", _CHANGED),)
_END: Final[Turn] = (_run(_COMMIT, "Add PERCENT"),)

SCRIPTS: Final[Mapping[str, tuple[tuple[Turn, ...], tuple[Turn, ...]]]] = {
    "by the tools": (
        (_LOOK, _READ_TOGETHER, *_OUR_EDITS, _BACK_AND_REVIEW, _END),
        (_LOOK, _READ, *_THEIR_EDITS, (_patch(_BACK),), _REVIEW, _END),
    ),
    "by the shell": (
        (_SHELL_LOOK, _SHELL_READ, *_OUR_EDITS, _BACK_AND_REVIEW, _END),
        (_SHELL_LOOK, _SHELL_READ, *_THEIR_EDITS, (_patch(_BACK),), (_run("git diff", _CHANGED),), _END),
    ),
}
"""Of each way to work: with Gloveport, and with coding-tools-mcp, which says that commands are not to modify files."""
