"""The main job, shown: an MCP client starts Gloveport over stdio and asks for three programs.

Prints what was asked, what came back, and what the audit log says. Exits non-zero when anything is not as it should be.
"""

import sys
import tempfile
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

EXAMPLES = Path(__file__).parent
PROGRAMS = [
    ("A data analysis over a CSV file the operator mounted", "python", "analyse.py"),
    ("A TypeScript program", "typescript", "words.ts"),
    ("A program that tries to break out", "shell", "escape.sh"),
]
GLOVEPORT = [str(Path(sys.executable).with_name("gloveport"))]


async def show(client: Client, title: str, language: str, name: str) -> dict:
    """Ask for one program and print what came back."""
    answer = await client.call_tool("execute_code", {"language": language, "code": (EXAMPLES / name).read_text()})
    result = answer.structured_content
    print(f"\n── {title} (examples/{name}) ──")
    for stream in ("stdout", "stderr"):
        for line in result.get(stream, {}).get("text", "").splitlines():
            print(f"  {stream}  {line}")
    print(f"  status  {result['status']}" + (f"   value  {result['value']}" if "value" in result else ""))
    usage = result["usage"]
    peak = usage.get("peak_memory_bytes")
    print(f"  used    {usage['wall_ms']} ms" + (f", {peak / 2**20:.1f} MiB at most" if peak else ""))
    return result


async def main() -> int:
    """See the module."""
    with tempfile.TemporaryDirectory(prefix="gloveport-demo-", dir="/var/tmp") as directory:
        data = Path(directory) / "data"
        data.mkdir()
        (data / "anscombe.csv").write_bytes((EXAMPLES / "anscombe.csv").read_bytes())
        for place in (Path(directory), data):
            place.chmod(0o755)
        config = Path(directory) / "gloveport.toml"
        config.write_text(f'[[policy.mounts]]\nsource = "{data}"\ntarget = "/data"\n')
        state = {"GLOVEPORT_STATE": f"{directory}/state"}
        server = StdioServerParameters(
            command=GLOVEPORT[0], args=[*GLOVEPORT[1:], "serve", "--config", str(config)], env=state
        )
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            print(f"An MCP client over stdio, protocol {client.protocol_version}; tools: {', '.join(tools)}")
            results = [await show(client, *program) for program in PROGRAMS]
        print("\n── What was written down ──")
        for command in (["tail", "-n", "8"], ["verify"]):
            asked = [*GLOVEPORT, "audit", *command, "--directory", f"{directory}/state/audit"]
            audit = await anyio.run_process(asked, check=False)
            print(audit.stdout.decode(), end="")
    analysis, words, escape = results
    as_expected = (
        analysis["value"]["I"]["correlation"] == 0.816
        and words["value"]["the"] == 3
        and escape["status"] == "error"
        and "stdout" not in escape
        and audit.returncode == 0
    )
    if as_expected:
        print("\nThe two honest programs ran; of the hostile one's nine attempts none succeeded. All is written down.")
    else:
        print("\nNOT as it should be.")
    return 0 if as_expected else 1


if __name__ == "__main__":
    try:
        sys.exit(anyio.run(main))
    except KeyboardInterrupt:
        sys.exit(130)
