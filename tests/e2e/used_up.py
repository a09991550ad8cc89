"""Uses up what all processes of an ordinary user share, and asks servers of this user for what they do.

Inotify instances, pending signals, and the pages of pipes, after which new pipes are small. In CI also epoll watches:
millions of them, where there is much memory. As root:

    python -m tests.e2e.used_up UID DIRECTORY

It writes what came of each call, as JSON.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.ordinary import become

_USE_UP = """
import collections, ctypes, errno, fcntl, itertools, json, os, resource, select, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
told, held = {}, []
for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_SIGPENDING):
    _, most = resource.getrlimit(limit)
    resource.setrlimit(limit, (most, most))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, 0) == 0:
    pass
told["signals"] = errno.errorcode[ctypes.get_errno()]
while fcntl.fcntl((pipe := os.pipe())[0], fcntl.F_GETPIPE_SZ) > 8192:
    held += pipe
told["pipe"] = fcntl.fcntl(pipe[0], fcntl.F_GETPIPE_SZ)
with open("/proc/sys/fs/epoll/max_user_watches") as file:
    count = max(1000, int(file.read()) // 10_000)
least = os.open("/proc/sys/kernel/ostype", os.O_RDONLY)  # of files that can be watched, what takes the least time
watched = [os.dup(least) for _ in range(count)]
def use_up():
    while (instance := libc.inotify_init()) >= 0:
        held.append(instance)
    told["inotify"] = errno.errorcode[ctypes.get_errno()]
    try:
        while sys.argv[1:]:  # millions, without a loop
            held.append(select.epoll())
            collections.deque(map(held[-1].register, watched, itertools.repeat(0)), maxlen=0)
    except OSError as error:
        told["epoll"] = errno.errorcode[error.errno]
use_up()
print(json.dumps(told), flush=True)
while not select.select([sys.stdin], [], [], 0.02)[0]:
    use_up()  # what a server has let go since
"""
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
_CALLS = {
    "python": ("execute_code", {"language": "python", "code": "print('said'); 6 * 707"}),
    "shell": ("execute_code", {"language": "shell", "code": "echo 4242"}),
    "command": ("exec_command", {"cmd": "cat; echo 4242", "stdin": "fed"}),
    "terminal": ("exec_command", {"cmd": "echo 4242", "tty": True}),
}


def _message(method: str, params: object, number: int | None = None) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(body if number is None else {**body, "id": number}).encode() + b"\n"


def _call(name: str, number: int) -> bytes:
    tool, arguments = _CALLS[name]
    return _message("tools/call", {"name": tool, "arguments": arguments}, number)


_SERVE = (sys.executable, Path(sys.executable).with_name("gloveport"), "serve")


class _Stdio:
    def __init__(self, directory: Path, config: Path) -> None:
        pipe = subprocess.PIPE
        serve = (*_SERVE, "--workspace", str(directory), "--config", str(config))
        self.process = subprocess.Popen(serve, stdin=pipe, stdout=pipe, bufsize=0)
        self.ask(_message("initialize", _INITIALIZE, 0))
        self.process.stdin.write(_message("notifications/initialized", {}))

    def ask(self, message: bytes) -> dict:
        self.process.stdin.write(message)
        number = json.loads(message)["id"]
        while (answer := json.loads(self.process.stdout.readline())).get("id") != number:
            pass
        return answer

    def all_calls(self) -> dict[str, object]:
        return {name: self.ask(_call(name, number))["result"] for number, name in enumerate(_CALLS, 1)}

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait()


class _Http:
    def __init__(self, config: Path) -> None:
        serve = (*_SERVE, "--http", "--port", "0", "--config", str(config))
        self.process = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
        self.url = next(line for line in self.process.stderr if "serving" in line).split()[-1]
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    def ask(self, message: bytes) -> str:
        request = urllib.request.Request(self.url, message, self.headers)
        with urllib.request.urlopen(request) as answer:
            if session := answer.headers["mcp-session-id"]:
                self.headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
            return answer.read().decode()

    def all_calls(self) -> dict[str, object]:
        self.headers = {name: value for name, value in self.headers.items() if not name.startswith("mcp-")}
        self.ask(_message("initialize", _INITIALIZE, 0))
        return {name: self.ask(_call(name, number)) for number, name in enumerate(("python", "shell"), 1)}

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait()


def main() -> None:
    """See the module."""
    directory = Path(sys.argv[2])
    become(int(sys.argv[1]))
    (directory / "workspace").mkdir()
    os.environ["GLOVEPORT_STATE"] = str(state := directory / "state")
    state.mkdir(mode=0o700)
    (state / "environments").touch()  # so no packages are put together: it takes a server more than all else here
    os.environ["HOME"] = str(directory)
    servers: dict[str, _Stdio | _Http] = {}
    try:
        sys.stdout.write(json.dumps(_ask_all(servers, directory)))
    finally:
        for server in servers.values():
            server.process.kill()


def _ask_all(servers: dict[str, "_Stdio | _Http"], directory: Path) -> dict[str, object]:
    some_wait, nothing_waits = directory / "some-wait.toml", directory / "nothing-waits.toml"
    for config, count in ((some_wait, 2), (nothing_waits, 0)):
        config.write_text(f'policy.languages = ["python", "shell"]\n[pool]\nforked = {count}\n')
        config.chmod(0o600)
    servers["stdio before"] = _Stdio(directory / "workspace", some_wait)
    pipe, watches = subprocess.PIPE, ["epoll"] if os.environ.get("CI") else []
    with subprocess.Popen([sys.executable, "-c", _USE_UP, *watches], stdin=pipe, stdout=pipe, text=True) as user:
        told: dict[str, object] = {"used up": json.loads(user.stdout.readline())}
        servers["http after"] = _Http(nothing_waits)
        told |= {name: server.all_calls() for name, server in servers.items()}
        user.communicate()
    told["again"] = servers["stdio before"].all_calls()
    told["exit codes"] = [server.end() for server in servers.values()]
    return told


if __name__ == "__main__":
    main()
