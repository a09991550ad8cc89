"""What may be sent where."""

from hypothesis import example, given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.model import Allow, Ask, Deny, Grant, Policy, Request
from gloveport.model.egress import Api, Connect, Egress, Fetch, Rule
from gloveport.model.reading import read_value
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.grant import grant_for

APIS = {
    "open": Api(hosts=("open.example.com",)),
    "ruled": Api(
        hosts=("api.example.com", "*.api.example.com"),
        rules=(
            Rule(action="deny", paths=("/v1/admin**",)),
            Rule(action="allow", methods=("GET", "HEAD"), paths=("/v1/**",)),
            Rule(action="ask", methods=("POST",), paths=("/v1/items", "/v1/items/*:copy")),
            Rule(action="deny", methods=("POST",)),
            Rule(action="allow", paths=("/public/*",)),
        ),
    ),
    "methods": Api(hosts=("m.example.com",), rules=(Rule(action="allow", methods=("GET",)),)),
    "shut": Api(hosts=("shut.example.com",), rules=(Rule(action="deny"),)),
    "plain": Api(hosts=("http://plain.example.com", "http://plain.example.com:8080")),
    "inside": Api(hosts=("10.1.2.3:9200", "[2001:db8::1]")),
    "data": Api(hosts=("tcp://db.internal:5432",)),
    "asleep": Api(hosts=("asleep.example.com", "tcp://asleep.example.com:5432"), active=False),
}
EGRESS = Egress(apis=APIS)
YOLO = Egress(apis=APIS, yolo=True)

CODES = {
    "host_not_granted",
    "port_not_granted",
    "plain_http_not_granted",
    "address_not_granted",
    "method_or_path_not_allowed",
    "ambiguous_path",
}


def fetch(host, path="/", *, method="GET", scheme="https", port=None, egress=EGRESS):
    port = port or {"https": 443, "http": 80}[scheme]
    return decide(Grant(egress=egress), Fetch(method=method, scheme=scheme, host=host, port=port, path=path))


def connect(host, port, *, egress=EGRESS):
    return decide(Grant(egress=egress), Connect(host=host, port=port))


@for_each(
    "method, path, rule",
    [
        ("GET", "/v1/items", "api.ruled.rules[1]"),
        ("HEAD", "/v1/items/7", "api.ruled.rules[1]"),
        ("GET", "/v1/adm%69", "api.ruled.rules[1]"),
        ("GET", "/public/x", "api.ruled.rules[4]"),
        ("DELETE", "/public/x", "api.ruled.rules[4]"),
    ],
)
def test_the_first_rule_that_matches_allows(method, path, rule):
    """N2: rules in their order."""
    assert fetch("api.example.com", path, method=method) == Allow(rule=rule)
    assert fetch("eu.api.example.com", path, method=method) == Allow(rule=rule)


@for_each(
    "method, path",
    [
        ("GET", "/v1/admin"),
        ("GET", "/v1/admin/users"),
        ("GET", "/v1/%61dmin"),
        ("POST", "/public/x"),
        ("POST", "/v1/items/7"),
        ("DELETE", "/v1/items"),
        ("GET", "/v2/items"),
        ("GET", "/"),
        ("GET", "/public/x/y"),
    ],
)
def test_what_a_rule_denies_and_what_none_allows_is_denied(method, path):
    """N2: default deny within an API that has rules."""
    decision = fetch("api.example.com", path, method=method)
    assert decision.code == "method_or_path_not_allowed"
    assert method in decision.reason
    assert "Retrying does not help" in decision.hint
    assert "GET|HEAD /v1/**" in decision.hint


@for_each(
    "rules, hint",
    [
        (
            [Rule(action="deny", paths=("/admin/**",)), Rule(action="allow", methods=("GET", "POST"))],
            "Allowed may be: GET|POST any path except /admin/**.",
        ),
        (
            [
                Rule(action="deny", methods=("DELETE", "PUT")),
                Rule(action="deny", methods=("GET",), paths=("/a", "/b")),
                Rule(action="allow"),
            ],
            "Allowed may be: any method any path except DELETE|PUT and GET /a|/b.",
        ),
        (
            [
                Rule(action="deny", paths=("/admin/**",)),
                Rule(action="allow", methods=("GET",), paths=("/v1/**",)),
                Rule(action="deny", methods=("PUT",)),
                Rule(action="ask", methods=("POST",), paths=("/**",)),
            ],
            "Allowed may be: GET /v1/**, POST /** except /admin/**.",
        ),
        ([Rule(action="deny"), Rule(action="allow")], "Allowed may be: any method any path except everything."),
        (
            [Rule(action="deny", paths=tuple(f"/{n}/**" for n in range(99))), Rule(action="allow", methods=("GET",))],
            "Allowed may be: GET any path except what is denied before.",
        ),
    ],
)
def test_the_hint_of_a_refusal_allows_nothing_that_is_denied(rules, hint):
    """N10: what an agent tries next is not refused as well."""
    egress = Egress(apis={"x": Api(hosts=("x.example.com",), rules=tuple(rules))})
    assert fetch("x.example.com", "/0/x", method="DELETE", egress=egress).hint == f"{hint} Retrying does not help."


def test_a_rule_that_asks_says_what_for():
    """N2: `ask` is for a person."""
    assert fetch("api.example.com", "/v1/items/7:copy", method="POST") == Ask(
        rule="api.ruled.rules[2]", question="May a program send POST '/v1/items/7:copy' to api.example.com?"
    )
    assert isinstance(fetch("api.example.com", "/v1/items/7%3Acopy", method="POST"), Ask)


@for_each("method", ["get", "Get", "gET", "", "GET ", "GET\n", "G\u00cbT", "1GET", "A" * 33])
def test_a_method_is_upper_case_or_none(method):
    """N8: no method gets past a rule by another spelling."""
    for host in ("api.example.com", "open.example.com", "m.example.com"):
        assert fetch(host, "/v1/x", method=method).code == "method_or_path_not_allowed"


@for_each("path", ["/v1/../v1/admin", "/v1/x/%2e%2e/admin", "//v1/admin", "/v1/x;/admin", "/v1%2fadmin", "*"])
def test_an_ambiguous_path_is_denied_where_rules_speak_of_paths_and_only_there(path):
    """N2: an allowed prefix leads to nothing else."""
    decision = fetch("api.example.com", path)
    assert decision.code == "ambiguous_path"
    assert path in decision.reason
    assert fetch("open.example.com", path) == Allow(rule="api.open")
    assert fetch("m.example.com", path) == Allow(rule="api.methods.rules[0]")


def test_an_api_without_rules_allows_everything_at_its_places():
    """N2: hosts without rules."""
    assert fetch("open.example.com", "/x", method="DELETE") == Allow(rule="api.open")
    assert fetch("plain.example.com", scheme="http", port=8080) == Allow(rule="api.plain")
    assert fetch("10.1.2.3", port=9200) == Allow(rule="api.inside")
    assert fetch("2001:db8::1") == Allow(rule="api.inside")


@for_each(
    "host, scheme, port, code, granted",
    [
        ("open.example.com", "http", 80, "plain_http_not_granted", "open.example.com"),
        ("open.example.com", "http", 443, "plain_http_not_granted", "open.example.com"),
        ("a.api.example.com", "http", 80, "plain_http_not_granted", "*.api.example.com"),
        ("open.example.com", "https", 8443, "port_not_granted", "open.example.com"),
        ("plain.example.com", "https", 443, "port_not_granted", "http://plain.example.com:8080"),
        ("plain.example.com", "http", 81, "port_not_granted", "http://plain.example.com, "),
        ("db.internal", "https", 5432, "port_not_granted", "tcp://db.internal:5432"),
        ("db.internal", "http", 80, "port_not_granted", "tcp://db.internal:5432"),
        ("10.1.2.3", "https", 443, "port_not_granted", "10.1.2.3:9200"),
        ("2001:db8::1", "http", 80, "plain_http_not_granted", "[2001:db8::1]"),
    ],
)
@for_each("egress", [EGRESS, YOLO])
def test_a_granted_host_is_reached_only_as_it_is_granted(host, scheme, port, code, granted, egress):
    """N3 N4 N9: no plain text and no other port, not even where every public host is open."""
    decision = fetch(host, scheme=scheme, port=port, egress=egress)
    assert decision.code == code
    assert granted in decision.hint
    assert "Retrying does not help" in decision.hint


@for_each("host", ["10.9.9.9", "169.254.169.254", "8.8.8.8", "::1", "2606:4700:4700::1111"])
@for_each("egress", [EGRESS, YOLO])
def test_an_address_that_nobody_named_is_denied(host, egress):
    """N4 N9: raw addresses."""
    assert fetch(host, egress=egress).code == "address_not_granted"
    assert fetch(host, scheme="http", egress=egress).code == "address_not_granted"


def test_yolo_opens_the_two_public_ports_of_every_name_and_nothing_else():
    """N9: every public host, by its name."""
    assert fetch("anything.example.net", egress=YOLO) == Allow(rule="egress.yolo")
    assert fetch("anything.example.net", scheme="http", egress=YOLO) == Allow(rule="egress.yolo")
    assert fetch("asleep.example.com", egress=YOLO) == Allow(rule="egress.yolo")
    for scheme, port in (("https", 8443), ("https", 80), ("http", 443), ("http", 8080), ("https", 22)):
        decision = fetch("anything.example.net", scheme=scheme, port=port, egress=YOLO)
        assert decision.code == "host_not_granted"
        assert "Any public host name" in decision.hint
    assert connect("anything.example.net", 443, egress=YOLO).code == "host_not_granted"


def test_an_unknown_host_is_denied_with_those_that_can_be_reached():
    """N2 N10: default deny; the hint says where to go instead."""
    decision = fetch("evil.example.net")
    assert decision.code == "host_not_granted"
    assert "'evil.example.net'" in decision.reason
    assert "open (open.example.com)" in decision.hint
    assert "asleep" not in decision.hint
    assert fetch("asleep.example.com").code == "host_not_granted"
    assert fetch("evil.example.net", egress=Egress()).hint == "Nothing can be reached. Retrying does not help."


@for_each(
    "host", ["OPEN.example.com", "open.example.com.", "127.1", "[::1]", "*.api.example.com", "a b", "", "xn--a.example"]
)
def test_a_host_that_is_not_canonical_is_denied(host):
    """N3: what was not made canonical is compared with nothing."""
    assert fetch(host, egress=YOLO).code == "host_not_granted"
    assert connect(host, 5432, egress=YOLO).code == "host_not_granted"


def test_a_tcp_connection_goes_only_where_tcp_was_granted():
    """N11: raw TCP to a granted host and port."""
    assert connect("db.internal", 5432) == Allow(rule="api.data")
    assert connect("db.internal", 5433).code == "port_not_granted"
    assert connect("open.example.com", 443).code == "port_not_granted"
    assert connect("x.api.example.com", 443).code == "port_not_granted"
    assert connect("asleep.example.com", 5432).code == "host_not_granted"
    assert connect("10.9.9.9", 5432).code == "host_not_granted"


ACCOUNT = {"kind": "postgres", "username": "agent", "secret": "env:X"}
DATABASES = Egress(
    apis={
        "orders": read_value(
            Api, {"hosts": ["postgres://db.test:5432"], "auth": [{**ACCOUNT, "databases": ["orders", "stock"]}]}
        ),
        "any": read_value(Api, {"hosts": ["postgres://any.test:5432"], "auth": [ACCOUNT]}),
    }
)


def test_of_a_database_server_those_databases_are_opened_that_were_granted():
    def open_database(database, host="db.test", scheme="postgres"):
        action = Connect(scheme=scheme, host=host, port=5432, database=database)
        return decide(Grant(egress=DATABASES), action)

    assert open_database("orders") == open_database("stock") == open_database(None) == Allow(rule="api.orders")
    assert open_database("whatever", host="any.test") == Allow(rule="api.any")
    for other in "", "Orders", "orders ", "template1":
        assert open_database(other).code == "database_not_granted"
    assert "orders, stock" in open_database("other").hint
    assert open_database(None, scheme="tcp").code == "port_not_granted"
    assert open_database(None, scheme="redis").code == "port_not_granted"


def test_a_denial_is_short_and_printable_whatever_was_sent():
    """N10: few tokens, and nothing that a terminal would obey."""
    many = Egress(apis={f"api-{n}": Api(hosts=(f"host-{n}.example.com",) * 3) for n in range(500)})
    path = "/\x1b[2J\u202e" + "x" * 70_000
    decisions = [
        fetch("evil.example.net", egress=many),
        fetch("10.9.9.9", egress=many),
        fetch("x" * 5000 + "\x1b", egress=many),
        fetch("api.example.com", path),
        fetch("shut.example.com", path, method="POST"),
        fetch("open.example.com", path, method="get\x1b" * 1000),
    ]
    for decision in decisions:
        assert len(decision.reason) + len(decision.hint) < 1500
        assert decision.reason.isprintable()
        assert decision.reason.isascii()
    assert "more" in decisions[0].hint


HOSTS = st.sampled_from(
    [host for name in ("a", "open", "api", "x.api", "plain", "asleep") for host in (f"{name}.example.com",)]
    + ["db.internal", "10.1.2.3", "2001:db8::1", "8.8.8.8", "OPEN.example.com", "127.1", ""]
)
PORTS = st.sampled_from([22, 80, 443, 5432, 8080, 8443, 9200])
FETCHES = st.builds(
    Fetch,
    method=st.sampled_from(["GET", "POST", "DELETE", "get"]) | st.text(max_size=5),
    scheme=st.sampled_from(["https", "http"]),
    host=HOSTS | st.text(max_size=20),
    port=PORTS,
    path=st.sampled_from(["/", "/v1/items", "/v1/admin", "/public/x", "/v1/../x"]) | st.text(max_size=20),
)
CONNECTS = st.builds(Connect, host=HOSTS, port=PORTS)


@given(action=FETCHES | CONNECTS, names=st.frozensets(st.sampled_from(sorted(APIS))), yolo=st.booleans())
def test_every_request_gets_an_answer_with_a_code_that_is_known(action, names, yolo):
    """T1: total, and yes only by a rule that exists."""
    apis = {name: APIS[name] for name in names}
    match decide(Grant(egress=Egress(apis=apis, yolo=yolo)), action):
        case Deny(code=code, reason=reason, hint=hint):
            assert code in CODES
            assert reason.endswith(".")
            assert hint.endswith(".")
        case Allow(rule=rule) | Ask(rule=rule):
            assert rule.split(".")[1] in names or (yolo and rule == "egress.yolo")


@given(action=FETCHES | CONNECTS)
def test_without_apis_nothing_is_reached(action):
    """T1 N2: default deny."""
    assert isinstance(decide(Grant(), action), Deny)


OVERLAPPING = Egress(apis=APIS | {"wild": Api(hosts=("*.example.com", "http://*.example.com:8080"))})


@given(action=FETCHES | CONNECTS, names=st.frozensets(st.sampled_from(sorted({*APIS, "wild"} - {"asleep"}))))
@example(action=Fetch(method="GET", scheme="https", host="shut.example.com", port=443, path="/"), names={"wild"})
@example(
    action=Fetch(method="GET", scheme="https", host="m.example.com", port=443, path="/"), names={"wild", "methods"}
)
def test_a_request_for_fewer_apis_is_allowed_nothing_more(action, names):
    """T1: a request can only narrow: what it is still allowed, the operator's policy allows by the same rule."""
    request = Request(language="python", code="", apis=tuple(names))
    narrow = decide(grant_for(Policy(), OVERLAPPING, request), action)
    assert isinstance(narrow, Deny) or narrow == decide(Grant(egress=OVERLAPPING), action)
