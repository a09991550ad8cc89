"""N3: the head of a request, read as an enemy's. Real bytes through the parser that a connection uses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.egress.http.heads import HEAD_BYTES, Malformed, RequestHead, find_end, read_request
from gloveport.egress.proxy.request import ParsedRequest, Site, parse_authority, parse_request
from gloveport.errors import Denied
from gloveport.policy.hosts.authorities import canonical_host

ALPHA = Site("https", "alpha.test", 443)


def parsed(data: bytes) -> RequestHead:
    end = find_end(bytearray(data), 256)
    if not end:
        raise Malformed("it is not whole")
    return read_request(data[:end])


def asked(head: str, site: Site | None = ALPHA) -> ParsedRequest:
    return parse_request(parsed(head.replace("\n", "\r\n").encode() + b"\r\n\r\n"), site)


def refusal(head: str, site: Site | None = ALPHA) -> str:
    with pytest.raises(Denied) as caught:
        asked(head, site)
    assert caught.value.reason
    assert caught.value.hint
    return caught.value.code


def test_a_request_says_where_it_goes():
    found = asked("GET /a/b?c=d HTTP/1.1\nHost: alpha.test\nX-One: 1\nX-One: 2")
    assert found.site == ALPHA
    assert (found.path, found.query, found.target) == ("/a/b", "c=d", "/a/b?c=d")
    assert found.headers == ((b"x-one", b"1"), (b"x-one", b"2"))
    assert not found.has_body


@for_each("host", ["alpha.test", "ALPHA.test", "alpha.test.", "Alpha.Test:443", "alpha.test.:443"])
def test_one_name_in_another_spelling_is_the_same_name(host):
    assert asked(f"GET / HTTP/1.1\nHost: {host}").site == ALPHA


@for_each("host", ["beta.test", "alpha.test:8443", "alpha.test:80", "beta.test:443", "127.0.0.1", "[::1]"])
def test_a_host_header_that_names_another_place_is_refused(host):
    assert refusal(f"GET / HTTP/1.1\nHost: {host}") == "names_disagree"


def test_who_looks_for_localhost_on_a_port_of_the_way_out_learns_that_it_is_one():
    """Its client has sent the right Host header."""
    with pytest.raises(Denied) as caught:
        asked("GET / HTTP/1.1\nHost: localhost:8080", Site("http", "127.0.0.1", 8080))
    assert "name the granted host" in caught.value.hint


@for_each(
    "host",
    [
        "",
        "alpha.test@beta.test",
        "alpha.test:0",
        "alpha.test:65536",
        "alpha.test:x",
        "a b",
        "alpha.test, beta.test",
        "alpha.test/",
        "alpha.test#",
        "alpha.test?",
        "127.1",
        "0x7f.0.0.1",
        "[::1",
        "alpha..test",
        "alpha.test:443:443",
    ],
)
def test_a_host_header_that_is_no_place_is_refused(host):
    assert refusal(f"GET / HTTP/1.1\nHost: {host}") == "bad_request"


def test_a_target_that_names_another_place_than_the_connection_is_refused():
    assert refusal("GET https://beta.test/ HTTP/1.1\nHost: beta.test") == "names_disagree"
    assert refusal("GET http://alpha.test/ HTTP/1.1\nHost: alpha.test") == "names_disagree"
    assert asked("GET https://alpha.test/x HTTP/1.1\nHost: alpha.test").path == "/x"


def test_at_the_proxy_door_the_target_says_where_it_goes_and_the_host_header_agrees():
    found = asked("GET http://alpha.test:8080/x?y HTTP/1.1\nHost: alpha.test:8080", None)
    assert found.site == Site("http", "alpha.test", 8080)
    assert found.target == "/x?y"
    assert asked("GET http://[::1]:80 HTTP/1.1\nHost: [::1]", None).site == Site("http", "::1", 80)
    assert refusal("GET http://alpha.test/ HTTP/1.1\nHost: beta.test", None) == "names_disagree"
    assert refusal("GET /x HTTP/1.1\nHost: alpha.test", None) == "bad_request"


@for_each("target", ["http://u:p@alpha.test/", "ftp://alpha.test/", "alpha.test", "http:///x", "/x#y"])
def test_a_target_that_is_no_place_is_refused(target):
    assert refusal(f"GET {target} HTTP/1.1\nHost: alpha.test") == "bad_request"
    assert refusal(f"GET {target} HTTP/1.1\nHost: alpha.test", None) == "bad_request"


@pytest.mark.parametrize("method", ["TRACE", "get", "CONNECT", "A" * 33])
def test_a_method_that_nobody_needs_is_refused(method):
    assert refusal(f"{method} / HTTP/1.1\nHost: alpha.test") == "bad_request"


@for_each(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.0\r\nHost: alpha.test\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nContent-Length: +4\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: alpha.test\r\nTransfer-Encoding : chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: alpha.test\r\nHost: beta.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: alpha.test\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: alpha.test\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nX y: z\r\nHost: alpha.test\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: alpha.test\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: alpha.test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * HEAD_BYTES,
    ],
)
def test_what_is_no_http_is_no_request(head):
    """N3: smuggling, header injection, HTTP/0.9, a head without end."""
    try:
        request = parsed(head)
    except Malformed:
        return
    with pytest.raises(Denied):
        parse_request(request, ALPHA)


def test_what_is_for_one_connection_alone_goes_no_further():
    found = asked(
        "GET / HTTP/1.1\nHost: alpha.test\nConnection: close, X-Mine\nX-Mine: 1\nTE: trailers\nKeep-Alive: 5\n"
        "Proxy-Authorization: Basic x\nProxy-Connection: close\nUpgrade: h2c\nExpect: 100-continue\nX-Yours: 2"
    )
    assert found.headers == ((b"x-yours", b"2"),)
    assert not found.websocket


def test_only_an_honest_upgrade_is_a_websocket():
    head = "GET / HTTP/1.1\nHost: alpha.test\nConnection: keep-alive, Upgrade\nUpgrade: WebSocket"
    assert asked(head).websocket
    assert not asked(head.replace("GET", "POST")).websocket
    assert not asked(head.replace(", Upgrade", "")).websocket
    assert not asked(head.replace("WebSocket", "websocket, h2c")).websocket


@for_each(
    "head",
    [
        "POST / HTTP/1.1\nHost: alpha.test\nX-HTTP-Method-Override: DELETE",
        "POST / HTTP/1.1\nHost: alpha.test\nx-method-override: DELETE",
        "POST / HTTP/1.1\nHost: alpha.test\nX-Http-Method: DELETE",
        "POST /?_method=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?a=b&_Method=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?a=b;%5fm%65thod=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?%5F%6d%65%74%68%6f%64=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?.method=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?+_method=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?[_method]=DELETE HTTP/1.1\nHost: alpha.test",
        "POST /?x.http.method.override=DELETE HTTP/1.1\nHost: alpha.test",
    ],
)
def test_a_method_in_disguise_is_seen(head):
    """N8: methods are restricted, also against method-override headers."""
    assert asked(head).override()


def test_a_second_path_is_seen():
    """N2: what is copied may be what no rule allows."""
    head = "PUT / HTTP/1.1\nHost: alpha.test\n"
    for name in ("x-amz-copy-source", "X_MS_COPY_SOURCE", "x-ms-rename-source", "Destination"):
        assert asked(f"{head}{name}: /secret/x").second_path() == name.lower()
    for name in ("x-amz-copy-source-range", "x-destination", "x-source"):
        assert asked(f"{head}{name}: 1").second_path() is None


@pytest.mark.parametrize("name", ["_method", ".method", " _method", "[_method]"])
def test_a_method_in_a_form_is_seen(name):
    """N8: as urlencoded fields, and as parts."""
    head = asked("POST / HTTP/1.1\nHost: alpha.test\nContent-Type: multipart/form-data\nContent-Length: 9")
    assert head.has_form
    assert head.overrides_in(f"a=b&{name}=DELETE".encode())
    assert head.overrides_in(f'form-data; name="{name}"\r\n\r\nDELETE'.encode())
    assert not head.overrides_in(b"a=_method&methods=x&my_method=y")


def test_a_body_that_a_framework_takes_for_a_form_is_one():
    """Rack: of every kind of parts, and of a POST without a type. A PUT without one is a file."""
    post, put = (f"{method} / HTTP/1.1\nHost: alpha.test\nContent-Length: 9" for method in ("POST", "PUT"))
    assert asked(post).has_form
    assert asked(post + "\nContent-Type: ").has_form
    assert asked(put + "\nContent-Type: multipart/mixed; boundary=b").has_form
    assert not asked(put).has_form
    assert not asked(post + "\nContent-Type: application/octet-stream").has_form


@for_each("charset, is_seen_through", [("utf-8", True), ('"ISO-8859-15"', True), ("", True), ("utf-7", False)])
def test_a_form_in_another_charset_counts_as_one_that_asks_for_another_method(charset, is_seen_through):
    """Tomcat decodes the names of fields as the type declares: ``_method`` in EBCDIC has no letter of it."""
    head = "POST / HTTP/1.1\nHost: alpha.test\nContent-Length: 9\nContent-Type: application/x-www-form-urlencoded"
    assert asked(f"{head} ; Charset = {charset}").overrides_in(b"a=b") is not is_seen_through


@pytest.mark.parametrize(
    "form",
    [
        b"name=" + b" " * (8 << 20),
        b"name" + b" " * (8 << 20),
        b"name=" * (8 << 18),
        b'name="' * (8 << 17),
        b"content-id:" * (8 << 16),
    ],
    ids=["blanks behind the sign", "blanks before it", "nothing but names", "open quotes", "nothing but numbers"],
)
def test_a_form_of_the_largest_size_is_looked_at_in_linear_time(form):
    """40,000 blanks once took 22 s, and all who waited for the event loop with them; these would take days."""
    head = asked("GET / HTTP/1.1\nHost: alpha.test\nContent-Type: multipart/form-data\nContent-Length: 9")
    assert not head.overrides_in(form)
    assert head.overrides_in(form + b'\r\nname="_method"')


@pytest.mark.parametrize("name", [b"_method", b"%5fmethod"])
def test_a_method_is_seen_wherever_it_stands_in_a_large_form(name):
    head = asked("POST / HTTP/1.1\nHost: alpha.test\nContent-Type: multipart/form-data\nContent-Length: 9")
    for before in (65_530, 65_531, 65_532, 65_536, 131_071):
        assert head.overrides_in(b"x" * before + b"&" + name + b"=DELETE")
        assert head.overrides_in(b"-" * before + b'name = "_method"\r\n')


@pytest.mark.parametrize("form", [b"&" * (8 << 20), b"a=b;" * 70_000, b"%20" * 5000 + b"_method=DELETE"])
def test_where_nobody_can_tell_whether_a_form_asks_for_another_method_it_counts_as_if_it_did(form):
    """8 MiB of ``&`` once held up everybody for 5 s."""
    head = asked("POST / HTTP/1.1\nHost: alpha.test\nContent-Type: multipart/form-data\nContent-Length: 9")
    assert head.overrides_in(form)


def test_what_is_refused_is_not_quoted():
    """T6: no password and no query reaches the log."""
    for target in ("ftp://a.test/?key=hunter2", "http://user:hunter2@alpha.test/", "http://alpha.test/#hunter2"):
        with pytest.raises(Denied) as caught:
            asked(f"GET {target} HTTP/1.1\nHost: alpha.test", None)
        assert "hunter2" not in caught.value.reason


def test_an_ordinary_request_is_no_method_in_disguise():
    assert asked("POST /?method=x&a_method=y HTTP/1.1\nHost: alpha.test\nX-Method: z").override() is None


@given(st.binary(max_size=300), st.sampled_from([None, ALPHA]))
def test_no_bytes_are_read_as_anything_but_one_clean_request(noise, site):
    """N3: the head parser, fuzzed: it refuses, or every part is in its one spelling."""
    for data in (noise, b"GET /" + noise, b"GET / HTTP/1.1\r\nHost: alpha.test\r\n" + noise + b"\r\n\r\n"):
        try:
            found = parse_request(parsed(data), site)
        except (Malformed, Denied):
            continue
        assert site is None or found.site == site
        assert canonical_host(found.site.host) == found.site.host
        assert found.target.isascii()
        assert not set(found.target) & set(" \r\n\0")
        assert all(b"\r" not in value and b"\n" not in value and b"\0" not in value for _, value in found.headers)


@given(st.text(max_size=60))
def test_an_authority_is_a_host_and_a_port_or_refused(text):
    try:
        host, port = parse_authority(text, 443)
    except Denied:
        return
    assert canonical_host(host) == host
    assert 0 < port < 65_536
