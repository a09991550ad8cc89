"""Unprivileged uids: one each, never two at once, free again when their holder is gone."""

import os

import pytest

from gloveport.errors import SandboxError
from gloveport.sandbox.identity import lease


def test_leases_are_distinct_and_come_back():
    """E9: a dedicated uid per sandbox. Only root leases; for others the refusal says why."""
    if os.geteuid() != 0:
        with pytest.raises(SandboxError, match=r"/run/gloveport\.uids"), lease(1_960_000_000, 2):
            pass
        return
    with lease(1_960_000_000, 2) as first, lease(1_960_000_000, 2) as second:
        assert {first, second} == {1_960_000_000, 1_960_000_001}
        with pytest.raises(SandboxError, match="all 2 user ids"), lease(1_960_000_000, 2):
            pass
    with lease(1_960_000_000, 2) as again:
        assert again == 1_960_000_000
