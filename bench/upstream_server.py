"""An MCP server over its standard streams that starts and answers at once: what is measured is whoever calls it.

``python upstream_server.py [TOOLS]``: it has the tool ``echo`` and as many others, which do the same; and ``visit``,
which takes anything.
"""

import json
import sys

TOOL = {
    "description": "Return the text",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}


VISIT = {"name": "visit", "description": "Visit", "inputSchema": {"type": "object"}}


def main() -> None:
    """See the module."""
    names = ["echo", *(f"echo_{number}" for number in range(int((sys.argv[1:] or ["0"])[0])))]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        params = message.get("params", {})
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "bench", "version": "1"},
                }
            case "tools/list":
                answer["result"] = {"tools": [*({"name": name, **TOOL} for name in names), VISIT]}
            case "tools/call":
                answer["result"] = {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
            case _:
                answer["error"] = {"code": -32601, "message": "no such method"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
