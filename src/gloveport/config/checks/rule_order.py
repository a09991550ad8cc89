"""Finds rules of an API that never decide, since the first matching rule does.

Only certain cases are faults: a rule counts as covered if a single earlier rule matches all of its requests.
"""

from collections.abc import Iterator

from gloveport.config.schema import KeyPath
from gloveport.config.validation.faults import Fault
from gloveport.config.validation.sound_parts import Parts
from gloveport.model.egress import Rule
from gloveport.policy.hosts.url_paths import matches


def order_faults(base: KeyPath, parts: Parts) -> Iterator[Fault]:
    """Name the rules that never decide, and an API whose rules let nothing through."""
    rules = parts.rules
    for index, rule in rules.items():
        earlier = next((before for before, other in rules.items() if before < index and _covers(other, rule)), None)
        if earlier is not None:
            yield Fault(
                keys=((*base, "rules", index),),
                problem=f"can never match: rules[{earlier}] matches all that it speaks of",
                hint="the first rule that matches decides: put the narrower rule first, or remove it",
            )
    # A faulty rule may have been meant to allow something.
    complete = len(rules) == parts.lengths.get("rules")
    if parts.active and rules and complete and all(rule.action == "deny" for rule in rules.values()):
        yield Fault(
            keys=((*base, "rules"),),
            problem="its rules allow nothing",
            hint='add { action = "allow" } after them, or set active = false',
        )


def _covers(one: Rule, other: Rule) -> bool:
    methods = not one.methods or (bool(other.methods) and {*other.methods} <= {*one.methods})
    paths = not one.paths or (
        bool(other.paths) and all(any(_spans(wide, narrow) for wide in one.paths) for narrow in other.paths)
    )
    return methods and paths


def _spans(wide: str, narrow: str) -> bool:
    """Tell whether a pattern certainly matches every path that another one matches."""
    begin = wide.removesuffix("**")
    plain = begin != wide and not {*begin} & {"*", "%"}  # an escape may be spelled in another way, or be cut in two
    return wide == narrow or (plain and narrow.startswith(begin)) or ("*" not in narrow and matches(wide, narrow))
