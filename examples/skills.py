"""The part of the demo about skills: what a run does is learned, approved, and held to."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
from skills_ref.validator import validate

REPORT = Path(__file__).with_name("report.py")
CONFIGURATION = """\
[servers.sales]
command = [{python}, {server}, "sales"]

[servers.prices]
command = [{python}, {server}, "prices"]

[api.other]
description = "A host that the policy grants, and the report does not need"
hosts = ["other.example"]
addresses = ["127.0.0.1"]
"""


async def shown(gloveport: list[str], directory: Path, state: str) -> bool:
    """Learn, approve, run, and try what was not approved; whether all was as it should be."""
    print("\n── A report that joins two servers' data, kept as a skill (examples/report.py) ──")
    config = directory / "skills.toml"
    server = json.dumps(str(Path(__file__).with_name("shop_servers.py")))
    config.write_text(CONFIGURATION.format(python=json.dumps(sys.executable), server=server))

    async def run(*words: str) -> str:
        command = [*gloveport, "skills", *words, "--config", str(config)]
        print(f"  $ gloveport skills {' '.join(words)}")
        environ = {"GLOVEPORT_STATE": state, "PATH": "/usr/bin:/bin", "HOME": str(directory)}
        done = await anyio.run_process(command, env=environ, check=False, stderr=subprocess.STDOUT)
        text = done.stdout.decode()
        for line in text.splitlines():
            print(f"    {line}"[:140])
        return text

    await run("new", "sales-report", "-d", "Adds up what sales are worth.", "--file", str(REPORT))
    learned = await run("learn", "sales-report", "--set", "month=10")
    approved = await run("approve", "sales-report", "--yes")
    november = await run("run", "sales-report", "--set", "month=11")
    december = await run("run", "sales-report", "--set", "month=12")
    return (
        "call prices/current" in learned
        and "approved: sales-report" in approved
        and november == "100\n"
        and "not_of_this_skill" in december
        and is_agent_skill(Path(state, "skills/sales-report"))
    )


def is_agent_skill(directory: Path) -> bool:
    """Whether the format's own validator takes it."""
    faults = validate(directory)
    print(f"  its directory is {'; '.join(faults) or 'a valid Agent Skill'}")
    return not faults
