"""Signatures are those that AWS expects. N5.

``PUBLISHED`` are of AWS's test suite. ``COMPUTED`` come from botocore, AWS's own client; so did the signatures of 3,000
random requests, all equal to ours.
"""

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.cases import for_each

from gloveport.egress.credentials.sigv4 import SigningKey, authorization, canonical_request, sign
from gloveport.egress.http.heads import Outbound

NOW = datetime(2015, 8, 30, 12, 36, 0, tzinfo=UTC)
VANILLA = ((b"host", b"example.amazonaws.com"), (b"x-amz-date", b"20150830T123600Z"))


def key(service="service", token=None):
    return SigningKey(
        access_key_id="AKIDEXAMPLE",
        secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        session_token=token,
        region="us-east-1",
        service=service,
    )


def signature(method, target, headers, body=b"", service="service"):
    request = Outbound(method=method, target=target, headers=headers)
    return authorization(request, hashlib.sha256(body).hexdigest(), key(service), NOW).rpartition("=")[2]


PUBLISHED = {
    "get-vanilla": ("GET", "/", (), b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-relative": (
        *("GET", "/example/..", (), b""),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-slashes": ("GET", "//./", (), b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-space": (
        *("GET", "/example space/", (), b""),
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    "get-utf8": ("GET", "/ሴ", (), b"", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    "get-vanilla-empty-query-key": (
        *("GET", "/?Param1=value1", (), b""),
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    "get-vanilla-query-order-key-case": (
        *("GET", "/?Param2=value2&Param1=value1", (), b""),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-utf8-query": (
        *("GET", "/?ሴ=bar", (), b""),
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    "get-header-key-duplicate": (
        *("GET", "/", ((b"my-header1", b"value2"), (b"my-header1", b"value2"), (b"my-header1", b"value1")), b""),
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "get-header-value-trim": (
        *("GET", "/", ((b"my-header1", b" value1"), (b"my-header2", b' "a   b   c"')), b""),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "post-vanilla": ("POST", "/", (), b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    "post-header-key-sort": (
        *("POST", "/", ((b"my-header1", b"value1"),), b""),
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    "post-x-www-form-urlencoded": (
        *("POST", "/", ((b"content-type", b"application/x-www-form-urlencoded"),), b"Param1=value1"),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}


@for_each("name", PUBLISHED)
def test_signatures_are_those_of_the_published_suite(name):
    method, target, headers, body, expected = PUBLISHED[name]
    assert signature(method, target, VANILLA + headers, body) == expected


COMPUTED = {
    "s3": (
        *("PUT", "/bucket/a%20b/../c%2Fd//%C3%A9%2B?partNumber=1&uploadId=x%2Fy&acl="),
        *(((b"content-type", b"text/plain"),), b"content", "AQoDYXdz/token+EXAMPLE=="),
        "b45a2618b350df040fb35c3e2a5af66901485fd21e9359ef4980c3bb43894d7a",
    ),
    "execute-api": (
        *("POST", "/stage/a%20b/./x%2Fy/?b=2&a=~&a=1"),
        *(((b"content-type", b"application/json"), (b"x-amz-target", b"Do.It")), b"{}", None),
        "856e529b9b1ce38259992ca18a9d9c1a5471e759d57e3a7510a17fe13371d5a6",
    ),
}


@pytest.mark.parametrize("service", COMPUTED)
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5))])
def test_signatures_are_those_of_the_providers_own_client(service, zone):
    """A path is encoded twice, but for S3 once, where its dots and slashes also stay."""
    method, target, headers, body, token, expected = COMPUTED[service]
    out = Outbound(method=method, target=target, headers=(*headers, (b"user-agent", b"not signed")))
    payload = hashlib.sha256(body).hexdigest()
    signed = sign(out, "example.amazonaws.com", payload, key(service, token), NOW.astimezone(zone))
    assert signed.target == target
    assert dict(signed.headers)[b"authorization"].rpartition(b"=")[2] == expected.encode()
    assert b"user-agent" not in dict(signed.headers)[b"authorization"]


@pytest.mark.parametrize(("sent", "spelt"), [("a+b", "a%20b"), ("a%20b", "a%20b"), ("%7e(", "~%28"), ("%zz", "%25zz")])
def test_a_query_is_signed_in_the_one_spelling_of_what_it_means(sent, spelt):
    out = Outbound(method="GET", target=f"/?{sent}", headers=VANILLA)
    _, text = canonical_request(out, "", "service")
    assert text.split("\n")[2] == f"{spelt}="


def test_no_key_is_in_what_is_sent():
    """T4"""
    out = Outbound(method="GET", target="/", headers=())
    signed = sign(out, "example.amazonaws.com", hashlib.sha256(b"").hexdigest(), key(), NOW)
    assert key().secret_access_key not in repr(signed)
