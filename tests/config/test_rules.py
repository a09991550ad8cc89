"""Keys that bound each other, and user ids that are taken."""

import pwd

import pytest

from gloveport.config.checks.cross_checks import rule_faults


def problems(data):
    return [(fault.keys, fault.problem) for fault in rule_faults(data, own=())]


def test_the_defaults_break_no_rule():
    assert problems({}) == []


@pytest.mark.parametrize(
    "policy",
    [
        {"default_wall_seconds": 301},
        {"default_wall_seconds": 20, "limits": {"wall_seconds": 10}},
    ],
)
def test_a_default_wall_time_above_the_ceiling_is_a_fault(policy):
    (((first, second), problem),) = problems({"policy": policy})
    assert first == ("policy", "default_wall_seconds")
    assert second == ("policy", "limits", "wall_seconds")
    assert "expected at most policy.limits.wall_seconds, which is" in problem


def test_a_default_that_nobody_wrote_is_lowered_with_the_ceiling():
    assert problems({"policy": {"limits": {"wall_seconds": 10}}}) == []


def test_a_ceiling_of_the_wrong_shape_is_not_compared():
    assert problems({"policy": {"default_wall_seconds": 301, "limits": {"wall_seconds": "x"}}}) == []
    assert problems({"policy": 3}) == []


def test_each_concurrent_run_needs_a_user_id():
    """And so do the skills that its program calls, and each sandbox that waits: or these would take those of runs."""
    enough = {"sandbox": {"uid_count": 16}, "admission": {"concurrent_runs": 2}}
    assert problems({**enough, "pool": {"forked": 1, "booted": 0}}) == []
    assert problems({**enough, "pool": {"forked": 0, "booted": 8}}) == []
    ((keys, problem),) = problems({**enough, "pool": {"forked": 1, "booted": 1}})
    assert keys == (("sandbox", "uid_count"), ("admission", "concurrent_runs"))
    assert problem == (
        "expected user ids for 2 concurrent runs with 3 skills each that they may call, and 9 sandboxes made ahead, "
        "found 16"
    )


def test_the_kernels_no_user_is_never_handed_out():
    last = (1 << 32) - 1
    rest = {"admission": {"concurrent_runs": 1}, "pool": {"forked": 0, "booted": 0}}
    assert problems({"sandbox": {"first_uid": last - 10, "uid_count": 10}, **rest}) == []
    ((_, problem),) = problems({"sandbox": {"first_uid": last - 10, "uid_count": 11}, **rest})
    assert problem.startswith(f"expected user ids below {last}")


def test_a_program_never_gets_the_user_id_of_an_account():
    """T3: sandboxes share no uid with anybody, so nobody's files are theirs and nobody's processes."""
    nobody = pwd.getpwnam("nobody").pw_uid
    ((_, problem),) = problems({"sandbox": {"first_uid": nobody - 5}})
    assert f"nobody ({nobody})" in problem


def test_a_configured_audit_directory_is_gloveports_own(tmp_path):
    """A program must not read the audit log, wherever the operator keeps it."""
    mount = {"source": str(tmp_path), "target": "/data"}
    data = {"policy": {"mounts": [mount]}, "audit": {"directory": str(tmp_path / "audit")}}
    ((_, problem),) = problems(data)
    assert "expected nothing of Gloveport's own" in problem


def test_an_index_by_whose_host_sandboxes_mean_themselves_is_a_fault():
    """N2, T3: builds could never reach it."""
    data = {
        "indexes": ["https://pypi.org/simple", "http://LocalHost:8080/simple", "http://127.0.0.2/simple"],
        "npm_registry": "http://[::1]:4873",
        "npm_scopes": {"@acme": "https://npm.localhost", "@other": "https://npm.acme.example"},
    }
    found = {fault.keys: fault for fault in rule_faults({"packages": data}, own=())}
    assert {keys[0] for keys in found} == {
        ("packages", "indexes", 1),
        ("packages", "indexes", 2),
        ("packages", "npm_registry"),
        ("packages", "npm_scopes", "@acme"),
    }
    fault = found[(("packages", "npm_registry"),)]
    assert fault.problem == 'builds run in a sandbox, which means itself by "::1"'
    assert fault.hint.endswith('in the hosts of an [api.NAME] with addresses = ["::1"]')
