"""Whether conditions on arguments are met."""

import time

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.model.hub import CallTool, Condition
from gloveport.model.json_value import JsonValue
from gloveport.policy.decisions.conditions import Met, hosts_of, in_words, weigh_conditions

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
PUBLIC = {"a.example": ("93.184.216.34",), "both.example": ("93.184.216.34", "10.0.0.1"), "in.example": ("127.0.0.1",)}


def outcome(condition, path="x", addresses=PUBLIC, **arguments: JsonValue):
    action = CallTool(server="s", tool="t", arguments=arguments, addresses=addresses)
    return weigh_conditions({path: condition}, action)


def test_without_conditions_they_are_met():
    assert weigh_conditions({}, CallTool(server="s", tool="t", arguments={})) is Met.YES


def test_several_conditions_are_met_as_far_as_the_least_of_them():
    both = {"x": Condition(prefix="a"), "y": Condition(prefix="b")}
    for x, y, said in (("a", "b", Met.YES), ("a", 1, Met.PERHAPS), (1, "c", Met.NO), ("a", None, Met.NO)):
        assert weigh_conditions(both, CallTool(server="s", tool="t", arguments={"x": x, "y": y})) is said


TEXTS = (
    Condition(equals="a"),
    Condition(one_of=("a", "b")),
    Condition(prefix="a"),
    Condition(pattern="a+"),
    Condition(beneath="/a"),
    Condition(url="public"),
)


@for_each("condition", TEXTS)
def test_what_is_not_there_meets_none_and_what_has_another_type_perhaps(condition):
    """H5, P22: a server may read 1 as "1" and take what it needs out of an object."""
    assert outcome(condition) is Met.NO
    for nothing in (None, [], [[]], [None]):
        assert outcome(condition, x=nothing) is Met.NO
    for other in (1, 0.5, False, {}, {"path": "a"}, [1], [{"path": "a"}]):
        assert outcome(condition, x=other) is Met.PERHAPS


def test_a_condition_of_which_nothing_is_set_is_never_surely_met():
    assert outcome(Condition(), x="a") is Met.PERHAPS


@for_each(
    "expected, value, said",
    [
        (True, True, Met.YES),
        (True, 1, Met.PERHAPS),
        (True, "true", Met.PERHAPS),
        (1, True, Met.PERHAPS),
        (1, 1.0, Met.YES),
        (1, 2, Met.NO),
        (1, 1.5, Met.PERHAPS),
        (2**60, 2**60 + 1, Met.PERHAPS),
        (2**60, float(2**60 + 1024), Met.NO),
        (2**60, 2**61, Met.NO),
        (10**400, 0.5, Met.NO),
        (0, False, Met.PERHAPS),
        (False, False, Met.YES),
        ("1", 1, Met.PERHAPS),
        ("a", "A", Met.NO),
        ("a", ["a", "a"], Met.YES),
        ("a", ["a", "b"], Met.PERHAPS),
        ("a", ["b"], Met.NO),
        (["a"], ["a"], Met.YES),
        (["a"], ["b"], Met.NO),
        (["a"], "a", Met.PERHAPS),
        ([True], [1], Met.NO),
        ({"a": 1}, {"a": 1.0}, Met.YES),
        ({"a": 1}, {"a": True}, Met.NO),
        ({"a": 1}, {"a": 1, "b": 2}, Met.NO),
        ({}, [], Met.NO),
    ],
)
def test_equality_is_that_of_json(expected, value, said):
    """H5: `equals`."""
    assert outcome(Condition(equals=expected), x=value) is said
    assert outcome(Condition(one_of=(expected,)), x=value) is said


@given(value=JSON)
def test_every_value_equals_itself(value):
    assert outcome(Condition(one_of=(value,)), x=value) is Met.YES


def test_one_of_several_values():
    """H5: `one_of`."""
    condition = Condition(one_of=("a", "b"))
    assert outcome(condition, x="b") is Met.YES
    assert outcome(condition, x=["a", "b"]) is Met.YES
    assert outcome(condition, x="c") is Met.NO
    assert outcome(Condition(one_of=("a", 1)), x="1") is Met.PERHAPS


def test_text_that_begins_so():
    """H5: `prefix`."""
    assert outcome(Condition(prefix="repo/"), x="repo/a") is Met.YES
    assert outcome(Condition(prefix="repo/"), x="my repo/a") is Met.NO


HIDDEN = ("{}\n", " {}", "\n{}", "{}\u00a0", "\u200b{}", "{}\x00", "\u202e{}", "{}\u2028", "\ufeff{}", "{}\r\nx")
IGNORED = tuple(
    f"{{}}{one}" for one in "\ufe0f\u115f\u3164\u034f\u1160\u17b4\u180b\u00ad\u061c\u2064\uffa0\u2800\U000e0100"
)


@for_each("condition", [Condition(equals="rm -r"), Condition(one_of=("a", "rm -r")), Condition(pattern="rm .*")])
@for_each("form", HIDDEN + IGNORED)
def test_a_text_that_a_server_may_clean_is_in_doubt(condition, form):
    """H5, P22: no rule is walked around by an end of a line, a space or a character that nobody sees."""
    assert outcome(condition, x="rm -r") is Met.YES
    assert outcome(condition, x=form.format("rm -r")) is not Met.NO
    assert outcome(condition, x=[form.format("rm -r")]) is not Met.NO
    assert outcome(condition, x="ls -r") is Met.NO


def test_doubt_goes_into_what_is_nested_and_a_prefix_is_no_exception():
    assert outcome(Condition(prefix="rm "), x="\u200brm -r") is Met.PERHAPS
    assert outcome(Condition(equals=["main"]), x=["main\n"]) is Met.PERHAPS
    assert outcome(Condition(equals={"a": "main"}), x={"a": "ma\u200bin"}) is Met.PERHAPS
    assert outcome(Condition(equals={"a": "main"}), x={"a ": "main"}) is Met.PERHAPS
    assert outcome(Condition(equals={"a": "main"}), x={"a": "other"}) is Met.NO


@for_each(
    "pattern, text, said",
    [
        ("a|b", "b", Met.YES),
        ("a|b", "ab", Met.NO),
        ("a|b", "b\n", Met.PERHAPS),
        ("a|b", "x\nb", Met.PERHAPS),
        (".", "\n", Met.PERHAPS),
        ("[^/]*", "a\n", Met.YES),
        ("a)|(?:.*", "x", Met.PERHAPS),
        ("(", "(", Met.PERHAPS),
        ("(?=a)a", "a", Met.PERHAPS),
        (r"(a)\1", "aa", Met.PERHAPS),
        ("(?:a{1000}){1000}", "a", Met.PERHAPS),
        (".*", "\ud800", Met.PERHAPS),
        (".*", "a" * ((1 << 20) + 1), Met.PERHAPS),
    ],
)
def test_an_expression_matches_the_whole_text_or_not_at_all(pattern, text, said):
    """H5: `pattern`; an expression that is none says nothing for sure."""
    assert outcome(Condition(pattern=pattern), x=text) is said


def test_no_text_makes_an_expression_slow():
    """H5: linear time, whatever expression the operator wrote."""
    began = time.monotonic()
    assert outcome(Condition(pattern="(a+)+(a|aa)*b"), x="a" * 1_000_000) is Met.NO
    assert time.monotonic() - began < 10


@for_each(
    "path, said",
    [
        ("/ws", Met.YES),
        ("/ws/", Met.YES),
        ("/ws/a/b.txt", Met.YES),
        ("/ws/..a/.b/c~", Met.YES),
        ("/wsx", Met.NO),
        ("/", Met.NO),
        ("/etc/passwd", Met.NO),
        ("/WS/a", Met.NO),
        ("", Met.PERHAPS),
        ("ws/a", Met.PERHAPS),
        ("a", Met.PERHAPS),
        ("~/a", Met.PERHAPS),
        ("file:///ws/a", Met.PERHAPS),
        ("//ws/a", Met.PERHAPS),
        ("/ws//a", Met.PERHAPS),
        ("/ws/.", Met.PERHAPS),
        ("/ws/./a", Met.PERHAPS),
        ("/ws/..", Met.PERHAPS),
        ("/ws/../etc", Met.PERHAPS),
        ("/etc/../ws", Met.PERHAPS),
        ("/ws/.. /etc", Met.PERHAPS),
        ("/ws/~root", Met.PERHAPS),
        ("/ws/a\x00", Met.PERHAPS),
        ("/ws/a\n", Met.PERHAPS),
        ("/ws\\..\\etc", Met.PERHAPS),
        ("/ws/%2e%2e/etc", Met.PERHAPS),
        ("/ws/%2E./etc", Met.PERHAPS),
        ("/ws/..%2fetc", Met.PERHAPS),
        ("/ws/%252e%252e/etc", Met.PERHAPS),
        ("/ws/..;/etc", Met.PERHAPS),
        ("/etc ", Met.PERHAPS),
        ("/ws/..\u00a0/etc", Met.PERHAPS),
        ("/ws/\u3000../etc", Met.PERHAPS),
        ("/ws/\u2024\u2024/etc", Met.PERHAPS),
        ("/ws/\u2025/etc", Met.PERHAPS),
        ("/ws/\uff0e\uff0e/etc", Met.PERHAPS),
        ("/ws/..\uff0fetc", Met.PERHAPS),
        ("/ws/..\u2215etc", Met.PERHAPS),
        ("/ws/..\uff3cetc", Met.PERHAPS),
        ("/ws/.\u200b./etc", Met.PERHAPS),
        ("/ws/.\ufe0f./etc", Met.PERHAPS),
        ("/ws/..\ufe0f/etc", Met.PERHAPS),
        ("/ws/..\u115f/etc", Met.PERHAPS),
        ("/ws/" + "a" * 9000, Met.PERHAPS),
        ("/ws/\u00e9t\u00e9 \u6587.txt", Met.YES),
    ],
)
def test_a_path_is_beneath_a_directory_only_in_the_plainest_spelling(path, said):
    """H5, P22: `beneath`."""
    assert outcome(Condition(beneath="/ws"), x=path) is said
    assert outcome(Condition(beneath="/ws/"), x=path) is said


def test_everything_absolute_is_beneath_the_root_and_nothing_beneath_a_directory_that_is_none():
    assert outcome(Condition(beneath="/"), x="/a/b") is Met.YES
    assert outcome(Condition(beneath="/"), x="/a/../b") is Met.PERHAPS
    assert outcome(Condition(beneath="/a/../b"), x="/b") is Met.PERHAPS


@for_each(
    "url, said",
    [
        ("https://a.example/x?y#z", Met.YES),
        ("http://a.example", Met.YES),
        ("http://A.Example:8080/", Met.YES),
        ("https://a.example./", Met.YES),
        ("https://8.8.8.8/", Met.YES),
        ("https://[2606:4700::1]:443/", Met.YES),
        ("https://in.example/", Met.NO),
        ("http://127.0.0.1/", Met.NO),
        ("http://169.254.169.254/latest/meta-data", Met.NO),
        ("http://100.64.0.1/", Met.NO),
        ("http://[::1]/", Met.NO),
        ("http://[::ffff:10.0.0.1]/", Met.NO),
        ("http://[64:ff9b::a00:1]/", Met.NO),
        ("https://both.example/", Met.PERHAPS),
        ("https://unknown.example/", Met.PERHAPS),
        ("http://127.1/", Met.PERHAPS),
        ("http://0x7f.1/", Met.PERHAPS),
        ("http://2130706433/", Met.PERHAPS),
        ("http://0177.0.0.1/", Met.PERHAPS),
        ("http://a.example@127.0.0.1/", Met.PERHAPS),
        ("http://127.0.0.1#@a.example/", Met.PERHAPS),
        ("http://a.example?@127.0.0.1/", Met.PERHAPS),
        ("http://a.example\\@127.0.0.1/", Met.PERHAPS),
        ("http://a.example/\\..", Met.PERHAPS),
        (" http://a.example/", Met.PERHAPS),
        ("http://a.example/ x", Met.PERHAPS),
        ("http://a.example\t.evil/", Met.PERHAPS),
        ("http:\n//a.example/", Met.PERHAPS),
        ("http:/a.example/", Met.PERHAPS),
        ("//a.example/", Met.PERHAPS),
        ("a.example", Met.PERHAPS),
        ("HTTP://a.example/", Met.PERHAPS),
        ("file:///etc/passwd", Met.PERHAPS),
        ("ftp://a.example/", Met.PERHAPS),
        ("gopher://127.0.0.1:6379/_x", Met.PERHAPS),
        ("http://\uff41.example/", Met.PERHAPS),
        ("http://a\u3002example/", Met.PERHAPS),
        ("http://[fe80::1%25eth0]/", Met.PERHAPS),
        ("http://a.example:/", Met.PERHAPS),
        ("http://a.example/" + "a" * 9000, Met.PERHAPS),
        ("", Met.PERHAPS),
    ],
)
def test_a_url_is_public_when_every_parser_reads_it_alike_and_every_address_is_global(url, said):
    """H5 N4, P22: `url`."""
    assert outcome(Condition(url="public"), x=url) is said


def test_a_host_that_nobody_has_looked_up_may_be_taken_for_a_public_one():
    """H5: one that was, and has no address, may not."""
    action = CallTool(server="s", tool="t", arguments={"x": "https://a.example/"})
    looked = action.model_copy(update={"addresses": {"a.example": ()}})
    condition = {"x": Condition(url="public")}
    assert weigh_conditions(condition, action) is Met.PERHAPS
    assert weigh_conditions(condition, action, unknown=Met.YES) is Met.YES
    assert weigh_conditions(condition, looked, unknown=Met.YES) is Met.PERHAPS


def test_a_host_without_addresses_is_not_known_to_be_public():
    for addresses in ({}, {"a.example": ()}, {"a.example": ("no address",)}):
        assert outcome(Condition(url="public"), addresses=addresses, x="https://a.example/") is Met.PERHAPS


@for_each(
    "condition, element",
    [
        (Condition(url="public"), "https://a.example/"),
        (Condition(prefix="a"), "a"),
        (Condition(equals="b"), "a"),
        (Condition(beneath="/ws"), "/ws/a"),
        (Condition(pattern="a*"), "aaa"),
    ],
)
def test_of_more_than_can_be_looked_at_nobody_can_tell(condition, element):
    """190,000 URLs took 2 s of everybody's time. What is refused so is what no call needs: the stricter reading."""
    few, many = [element] * 100, [element] * 10_001
    assert outcome(condition, x=few) is not Met.PERHAPS
    assert outcome(condition, x=many) is Met.PERHAPS
    assert outcome(condition, x=[[element] * 100] * 101) is Met.PERHAPS
    assert outcome(condition, path="x.y", x=[{"y": element}] * 10_001) is Met.PERHAPS
    assert outcome(condition, x=[element, "y" * (1 << 20)]) is Met.PERHAPS
    assert outcome(condition, x=[{"y" * (1 << 20): element}]) is Met.PERHAPS


def test_no_host_is_looked_for_among_more_than_can_be_looked_at():
    assert not [*hosts_of("x", {"x": ["https://a.example/"] * 10_001})]
    assert {*hosts_of("x", {"x": ["https://a.example/"] * 1000})} == {"a.example"}


def test_a_list_meets_a_condition_as_its_elements_do():
    condition = Condition(beneath="/ws")
    assert outcome(condition, x=["/ws/a", ["/ws/b"]]) is Met.YES
    assert outcome(condition, x=["/etc/a", "/etc/b"]) is Met.NO
    assert outcome(condition, x=["/ws/a", "/etc/b"]) is Met.PERHAPS
    assert outcome(condition, x=["/ws/a", None]) is Met.PERHAPS


def test_a_path_leads_into_objects_and_through_lists():
    """H5: `a.b` is a member of an object."""
    condition = Condition(equals=1)
    assert outcome(condition, "a.b", a={"b": 1}) is Met.YES
    assert outcome(condition, "a.b", a={"b": 2}) is Met.NO
    assert outcome(condition, "a.b", a={"c": 1}) is Met.NO
    assert outcome(condition, "a.b", a=[{"b": 1}, {"b": 1}]) is Met.YES
    assert outcome(condition, "a.b", a=[{"b": 1}, {"b": 2}]) is Met.PERHAPS
    assert outcome(condition, "a.b", a=[{"b": 1}, {}]) is Met.PERHAPS
    assert outcome(condition, "a.b.c", a={"b": {"c": 1}}) is Met.YES


def test_what_should_be_an_object_and_is_none_may_be_read_as_one():
    for value in ('{"b": 1}', 1, True):
        assert outcome(Condition(equals=1), "a.b", a=value) is Met.PERHAPS
    assert outcome(Condition(equals=1), "a.b", a=None) is Met.NO


def test_a_name_that_a_server_may_take_for_the_one_of_a_condition_is_in_doubt():
    """H5, P22: decoders of Go, Java and C# ignore the case of names, and the last of two members counts."""
    condition = Condition(equals="dev")
    for name in ("Branch_Name", "branchName", "branch-name", "BRANCH_NAME", "\uff42ranch_name", "branch_name\u200b"):
        assert outcome(condition, "branch_name", **{name: "main"}) is Met.PERHAPS
        assert outcome(condition, "branch_name", branch_name="dev", **{name: "main"}) is Met.PERHAPS
        assert outcome(condition, "to.branch_name", to={"branch_name": "dev", name: "main"}) is Met.PERHAPS
    assert outcome(condition, "to.branch_name", to={"branch_name": "dev"}, To={"branch_name": "main"}) is Met.PERHAPS
    assert outcome(condition, "branch_name", branch_name="dev", branch="main", names="main") is Met.YES


def test_a_name_too_long_to_be_compared_is_in_doubt():
    """To normalize "a" and half a million accents takes minutes, in which no other thread of the server runs."""
    condition = Condition(equals="dev")
    assert outcome(condition, "branch", branch="dev", **{"x" * 256: 1}) is Met.YES
    for name in ("x" * 257, "branch" + "\u200b" * 300, "a" + "\u0300\u0316" * 250_000):
        assert outcome(condition, "branch", branch="dev", **{name: "main"}) is Met.PERHAPS


def test_a_dot_in_a_name_hides_nothing():
    condition = Condition(equals=1)
    assert outcome(condition, "a.b", **{"a.b": 1}) is Met.YES
    assert outcome(condition, "a.b", **{"a.b": 2, "a": {"b": 1}}) is Met.PERHAPS
    assert outcome(condition, "a.b.c", **{"a.b": {"c": 1}}) is Met.YES
    assert outcome(condition, "a.b.c", a={"b.c": 1}) is Met.YES


def test_the_names_of_hosts_are_found_in_every_url_of_an_argument():
    arguments: dict[str, JsonValue] = {
        "x": [{"u": "https://B.example/"}, {"u": ["http://a.example", "http://10.0.0.1/", "no", 1, None]}, "y", 2]
    }
    assert sorted(hosts_of("x.u", arguments)) == ["a.example", "b.example"]
    assert not [*hosts_of("y", arguments)]


@given(
    condition=st.sampled_from(
        [
            Condition(equals=[1]),
            Condition(prefix="a"),
            Condition(pattern="a"),
            Condition(beneath="/"),
            Condition(url="public"),
        ]
    ),
    path=st.sampled_from(["a", "a.b", "a.b.c", ".", ""]),
    arguments=st.dictionaries(st.sampled_from(["a", "b", "a.b", ""]), JSON, max_size=3),
)
def test_whatever_is_sent_gets_an_answer(condition, path, arguments):
    assert outcome(condition, path, **arguments) in Met


def test_a_condition_is_told_in_a_bounded_number_of_words():
    assert in_words(Condition(beneath="/ws")) == "beneath '/ws'"
    assert in_words(Condition(equals=False)) == "equal to 'False'"
    assert in_words(Condition(url="public")) == "a URL that is 'public'"
    assert len(in_words(Condition(one_of=tuple("x" * 1000 for _ in range(256))))) < 200
