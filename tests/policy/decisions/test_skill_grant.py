"""What a skill's grant is learned from, and what it lets through: never more than both it and the policy do."""

from gloveport.model import Allow, Ask, Deny, Execute, Grant, Mount
from gloveport.model.egress import Api, Connect, Egress, Fetch, Rule
from gloveport.model.hub import CallTool, Sample, Sampling, ServerPolicy, Toolbox
from gloveport.model.skill import GrantedRequests, SkillGrant, SkillRights
from gloveport.policy.decisions.decide import decide
from gloveport.policy.decisions.grant import restrict_to_skill
from gloveport.policy.decisions.skill_grant import decide_for_skill, learn_grant, sample_actions, used_right


def fetch(method="GET", host="api.example", path="/reports/11", port=443):
    return Fetch(method=method, scheme="https", host=host, port=port, path=path)


def call(tool="list", server="shop"):
    return CallTool(server=server, tool=tool, arguments={"secret": "x"})


DID = (
    fetch(),
    fetch(path="/reports/11/total"),
    fetch("POST", path="/reports/11"),
    fetch(host="other.example", port=8443, path="/a*b"),
    Connect(scheme="postgres", host="db.example", port=5432, database="orders"),
    call(),
    call("look"),
    Sample(model="m", prompt_bytes=1, max_tokens=1),
)
USED = {right for action in DID if (right := used_right(action)) is not None}
RUN = {"language": "python", "code_bytes": 1, "code_sha256": ""}
LEARNED = learn_grant(USED, {"month": 11, "name": "x/y"}, ["/data", "/other"], "open('/data/x')")


def test_a_grant_is_learned_from_what_was_done_and_arguments_in_paths_may_be_others():
    assert (
        SkillGrant(
            requests=(
                GrantedRequests(place="api.example", methods=("GET",), paths=("/reports/*/total",)),
                GrantedRequests(place="api.example", methods=("GET", "POST"), paths=("/reports/*",)),
                GrantedRequests(place="other.example:8443", methods=("GET",), paths=("/a%2Ab",)),
            ),
            connections=("postgres://db.example:5432/orders",),
            tools=("shop/list", "shop/look"),
            mounts=("/data",),
            sampling=True,
        )
        == LEARNED
    )
    assert learn_grant(set(), {}, [], "") == SkillGrant()
    many = {used_right(fetch(path=f"/items/{number}/x")) for number in range(40)}
    assert learn_grant(many, {}, [], "").requests[0].paths == ("/items/**",)


def test_an_approver_is_told_of_actions_that_the_skill_may_do_and_no_others():
    """S2: of each the policy says which rule lets it through."""
    samples = dict(sample_actions(LEARNED, {"shop/look": (True, False)}))
    assert {used_right(one).kind for one in samples.values()} == {right.kind for right in USED}
    rights = SkillRights(name="report", sha256="", grant=LEARNED)
    assert [one for one in samples.values() if decide_for_skill(rights, one) is not None] == []
    assert (samples["call shop/look"].read_only, samples["call shop/list"].destructive) == (True, True)
    odd = SkillGrant(
        requests=(GrantedRequests(place="tcp://db.example:1", methods=("GET",), paths=("/",)),),
        connections=("nonsense", "https://api.example", "redis://db.example", "redis://[::1]:6379"),
    )
    assert [one and one.host for _, one in sample_actions(odd, {})] == [None, None, None, None, "::1"]


def granted(grant=LEARNED, *, without_asking=False):
    whole = Grant(
        languages=frozenset({"python"}),
        egress=Egress(
            apis={
                "api": Api(
                    hosts=("api.example", "*.api.example"),
                    rules=(Rule(action="ask", methods=("POST",)), Rule(action="allow")),
                )
            }
        ),
        toolbox=Toolbox(servers={"shop": ServerPolicy(), "bank": ServerPolicy()}),
        sampling=Sampling(enabled=True),
        mounts=(Mount(source="/a", target="/data"), Mount(source="/b", target="/other")),
    )
    rights = SkillRights(name="s", sha256="x", grant=grant, without_asking=without_asking)
    return restrict_to_skill(whole, rights)


def test_what_the_run_did_not_do_is_refused_whatever_the_policy_says():
    grant = granted()
    assert isinstance(decide(grant, fetch(path="/reports/12")), Allow)
    for beyond in (
        fetch("DELETE"),
        fetch(path="/reports"),
        fetch(path="/reports/1/2"),
        fetch(path="/reports/..%2fsecret"),
        fetch(path="/reports/../secret"),
        fetch(host="x.api.example"),
        fetch(port=444),
        Connect(host="api.example", port=443),
        call("destroy"),
        call(server="bank"),
    ):
        decision = decide(grant, beyond)
        assert isinstance(decision, Deny), beyond
        assert decision.code == "not_of_this_skill", beyond
    assert grant.toolbox.servers.keys() == {"shop"}
    assert [mount.target for mount in grant.mounts] == ["/data"]
    assert granted(SkillGrant()).sampling == Sampling()
    assert isinstance(decide(grant, Execute(**RUN, skill="s", skill_sha256="x")), Allow)
    assert isinstance(decide(grant, Execute(language="shell", code_bytes=1, code_sha256="")), Deny)


def test_what_the_policy_refuses_is_refused_though_the_run_did_it():
    decision = decide(granted(without_asking=True), fetch(host="other.example", port=8443, path="/a*b"))
    assert isinstance(decision, Deny)
    assert decision.code == "host_not_granted"


def test_what_a_rule_asks_about_is_asked_unless_the_approver_said_yes_to_it():
    asked = fetch("POST")
    assert isinstance(decide(granted(), asked), Ask)
    allowed = decide(granted(without_asking=True), asked)
    assert isinstance(allowed, Allow)
    assert allowed.rule == "api.api.rules[0], approved with the skill s"
    assert isinstance(decide(granted(without_asking=True), fetch("POST", path="/else")), Deny)


def test_a_skill_that_another_has_called_may_do_what_both_may():
    inner = SkillRights(name="inner", sha256="y", grant=LEARNED, without_asking=True)
    outer = LEARNED.model_copy(update={"tools": ("shop/list",), "sampling": False, "skills": ("inner",)})
    for without_asking, asks in ((False, Ask), (True, Allow)):
        both = restrict_to_skill(granted(outer, without_asking=without_asking), inner)
        assert isinstance(decide(both, fetch()), Allow)
        assert isinstance(decide(both, fetch("POST")), asks), "both approvers have to have said so"
        for beyond in (call("look"), call(server="bank"), Sample(model="m", prompt_bytes=1, max_tokens=1)):
            assert isinstance(decide(both, beyond), Deny), beyond
        assert set(both.toolbox.servers["shop"].only or ()) == {"list"}


def test_a_skill_calls_itself_as_it_was_approved_and_others_that_are_approved():
    def run(name, sha256, *, approved=True):
        return Execute(**RUN, skill=name, skill_sha256=sha256, approved=approved, parent="r")

    grant = granted(LEARNED.model_copy(update={"skills": ("other",)}))
    for action in (run("s", "x"), run("other", "any")):
        assert isinstance(decide(grant, action), Allow), action
    for action in (run("s", "changed"), run("other", "any", approved=False), run("third", "any"), run("", "")):
        assert isinstance(decide(grant, action), Deny), action
    assert learn_grant({used_right(run("other", "any"))}, {}, [], "").skills == ("other",)
    assert used_right(run("other", "any").model_copy(update={"parent": ""})) is None
