"""Unprivileged uids: one each, never two at once, free again when their holder is gone."""

import os

import pytest

from gloveport.errors import SandboxError
from gloveport.sandbox.launch.uid_lease import lease

FIRST = 1_960_000_000 + 2 * os.getpid()


def test_leases_are_distinct_and_come_back():
    """E9: a dedicated uid per sandbox. Only root leases; for others the refusal says why."""
    if os.geteuid() != 0:
        with pytest.raises(SandboxError, match=r"/run/gloveport\.uids"), lease(FIRST, 2):
            pass
        return
    with lease(FIRST, 2) as first, lease(FIRST, 2) as second:
        assert {first.uid, second.uid} == {FIRST, FIRST + 1}
        with pytest.raises(SandboxError, match="all 2 user ids"), lease(FIRST, 2):
            pass
    with lease(FIRST, 2) as again:
        assert again.uid == FIRST


def test_overlapping_ranges_give_no_uid_twice():
    """P10: two servers may be configured differently."""
    if os.geteuid() == 0:
        with lease(FIRST, 2) as first, lease(FIRST + 1, 1) as second:
            assert (first.uid, second.uid) == (FIRST, FIRST + 1)
            with pytest.raises(SandboxError), lease(FIRST, 2):
                pass
