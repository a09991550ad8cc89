"""What a request gets: never more than the policy, in any field."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.model import LANGUAGES, Grant, Limits, Mount, Narrowing, Policy, Request
from gloveport.policy import grant_for

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
    default_wall_seconds=SECONDS,
    limits=LIMITS,
)
REQUESTS = st.builds(Request, language=st.sampled_from(LANGUAGES), code=st.text(), limits=NARROWINGS)


def at_most(narrow: Grant, wide: Grant) -> bool:
    """The partial order of grants: ``narrow`` allows nothing that ``wide`` does not."""
    return (
        narrow.languages <= wide.languages
        and set(narrow.mounts) <= set(wide.mounts)
        and narrow.unix_sockets <= wide.unix_sockets
        and all(value <= getattr(wide.limits, name) for name, value in narrow.limits)
    )


def everything(policy: Policy) -> Grant:
    return Grant(
        languages=policy.languages, mounts=policy.mounts, unix_sockets=policy.unix_sockets, limits=policy.limits
    )


def test_the_order_speaks_of_every_field_of_a_grant():
    assert set(Grant.model_fields) == {"languages", "mounts", "unix_sockets", "limits"}


def test_whatever_can_be_narrowed_is_a_limit():
    assert set(Narrowing.model_fields) <= set(Limits.model_fields)


@given(policy=POLICIES, request=REQUESTS)
def test_a_grant_never_widens_the_policy_in_any_field(policy, request):
    """T1: effective grant = operator policy ∩ request."""
    grant = grant_for(policy, request)
    assert at_most(grant, everything(policy))
    for name, asked in request.limits:
        assert asked is None or getattr(grant.limits, name) <= asked


@given(policy=POLICIES, request=REQUESTS)
def test_a_limit_is_exactly_the_lower_of_ceiling_and_request(policy, request):
    """T1: nothing is taken away that was allowed and asked for, either."""
    limits = grant_for(policy, request).limits
    for name, ceiling in policy.limits:
        asked = getattr(request.limits, name, None)
        if asked is None:
            asked = policy.default_wall_seconds if name == "wall_seconds" else ceiling
        assert getattr(limits, name) == min(asked, ceiling)


@given(policy=POLICIES, request=REQUESTS)
def test_asking_for_what_was_granted_grants_the_same(policy, request):
    grant = grant_for(policy, request)
    asked = Narrowing(**{name: getattr(grant.limits, name) for name in Narrowing.model_fields})
    assert grant_for(policy, request.model_copy(update={"limits": asked})) == grant


@given(policy=POLICIES, request=REQUESTS, lower=NARROWINGS)
def test_asking_for_less_never_grants_more(policy, request, lower):
    both = {
        name: min((x for x in (value, getattr(lower, name)) if x is not None), default=None)
        for name, value in request.limits
    }
    # Naming a wall time at all may raise it above the default.
    both["wall_seconds"] = both["wall_seconds"] if request.limits.wall_seconds else None
    less = request.model_copy(update={"limits": Narrowing(**both)})
    assert at_most(grant_for(policy, less), grant_for(policy, request))


@given(policy=POLICIES, request=REQUESTS, ceiling=LIMITS)
def test_a_stricter_policy_never_grants_more(policy, request, ceiling):
    strict = Limits(**{name: min(value, getattr(ceiling, name)) for name, value in policy.limits})
    stricter = policy.model_copy(update={"limits": strict, "unix_sockets": False, "mounts": policy.mounts[:1]})
    assert at_most(grant_for(stricter, request), grant_for(policy, request))


@given(policy=POLICIES, request=REQUESTS)
def test_a_grant_is_valid_by_the_rules_of_its_own_type(policy, request):
    grant = grant_for(policy, request)
    assert Grant.model_validate(grant.model_dump()) == grant


def test_a_request_that_names_no_wall_time_gets_the_operators_default():
    """E4: 30 s by default, 300 s at most by default."""
    request = Request(language="python", code="")
    assert grant_for(Policy(), request).limits.wall_seconds == 30
    longest = request.model_copy(update={"limits": Narrowing(wall_seconds=5000)})
    assert grant_for(Policy(), longest).limits.wall_seconds == 300


def test_a_default_above_the_ceiling_is_lowered_to_it():
    policy = Policy(default_wall_seconds=60, limits=Limits(wall_seconds=10))
    assert grant_for(policy, Request(language="python", code="")).limits.wall_seconds == 10
