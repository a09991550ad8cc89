"""The one function that says yes or no."""

from hypothesis import given
from hypothesis import strategies as st

from gloveport.model import LANGUAGES, Allow, Deny, Execute, Grant, Limits
from gloveport.policy.decisions.decide import decide

ACTIONS = st.builds(
    Execute,
    language=st.sampled_from(LANGUAGES),
    code_bytes=st.integers(0, 1 << 40),
    code_sha256=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)
GRANTS = st.builds(
    Grant,
    languages=st.frozensets(st.sampled_from(LANGUAGES)),
    limits=st.builds(Limits, code_bytes=st.integers(1, 1 << 40)),
)


def execute(language="python", code_bytes=10):
    return Execute(language=language, code_bytes=code_bytes, code_sha256="0" * 64)


@given(action=ACTIONS)
def test_an_empty_grant_denies_every_action(action):
    """T1: denial has one path."""
    assert isinstance(decide(Grant(), action), Deny)


@given(grant=GRANTS, action=ACTIONS)
def test_an_action_is_allowed_exactly_when_the_grant_covers_it(grant, action):
    """T1: every action gets an answer, and yes only to what was granted."""
    covered = action.language in grant.languages and action.code_bytes <= grant.limits.code_bytes
    assert isinstance(decide(grant, action), Allow) is covered


@given(grant=GRANTS, action=ACTIONS)
def test_a_denial_has_a_code_a_reason_and_a_hint(grant, action):
    match decide(grant, action):
        case Deny(code=code, reason=reason, hint=hint):
            assert code in {"language_not_allowed", "code_too_large"}
            assert reason.endswith(".")
            assert hint.endswith(".")
        case Allow(rule=rule):
            assert rule == "policy.languages"


def test_a_denied_language_is_named_with_those_to_try_instead():
    decision = decide(Grant(languages=frozenset({"python", "javascript"})), execute("shell"))
    assert decision.code == "language_not_allowed"
    assert "does not allow shell" in decision.reason
    assert decision.hint == "Write the program in one of these: python, javascript."
    assert decide(Grant(), execute("shell")).hint == "No language may be run here."


def test_a_program_of_just_the_allowed_size_runs_and_one_byte_more_does_not():
    """E4: code size."""
    grant = Grant(languages=frozenset({"python"}), limits=Limits(code_bytes=100))
    assert decide(grant, execute(code_bytes=100)) == Allow(rule="policy.languages")
    decision = decide(grant, execute(code_bytes=101))
    assert decision.code == "code_too_large"
    assert "101 bytes" in decision.reason
    assert "at most 100" in decision.reason
