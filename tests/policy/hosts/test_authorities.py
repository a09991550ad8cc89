"""One spelling for each host, and what the operator's patterns name."""

import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.model.egress import Api, Egress
from gloveport.policy.hosts.authorities import (
    Authority,
    canonical_host,
    exact_places,
    find,
    is_address,
    is_canonical,
    is_confidential,
    parse_pattern,
    places_of,
)

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda label: label[2:4] != "--")
NAMES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
HOSTS = NAMES | st.ip_addresses().map(str).map(canonical_host)


def refused(text: str) -> bool:
    try:
        canonical_host(text)
    except ValueError:
        return True
    return False


@for_each(
    "text, host",
    [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM", "api.example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("a_b.example.com", "a_b.example.com"),
        ("r3---sn-abc.example.com", "r3---sn-abc.example.com"),
        ("3com.example", "3com.example"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("a" * 63 + ".de", "a" * 63 + ".de"),
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("MU\u0308NCHEN.de", "xn--mnchen-3ya.de"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("XN--MNCHEN-3YA.DE.", "xn--mnchen-3ya.de"),
        ("straße.de", "xn--strae-oqa.de"),
        ("_x.münchen.de", "_x.xn--mnchen-3ya.de"),
        ("api。example\uff0ecom", "api.example.com"),
        ("\u212aelvin.example", "kelvin.example"),
        ("\uff41\uff50\uff49.example", "api.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1.", "192.0.2.1"),
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::127.0.0.1]", "::7f00:1"),
    ],
)
def test_a_host_has_one_spelling(text, host):
    """N3: names are compared in one spelling."""
    assert canonical_host(text) == host


@for_each(
    "text",
    [
        "",
        ".",
        "..",
        ".example.com",
        "example..com",
        "example.com..",
        "127.1",
        "127.0.1",
        "0x7f.0.0.1",
        "127.0.0.0x1",
        "0x7f000001",
        "0x",
        "example.0x",
        "2130706433",
        "010.0.0.1",
        "127.0.0.01",
        "256.0.0.1",
        "1.2.3.4.5",
        "1.2.3",
        "example.1",
        "\u2488.0.0.1",
        "[127.0.0.1]",
        "[::1",
        "::1]",
        "[::1].",
        "[[::1]]",
        "[]",
        ":::",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "example.com:443",
        "user@example.com",
        "user:pass@example.com",
        "https://example.com",
        "example.com/path",
        "example.com?x",
        "example.com#x",
        "example.com\\x",
        "exa mple.com",
        " example.com",
        "example.com\n",
        "exam\tple.com",
        "example.com\x00",
        "example.com\x00.evil.example",
        "example%2ecom",
        "example\uff052ecom",
        "example.com/\u2025",
        "℀.example",
        "*.example.com",
        "-a.example",
        "a-.example",
        "a" * 64 + ".example",
        "a." * 127 + "a",
        "a." * 126 + "aa",
        "ü" * 63 + ".example",
        "xn--.example",
        "xn--zz--.example",
        "xn--a.example",
        "xn--example-.com",
        "\u00ad",
        "a\u200d.example",
        "\udc80.example",
        "a\u2024example",
    ],
)
def test_what_can_be_read_in_two_ways_or_is_no_host_is_refused(text):
    """N3 N4: no second spelling of an address, nothing that ends a name early."""
    with pytest.raises(ValueError, match=r"host|address|zone"):
        canonical_host(text)
    assert not is_canonical(text)


@given(text=st.text(max_size=300) | st.text(alphabet="0123456789abcdefx.:[]%-_*", max_size=40) | HOSTS)
@example(text="ß.İ")
def test_any_text_is_a_host_in_one_spelling_or_a_value_error(text):
    """N3: canonical names are canonical."""
    assume(not refused(text))
    host = canonical_host(text)
    assert canonical_host(host) == host
    assert is_canonical(host)
    assert set(host) <= set(string.ascii_lowercase + string.digits + "-_.:")
    assert len(host) <= 253


@given(host=HOSTS, data=st.data())
def test_case_dot_and_brackets_make_no_other_host(host, data):
    """N3: every spelling of a host is the same host."""
    spelled = "".join(data.draw(st.sampled_from([c.lower(), c.upper()])) for c in host)
    spelled = f"[{spelled}]" if ":" in host else spelled + data.draw(st.sampled_from(["", "."]))
    assert canonical_host(spelled) == host


@given(text=st.from_regex(r"(0x[0-9a-f]{0,8}|0?[0-9]{1,10})(\.(0x[0-9a-f]{1,2}|0[0-9]{1,3})){0,3}", fullmatch=True))
@example(text="127.1")
def test_a_refused_spelling_of_an_address_stays_refused_however_it_is_written(text):
    """N4: inet_aton's spellings."""
    assume(refused(text))
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in text)
    for spelled in (text.upper(), f"{text}.", f"[{text}]", wide, text.replace(".", "。"), f"a.{text}", f"{text}.."):
        assert refused(spelled), spelled


def test_an_address_is_told_from_a_name():
    assert [is_address(host) for host in ("::1", "192.0.2.1", "localhost", "x1.example")] == [True, True, False, False]


@for_each(
    "text, place, written",
    [
        ("api.example.com", ("https", "api.example.com", 443), "api.example.com"),
        ("API.example.com.", ("https", "api.example.com", 443), "api.example.com"),
        ("api.example.com:8443", ("https", "api.example.com", 8443), "api.example.com:8443"),
        ("https://api.example.com", ("https", "api.example.com", 443), "api.example.com"),
        ("https://api.example.com:443", ("https", "api.example.com", 443), "api.example.com"),
        ("http://api.example.com", ("http", "api.example.com", 80), "http://api.example.com"),
        ("http://api.example.com:8080", ("http", "api.example.com", 8080), "http://api.example.com:8080"),
        ("tcp://db.internal:5432", ("tcp", "db.internal", 5432), "tcp://db.internal:5432"),
        ("10.1.2.3:9200", ("https", "10.1.2.3", 9200), "10.1.2.3:9200"),
        ("[2001:db8::1]", ("https", "2001:db8::1", 443), "[2001:db8::1]"),
        ("http://[2001:DB8:0::1]:1", ("http", "2001:db8::1", 1), "http://[2001:db8::1]:1"),
        ("*.example.com", ("https", "*.example.com", 443), "*.example.com"),
        ("http://*.Example.com:65535", ("http", "*.example.com", 65535), "http://*.example.com:65535"),
        ("*.münchen.de", ("https", "*.xn--mnchen-3ya.de", 443), "*.xn--mnchen-3ya.de"),
    ],
)
def test_a_pattern_names_a_place(text, place, written):
    """N2: hosts exact or wildcard, with ports."""
    assert parse_pattern(text) == place
    assert str(parse_pattern(text)) == written
    assert parse_pattern(written) == place


@for_each(
    "text, message",
    [
        ("", "1 to 253 characters"),
        ("*", "not a host name"),
        ("*.", "1 to 253 characters"),
        ("*.com", "too wide"),
        ("*.com.", "too wide"),
        ("*.*.com", "not a host name"),
        ("*example.com", "not a host name"),
        ("api.*.com", "not a host name"),
        ("*.192.0.2.1", "too wide"),
        ("*.[::1]", "brackets"),
        ("tcp://*.example.com:5432", "whole name"),
        ("tcp://db.internal", "needs a port"),
        ("ftp://example.com", "unknown scheme"),
        ("HTTPS://example.com", "unknown scheme"),
        ("://example.com", "unknown scheme"),
        ("https://https://example.com", "unknown scheme"),
        ("example.com/", "leave away"),
        ("https://example.com/v1", "leave away"),
        ("example.com?x=1", "leave away"),
        ("example.com#x", "leave away"),
        ("user@example.com", "leave away"),
        ("example.com:", "no port"),
        ("example.com:0", "no port"),
        ("example.com:0443", "no port"),
        ("example.com:65536", "no port"),
        ("example.com:99999999", "no port"),
        ("example.com:+443", "no port"),
        ("example.com:\uff14\uff14\uff13", "no port"),
        ("example.com:443:443", "brackets"),
        ("::1", "brackets"),
        ("[::1]x:443", "brackets"),
        ("127.1", "four plain decimal numbers"),
        ("exa mple.com", "not a host name"),
    ],
)
def test_what_is_no_pattern_is_explained(text, message):
    """N2: a wrong host is told, not guessed at."""
    with pytest.raises(ValueError, match=message):
        parse_pattern(text)


EGRESS = Egress(
    apis={
        "exact": Api(hosts=("api.example.com", "http://api.example.com:8080")),
        "near": Api(hosts=("*.api.example.com",)),
        "far": Api(hosts=("*.example.com", "*.example.com:8443")),
        "asleep": Api(hosts=("sleeping.example.org", "*.sleeping.example.org"), active=False),
        "data": Api(hosts=("tcp://db.internal:5432", "10.1.2.3", "[2001:db8::1]:8443")),
    }
)


@for_each(
    "scheme, host, port, name",
    [
        ("https", "api.example.com", 443, "exact"),
        ("http", "api.example.com", 8080, "exact"),
        ("https", "v1.api.example.com", 443, "near"),
        ("https", "a.b.api.example.com", 443, "near"),
        ("https", "www.example.com", 443, "far"),
        ("https", "a.b.c.example.com", 443, "far"),
        ("https", "api.example.com", 8443, "far"),
        ("tcp", "db.internal", 5432, "data"),
        ("https", "10.1.2.3", 443, "data"),
        ("https", "2001:db8::1", 8443, "data"),
        ("https", "example.com", 443, None),
        ("https", "notexample.com", 443, None),
        ("https", "example.com.evil.example", 443, None),
        ("https", "api.example.com", 8080, None),
        ("http", "api.example.com", 80, None),
        ("http", "api.example.com", 443, None),
        ("tcp", "api.example.com", 443, None),
        ("https", "db.internal", 5432, None),
        ("https", "sleeping.example.org", 443, None),
        ("https", "a.sleeping.example.org", 443, None),
    ],
)
def test_a_place_belongs_to_the_api_that_names_it_best(scheme, host, port, name):
    """N2 N3: scheme, host and port together; exact before wildcard, long before short."""
    found = find(EGRESS, scheme, host, port)
    assert (found and found[0]) == name
    assert found is None or found[1] is EGRESS.apis[name]


@given(names=st.permutations(["a", "b", "c"]))
def test_the_order_in_the_configuration_does_not_matter(names):
    """N2: which API a place belongs to is no chance."""
    apis = {name: Api(hosts=("api.example.com", "*.example.org")) for name in names}
    assert find(Egress(apis=apis), "https", "api.example.com", 443) == ("a", apis["a"])
    assert find(Egress(apis=apis), "https", "x.example.org", 443) == ("a", apis["a"])


def test_each_egress_is_asked_for_itself_even_where_one_takes_anothers_place_in_memory():
    """N2: a reload or a narrower grant never sees what an older one held."""
    for number in range(2000):
        egress = Egress(apis={f"api-{number}": Api(hosts=("api.example.com",))})
        assert find(egress, "https", "api.example.com", 443) == (f"api-{number}", egress.apis[f"api-{number}"])


def test_exact_places_are_whole_names_of_active_apis():
    """N1: what resolves inside a sandbox."""
    assert exact_places(EGRESS) == (
        Authority("http", "api.example.com", 8080),
        Authority("https", "api.example.com", 443),
        Authority("tcp", "db.internal", 5432),
    )


def test_the_places_of_a_host_are_those_of_any_scheme_and_port():
    assert [str(place) for place in places_of(EGRESS, "api.example.com")] == [
        "http://api.example.com:8080",
        "*.example.com",
        "*.example.com:8443",
        "api.example.com",
    ]
    assert places_of(EGRESS, "example.net") == ()


def test_a_secret_may_be_sent_where_nobody_on_the_way_reads_it():
    """N5: encrypted, or to this very machine."""
    for url in ("https://example.com", "http://localhost", "http://mcp.localhost.", "http://127.8.8.8", "http://::1"):
        assert is_confidential(*url.split("://")), url
    for url in (
        "http://example.com",
        "ws://10.0.0.5",
        "http://localhost.example.com",
        "http://",
        "http://notlocalhost",
    ):
        assert not is_confidential(*url.split("://")), url
