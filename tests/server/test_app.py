"""What has to be there before a server starts."""

import pytest

from gloveport.errors import SandboxError
from gloveport.sandbox.probe import Check
from gloveport.server.app import require

SOUND = [Check(name=name, state="enforced", detail="") for name in ("seccomp", "python", "shell")]


def missing(name: str) -> Check:
    return Check(name=name, state="missing", detail=f"no {name} here", repair=f"get {name}")


def test_a_missing_layer_is_a_refusal_that_names_it_and_its_repair():
    """T3."""
    with pytest.raises(SandboxError) as caught:
        require([*SOUND, missing("landlock"), missing("cgroups"), Check(name="x", state="weaker", detail="")])
    assert str(caught.value) == (
        "missing landlock: no landlock here\nmissing cgroups: no cgroups here\nhint: get landlock; get cgroups"
    )


def test_a_language_that_can_not_be_run_is_refused_when_it_is_asked_for():
    require([*SOUND, missing("typescript")])


def test_without_any_language_there_is_nothing_to_serve():
    with pytest.raises(SandboxError, match="no python here"):
        require([SOUND[0], missing("python"), missing("shell")])
