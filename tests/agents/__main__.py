"""Real coding agents in ``gloveport exec``, against a provider of ours that demands the owner's key: ``make agents``.

Installs them from npm into build/agents. Not part of the tests: they are hundreds of megabytes.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
from tests.far_side import authority as far_authority
from tests.far_side.app import Request, Response
from tests.far_side.listening import HOST
from tests.far_side.web import web

BUILD: Final = Path(__file__).parents[2] / "build/agents"
PACKAGES: Final = (
    "@anthropic-ai/claude-code@2.1.330",
    "@openai/codex@0.169",
    "@google/gemini-cli@0.61",
    "opencode-ai@1.18",
)
KEY: Final = "sk-of-the-owner-0123456789"
SAYS: Final = "hello from the provider"
HOSTS: Final = {"claude": "api.anthropic.com", "codex": "api.openai.com", "gemini": "generativelanguage.googleapis.com"}
AGENTS: Final = (*HOSTS, "opencode")


def anthropic_events() -> list[dict[str, Any]]:
    """A message as the Messages API streams it."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "stop_reason": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return [
        {"type": "message_start", "message": {**message, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SAYS}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def openai_events() -> list[dict[str, Any]]:
    """A message as the Responses API streams it."""
    content = [{"type": "output_text", "text": SAYS, "annotations": []}]
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    ]


def gemini_events() -> list[dict[str, Any]]:
    """A message as Gemini's API streams it."""
    content = {"role": "model", "parts": [{"text": SAYS}]}
    return [{"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": {}}]


async def answer(request: Request) -> Response:
    """A message to whoever has the key."""
    headers = dict(request.headers)
    names = (b"x-api-key", b"x-goog-api-key", b"authorization")
    key = next((headers[name] for name in names if name in headers), b"")
    async for _ in request.body:
        pass
    if request.target.startswith("/v1beta/"):
        text = "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in gemini_events())
    else:
        events = anthropic_events() if request.target.startswith("/v1/messages") else openai_events()
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    if KEY not in key.decode():
        return Response(pieces(b""), 401, [(b"content-length", b"0")])
    return Response(pieces(text.encode()), 200, [(b"content-type", b"text/event-stream")])


async def pieces(data: bytes) -> Any:
    yield data


def install() -> None:
    """Install what is not there."""
    npm = ["npm", "install", "--global", f"--prefix={BUILD}", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if not (BUILD / "bin/opencode").exists():
        subprocess.run([*npm, *PACKAGES], check=True)
        for package, script in (("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")):
            subprocess.run(
                ["node", script], cwd=BUILD / "lib/node_modules" / package, check=True
            )  # puts its program in


def configure(directory: Path, port: int, ca_file: str) -> None:
    """Take the presets, with our provider in the place of theirs."""
    text = ""
    for name, host in HOSTS.items():
        preset = (Path(__file__).parents[2] / f"src/gloveport/config/presets/{name}.toml").read_text()
        ours = f'hosts = ["{host}:{port}"]\naddresses = ["{HOST}"]\nca_file = "{ca_file}"'
        if name == "gemini":
            variables = f'GOOGLE_GEMINI_BASE_URL = "https://{host}:{port}", GEMINI_CLI_TRUST_WORKSPACE = "true"'
            preset += f"variables = {{ {variables} }}\n"
        text += preset.replace(f'hosts = ["{host}"]', ours).replace(
            "variables = { ", f'variables = {{ ANTHROPIC_BASE_URL = "https://{host}:{port}", '
        )
    opencode = (Path(__file__).parents[2] / "src/gloveport/config/presets/opencode.toml").read_text()
    address = {"baseURL": f"https://{HOSTS['claude']}:{port}/v1"}
    told = json.dumps(json.dumps({"provider": {"anthropic": {"options": address}}}))
    opencode = opencode[opencode.index("[exec") :]  # its API is Claude's
    text += opencode.replace("variables = { ", f"variables = {{ OPENCODE_CONFIG_CONTENT = {told}, ")
    (directory / "gloveport.toml").write_text(text)
    settings = directory / "work/.gemini/settings.json"  # with an address of its own it would ask nobody for a key
    settings.parent.mkdir()
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))


def run(directory: Path, environ: Mapping[str, str], *argv: str) -> str:
    """What an agent says in the sandbox."""
    command = [str(Path(sys.executable).with_name("gloveport")), "exec", "--", *argv]
    ended = subprocess.run(
        command,
        check=False,
        cwd=directory / "work",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


async def main() -> None:
    """Start each, have each ask its model, and look for the key in all that they have left."""
    install()
    with tempfile.TemporaryDirectory(prefix="agents-", dir="/var/tmp") as name:
        directory = Path(name)
        (directory / "work").mkdir()
        authority = far_authority.make(directory)
        async with web(authority.server(*HOSTS.values())) as provider:
            provider.app.routes |= {"v1": answer, "v1beta": answer}
            configure(directory, provider.place.port, authority.ca_file)
            keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
            ours = {"GLOVEPORT_CONFIG": f"{name}/gloveport.toml", "GLOVEPORT_STATE": f"{name}/state"}
            environ = {**os.environ, **keys, **ours, "PATH": f"{BUILD}/bin:{os.environ['PATH']}"}
            base = f"https://{HOSTS['codex']}:{provider.place.port}/v1"
            fake = f'{{name="fake",base_url="{base}",env_key="OPENAI_API_KEY",wire_api="responses"}}'
            options = ("-c", "model_provider=fake", "-c", "model=fake", "-c", f"model_providers.fake={fake}")
            codex = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *options, "go")
            sessions = [
                ("claude", "-p", "go"),
                ("codex", *codex),
                ("gemini", "-y", "-m", "gemini-2.5-flash", "-p", "go"),
                ("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "go"),
            ]
            for argv in [(agent, "--version") for agent in AGENTS] + sessions:
                said = await anyio.to_thread.run_sync(run, directory, environ, *argv)
                print(f"{argv[0]} {argv[1]}: {said.splitlines()[-1]}")  # noqa: T201 - it is for a person
                assert argv[1] == "--version" or SAYS in said
        left = [
            path for path in (directory / "state").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
        ]
        assert not left, f"the key is in {left}"
        print("the provider got the key, and no agent has it")  # noqa: T201


if __name__ == "__main__":
    anyio.run(main)
