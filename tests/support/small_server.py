"""A small MCP server over stdio that starts quickly and does what a test asks of it. Run it as a program.

    small_server.py [--tools FILE] [--template URI] [--stderr TEXT] [--exit CODE] [--silent] [--odd]

FILE holds further tools as JSON: their descriptions are the test's, and each answers with its own name. It is read at
each tools/list.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

DOT = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()


def schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


TOOLS: dict[str, dict[str, Any]] = {
    "echo": {"description": "Answer with the text.", "inputSchema": schema(text="string", ctx="string")},
    "look": {
        "title": "Look around",
        "description": "Only look.",
        "inputSchema": schema(),
        "annotations": {"readOnlyHint": True},
        "outputSchema": schema(width="integer"),
    },
    "show": {"description": "Answer with a text and an image.", "inputSchema": schema(size="integer")},
    "print_lines": {"description": "Answer with numbered lines.", "inputSchema": schema(count="integer")},
    "count": {"description": "Report progress.", "inputSchema": schema(to="integer")},
    "fail": {"description": "Answer with an error.", "inputSchema": schema()},
    "refuse": {"description": "Answer with a JSON-RPC error.", "inputSchema": schema()},
    "die": {"description": "End in the middle of the call.", "inputSchema": schema(last_words="string")},
    "hang": {"description": "Never answer.", "inputSchema": schema()},
    "flood": {"description": "Print notifications without end, until the input is closed.", "inputSchema": schema()},
    "write_line": {"description": "Print one line of that many bytes.", "inputSchema": schema(size="integer")},
    "open_file": {"description": "Answer with the path.", "inputSchema": schema(path="string", more="array")},
    "environment": {"description": "Answer with a variable.", "inputSchema": schema(name="string")},
    "process": {"description": "Answer with the process id.", "inputSchema": schema()},
    "add_tool": {"description": "Have one more tool.", "inputSchema": schema(name="string")},
    "link": {"description": "Answer with a link to a resource.", "inputSchema": schema()},
}
# Only with --odd.
ODD_TOOLS: dict[str, dict[str, Any]] = {
    "await_cancel": {"description": "Answer once the call is cancelled.", "inputSchema": schema()},
    "cancelled": {"description": "Answer with the number of cancelled calls.", "inputSchema": schema()},
    "nonsense": {"description": "Answer with what is no result.", "inputSchema": schema()},
    "half_character": {
        "description": "Answer with a text that ends in the middle of a character.",
        "inputSchema": schema(),
    },
    "not_a_number": {"description": "Answer with NaN.", "inputSchema": schema()},
    "sixty_thousand": {"description": "Answer with that many elements.", "inputSchema": schema()},
}
CAPABILITIES = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
PROMPT = {"name": "greet", "description": "Greet somebody.", "arguments": [{"name": "who", "required": True}]}
added: list[str] = []
cancelled: list[int] = []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--template", default="small://number/{number}")
    parser.add_argument("--stderr", default="")
    parser.add_argument("--exit", type=int)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--odd", action="store_true")
    options = parser.parse_args()
    if options.odd:
        TOOLS.update(ODD_TOOLS)
    if options.stderr:
        print(options.stderr, file=sys.stderr, flush=True)
    if options.exit is not None:
        sys.exit(options.exit)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message or options.silent:
            continue
        answer(message, options.tools, options.template)


def answer(message: dict[str, Any], file: Path | None, template: str) -> None:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "small-server", "version": "1"}
            result: Any = {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": info}
        case "tools/list":
            every = {**TOOLS, **(json.loads(file.read_text()) if file else {})}
            every |= {name: {"description": "A new tool.", "inputSchema": schema()} for name in added}
            result = {"tools": [{"name": name, **entry} for name, entry in every.items()]}
        case "tools/call":
            result = call(message, params["name"], params.get("arguments") or {})
        case "resources/list":
            result = {"resources": [{"uri": "small://note", "name": "note", "mimeType": "text/plain"}]}
        case "resources/templates/list":
            result = {"resourceTemplates": [{"uriTemplate": template, "name": "number"}]}
        case "resources/read":
            result = {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": f"of {params['uri']}"}]}
        case "prompts/list":
            result = {"prompts": [PROMPT]}
        case "prompts/get":
            said = {"role": "user", "content": {"type": "text", "text": f"Say hello to {params['arguments']['who']}."}}
            result = {"messages": [said]}
        case _:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
    if result is not None:
        send({"id": message["id"], "result": result})


def call(message: dict[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "look":
            return {**text('{"width": 3}'), "structuredContent": {"width": 3}}
        case "show":
            image = "A" * arguments["size"] if "size" in arguments else DOT
            return {"content": [*text("a dot")["content"], {"type": "image", "data": image, "mimeType": "image/png"}]}
        case "print_lines":
            return text("".join(f"line {number} of the answer\n" for number in range(arguments["count"])))
        case "count":
            token = message["params"].get("_meta", {}).get("progressToken")
            for done in range(1, arguments["to"] + 1):
                about = {"progressToken": token, "progress": done, "total": arguments["to"], "message": f"at {done}"}
                send({"method": "notifications/progress", "params": about})
            return text("done")
        case "fail":
            return {**text("the printer is on fire"), "isError": True}
        case "refuse":
            send({"id": message["id"], "error": {"code": -32000, "message": "not on a Sunday"}})
            return None
        case "die":
            print(arguments.get("last_words", "going down"), file=sys.stderr, flush=True)
            os.kill(os.getpid(), 9)
        case "hang":
            time.sleep(3_600)
        case "flood":
            while True:
                send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 200}})
        case "write_line":
            return text("y" * arguments["size"])
        case "environment":
            return text(os.environ.get(arguments["name"], "is not set"))
        case "process":
            return text(str(os.getpid()))
        case "add_tool":
            added.append(arguments["name"])
            send({"method": "notifications/tools/list_changed"})
        case "await_cancel":
            print("waiting", file=sys.stderr, flush=True)
            heard = json.loads(sys.stdin.readline())
            assert heard["method"] == "notifications/cancelled", heard
            cancelled.append(heard["params"]["requestId"])
            assert cancelled[-1] == message["id"]
        case "cancelled":
            return text(str(len(cancelled)))
        case "nonsense":
            return {"content": "no list"}
        case "half_character":
            return text("a \ud83d")
        case "not_a_number":
            return {"content": [], "structuredContent": {"value": float("nan")}}
        case "sixty_thousand":
            return {"content": [], "structuredContent": {"value": [[]] * 60_000}}
        case "link":
            return {"content": [{"type": "resource_link", "uri": "small://hidden", "name": "hidden"}]}
        case "echo":
            return text(arguments.get("text", ""))
    return text(json.dumps(arguments) if name == "open_file" else name)


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
