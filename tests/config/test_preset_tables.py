"""O1, W4: registries of packages that a name stands for."""

import pytest

from gloveport.config.loading.load import load
from gloveport.config.preset_tables import preset_hosts
from gloveport.errors import ConfigError
from gloveport.model import Allow
from gloveport.model.egress import Egress, Fetch
from gloveport.policy.decisions.outbound import decide_fetch

REGISTRIES = ("@pypi", "@npm", "@github", "@debian", "@crates", "@golang", "@maven")


@pytest.fixture
def configured(tmp_path):
    """The configuration that a text says."""

    def read(text):
        file = tmp_path / "gloveport.toml"
        file.write_text(text)
        file.chmod(0o600)
        return load(file, cwd=tmp_path, environ={"GLOVEPORT_STATE": str(tmp_path / "state")})

    return read


@pytest.mark.parametrize("name", REGISTRIES)
def test_a_registry_is_granted_by_its_name_and_only_to_read(configured, name):
    loaded = configured(f'[workspace]\nhosts = ["{name}", "own.test"]\n')
    apis = loaded.config.api.values()
    assert loaded.config.workspace.hosts == (*(host for api in apis for host in api.hosts), "own.test")
    rules = [rule for api in apis for rule in api.rules]
    assert {method for rule in rules for method in rule.methods if not rule.paths} == {"GET", "HEAD"}
    assert not any(api.auth for api in apis)
    assert all(rule.action == "allow" for rule in rules)
    assert {preset_hosts().get(host) for api in apis for host in api.hosts} <= {name, None}


def test_of_a_host_that_serves_others_too_a_registry_has_its_own_paths(configured):
    """N2: a bucket of anybody's is no module of Go, and its refusal does not lead to the registry."""
    egress = Egress(apis=configured('[workspace]\nhosts = ["@golang"]\n').config.api)
    archive = "/proxy-golang-org-prod/8e29-google.golang.org:api-v0.162.0%2Bincompatible.zip"
    others = ("/anybody/proxy-golang-org-prod/x", "/proxy-golang-org-prod/../anybody/x")

    def is_allowed(path):
        action = Fetch(method="GET", scheme="https", host="storage.googleapis.com", port=443, path=path)
        return isinstance(decide_fetch(egress, action), Allow)

    assert [is_allowed(path) for path in (archive, *others)] == [True, False, False]
    assert "storage.googleapis.com" not in preset_hosts()


def test_an_api_of_another_name_for_the_same_place_is_told_which_name_replaces_the_registry(configured):
    with pytest.raises(ConfigError) as refused:
        configured('[workspace]\nhosts = ["@pypi"]\n[api.index]\nhosts = ["pypi.org"]\n')
    assert "an API named pypi replaces @pypi of workspace.hosts" in str(refused.value)


def test_the_owners_own_api_of_that_name_stands_in_its_place(configured):
    loaded = configured('[workspace]\nhosts = ["@pypi"]\n[api.pypi]\nhosts = ["https://mirror.test:8443"]\n')
    assert loaded.config.workspace.hosts == ("mirror.test",)
    assert loaded.config.api["pypi"].hosts == ("https://mirror.test:8443",)
    assert not loaded.config.api["pypi"].rules


def test_a_name_may_be_that_of_any_api(configured):
    loaded = configured('[workspace]\nhosts = ["@mine"]\n[api.mine]\nhosts = ["a.test", "*.b.test"]\n')
    assert loaded.config.workspace.hosts == ("a.test", "*.b.test")
    assert loaded.config.api.keys() == {"mine"}


def test_what_needs_a_credential_is_granted_by_no_name(configured):
    assert configured('[workspace]\nhosts = ["@github"]\n').config.api.keys() == {"github-git"}
    for name in ("claude", "codex"):
        with pytest.raises(ConfigError, match="there is no preset and no API"):
            configured(f'[workspace]\nhosts = ["@{name}"]\n')


def test_a_name_that_stands_for_nothing_is_a_fault_at_its_line(configured):
    with pytest.raises(ConfigError) as caught:
        configured('[workspace]\nhosts = ["a.test", "@pipi"]\n')
    assert "gloveport.toml:2: workspace.hosts[1]: there is no preset and no API 'pipi'" in str(caught.value)
    assert "@pypi" in str(caught.value)


def test_a_name_without_its_sign_is_a_fault_unless_an_api_has_such_a_host(configured):
    for name, apis in (
        ("pypi", ""),
        ("pypi", '[api.pypi]\nhosts = ["pypi.org"]\n'),
        ("mine", '[api.mine]\nhosts = ["b.test"]\n'),
    ):
        with pytest.raises(ConfigError, match=rf'no API grants a host .{name}.; hint: did you mean "@{name}"'):
            configured(f'[workspace]\nhosts = ["{name}"]\n{apis}')
    loaded = configured('[workspace]\nhosts = ["pypi", "nexus"]\n[api.nexus]\nhosts = ["http://pypi:8080", "nexus"]\n')
    assert loaded.config.workspace.hosts == ("pypi", "nexus")


def test_its_values_are_told_as_a_presets(configured):
    loaded = configured('[workspace]\nhosts = ["@npm"]\n')
    assert loaded.origins["api.npm.hosts"] == "presets"
    assert loaded.origins["workspace.hosts"].endswith("gloveport.toml:2")
    assert len(loaded.files) == 1
