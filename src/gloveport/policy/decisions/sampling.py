"""Decides questions to a language model. The caller counts the remaining rounds and tokens of a run."""

from gloveport.model import Allow, Decision, Deny
from gloveport.model.hub import Sample, Sampling
from gloveport.policy.wording import FINAL, join_listed, quote_sent


def decide_sample(sampling: Sampling, action: Sample) -> Decision:
    """Decide one question. An empty name stands for the model that the operator chose."""
    if not sampling.enabled:
        return Deny(
            code="sampling_not_enabled",
            reason="The operator does not let programs ask a language model.",
            hint=f"Return what is to be judged, and judge it yourself. {FINAL}",
        )
    if action.model not in {"", sampling.model, *sampling.models}:
        models = join_listed(sorted({sampling.model, *sampling.models} - {""}))
        return Deny(
            code="model_not_allowed",
            reason=f"Programs may not name the model {quote_sent(action.model)}.",
            hint=f"Name none{f', or one of these: {models}' if models else ''}. {FINAL}",
        )
    if action.max_tokens > sampling.tokens:
        return Deny(
            code="too_many_tokens",
            reason=f"{action.max_tokens} tokens were asked for; all answers of a run have {sampling.tokens}.",
            hint=f"Ask for {sampling.tokens} tokens or less.",
        )
    return Allow(rule="sampling")
