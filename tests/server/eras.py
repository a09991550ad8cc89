"""The two eras of the protocol: a handshake and a session, or all that a request needs in the request."""

import pytest

LEGACY, MODERN = "legacy", "2026-07-28"

both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])
"""For what the protocol has a part in; other tests of tools speak the newer one."""
