"""The least that a client of the daemon is: list the tools, call one, follow a session. Standard library only.

python examples/minimal_client.py http://127.0.0.1:8765 "$(mcp-agent token show)"
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any


def post(url: str, token: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main(url: str, token: str) -> None:
    listed = post(f"{url}/rpc", token, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    print("tools:", ", ".join(tool["name"] for tool in listed["result"]["tools"][:3]), "…")

    done = post(f"{url}/tools/shell_exec", token, {"command": "uname -s"})
    print("exit", done["exit_code"], done["stdout"].strip())

    session = post(f"{url}/tools/shell_start_session", token, {"command": "echo one; sleep 0.2; echo two"})
    path = f"{url}/events?session_id={session['session_id']}&since=0"
    with urllib.request.urlopen(urllib.request.Request(path, headers={"Authorization": f"Bearer {token}"})) as stream:
        for line in stream:
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            print(event["type"], repr(event.get("chunk", event.get("exit_code"))))
            if event["type"] == "shell_session_exit":
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
