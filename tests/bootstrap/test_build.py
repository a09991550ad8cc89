"""P8: what is built of a configuration harms no account of the host."""

import os
import pwd

import pytest

from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.errors import ConfigError


async def test_no_sandbox_gets_the_uid_of_an_account(environ):
    """What runs as it would be ended, before the sandbox gets it. Only root chooses uids."""
    if os.geteuid() != 0:
        return
    account = next(one for one in pwd.getpwall() if one.pw_uid >= 1000)
    with pytest.raises(ConfigError, match=account.pw_name) as caught:
        async with app.assemble(Config(sandbox={"first_uid": account.pw_uid, "uid_count": 1}), environ):
            pass
    assert "sandbox.first_uid" in caught.value.hint
