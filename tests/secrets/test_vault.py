"""What is handed out is known to be scrubbed, under its name, before and after it changes. N5, N6, T4."""

import secrets
import time

import pytest

from gloveport.errors import ConfigError
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio


@pytest.fixture
def variables():
    return {"KEY": "value-number-0"}


@pytest.fixture
def vault(variables):
    return Vault(Sources(variables))


async def test_a_value_that_was_handed_out_is_scrubbed_by_its_name(vault):
    assert scrub_text(vault.needles, "value-number-0") == "value-number-0"
    assert await vault.get("github.bearer", "env:KEY") == "value-number-0"
    assert scrub_text(vault.needles, "it is value-number-0") == "it is [secret github.bearer]"


async def test_a_value_that_was_exchanged_is_scrubbed_still(vault, variables):
    """N6: an answer on its way, or a log of the upstream, may hold the former one."""
    await vault.get("github.bearer", "env:KEY")
    variables["KEY"] = "value-number-1"
    await vault.get("github.bearer", "env:KEY")
    assert scrub_text(vault.needles, "value-number-1") == "[secret github.bearer]"
    assert scrub_text(vault.needles, "value-number-0") == "[secret github.bearer.former-1]"


async def test_former_values_are_scrubbed_as_long_as_they_may_be_good_for_something(vault):
    """N6: nobody tells when a token that was renewed ceases to live, so many are known, of long ones few."""
    values = [secrets.token_urlsafe(30) for _ in range(70)]
    for value in values:
        vault.remember("short", value)
    for number in range(12):
        vault.remember("long", f"{number:02}{secrets.token_urlsafe(1500)[:1498]}")
    names = [name for name, _ in vault._list_named()]
    assert names[64:66] == ["short.former-64", "long"]
    assert names[-1] == "long.former-9"
    assert scrub_text(vault.needles, values[5]) == "[secret short.former-64]"
    assert scrub_text(vault.needles, values[4]) == values[4]


async def test_n6_to_learn_another_value_keeps_nobody_waiting(vault):
    """N6: E4."""
    spent = []
    for number in range(70):
        token = secrets.token_urlsafe(30)
        vault.remember("short", token)
        if number < 64:
            continue
        began = time.thread_time()
        assert scrub_text(vault.needles, token) == "[secret short]"
        spent.append(time.thread_time() - began)
    assert min(spent) < 0.2  # a quarter of it, unless others use the processor


async def test_n6_a_value_whose_forms_would_take_long_to_look_for_is_refused(vault):
    """N6, E4: whichever way it comes, also from a token endpoint."""
    vault.remember("github.token", "x" * 8192)
    with pytest.raises(ValueError, match="longer than 8192 characters") as long:
        vault.remember("github.token", "y" * 8193)
    assert "y" * 8 not in str(long.value)
    assert scrub_text(vault.needles, "y" * 8193) == "y" * 8193


async def test_two_secrets_that_take_turns_under_one_name_are_learnt_once(vault, variables):
    variables["OTHER"] = "value-of-another"
    await vault.get("api.header", "env:KEY")
    await vault.get("api.header", "env:OTHER")
    needles = vault.needles
    await vault.get("api.header", "env:KEY")
    assert vault.needles is needles


async def test_needles_are_made_anew_only_when_something_new_was_learnt(vault):
    await vault.get("github.bearer", "env:KEY")
    needles = vault.needles
    await vault.get("github.bearer", "env:KEY")
    vault.remember("github.bearer", "value-number-0")
    assert vault.needles is needles
    vault.remember("github.token", "value-number-1")
    assert vault.needles is not needles


async def test_a_secret_that_can_not_be_told_from_ordinary_text_is_refused(vault, variables):
    variables["KEY"] = "hunter2"
    with pytest.raises(ConfigError, match="'env:KEY' can't be kept out of answers") as caught:
        await vault.get("github.bearer", "env:KEY")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ValueError, match="shorter than 8") as short:
        vault.remember("github.token", "hunter2")
    assert "hunter2" not in str(short.value)


async def test_a_value_that_is_put_back_is_scrubbed_and_found_again(vault, tmp_path):
    file = tmp_path / "token"
    file.write_text("value-number-0\n")
    file.chmod(0o600)
    assert await vault.get("github.refresh", f"file:{file}") == "value-number-0"
    await vault.replace("github.refresh", f"file:{file}", "value-number-1")
    assert scrub_text(vault.needles, "value-number-1") == "[secret github.refresh]"
    assert await vault.get("github.refresh", f"file:{file}") == "value-number-1"


async def test_what_can_not_be_put_back_is_put_nowhere(vault, variables):
    await vault.replace("github.refresh", "env:KEY", "value-number-1")
    assert variables == {"KEY": "value-number-0"}
