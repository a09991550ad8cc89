"""What a wheel may hold, as the program says that fetches them inside. P43."""

import runpy
from pathlib import Path

import pytest
from tests.environments.index import link, make_wheel

FETCH = Path(__file__).parents[2] / "src/gloveport/guest/python/fetch_wheels.py"
look = runpy.run_path(str(FETCH))["look"]
BOUNDS = [1 << 20, 50]


def test_a_wheel_that_holds_anything_but_files_of_its_own_is_refused(tmp_path):
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    wheel.write_bytes(make_wheel("a"))
    size, count = look(wheel, BOUNDS)
    assert (0 < size < 1 << 10, count) == (True, 4)
    for said, how in (
        ("is a link", {"extra": [(link("linked"), b"/etc")]}),
        ("does not lie in it", {"extra": [("../../climbed.py", b"")]}),
        ("does not lie in it", {"extra": [("a/../../climbed.py", b"")]}),
        ("does not lie in it", {"extra": [("/opt/environment/absolute.py", b"")]}),
        ("does not lie in it", {"extra": [("a\\b.py", b"")]}),
        ("differ by case alone", {"extra": [("clash.py", b""), ("Clash.py", b"")]}),
        ("too much", {"files": {f"{number}.txt": "" for number in range(50)}}),
        ("too much", {"files": {"bomb.txt": "0" * (1 << 20)}}),
    ):
        wheel.write_bytes(make_wheel("a", **how))
        with pytest.raises(SystemExit) as ended:
            look(wheel, BOUNDS)
        assert said in str(ended.value.code), how
