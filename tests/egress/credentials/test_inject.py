"""The owner's credentials go into a request, the program's own out of it, and placeholders are filled in their places
alone. N5, T4, T5."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.egress.access_tokens import AccessTokens
from gloveport.egress.credentials.inject import Injector
from gloveport.egress.credentials.placeholders import DraftRequest, fill_place
from gloveport.egress.http.heads import Outbound
from gloveport.egress.transport.route import Route
from gloveport.errors import ConfigError, Denied
from gloveport.model.egress import Api
from gloveport.model.reading import read_value
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

SECRET = "s3cret/of+the=owner"
ENCODED = "s3cret%2Fof%2Bthe%3Downer"
ROUTE = Route(api="github", scheme="https", host="api.github.test", port=443)
GP, OTHER = "gp_xQ4vJ9-t_Lw2ZbN8sKf0RyHc7MdEa5Ug", "gp_B1oTz6Pq-Vn3WkXe_Ij9GhSl0CrYu4Da"
PLACEHOLDERS = {"TOKEN": GP, "OTHER": OTHER}


async def no_post(route, out, body):
    raise AssertionError("nothing is to be obtained here")


@pytest.fixture
def variables():
    return {"KEY": SECRET, "SECOND": "another-secret"}


@pytest.fixture
def vault(variables):
    return Vault(Sources(variables))


@pytest.fixture
def injector(vault):
    return Injector(vault, AccessTokens(vault, no_post))


def api(*auth):
    return read_value(Api, {"hosts": ("api.github.test",), "auth": auth})


BEARER = {"kind": "bearer", "secret": "env:KEY"}
QUERY = {"kind": "query", "name": "key", "secret": "env:KEY"}
SIGV4 = {
    "kind": "sigv4",
    "access_key_id": "env:SECOND",
    "secret_access_key": "env:KEY",
    "region": "us-east-1",
    "service": "s3",
}


def placeholder(*named, name="TOKEN", secret="env:KEY"):
    return {"kind": "placeholder", "name": name, "secret": secret, "places": named}


def request(*headers, target="/", method="GET"):
    return Outbound(method=method, target=target, headers=tuple((n.encode(), v.encode()) for n, v in headers))


@pytest.fixture
def sent(injector):
    """What leaves of a request to an API: head and body, and the places that are written down."""

    async def send(which, out, body=None, route=ROUTE):
        out = injector.strip(which, out)
        return await injector.apply("github", which, route, out, body, PLACEHOLDERS)

    return send


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        (BEARER, "authorization", f"Bearer {SECRET}"),
        ({"kind": "basic", "username": "me", "secret": "env:KEY"}, "authorization", basic(f"me:{SECRET}")),
        ({"kind": "basic", "secret_is": "username", "secret": "env:KEY"}, "authorization", basic(f"{SECRET}:")),
        ({"kind": "header", "name": "X-Api-Key", "secret": "env:KEY"}, "x-api-key", SECRET),
        (
            {"kind": "header", "name": "Authorization", "prefix": "Token ", "secret": "env:KEY"},
            "authorization",
            f"Token {SECRET}",
        ),
    ],
)
async def test_a_credential_takes_the_place_of_the_programs_own(sent, vault, auth, name, value):
    """N5, T5: the guest's account is not used, in whatever header and however often it is named."""
    guests = (("accept", "*/*"), (name, "guest"), ("authorization", "Bearer guest"), (name, "guest"))
    injected = await sent(api(auth), request(*guests))
    assert injected.out.headers == ((b"accept", b"*/*"), (name.encode(), value.encode()))
    assert injected.places == (f"header:{name}",)
    assert scrub_text(vault.needles, SECRET) == f"[secret github.{auth['kind']}]"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/a", f"/a?key={ENCODED}"),
        ("/a?", f"/a?key={ENCODED}"),
        ("/a?key=guest", f"/a?key={ENCODED}"),
        ("/a?key=1&b=%7e&%6bey=2&b=~&k%65y&c", f"/a?b=%7e&b=~&c&key={ENCODED}"),
        ("/a?key=1;b=~;k%65y=2&c;key", f"/a?b=~&c&key={ENCODED}"),
        ("/a?b;c=;d;&key;", f"/a?b;c=;d;;&key={ENCODED}"),
        ("/a%3fkey=1?x=key=&&keys=2", f"/a%3fkey=1?x=key=&&keys=2&key={ENCODED}"),
    ],
)
async def test_a_parameter_takes_the_place_of_the_programs_own(sent, target, expected):
    """N5: however the guest's is encoded and however often it is there; of the others no byte changes."""
    injected = await sent(api(QUERY), request(target=target))
    assert injected.out.target == expected
    assert injected.places == ("query:key",)


async def test_several_credentials_are_put_in_one_after_the_other(sent, vault):
    header = {"kind": "header", "name": "X-App", "secret": "env:SECOND"}
    injected = await sent(api(BEARER, header, {**header, "name": "X-Key", "secret": "env:KEY"}), request())
    assert injected.places == ("header:authorization", "header:x-app", "header:x-key")
    assert scrub_text(vault.needles, "another-secret") == "[secret github.header]"


FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "via", "x-real-ip", "proxy-authorization")


@pytest.mark.parametrize("auth", [(), (BEARER,)])
async def test_what_a_program_says_of_its_origin_never_leaves(sent, auth):
    injected = await sent(api(*auth), request(*((name, "x") for name in FORWARDING), ("cookie", "own=1")))
    assert (b"cookie", b"own=1") in injected.out.headers
    assert not {name for name, _ in injected.out.headers} & {name.encode() for name in FORWARDING}


async def test_a_program_may_have_a_login_of_its_own_where_the_owner_has_none(sent):
    injected = await sent(api(), request(("authorization", "Bearer own"), target="/?key=own"))
    assert injected.out == request(("authorization", "Bearer own"), target="/?key=own")
    assert injected.places == ()


@pytest.mark.parametrize("auth", [BEARER, QUERY, SIGV4, placeholder("header:x")])
async def test_no_credential_leaves_in_clear_text(sent, auth):
    """N5: whatever the configuration says."""
    plain = Route(api="github", scheme="http", host="api.github.test", port=80)
    with pytest.raises(Denied) as caught:
        await sent(api(auth), request(), route=plain)
    assert caught.value.code == "plain_http_not_granted"


@pytest.mark.parametrize("value", ["", f"{SECRET}\r\nX-Admin: 1"])
@pytest.mark.parametrize("auth", [BEARER, QUERY])
async def test_a_secret_that_can_not_be_had_is_an_error_and_no_request(sent, variables, auth, value):
    """N5: never without the credential, never with another header in it."""
    variables["KEY"] = value
    with pytest.raises(ConfigError, match="env:KEY"):
        await sent(api(auth), request())


async def test_a_secret_that_an_api_refuses_is_fetched_again(tmp_path):
    file = tmp_path / "key"
    file.write_text("first-value")
    file.chmod(0o600)
    vault = Vault(Sources({}))
    injector = Injector(vault, AccessTokens(vault, no_post))
    which = api({"kind": "bearer", "secret": f"file:{file}"})
    before = await injector.apply("github", which, ROUTE, request(), None, {})
    file.write_text("other-value")
    # What was fetched just now is kept on purpose: a moment passes, as it does on the way to an upstream.
    while (now := await injector.apply("github", which, ROUTE, request(), None, {})) == before:
        injector.forget("github", which)
    assert now.out.headers == ((b"authorization", b"Bearer other-value"),)


# Placeholders


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (GP, SECRET),
        (f"Bearer {GP}", f"Bearer {SECRET}"),
        (f'Token token="{GP}", x=1', f'Token token="{SECRET}", x=1'),
        (basic(f"{GP}:"), basic(f"{SECRET}:")),
        (basic(f"me:{GP}"), basic(f"me:{SECRET}")),
        (basic(f"me:{GP}").replace("Basic", "bASIC "), basic(f"me:{SECRET}").replace("Basic", "bASIC ")),
    ],
)
async def test_a_placeholder_is_filled_in_a_header(sent, value, expected):
    injected = await sent(api(placeholder("header:Authorization")), request(("authorization", value)))
    assert injected.out.headers == ((b"authorization", expected.encode()),)
    assert injected.places == ("header:authorization",)


async def test_two_placeholders_are_filled_in_one_header(sent):
    where = "header:authorization"
    both = api(placeholder(where), placeholder(where, name="OTHER", secret="env:SECOND"))
    injected = await sent(both, request(("authorization", basic(f"{OTHER}:{GP}"))))
    assert injected.out.headers == ((b"authorization", basic(f"another-secret:{SECRET}").encode()),)


async def test_a_header_that_is_a_place_is_filled_once_and_holds_nothing_else(sent):
    """A server may take the first or the last of two, and pass the other on."""
    twice = request(("x-key", "guest"), ("x-key", f"{GP} {GP}"), ("x-key", GP), ("authorization", "own"))
    injected = await sent(api(placeholder("header:x-key")), twice)
    assert injected.out.headers == ((b"x-key", f"{SECRET} {GP}".encode()), (b"authorization", b"own"))
    assert injected.places == ("header:x-key", "stray:header:x-key")


@pytest.mark.parametrize("value", ["Bearer guest", basic("me:guest"), "Basic ####", f"Basic {GP}"])
async def test_a_credential_of_the_programs_own_leaves_in_no_place(sent, value):
    """N5: data sent to an attacker's account at a granted API."""
    injected = await sent(api(placeholder("header:authorization")), request(("authorization", value)))
    assert not injected.out.headers or injected.out.headers == ((b"authorization", f"Basic {SECRET}".encode()),)


async def test_a_placeholder_is_filled_in_a_parameter(sent):
    out = request(target=f"/a?x=%7e&k%65y=pre-{GP}&key={GP}&key=guest")
    injected = await sent(api(placeholder("query:key")), out)
    assert injected.out.target == f"/a?x=%7e&k%65y=pre-{ENCODED}"
    assert injected.places == ("query:key",)


FORM = ("content-type", "Application/x-www-form-urlencoded; charset=utf-8")


async def test_a_placeholder_is_filled_in_a_field_of_a_form(sent):
    body = f"a=%7e+b&client_secret={GP}&note={GP}".encode()
    injected = await sent(api(placeholder("form:client_secret")), request(FORM, method="POST"), body)
    assert injected.body == f"a=%7e+b&client_secret={ENCODED}&note={GP}".encode()
    assert injected.places == ("form:client_secret", "stray:body")


@pytest.mark.parametrize("headers", [(), (("content-type", "text/plain"),), (FORM, ("content-type", "text/plain"))])
async def test_what_is_no_form_stays_as_it_is(sent, headers):
    body = f"client_secret={GP}".encode()
    injected = await sent(api(placeholder("form:client_secret")), request(*headers, method="POST"), body)
    assert injected.body == body
    assert injected.places == ("stray:body",)


async def test_a_placeholder_is_filled_in_a_member_of_a_json_body_and_no_other_byte_changes(sent, variables):
    variables["KEY"] = 'quo"te\\d-secret-é'
    before = f'{{ "n": 1.10, "note": "{GP}",\n "auth": [{{"key": "pre {GP} {GP}"}}], "u": "\\u00e9é" }}'
    injected = await sent(api(placeholder("body:auth.0.key")), request(method="POST"), before.encode())
    written = json.dumps(variables["KEY"])[1:-1]
    assert injected.body == before.replace(f"pre {GP}", f"pre {written}").encode()
    assert json.loads(injected.body)["auth"][0]["key"] == f"pre {variables['KEY']} {GP}"
    assert injected.places == ("body:auth.0.key", "stray:body")


@pytest.mark.parametrize(
    "body",
    [
        f'{{"text": "{GP}"}}',
        f'{{"auth": {{"{GP}": "x"}}}}',
        f'{{"auth": {{"key": ["{GP}"]}}}}',
        f'{{"auth.key": "{GP}"}}',
        f'{{"auth": {{"key": "\\{GP}"}}}}',
        f'{{"auth": {{"key": "{GP}"}}}} trailing',
        f'{{"auth": {{"key": "{GP}"}}',
        "[" * 100_000 + GP,
        f"not JSON {GP}",
    ],
)
async def test_a_placeholder_anywhere_else_in_a_body_is_a_useless_string(sent, body):
    """N5: the body of a write API that others can read. The string leaves as it came, and that is written down."""
    injected = await sent(api(placeholder("body:auth.key")), request(method="POST"), body.encode())
    assert injected.body == body.encode()
    assert injected.places == ("stray:body",)


async def test_a_body_that_is_no_text_stays_as_it_is(sent):
    body = b'\xff{"auth": {"key": "' + GP.encode() + b'"}}'
    assert (await sent(api(placeholder("body:auth.key")), request(method="POST"), body)).body == body


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (f'{{"auth": {{"key": "{GP}"}}, "auth": {{}}}}', "ambiguous_body"),
        (f'{{"auth": {{"key": "{GP}", "k\\u0065y": 1}}}}', "ambiguous_body"),
        (f'{{"auth": {{"key": "{GP}"}}, "x": "{"x" * (1 << 20)}"}}', "body_too_large"),
    ],
)
async def test_a_body_that_servers_may_read_in_two_ways_is_refused(sent, body, code):
    with pytest.raises(Denied) as caught:
        await sent(api(placeholder("body:auth.key")), request(method="POST"), body.encode())
    assert caught.value.code == code


async def test_a_placeholder_without_a_place_stays_and_is_written_down_wherever_it_is(sent):
    """N5: sent to an API that is not its own, too."""
    out = request(("x-note", GP), ("authorization", basic(f"me:{OTHER}")), target=f"/{GP}?q={GP}")
    injected = await sent(api(), out, GP.encode())
    assert injected.out == out
    assert injected.body == GP.encode()
    assert injected.places == (
        *("stray:header:x-note", "stray:path", "stray:query", "stray:body"),
        "stray:header:authorization",
    )


async def test_a_secret_is_not_fetched_before_its_placeholder_is_there(sent, variables):
    del variables["KEY"]
    await sent(api(placeholder("header:x-key")), request())
    with pytest.raises(ConfigError, match="env:KEY"):
        await sent(api(placeholder("header:x-key")), request(("x-key", GP)))


@given(before=st.text(), after=st.text())
def test_filling_in_a_body_changes_one_string_alone(before, after):
    text = json.dumps({"other": [before, GP], "key": f"{before}{GP}{after}"}, ensure_ascii=False)
    draft = DraftRequest(out=request(), body=text.encode("utf-8", "replace"))
    expected = json.loads(draft.body)
    filled, done = fill_place("body:key", draft, {GP: 'se"cret'})
    assert done
    assert json.loads(filled.body) == {**expected, "key": expected["key"].replace(GP, 'se"cret')}


@pytest.mark.parametrize(
    ("auth", "needed"),
    [
        (BEARER, False),
        (SIGV4, True),
        (placeholder("header:x", "query:y"), False),
        (placeholder("header:x", "form:y"), True),
        (placeholder("body:x"), True),
    ],
)
def test_a_body_is_read_whole_only_where_it_is_needed(injector, auth, needed):
    assert injector.needs_body(api(auth), ((b"x-amz-content-sha256", b"unknown"),)) is needed


@pytest.mark.parametrize(
    ("auth", "header", "needed"),
    [
        (SIGV4, None, False),
        (SIGV4, (b"x-amz-content-sha256", b"a" * 64), False),
        (SIGV4, (b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD"), False),
        (SIGV4, (b"x-amz-content-sha256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"), False),
        (SIGV4, (b"x-amz-content-sha256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), True),
        (SIGV4 | {"service": "sqs"}, None, True),
        (SIGV4 | {"service": "sqs"}, (b"x-amz-content-sha256", b"a" * 64), False),
        (placeholder("body:x"), (b"content-type", b"image/png"), False),
        (placeholder("body:x"), (b"content-type", b"application/json"), True),
    ],
)
def test_a_body_is_streamed_where_the_protocol_signs_without_it(injector, auth, header, needed):
    """N5: of uploads none is too large."""
    assert injector.needs_body(api(auth), (header,) if header else ()) is needed


async def test_a_streamed_body_is_signed_as_the_program_declares_it(injector, sent):
    declared = ("x-amz-content-sha256", "a" * 64)
    head = dict((await sent(api(SIGV4), request(declared, method="PUT"), None)).out.headers)
    assert head[b"x-amz-content-sha256"] == b"a" * 64
    unseen = injector.declare_unseen(api(SIGV4), request(method="PUT"))
    head = dict((await sent(api(SIGV4), unseen, None)).out.headers)
    assert head[b"x-amz-content-sha256"] == b"UNSIGNED-PAYLOAD"
    assert injector.declare_unseen(api(BEARER), request()) == request()


# AWS


async def test_a_signature_takes_the_place_of_the_programs_own(sent):
    """N5: nothing of what a program signed with a key of its own is left."""
    guests = request(
        ("authorization", "AWS4-HMAC-SHA256 Credential=guest"),
        ("x-amz-date", "20200101T000000Z"),
        ("x-amz-security-token", "guest"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        target="/b/k?X-Amz-Signature=guest&x=1&X-Amz-%43redential=guest",
        method="PUT",
    )
    injected = await sent(api(SIGV4), guests, b"content")
    assert injected.out.target == "/b/k?x=1"
    assert b"guest" not in repr(injected.out).encode()
    headers = dict(injected.out.headers)
    assert len(headers) == len(injected.out.headers) == 3
    assert headers[b"x-amz-content-sha256"] == b"ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert headers[b"authorization"].startswith(b"AWS4-HMAC-SHA256 Credential=another-secret/")


async def test_a_signature_speaks_of_what_the_other_credentials_put_in(sent):
    injected = await sent(api(SIGV4, QUERY, {"kind": "header", "name": "X-Amz-App", "secret": "env:KEY"}), request())
    assert injected.places == ("query:key", "header:x-amz-app", "header:authorization")
    assert b"SignedHeaders=host;x-amz-app;" in dict(injected.out.headers)[b"authorization"]


async def test_chunks_without_signatures_are_sent_as_they_are(sent):
    unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    injected = await sent(api(SIGV4), request(("x-amz-content-sha256", unsigned)), b"4\r\nbody\r\n0\r\n\r\n")
    assert dict(injected.out.headers)[b"x-amz-content-sha256"] == unsigned.encode()


async def test_chunks_that_are_signed_with_another_key_are_refused(sent):
    with pytest.raises(Denied) as caught:
        await sent(api(SIGV4), request(("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")), b"")
    assert caught.value.code == "chunks_are_signed"


async def test_a_session_token_is_sent_and_signed(sent, variables):
    variables["SESSION"] = "token-of-a-session"
    injected = await sent(api({**SIGV4, "session_token": "env:SESSION"}), request())
    headers = dict(injected.out.headers)
    assert headers[b"x-amz-security-token"] == b"token-of-a-session"
    assert b";x-amz-security-token," in headers[b"authorization"]
