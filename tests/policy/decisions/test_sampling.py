"""What may be asked of a language model."""

import pytest
from tests.cases import for_each

from gloveport.model import Allow, Grant
from gloveport.model.hub import Sample, Sampling
from gloveport.policy.decisions.decide import decide

SAMPLING = Sampling(enabled=True, tokens=100, models=("small", "large"), model="default")


def sample(sampling, model="", max_tokens=1):
    return decide(Grant(sampling=sampling), Sample(model=model, prompt_bytes=1, max_tokens=max_tokens))


def test_nothing_may_be_asked_unless_the_operator_says_so():
    """T1 H7: `enabled`."""
    assert sample(Sampling()).code == "sampling_not_enabled"
    assert sample(SAMPLING.model_copy(update={"enabled": False})).code == "sampling_not_enabled"


@pytest.mark.parametrize("model", ["", "default", "small", "large"])
def test_the_models_that_the_operator_named_may_be_asked(model):
    """H7: `models`, `model`."""
    assert sample(SAMPLING, model) == Allow(rule="sampling")


@for_each("model", ["Small", "small ", "huge", "*", "\x1b[2J" * 1000])
def test_another_model_is_denied_with_those_that_may_be_named(model):
    """H7: models bounded by the operator."""
    decision = sample(SAMPLING, model)
    assert decision.code == "model_not_allowed"
    assert decision.reason.isprintable()
    assert decision.hint == "Name none, or one of these: default, large, small. Retrying does not help."
    assert sample(Sampling(enabled=True), model).hint == "Name none. Retrying does not help."


def test_just_so_many_tokens_as_there_are_and_not_one_more():
    """H7: `tokens`."""
    assert sample(SAMPLING, max_tokens=100) == Allow(rule="sampling")
    assert sample(SAMPLING, max_tokens=101).code == "too_many_tokens"
