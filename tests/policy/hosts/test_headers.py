"""N5: where a credential may stand in a request."""

from tests.cases import for_each

from gloveport.policy.hosts.headers import may_hold_a_credential


@for_each(
    "name",
    ["Host", "cookie", "Content-Type", "content-length", "TE", "trailer", "x-forwarded-for", "Proxy-Authorization"],
)
def test_headers_with_another_meaning_are_forbidden_as_places(name):
    assert not may_hold_a_credential(name)


@for_each("name", ["Authorization", "X-Api-Key", "X-Host", "Hostess", "private-token"])
def test_other_headers_may_be_places(name):
    assert may_hold_a_credential(name)
