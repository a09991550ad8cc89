"""What may be done with which tool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.errors import Denied
from gloveport.model import Allow, Ask, Deny, Grant, Policy, Request
from gloveport.model.egress import Egress
from gloveport.model.hub import CallTool, Condition, Server, ServerPolicy, Toolbox, ToolRule
from gloveport.model.reading import read_value
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.grant import grant_for
from gloveport.policy.decisions.tools import MOST_HOSTS, hosts_to_confirm, hosts_to_look_up, is_visible, toolbox_of


def toolbox(*rules: ToolRule, only=None) -> Toolbox:
    return Toolbox(servers={"s": ServerPolicy(rules=rules, only=only)})


def call(box, tool="t", *, server="s", read_only=False, destructive=True, addresses=None, **arguments):
    action = CallTool(
        server=server,
        tool=tool,
        read_only=read_only,
        destructive=destructive,
        arguments=arguments,
        addresses=addresses or {},
    )
    return decide(Grant(toolbox=box), action)


ALLOW, DENY, ASK = (ToolRule(action=action) for action in ("allow", "deny", "ask"))
PATH = {"path": Condition(beneath="/ws")}


def test_an_empty_grant_denies_every_call():
    """T1 H5: denial has one path."""
    decision = call(Toolbox())
    assert decision.code == "tool_not_granted"
    assert decision.hint == (
        "It may use none: the owner has connected none, or `tools` of the request leaves none. Retrying does not help."
    )


def test_a_server_that_is_not_granted_is_denied_with_those_that_are():
    box = Toolbox(servers={f"server-{n}": ServerPolicy() for n in range(500)})
    decision = call(box, server="\x1b[2J'")
    assert decision.code == "tool_not_granted"
    assert "It may use: server-0, server-1" in decision.hint
    assert decision.reason.isprintable()
    assert len(decision.hint) < 500


def test_without_a_rule_what_only_reads_is_allowed_and_all_else_asked_about():
    """H5: the default for unknown side effects."""
    assert call(toolbox(), read_only=True) == Allow(rule="servers.s: read only")
    asked = call(toolbox())
    assert isinstance(asked, Ask)
    assert asked.rule == "servers.s: no rule"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"read_only": True, "destructive": False}, "says that it changes nothing."),
        ({"destructive": False}, "says that it changes something, and destroys nothing."),
        ({}, "says that it changes something, and may destroy."),
    ],
)
def test_a_person_is_told_what_the_server_says_of_the_tool(facts, said):
    """H8."""
    question = call(toolbox(ASK), "delete_\u202erepo", **facts).question
    assert question == f"May a program call 'delete_\\u202erepo' of the server 's'? The server {said}"


@for_each(
    "rule, speaks",
    [
        (ToolRule(action="allow"), True),
        (ToolRule(action="allow", tools=("t",)), True),
        (ToolRule(action="allow", tools=("a", "*t*")), True),
        (ToolRule(action="allow", tools=("T",)), False),
        (ToolRule(action="allow", tools=("t.",)), False),
        (ToolRule(action="allow", read_only=False), True),
        (ToolRule(action="allow", read_only=True), False),
        (ToolRule(action="allow", destructive=True), True),
        (ToolRule(action="allow", destructive=False), False),
        (ToolRule(action="allow", tools=("t",), read_only=True), False),
    ],
)
def test_a_rule_speaks_of_tools_by_name_and_by_what_their_server_says(rule, speaks):
    """H5: `tools`, `read_only`, `destructive`."""
    assert (call(toolbox(rule)) == Allow(rule="servers.s.rules[0]")) is speaks


def test_the_first_rule_that_speaks_of_a_call_decides():
    """H5: `action`."""
    box = toolbox(ToolRule(action="deny", tools=("delete_*",)), ToolRule(action="allow", tools=("*_repo",)), ASK)
    assert call(box, "delete_repo").code == "tool_not_allowed"
    assert call(box, "make_repo") == Allow(rule="servers.s.rules[1]")
    assert call(box, "x").rule == "servers.s.rules[2]"


def test_a_refusal_names_the_rule_and_what_is_allowed():
    box = toolbox(ToolRule(action="deny", arguments=PATH), ToolRule(action="allow", tools=("read_*", "list_*")))
    decision = call(box, path="/ws/a")
    assert decision.reason == "Rule servers.s.rules[0] forbids 't' with these arguments."
    assert decision.hint == (
        "It forbids: any tool with 'path' beneath '/ws'. Allowed may be what it leaves of: read_*|list_*. "
        "Retrying does not help."
    )


@for_each(
    "path, allowed, denied",
    [
        ("/ws/a", True, True),
        ("/etc", False, False),
        ("/ws/../etc", False, True),
        (["/ws/a", "/ws/b"], True, True),
        (["/ws/a", "/etc"], False, True),
        (["/etc"], False, False),
        (7, False, True),
        ({"p": "/ws"}, False, True),
        ([], False, False),
        (None, False, False),
    ],
)
def test_in_doubt_a_rule_that_allows_says_nothing_and_one_that_denies_says_no(path, allowed, denied):
    """H5 T3, P22: every check fails closed; a list is allowed as a whole, and denied for one of its elements."""
    assert isinstance(call(toolbox(ToolRule(action="allow", arguments=PATH), DENY), path=path), Allow) is allowed
    assert isinstance(call(toolbox(ToolRule(action="deny", arguments=PATH), ALLOW), path=path), Deny) is denied


@pytest.mark.parametrize(("after", "decided"), [(ALLOW, Ask), (ASK, Ask), (DENY, Deny)])
def test_in_doubt_a_rule_that_asks_makes_a_person_decide_what_would_have_been_allowed(after, decided):
    box = toolbox(ToolRule(action="ask", arguments=PATH), after)
    decision = call(box, path="/ws/../etc")
    assert type(decision) is decided
    if after is ALLOW:
        assert decision.rule == "servers.s.rules[0]"
    assert isinstance(call(toolbox(ToolRule(action="ask", arguments=PATH)), read_only=True, path=1), Ask)


def test_an_argument_that_is_not_there_meets_no_condition():
    assert isinstance(call(toolbox(ToolRule(action="allow", arguments=PATH), DENY)), Deny)
    assert isinstance(call(toolbox(ToolRule(action="deny", arguments=PATH), ALLOW)), Allow)


def test_urls_go_through_the_address_guard():
    """H5 N4: only to hosts all of whose addresses are public."""
    box = toolbox(ToolRule(action="allow", arguments={"url": Condition(url="public")}), DENY)
    for addresses, decided in (
        ({"a.example": ("93.184.216.34", "2606:4700::1")}, Allow),
        ({"a.example": ("93.184.216.34", "169.254.169.254")}, Deny),
        ({"a.example": ()}, Deny),
        ({}, Deny),
    ):
        assert isinstance(call(box, addresses=addresses, url="https://a.example/"), decided)


PUBLIC = {"url": Condition(url="public")}
FETCH, ASK_FETCH, NO_FETCH = (ToolRule(action=action, arguments=PUBLIC) for action in ("allow", "ask", "deny"))
TO_A = {"url": "https://a.example/"}


@for_each(
    "rules, arguments, looked_up",
    [
        ((FETCH, DENY), TO_A, {"a.example"}),
        ((FETCH,), {"url": ["https://b.example", "https://A.example/", "https://8.8.8.8"]}, {"a.example", "b.example"}),
        ((), TO_A, set()),
        ((ALLOW, FETCH), TO_A, set()),
        ((DENY, FETCH), TO_A, set()),
        ((ASK, FETCH), TO_A, set()),
        ((ASK_FETCH, DENY), TO_A, set()),
        ((ASK_FETCH, FETCH), TO_A, set()),
        ((NO_FETCH, ALLOW), TO_A, set()),
        ((FETCH,), {"url": ["https://a.example", "http://127.0.0.1/"]}, set()),
        ((FETCH,), {"url": ["https://a.example", "file:///etc/passwd"]}, set()),
        ((ToolRule(action="allow", arguments=PUBLIC | PATH),), TO_A, set()),
        ((ToolRule(action="allow", arguments=PUBLIC | PATH),), {**TO_A, "path": "/ws/.."}, set()),
        ((ToolRule(action="allow", arguments=PUBLIC | PATH),), {**TO_A, "path": "/ws/a"}, {"a.example"}),
        ((ToolRule(action="allow", tools=("u",), arguments=PUBLIC),), TO_A, set()),
        ((ToolRule(action="deny", arguments=PATH), FETCH), {**TO_A, "path": "/ws"}, set()),
        ((ToolRule(action="ask", arguments=PATH), FETCH), {**TO_A, "path": 1}, set()),
        ((ToolRule(action="ask", arguments=PATH), FETCH), {**TO_A, "path": "/etc"}, {"a.example"}),
    ],
)
def test_a_host_is_looked_up_only_where_a_rule_would_allow_the_call(rules, arguments, looked_up):
    """H5: a program without a network tells nobody anything by the names that it makes us look up."""
    action = CallTool(server="s", tool="t", arguments=arguments)
    assert hosts_to_look_up(toolbox(*rules), action) == looked_up
    assert not hosts_to_look_up(toolbox(*rules, only=("u",)), action)
    assert not hosts_to_look_up(Toolbox(), action)
    known = action.model_copy(update={"addresses": dict.fromkeys(looked_up, ())})
    assert not hosts_to_look_up(toolbox(*rules), known)


def test_no_resolver_is_flooded():
    many = [f"https://{number}.example/" for number in range(MOST_HOSTS)]
    for urls, number in ((many, MOST_HOSTS), ([*many, "https://more.example"], 0)):
        action = CallTool(server="s", tool="t", arguments={"url": urls})
        assert len(hosts_to_look_up(toolbox(FETCH), action)) == number
        assert len(hosts_to_confirm(toolbox(ASK_FETCH, DENY), action)) == number
        assert isinstance(call(toolbox(ASK_FETCH, DENY), url=urls), Ask if number else Deny)


def test_a_person_is_asked_before_a_host_is_looked_up_and_a_rule_decides_again_after():
    """H5, H8."""
    box, action = toolbox(ASK_FETCH, DENY), CallTool(server="s", tool="t", arguments=TO_A)
    assert isinstance(call(box, **TO_A), Ask)
    assert hosts_to_confirm(box, action) == {"a.example"}
    assert not hosts_to_confirm(toolbox(ALLOW, ASK_FETCH), action)
    assert not hosts_to_confirm(toolbox(DENY, ASK_FETCH), action)
    for addresses, decided in ((("93.184.216.34",), Ask), (("10.0.0.1",), Deny), ((), Deny)):
        assert isinstance(call(box, addresses={"a.example": addresses}, **TO_A), decided)


def test_a_rule_that_denies_takes_a_host_for_a_public_one():
    assert isinstance(call(toolbox(NO_FETCH, ALLOW), **TO_A), Deny)
    assert isinstance(call(toolbox(NO_FETCH, ALLOW), url="http://127.0.0.1/"), Allow)


@pytest.mark.parametrize("rule", [FETCH, ASK_FETCH, ToolRule(action="allow", tools=("t",), arguments=PUBLIC)])
def test_what_a_rule_with_conditions_leaves_of_its_tools_is_asked_about_though_they_only_read(rule):
    """H5: to allow what is public is not to allow what is private as well."""
    for url in ("http://169.254.169.254/latest/", "http://127.0.0.1/", None):
        decision = call(toolbox(rule), read_only=True, url=url)
        assert isinstance(decision, Ask)
        assert decision.rule == "servers.s: no rule"
    assert isinstance(call(toolbox(rule.model_copy(update={"tools": ("u",)})), read_only=True), Allow)
    assert isinstance(call(toolbox(NO_FETCH), read_only=True, url="http://127.0.0.1/"), Allow)


@for_each(
    "rules, visible",
    [
        ((), True),
        ((DENY,), False),
        ((ASK, DENY), True),
        ((ToolRule(action="deny", arguments=PATH),), True),
        ((ToolRule(action="deny", arguments=PATH), DENY), False),
        ((ToolRule(action="allow", arguments=PATH), DENY), True),
        ((ToolRule(action="allow", tools=("x",)), DENY), False),
        ((ToolRule(action="deny", destructive=True),), False),
        ((ToolRule(action="deny", read_only=True),), True),
    ],
)
def test_a_tool_is_shown_unless_no_call_of_it_can_be_allowed(rules, visible):
    """H4 H5: search and stubs are filtered by the same policy."""
    assert is_visible(toolbox(*rules), "s", "t", read_only=False, destructive=True) is visible
    assert not is_visible(toolbox(*rules), "other", "t", read_only=False, destructive=True)
    assert not is_visible(toolbox(*rules, only=("u*",)), "s", "t", read_only=False, destructive=True)


CONDITIONS = st.sampled_from([Condition(equals=1), Condition(prefix="a"), Condition(beneath="/ws")])
RULES = st.builds(
    ToolRule,
    action=st.sampled_from(["allow", "ask", "deny"]),
    tools=st.lists(st.sampled_from(["a*", "ab", "*b", "c"]), max_size=2).map(tuple),
    read_only=st.none() | st.booleans(),
    destructive=st.none() | st.booleans(),
    arguments=st.dictionaries(
        st.just("x"),
        st.sampled_from([Condition(equals=1), Condition(prefix="a"), Condition(beneath="/ws")]),
        max_size=1,
    ),
)
BOXES = st.builds(
    Toolbox,
    servers=st.dictionaries(
        st.sampled_from(["s", "s.a", "my-server"]),
        st.builds(ServerPolicy, rules=st.lists(RULES, max_size=4).map(tuple)),
        max_size=3,
    ),
)
CALLS = st.builds(
    CallTool,
    server=st.sampled_from(["s", "s.a", "my-server"]),
    tool=st.sampled_from(["a", "ab", "b", "c", "a-b"]),
    read_only=st.booleans(),
    destructive=st.booleans(),
    arguments=st.dictionaries(st.just("x"), st.sampled_from([1, "1", True, "a", "/ws/a", "/ws/..", ["a", "b"], None])),
)
ASKED = st.lists(
    st.sampled_from(
        ["s/a", "s/*", "*/a*", "s", "*", "s.a", "s.a.b", "mcp__s__ab", "mcp__my_server__*", "my_server.a_b", "mcp__s"]
    ),
    max_size=3,
).map(tuple)
STRICT = {Deny: 0, Ask: 1, Allow: 2}


def asking(box: Toolbox, *tools: str) -> Toolbox:
    return grant_for(Policy(), Egress(), Request(language="python", code="", tools=tools), toolbox=box).toolbox


@given(box=BOXES, action=CALLS, tools=ASKED)
def test_a_request_never_gets_more_than_the_policy(box, action, tools):
    """T1 H5, P22: a request may name fewer tools, never more."""
    try:
        narrow = asking(box, *tools)
    except Denied:
        return  # it gets nothing
    before, after = decide(Grant(toolbox=box), action), decide(Grant(toolbox=narrow), action)
    assert after == before or (isinstance(after, Deny) and after.code == "tool_not_granted")
    assert read_value(Toolbox, narrow.model_dump()) == narrow


@given(box=BOXES, action=CALLS)
def test_what_is_not_visible_is_denied_and_what_may_be_allowed_is_visible(box, action):
    seen = is_visible(box, action.server, action.tool, action.read_only, action.destructive)
    assert seen or isinstance(decide(Grant(toolbox=box), action), Deny)


@given(box=BOXES, action=CALLS, rule=RULES)
def test_one_more_rule_that_denies_never_allows_more(box, action, rule):
    stricter = Toolbox(
        servers={
            name: ServerPolicy(rules=(rule.model_copy(update={"action": "deny"}), *policy.rules))
            for name, policy in box.servers.items()
        }
    )
    assert STRICT[type(decide(Grant(toolbox=stricter), action))] <= STRICT[type(decide(Grant(toolbox=box), action))]


BOX = Toolbox(servers={name: ServerPolicy(rules=(ALLOW,)) for name in ("github", "my-files", "a", "a.b", "x__y")})


@for_each(
    "pattern, meant",
    [
        ("github/create_issue", {"github": ("create_issue",)}),
        ("github/*", {"github": ("*",)}),
        ("github", {"github": ("*",)}),
        ("git*", {"github": ("*",)}),
        ("github.create_issue", {"github": ("create_issue",)}),
        ("mcp__github__create_issue", {"github": ("create_issue",)}),
        ("mcp__github__*", {"github": ("*",)}),
        ("mcp__github", {"github": ("*",)}),
        ("mcp__my_files__read", {"my-files": ("read",)}),
        ("my_files.read", {"my-files": ("read",)}),
        ("mcp__x__y__z", {"x__y": ("z",)}),
        ("github/_private", {"github": ("_private",)}),
        ("github/a/b", {"github": ("a/b",)}),
        ("a.b.c", {"a": ("b.c",), "a.b": ("c",)}),
        ("*/read", dict.fromkeys(BOX.servers, ("read",))),
    ],
)
def test_the_tools_of_a_request_may_be_written_as_they_are_anywhere(pattern, meant):
    """H2 H5: `server/tool`, `server.tool`, `mcp__server__tool`."""
    narrow = asking(BOX, pattern, pattern)
    assert {name: policy.only for name, policy in narrow.servers.items()} == meant
    assert all(policy.rules == (ALLOW,) for policy in narrow.servers.values())


@for_each("pattern", ["gitlab/x", "git", "github/", "mcp__", "mcp__github__", "/", ".", "*read", "GITHUB/x"])
def test_a_pattern_that_means_no_server_is_denied_with_those_that_there_are(pattern):
    with pytest.raises(Denied) as caught:
        asking(BOX, "github/x", pattern)
    assert caught.value.code == "unknown_tool"
    assert "There are the servers a, a.b, github, my-files, x__y." in caught.value.hint
    with pytest.raises(Denied, match="There are none"):
        asking(Toolbox(), pattern)


def test_a_request_that_names_no_tools_gets_all_and_one_that_names_an_empty_list_none():
    """T1."""
    request = Request(language="python", code="")
    assert grant_for(Policy(), Egress(), request, toolbox=BOX).toolbox is BOX
    assert asking(BOX) == Toolbox()


def test_what_was_not_asked_for_is_denied_whatever_the_rules_say():
    narrow = asking(BOX, "github/create_*", "my_files.read_file")
    assert isinstance(call(narrow, "create_issue", server="github"), Allow)
    assert isinstance(call(narrow, "read-file", server="my-files"), Allow)  # as programs spell it
    decision = call(narrow, "delete", server="github")
    assert decision.code == "tool_not_granted"
    assert decision.hint == "It asked for: create_*. Name the tool in the request."
    assert call(narrow, "x", server="a").code == "tool_not_granted"


def test_servers_that_are_not_active_are_not_there():
    """H5: `active`, `rules`."""
    servers = {"on": Server(command=("x",), rules=(DENY,)), "off": Server(command=("x",), active=False)}
    assert toolbox_of(servers) == Toolbox(servers={"on": ServerPolicy(rules=(DENY,))})
