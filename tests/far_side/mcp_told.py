"""An MCP server on raw standard streams that offers what a file says just then, and may tell its secret in every form.

    python -I -S mcp_told.py FILE

FILE holds a list of tools as the protocol has them. It is read for each listing. It starts quickly:
of the standard library it imports little.
"""

import binascii
import json
import os
import sys

FILE = sys.argv[1]
SECRET = os.environ.get("TOKEN", "")
FORMS = {
    "plain": SECRET,
    "base64": binascii.b2a_base64(f"user:{SECRET}".encode(), newline=False).decode(),
    "hex": SECRET.encode().hex(),
    "url": "".join(letter if letter.isalnum() or letter in "_.-~" else f"%{ord(letter):02X}" for letter in SECRET),
    "json": json.dumps(SECRET)[1:-1],
    "reversed": SECRET[::-1],
}


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(number: int, how: str) -> None:
    """Tell the secret, in all forms, in this place of an answer."""
    told = " ".join(FORMS.values())
    sys.stderr.write(f"{told}\n")
    sys.stderr.flush()
    block = {"type": "text", "text": told}
    results = {
        "text": {"content": [block]},
        "error": {"content": [block], "isError": True},
        "structured": {"content": [], "structuredContent": {"a": list(FORMS.values()), told: 1}},
        "json": {"content": [{"type": "text", "text": json.dumps(FORMS)}]},
        "resource": {"content": [{"type": "resource", "resource": {"uri": f"x://{FORMS['url']}", "text": told}}]},
        "broken": {"content": [{"type": "text", "text": 5, told: told}]},
    }
    if how == "refusal":
        send(id=number, error={"code": -32000, "message": told, "data": told})
    elif how == "end":
        sys.exit(1)
    else:
        send(id=number, result=results[how])


def call(number: int, name: str, arguments: dict) -> None:
    if name == "tell":
        tell(number, arguments["how"])
        return
    if name == "long":
        send(id=number, result={"content": [{"type": "text", "text": "x" * arguments["size"]}], "isError": True})
        return
    if name == "change":
        with open(FILE, "w") as file:  # noqa: PTH123 - pathlib takes long to import
            json.dump(arguments["tools"], file)
        send(method="notifications/tools/list_changed")
    if name == "end":
        sys.exit(0)
    send(id=number, result={"content": [], "structuredContent": {"tool": name, "arguments": arguments}})


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        number, params = request.get("id"), request.get("params") or {}
        match request.get("method"):
            case "initialize":
                info = {"name": "told", "version": "0"}
                capabilities = {"tools": {"listChanged": True}}
                send(
                    id=number,
                    result={"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info},
                )
            case "tools/list":
                with open(FILE) as file:  # noqa: PTH123
                    text = file.read().replace("TOKEN", SECRET or "TOKEN")
                send(id=number, result={"tools": json.loads(text)})
            case "tools/call":
                call(number, params["name"], params.get("arguments") or {})
            case _ if number is not None:
                send(id=number, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    try:  # noqa: SIM105 - contextlib takes longer to import than json
        main()
    except BrokenPipeError:
        pass
