"""What is taken of the files that a program has left, in bounded time (E3, P38)."""

import os
import time

from gloveport.sandbox.run import out_files


def test_names_that_are_displayed_alike_cost_no_more_than_others(tmp_path, monkeypatch):
    """P38: a session's files of earlier calls are seen again by each later one."""
    monkeypatch.setattr(out_files, "MOST_FILES", 4096)  # as many as the calls of a session may leave
    for number in range(4096):
        (tmp_path / f"{'a' * 200}{number:05}").touch()
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        began = time.thread_time()
        found = out_files.OutFiles()
        found.collect(directory, 1 << 20, lambda _: lambda _: None)
        assert time.thread_time() - began < 5  # 0.2; before, 20
    finally:
        os.close(directory)
    assert len(found.taken_versions) == 4096
    assert len({path.rstrip("~") for path in found.taken_versions}) == 1
