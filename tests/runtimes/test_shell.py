"""Shell programs: what bash tells them is the same whether it was started ahead of them or not."""

import pytest

from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.model import Policy, Request
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio

WHAT_A_PROGRAM_FINDS = r"""
echo "$? $_ $- $# $0 $$ $LINENO $((SECONDS > 5)) $BASH_SUBSHELL $SHLVL ${BASH_SOURCE[*]} ${FUNCNAME[*]}"
compgen -v
declare -p $(compgen -v | grep -vE '^(BASH_ARGC|BASHPID|EPOCH.*|PPID|RANDOM|SECONDS|SRANDOM|_|.*PID)$')
env; trap -p; alias; shopt; ulimit -a; umask; pwd; jobs; hash; type -a read
for descriptor in /proc/$$/fd/*; do [ -e "$descriptor" ] && echo "${descriptor##*/}"; done
tr '\0' ' ' < /proc/$$/cmdline
read line; echo "$? $line"
echo x >&3; echo $?
"""


async def found(pool, environ, code):
    config = read_value(Config, {"policy": Policy(languages=frozenset({"shell"})), "pool": pool})
    async with assemble(config, environ) as engine:
        for stock in engine.sandbox.stocks:
            await stock.wait_filled()
        result = await engine.execute(Request(language="shell", code=code), caller="test")
    assert result.status == "ok", result
    return (result.stdout.text + result.stderr.text).splitlines()


async def test_a_program_finds_the_same_whether_bash_has_waited_for_it_or_not(environ):
    """E1: and its own text, which it can read and nobody can change."""
    cold = await found(PoolSettings(forked=0, booted=0), environ, WHAT_A_PROGRAM_FINDS)
    warm = await found(PoolSettings(forked=1, booted=0), environ, WHAT_A_PROGRAM_FINDS)
    assert len(cold) > 100
    assert warm == cold


async def test_a_program_is_read_whole_however_long(environ):
    """E1."""
    warm = PoolSettings(forked=1, booted=0)
    assert await found(warm, environ, "") == []
    assert await found(warm, environ, "number=$((number + 1)) # é\n" * 9_000 + "echo $number") == ["9000"]


async def test_output_with_a_number_that_json_can_not_carry_is_no_value(environ):
    """Null in its place would be another value; the output has it as it was printed."""
    config = read_value(Config, {"pool": PoolSettings(forked=1, booted=0)})
    async with assemble(config, environ) as engine:
        for printed, value in (("[1.5, 1e308]", [1.5, 1e308]), ("[1e999]", None), ("-1e999", None), ("NaN", None)):
            result = await engine.execute(Request(language="shell", code=f"echo '{printed}'"), caller="test")
            assert (result.stdout.text, result.value) == (f"{printed}\n", value)
