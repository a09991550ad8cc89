"""As whom commands commit (W7)."""

import pytest
from tests.server.workspace.served import opened

pytestmark = pytest.mark.anyio

COMMIT = "git commit -q --allow-empty -m m && git log -1 --format='%an <%ae>'"


@pytest.mark.parametrize(
    ("settings", "author"),
    [
        ({}, "agent <agent@localhost>"),
        ({"author": "Änne O'Hara; #1 <a+b@example.com>"}, "Änne O'Hara; #1 <a+b@example.com>"),
    ],
)
async def test_commands_commit_as_the_owner_says_and_as_the_repository_says_before_that(tmp_path, settings, author):
    async with opened(tmp_path, **settings) as one:
        assert await one.out(COMMIT) == f"{author}\n"
        one.git("config", "user.name", "Repository")
        one.git("config", "user.email", "r@example.com")
        assert await one.out(COMMIT) == "Repository <r@example.com>\n"
