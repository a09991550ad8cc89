"""What the shape of one key can't say of APIs."""

import pytest
from tests.cases import for_each

from gloveport.config.checks.apis import api_faults
from gloveport.config.checks.cross_checks import rule_faults
from gloveport.config.toml_text import spell_key
from gloveport.sandbox.plan import _HOSTNAME


def problems(**apis):
    return [(spell_key(fault.keys[0]), fault.problem) for fault in api_faults({"api": apis})]


def problem(**apis):
    (only,) = problems(**apis)
    return only


def api(*hosts, **keys):
    return {"hosts": list(hosts or ("api.example.com",)), **keys}


def bearer():
    return {"kind": "bearer", "secret": "env:X"}


def header(name):
    return {"kind": "header", "name": name, "secret": "env:X"}


def placeholder(name="API_TOKEN", *places):
    return {
        "kind": "placeholder",
        "name": name,
        "secret": "env:X",
        "places": list(places or ("header:Authorization",)),
    }


def test_apis_of_every_sort_live_side_by_side():
    assert (
        problems(
            a=api("api.example.com", "*.example.com", auth=[bearer()], rules=[{"action": "allow"}]),
            b=api("http://intra.example.com:8080", "*.deep.example.com"),
            c=api("tcp://db.example.com:5432", networks=["10.0.0.0/8", "fd00::/8"], addresses=["10.0.0.5"]),
        )
        == []
    )


@for_each(
    "host", ["", "a b", "https://x.com/path", "x.com:0", "*.com", "*", "tcp://x.com", "ftp://x.com", "redis://x.com"]
)
def test_a_host_that_is_none_is_named(host):
    """N2, T3"""
    key, text = problem(x=api("fine.example.com", host))
    assert key == "api.x.hosts[1]"
    assert text.isprintable()


@for_each(
    "host, address",
    [
        ("localhost", "127.0.0.1"),
        ("http://LOCALHOST.:8080", "127.0.0.1"),
        ("tcp://db.localhost:5432", "127.0.0.1"),
        ("*.db.localhost", "127.0.0.1"),
        (f"http://{_HOSTNAME}", "127.0.0.1"),
        ("http://127.0.0.1:8080", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1"),
        ("tcp://[::1]:5432", "::1"),
        ("[::]", "127.0.0.1"),
    ],
)
def test_a_host_by_which_programs_mean_their_own_sandbox_is_a_fault(host, address):
    """N2, T3: it could never be reached under that name."""
    (fault,) = api_faults({"api": {"x": api("fine.example.com", host)}})
    assert fault.keys == (("api", "x", "hosts", 1),)
    assert fault.problem.startswith('programs mean their own sandbox by "')
    assert fault.hint == f'give the API another name, such as service.example, and addresses = ["{address}"]'


@pytest.mark.parametrize("host", ["localhost.example.com", "notlocalhost", "gloveport.example.com", "10.0.0.5"])
def test_names_and_addresses_of_other_machines_are_hosts(host):
    assert problems(x=api(host)) == []


@for_each(
    "one, other",
    [
        ("api.example.com", "API.example.com."),
        ("api.example.com", "https://api.example.com:443"),
        ("*.example.com", "*.EXAMPLE.com"),
        ("http://x.example.com:8080", "x.example.com:8080"),
        ("tcp://x.example.com:443", "x.example.com"),
    ],
)
def test_two_active_apis_never_claim_one_place(one, other):
    """N5: of two, whose credential would it be?"""
    key, text = problem(a=api(one), b=api(other))
    assert key == "api.b.hosts[0]"
    assert text.endswith("which is api.a.hosts[0]")
    assert problems(a=api(one), b=api(other, active=False)) == []


def test_a_place_speaks_one_protocol():
    assert problem(a=api("x.example.com:8080", "http://x.example.com:8080"))[0] == "api.a.hosts[1]"
    assert problems(a=api("x.example.com", "x.example.com")) == []


def account(kind="postgres", **keys):
    return {"kind": kind, "username": "agent", "secret": "env:X", **keys}


def test_databases_have_accounts_of_their_kind():
    assert (
        problems(
            orders=api("postgres://db.example.com:5432", "postgres://spare.example.com:5432", auth=[account()]),
            cache=api("redis://db.example.com:6379", auth=[account("redis")], stand_ins=["REDIS_PASSWORD"]),
            local=api("postgres://mine.example:5432", auth=[account(tls=False)], addresses=["127.0.0.1"]),
            named=api("redis://10.0.0.5:6379", auth=[account("redis", tls=False)]),
        )
        == []
    )


@for_each(
    "hosts, auth, key, text",
    [
        (["postgres://db.example.com:5432"], [], "hosts[0]", "expected an account in auth"),
        (["redis://db.example.com:6379"], [account()], "hosts[0]", "expected an account in auth"),
        (["postgres://db.example.com:5432"], [bearer()], "hosts[0]", "expected an account in auth"),
        (["api.example.com"], [account()], "auth[0]", "expected postgres:// hosts alone"),
        (["postgres://a.example:5432", "api.example.com"], [account()], "auth[0]", "expected postgres:// hosts alone"),
        (["postgres://a.example:1", "redis://a.example:2"], [account()], "auth[0]", "expected postgres:// hosts alone"),
        (["postgres://db.example.com:5432"], [account(), bearer()], "auth[1]", "expected https:// hosts alone"),
        (["postgres://db.example.com:5432"], [account(), account()], "auth[1]", 'found "login"'),
        (["tcp://db.example.com:5432"], [account()], "hosts[0]", "because the API has auth"),
    ],
)
def test_an_account_belongs_to_databases_of_its_kind_and_they_to_it(hosts, auth, key, text):
    """N5: whose login would it be?"""
    assert any(where == f"api.x.{key}" and text in said for where, said in problems(x=api(*hosts, auth=auth)))


@for_each(
    "keys",
    [
        {},
        {"networks": ["10.0.0.0/8"]},
        {"addresses": ["10.0.0.5", "192.0.2.1", "8.8.8.8"]},
        {"addresses": ["::ffff:8.8.8.8"]},
        {"addresses": ["64:ff9b::808:808"]},  # NAT64: a router makes 8.8.8.8 of it
        {"addresses": ["2002:808:808::1"]},  # 6to4, likewise
    ],
)
@for_each("kind", ["postgres", "redis"])
def test_without_tls_it_is_said_at_which_private_addresses_a_database_is(kind, keys):
    """P18: names may lead anywhere."""
    key, text = problem(x=api(f"{kind}://db.example.com:5432", auth=[account(kind, tls=False)], **keys))
    assert key == "api.x.auth[0].tls"
    assert "expected TLS" in text
    literal = problems(x=api(f"{kind}://8.8.8.8:5432", auth=[account(kind, tls=False)]))
    assert [key for key, _ in literal] == ["api.x.auth[0].tls"]


def test_nobody_looks_into_a_database():
    keys = {"auth": [account()], "rules": [{"action": "allow"}]}
    assert "expected HTTP, because the API has rules" in problem(x=api("postgres://db.example.com:5432", **keys))[1]


@pytest.mark.parametrize("host", ["http://api.example.com", "tcp://api.example.com:5432"])
def test_credentials_never_leave_in_clear_text(host):
    """N5"""
    key, text = problem(x=api("safe.example.com", host, auth=[bearer()]))
    assert key == "api.x.hosts[1]"
    assert "expected HTTPS, because the API has auth" in text


@pytest.mark.parametrize("keys", [{"rules": [{"action": "allow"}]}, {"types": "type X = 1"}])
def test_nobody_looks_into_a_tcp_connection(keys):
    """N11, T5: a rule that can't be enforced is a fault."""
    assert "expected HTTP" in problem(x=api("tcp://db.example.com:5432", **keys))[1]


def test_all_that_is_wrong_with_a_host_is_named_at_once():
    """T3"""
    keys = {"auth": [bearer()], "rules": [{"action": "allow"}], "types": "type X = 1"}
    found = problems(x=api("tcp://db.example.com:5432", **keys))
    assert [key for key, _ in found] == ["api.x.hosts[0]"] * 3
    assert [text.split(", found")[0] for _, text in found] == [
        "expected HTTPS, because the API has auth",
        "expected HTTP, because the API has rules",
        "expected HTTP, because the API has types",
    ]


def test_one_table_in_the_place_of_many_is_seen_all_the_same():
    """T3"""
    assert "because the API has auth" in problem(x=api("http://x.example.com", auth=bearer()))[1]
    assert "because the API has rules" in problem(x=api("tcp://x.example.com:1", rules={"action": "allow"}))[1]


@for_each("name", ["Host", "content-length", "Transfer-Encoding", "connection", "Proxy-Authorization"])
def test_a_credential_is_in_no_header_that_frames_or_routes_the_request(name):
    """N3"""
    assert problem(x=api(auth=[header(name)]))[0] == "api.x.auth[0]"
    assert problem(x=api(auth=[placeholder("X_KEY", f"header:{name}")]))[0] == "api.x.auth[0]"
    assert problems(x=api(auth=[placeholder("X_KEY", f"query:{name}")])) == []


SIGV4 = {"kind": "sigv4", "access_key_id": "env:A", "secret_access_key": "env:B", "region": "r", "service": "s"}
OAUTH = {
    "kind": "oauth2_client_credentials",
    "token_url": "https://x.example.com/token",
    "client_id": "x",
    "client_secret": "env:X",
}


@pytest.mark.parametrize("second", [{"kind": "basic", "secret": "env:Y"}, SIGV4, OAUTH, header("AUTHORIZATION")])
def test_a_request_has_one_authorization(second):
    """N5"""
    key, text = problem(x=api(auth=[bearer(), second]))
    assert key == "api.x.auth[1]"
    assert 'found "header:authorization", which is that of api.x.auth[0]' in text


def test_a_placeholder_can_not_be_where_another_credential_is_injected():
    """N5: the injected one would replace it."""
    assert problem(x=api(auth=[bearer(), placeholder()]))[0] == "api.x.auth[1]"
    query = {"kind": "query", "name": "key", "secret": "env:X"}
    assert problem(x=api(auth=[placeholder("X_KEY", "query:key"), query]))[0] == "api.x.auth[1]"


def test_placeholders_may_share_a_place():
    assert problems(x=api(auth=[placeholder("ONE_KEY"), placeholder("OTHER_KEY")])) == []


def test_a_placeholders_name_is_its_own_over_all_apis():
    """N5: all are variables of one environment."""
    key, text = problem(x=api(auth=[placeholder()]), y=api("y.example.com", auth=[placeholder()], active=False))
    assert key == "api.y.auth[0].name"
    assert text.endswith("which is api.x.auth[0].name")


@for_each(
    "name",
    [
        *("PATH", "HOME", "ENV", "IFS", "SHELL", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP"),
        *("BASH_ENV", "DENO_CERT", "NODE_OPTIONS", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "GIT_SSH", "CURL_HOME"),
        *("REQUESTS_CA_BUNDLE", "GLOVEPORT_X", "GLIBC_TUNABLES", "PS4", "PROMPT_COMMAND", "LC_ALL", "TMPDIR"),
        *("AWS_CA_BUNDLE", "PIP_INDEX_URL", "CARGO_HTTP_CAINFO"),
    ],
)
def test_a_placeholder_is_never_a_variable_that_something_obeys(name):
    for entry, place in ((api(auth=[placeholder(name)]), "auth[0].name"), (api(stand_ins=[name]), "stand_ins[0]")):
        key, text = problem(x=entry)
        assert key == f"api.x.{place}"
        assert "expected a name that nothing in a sandbox obeys" in text


@for_each("name", ["GITHUB_TOKEN", "GITLAB_TOKEN", "NODEPING_KEY", "LDAP_PASSWORD", "AWS_ACCESS_KEY_ID"])
def test_names_that_only_look_alike_are_free(name):
    assert problems(x=api(auth=[placeholder(name)])) == []


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0"])
def test_a_network_of_everything_is_a_slip(network):
    """N4"""
    assert problem(x=api(networks=["10.0.0.0/8", network]))[0] == "api.x.networks[1]"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "ff02::1"])
def test_an_address_is_that_of_a_machine(address):
    """N4"""
    assert problem(x=api(addresses=[address]))[0] == "api.x.addresses[0]"


def test_a_file_of_authorities_has_certificates(tmp_path):
    """T3"""
    file = tmp_path / "ca.pem"
    assert "No such file" in problem(x=api(ca_file=str(file)))[1]
    for text in ("nothing", ""):
        file.write_text(text)
        assert "no certificates in PEM" in problem(x=api(ca_file=str(file)))[1]


def test_an_api_that_is_not_active_is_checked_all_the_same():
    """T3: it may be made active without another look."""
    assert problem(x=api("a b", active=False))[0] == "api.x.hosts[0]"


def test_parts_of_the_wrong_shape_hide_no_fault_of_the_others():
    assert problem(x=api("http://x.example.com", auth=[bearer()], rules=3, zzz=1))[0] == "api.x.hosts[0]"
    assert problems(x={"hosts": 3, "networks": []}, y=4) == []


def test_an_element_of_the_wrong_shape_hides_no_fault_of_the_others():
    """T3"""
    wrong = api(
        *("http://x.example.com", 3, "a b"),
        auth=[header("X Key"), bearer(), bearer()],
        rules=[{"action": "allow"}, {"action": "alow"}, {"action": "deny"}],
        networks=["x", "0.0.0.0/0"],
    )
    assert [key for key, _ in problems(x=wrong)] == [
        *("api.x.hosts[2]", "api.x.hosts[0]", "api.x.rules[2]", "api.x.auth[2]", "api.x.networks[1]")
    ]


@pytest.mark.parametrize("secret", ["file:{}/key", "json:{}/key#/a/b"])
def test_a_mount_never_shows_a_file_of_a_secret(tmp_path, secret):
    """T4: not in the guest's files."""
    data = {
        "policy": {"mounts": [{"source": str(tmp_path), "target": "/data"}]},
        "api": {"x": api(auth=[{"kind": "bearer", "secret": secret.format(tmp_path)}])},
    }
    (fault,) = rule_faults(data, own=())
    assert fault.keys == (("policy", "mounts", 0, "source"),)
    assert str(tmp_path / "key") in fault.problem
