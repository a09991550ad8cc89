"""The part of the demo about skills: a run is saved, approved with the rights that it used, and held to them."""

import json
import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
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
    """Save, approve, run, and try what was not approved; whether all was as it should be."""
    print("\n── A report that joins two servers' data, kept as a skill (examples/report.py) ──")
    config = directory / "skills.toml"
    server = json.dumps(str(Path(__file__).with_name("shop_servers.py")))
    config.write_text(CONFIGURATION.format(python=json.dumps(sys.executable), server=server))
    command = StdioServerParameters(
        command=gloveport[0], args=[*gloveport[1:], "serve", "--config", str(config)], env={"GLOVEPORT_STATE": state}
    )
    async with Client(command) as client:
        run = await client.call_tool("execute_code", {"language": "python", "code": REPORT.read_text()})
        saved = await client.call_tool(
            "save_skill",
            {
                "name": "sales-report",
                "description": "Adds up what a month's sales are worth.",
                "from_run": run.structured_content["run_id"],
            },
        )
        show("the agent saves the run", saved.content[0].text)
        approved = await anyio.run_process(
            [*gloveport, "skills", "approve", "sales-report", "--yes", "--config", str(config)],
            env={"GLOVEPORT_STATE": state, "PATH": "/usr/bin:/bin", "HOME": str(directory)},
            check=False,
        )
        show("the owner approves it: gloveport skills approve sales-report", approved.stdout.decode())
        november, december = [
            (await client.call_tool("run_skill", {"name": "sales-report", "arguments": {"month": month}}))
            for month in (11, 12)
        ]
        show("the agent runs it for November", november.content[0].text)
        show("it tries another host in December", december.content[0].text)
        program = "from skills import sales_report\nsum(sales_report(month=month) for month in (10, 11))"
        autumn = await client.call_tool("execute_code", {"language": "python", "code": program})
        show("a program calls it: sum(sales_report(month=month) for month in (10, 11))", autumn.content[0].text)
    return (
        run.structured_content["value"] == 70
        and approved.returncode == 0
        and november.structured_content["value"] == 100
        and [one["code"] for one in december.structured_content["requests"]] == ["not_of_this_skill"]
        and autumn.structured_content["value"] == 170
        and is_agent_skill(Path(state, "skills/sales-report"))
    )


def show(title: str, text: str) -> None:
    """Print what was said."""
    print(f"  {title}")
    for line in text.splitlines():
        print(f"    {line}"[:140])


def is_agent_skill(directory: Path) -> bool:
    """Whether the format's own validator takes it."""
    faults = validate(directory)
    print(f"  its directory is {'; '.join(faults) or 'a valid Agent Skill'}")
    return not faults
