"""What may be done with which tool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import Denied
from gloveport.model import Allow, Ask, Deny, Grant, Policy, Request
from gloveport.model.egress import Egress
from gloveport.model.hub import CallTool, Condition, Server, ServerPolicy, Toolbox, ToolRule
from gloveport.policy import decide, grant_for
from gloveport.policy.tools import MOST_HOSTS, hosts_to_look_up, is_visible, toolbox_of


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
    assert decision.hint == "There is none. Retrying does not help."


def test_a_server_that_is_not_granted_is_denied_with_those_that_are():
    box = Toolbox(servers={f"server-{n}": ServerPolicy() for n in range(500)})
    decision = call(box, server="\x1b[2J'")
    assert decision.code == "tool_not_granted"
    assert "There are: server-0, server-1" in decision.hint
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


@pytest.mark.parametrize(
    ("rule", "speaks"),
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


@pytest.mark.parametrize(
    ("path", "allowed", "denied"),
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


def test_only_hosts_are_looked_up_that_a_rule_asks_about():
    """H5: a program can't make the host resolve whatever it likes."""
    rule = ToolRule(action="allow", tools=("fetch*",), arguments={"in.url": Condition(url="public"), "x": PATH["path"]})
    box = toolbox(ALLOW, rule)
    arguments = {"in": {"url": ["https://b.example", "https://A.example/"]}, "x": "https://c.example"}
    assert hosts_to_look_up(box, "s", "fetch_page", arguments) == {"a.example", "b.example"}
    assert not hosts_to_look_up(box, "s", "read", arguments)
    assert not hosts_to_look_up(box, "other", "fetch_page", arguments)
    many = [f"https://{n}.example/" for n in range(MOST_HOSTS)]
    assert len(hosts_to_look_up(box, "s", "fetch", {"in": {"url": many}})) == MOST_HOSTS
    assert not hosts_to_look_up(box, "s", "fetch", {"in": {"url": [*many, "https://more.example"]}})


@pytest.mark.parametrize(
    ("rules", "visible"),
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
    assert Toolbox.model_validate(narrow.model_dump()) == narrow


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


@pytest.mark.parametrize(
    ("pattern", "meant"),
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


@pytest.mark.parametrize(
    "pattern", ["gitlab/x", "git", "github/", "mcp__", "mcp__github__", "/", ".", "*read", "GITHUB/x"]
)
def test_a_pattern_that_means_no_server_is_denied_with_those_that_there_are(pattern):
    with pytest.raises(Denied) as caught:
        asking(BOX, "github/x", pattern)
    assert caught.value.code == "unknown_tool"
    assert "Servers: There are: a, a.b, github, my-files, x__y." in caught.value.hint
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
