"""What a request gets: never more than the policy, in any field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import Denied
from gloveport.model import LANGUAGES, Grant, Limits, Mount, Narrowing, Policy, Request
from gloveport.model.egress import Api, Egress, Rule
from gloveport.model.hub import Sampling
from gloveport.model.reading import read_value
from gloveport.model.value import fields_of
from gloveport.policy.decisions.grant import grant_for, retain_unchanged

SECONDS = st.floats(min_value=0.001, max_value=86_400)
SIZES = st.integers(min_value=256, max_value=1 << 40)
LARGE = st.integers(min_value=32 << 20, max_value=1 << 40)
LIMITS = st.builds(
    Limits,
    wall_seconds=SECONDS,
    cpu_seconds=SECONDS,
    cpus=st.floats(min_value=0.01, max_value=1024),
    memory_bytes=LARGE,
    processes=st.integers(8, 4096),
    open_files=st.integers(32, 65_536),
    file_bytes=LARGE,
    scratch_bytes=LARGE,
    output_bytes=SIZES,
    stored_output_bytes=SIZES,
    code_bytes=SIZES,
)
NARROWINGS = st.builds(
    Narrowing,
    wall_seconds=st.none() | SECONDS,
    cpu_seconds=st.none() | SECONDS,
    memory_bytes=st.none() | LARGE,
    processes=st.none() | st.integers(8, 1 << 40),
    open_files=st.none() | st.integers(32, 1 << 40),
    file_bytes=st.none() | LARGE,
    scratch_bytes=st.none() | LARGE,
    output_bytes=st.none() | SIZES,
)
PATHS = st.from_regex(r"/[a-z]{1,4}", fullmatch=True)
POLICIES = st.builds(
    Policy,
    languages=st.frozensets(st.sampled_from(LANGUAGES)),
    mounts=st.lists(st.builds(Mount, source=PATHS, target=PATHS), max_size=3).map(tuple),
    unix_sockets=st.booleans(),
    ptrace=st.booleans(),
    default_wall_seconds=SECONDS,
    limits=LIMITS,
)
APIS = st.builds(Api, hosts=st.sampled_from([("a.example",), ("b.example", "*.example.com")]), active=st.booleans())
NAMES = st.sampled_from(["one", "two", "three"])
EGRESSES = st.builds(Egress, apis=st.dictionaries(NAMES, APIS, max_size=3), yolo=st.booleans())
REQUESTS = st.builds(Request, language=st.sampled_from(LANGUAGES), code=st.text(), limits=NARROWINGS)


def active(egress: Egress) -> set[str]:
    return {name for name, api in egress.apis.items() if api.active}


def shut(api: Api) -> Api:
    return Api(hosts=api.hosts, rules=(Rule(action="deny"),))


def at_most(narrow: Grant, wide: Grant) -> bool:
    """The partial order of grants: ``narrow`` allows nothing that ``wide`` does not."""
    return (
        narrow.languages <= wide.languages
        and set(narrow.mounts) <= set(wide.mounts)
        and narrow.unix_sockets <= wide.unix_sockets
        and narrow.ptrace <= wide.ptrace
        and all(value <= getattr(wide.limits, name) for name, value in narrow.limits.items())
        and all(api in (wide.egress.apis[name], shut(api)) for name, api in narrow.egress.apis.items())
        and narrow.egress.yolo <= wide.egress.yolo
        and narrow.egress.model_copy(update={"apis": wide.egress.apis, "yolo": wide.egress.yolo}) == wide.egress
    )


def everything(policy: Policy, egress: Egress) -> Grant:
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        ptrace=policy.ptrace,
        limits=policy.limits,
        egress=egress,
    )


def test_the_order_speaks_of_every_field_of_a_grant():
    assert set(fields_of(Grant)) == {
        "languages",
        "mounts",
        "unix_sockets",
        "ptrace",
        "limits",
        "egress",
        "toolbox",  # tests/policy/decisions/test_tools.py
        "sampling",
        "writable",  # a program that is asked for has none, and no workspace: tests/policy/decisions/test_gates.py
        "workspace",
        "skills",  # whether there are any
        "skill",  # which only takes away
        "callers",  # as well
        "packages",  # the same for all: tests/policy/test_packages.py
    }


def test_whatever_can_be_narrowed_is_a_limit():
    assert set(fields_of(Narrowing)) <= set(fields_of(Limits))


@given(policy=POLICIES, egress=EGRESSES, request=REQUESTS, names=st.none() | st.sets(NAMES))
def test_a_grant_never_widens_the_policy_in_any_field(policy, egress, request, names):
    """T1: effective grant = operator policy ∩ request."""
    apis = None if names is None else tuple(names & active(egress))
    grant = grant_for(policy, egress, request.model_copy(update={"apis": apis}))
    assert at_most(grant, everything(policy, egress))
    reached = {name for name, api in grant.egress.apis.items() if api != shut(api)}
    assert reached == (active(egress) if apis is None else set(apis))
    for name, asked in request.limits.items():
        assert asked is None or getattr(grant.limits, name) <= asked


@given(policy=POLICIES, request=REQUESTS)
def test_a_limit_is_exactly_the_lower_of_ceiling_and_request(policy, request):
    """T1: nothing is taken away that was allowed and asked for, either."""
    limits = grant_for(policy, Egress(), request).limits
    for name, ceiling in policy.limits.items():
        asked = getattr(request.limits, name, None)
        if asked is None:
            asked = policy.default_wall_seconds if name == "wall_seconds" else ceiling
        assert getattr(limits, name) == min(asked, ceiling)


@given(policy=POLICIES, request=REQUESTS)
def test_asking_for_what_was_granted_grants_the_same(policy, request):
    grant = grant_for(policy, Egress(), request)
    asked = Narrowing(**{name: getattr(grant.limits, name) for name in fields_of(Narrowing)})
    assert grant_for(policy, Egress(), request.model_copy(update={"limits": asked})) == grant


@given(policy=POLICIES, request=REQUESTS, lower=NARROWINGS)
def test_asking_for_less_never_grants_more(policy, request, lower):
    both = {
        name: min((x for x in (value, getattr(lower, name)) if x is not None), default=None)
        for name, value in request.limits.items()
    }
    # Naming a wall time at all may raise it above the default.
    both["wall_seconds"] = both["wall_seconds"] if request.limits.wall_seconds else None
    less = request.model_copy(update={"limits": Narrowing(**both)})
    assert at_most(grant_for(policy, Egress(), less), grant_for(policy, Egress(), request))


@given(policy=POLICIES, request=REQUESTS, ceiling=LIMITS)
def test_a_stricter_policy_never_grants_more(policy, request, ceiling):
    strict = Limits(**{name: min(value, getattr(ceiling, name)) for name, value in policy.limits.items()})
    stricter = policy.model_copy(
        update={"limits": strict, "unix_sockets": False, "ptrace": False, "mounts": policy.mounts[:1]}
    )
    assert at_most(grant_for(stricter, Egress(), request), grant_for(policy, Egress(), request))


@given(policy=POLICIES, request=REQUESTS)
def test_a_grant_is_valid_by_the_rules_of_its_own_type(policy, request):
    grant = grant_for(policy, Egress(), request)
    assert read_value(Grant, grant.model_dump(exclude={"egress", "toolbox", "sampling"})) == grant


def test_a_request_that_names_no_wall_time_gets_the_operators_default():
    """E4: 30 s by default, 300 s at most by default."""
    request = Request(language="python", code="")
    assert grant_for(Policy(), Egress(), request).limits.wall_seconds == 30
    longest = request.model_copy(update={"limits": Narrowing(wall_seconds=5000)})
    assert grant_for(Policy(), Egress(), longest).limits.wall_seconds == 300


def test_a_default_above_the_ceiling_is_lowered_to_it():
    policy = Policy(default_wall_seconds=60, limits=Limits(wall_seconds=10))
    assert grant_for(policy, Egress(), Request(language="python", code="")).limits.wall_seconds == 10


EGRESS = Egress(
    apis={
        "one": Api(hosts=("one.example",)),
        "two": Api(hosts=("two.example",)),
        "asleep": Api(hosts=("asleep.example",), active=False),
    },
    yolo=True,
    user_agent="agent",
    redact=("jane@example.com",),
)


def asking(*apis: str) -> Request:
    return Request(language="python", code="", apis=apis)


def test_a_request_that_names_no_apis_gets_all_that_are_active():
    """N2: `active`."""
    reach = grant_for(Policy(), EGRESS, Request(language="python", code="")).egress
    assert [*reach.apis] == ["one", "two"]
    assert reach.yolo


def test_a_request_that_names_apis_gets_those_alone():
    """T1 N9: what is not named is not reached, by yolo neither; the rest of the policy stays."""
    assert grant_for(Policy(), EGRESS, asking("two", "two")).egress == EGRESS.model_copy(
        update={"apis": {"two": EGRESS.apis["two"]}, "yolo": False}
    )
    nothing = grant_for(Policy(), EGRESS, asking()).egress
    assert not nothing.apis
    assert not nothing.yolo


def test_a_grant_that_takes_nothing_away_holds_the_very_same_egress():
    """N2: so that its patterns are read once, not for each run."""
    egress = EGRESS.model_copy(update={"apis": {"one": EGRESS.apis["one"]}})
    assert grant_for(Policy(), egress, Request(language="python", code="")).egress is egress


def test_leaving_an_api_out_hands_its_places_to_no_wildcard():
    """T1 N3: its rules are not walked around by naming another API alone; its other places are simply not there."""
    egress = Egress(
        apis={
            "wild": Api(hosts=("*.example.com",)),
            "near": Api(hosts=("*.api.example.com", "*.api.example.com:8443")),
            "exact": Api(hosts=("api.example.com", "tcp://api.example.com:5432", "api.example.net")),
            "other": Api(hosts=("api.example.org",)),
        }
    )
    assert grant_for(Policy(), egress, asking("wild")).egress.apis == {
        "wild": egress.apis["wild"],
        "near": shut(Api(hosts=("*.api.example.com",))),
        "exact": shut(Api(hosts=("api.example.com",))),
    }
    assert [*grant_for(Policy(), egress, asking("exact", "near")).egress.apis] == ["exact", "near"]


def test_what_is_left_after_a_reload_hands_the_places_of_changed_apis_to_nobody():
    """T1 N2 N3: neither to a wildcard with credentials of its own, nor to yolo, which opens no host of an API."""
    wild, old = Api(hosts=("*.example.com",)), Api(hosts=("api.example.com", "api.example.net"))
    database, plain = Api(hosts=("tcp://db.example.org:5432",)), Api(hosts=("http://db.example.org",))
    apis = {"wild": wild, "old": old, "plain": plain, "gone": Api(hosts=("gone.example.net",))}
    before = Egress(apis=apis, yolo=True)
    changed = old.model_copy(update={"rules": (Rule(methods=("GET",), action="allow"),)})
    now = Egress(apis={"wild": wild, "old": changed, "plain": plain, "new": database}, yolo=True, redact=("words",))
    left = retain_unchanged(before, before, now)
    assert left.apis == {
        "wild": wild,
        "plain": plain,
        "old": shut(
            Api(hosts=("api.example.com", "http://api.example.com", "api.example.net", "http://api.example.net"))
        ),
        "new": shut(Api(hosts=("db.example.org",))),
    }
    assert (left.yolo, left.redact) == (True, ("words",))
    assert retain_unchanged(before, before, before) is before


@pytest.mark.parametrize("name", ["three", "asleep"])
def test_an_api_that_is_not_there_or_not_active_is_denied_with_those_that_are(name):
    """N2 N10: the caller learns what it may name instead."""
    with pytest.raises(Denied) as caught:
        grant_for(Policy(), EGRESS, asking("one", name))
    assert caught.value.code == "unknown_api"
    assert f"'{name}'" in caught.value.reason
    assert caught.value.hint == "There are: one, two. Retrying does not help."
    with pytest.raises(Denied, match="There are none"):
        grant_for(Policy(), Egress(), asking(name))


def test_what_may_be_asked_of_a_model_is_the_operators_alone():
    """T1 H7."""
    request = Request(language="python", code="")
    assert not grant_for(Policy(), Egress(), request).sampling.enabled
    sampling = Sampling(enabled=True, rounds=3)
    assert grant_for(Policy(), Egress(), request, sampling=sampling).sampling is sampling
