"""Runs the official MCP conformance suites against our server, and fails when a required scenario fails.

Usage: python tests/conformance/run.py [CACHE_DIRECTORY]

The suites come from npm, with a Node.js of their own, into the cache directory (default: build/conformance).
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

SUITES = {
    "0.1.16": ["--suite", "all"],  # the handshake protocols
    "0.2.0-alpha.12": ["--requirements", "2026-07-28"],
}
NODE = "node@24"  # the suites use what older ones lack


def main() -> int:
    cache = Path(sys.argv[1] if len(sys.argv) > 1 else "build/conformance").absolute()
    failed = [version for version, options in SUITES.items() if not passes(cache / version, version, options)]
    say("conformance: " + (f"failed: {', '.join(failed)}" if failed else "all required scenarios pass"))
    return 1 if failed else 0


def passes(directory: Path, version: str, options: list[str]) -> bool:
    binaries = install(directory, version)
    # The server inherits it, so that the suite's first connection waits until the server accepts it.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        program = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("server.py")), str(number)]
        server = subprocess.Popen(program, pass_fds=[number])
    try:
        say(f"== conformance {version} {' '.join(options)}")
        command = ["conformance", "server", "--url", f"http://127.0.0.1:{port}/mcp", *options, "-o", "results"]
        environ = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
        run = subprocess.run(command, check=False, cwd=directory, env=environ, capture_output=True, text=True)
    finally:
        server.terminate()
        server.wait()
    (directory / "log.txt").write_text(run.stdout + run.stderr)
    summary = run.stdout[run.stdout.rfind("=== ") :] if "=== " in run.stdout else run.stdout + run.stderr
    say("\n".join(line[:160] for line in summary.splitlines()))
    return run.returncode == 0


def install(directory: Path, version: str) -> Path:
    binaries = directory / "node_modules" / ".bin"
    if not (binaries / "conformance").exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "package.json").write_text('{"private": true}')
        packages = [NODE, f"@modelcontextprotocol/conformance@{version}"]
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", *packages], cwd=directory, check=True)
    return binaries


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
