"""`mcp-agent` that also writes each request to /mcp, as it came, into the file that a variable names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FILE = "TEST_RECORDING"
# What a client says of itself by its headers; the rest is the connection's.
_KEPT = ("accept", "content-type", "user-agent", "last-event-id", "x-mcp-agent-form")


class _Recorder:
    def __init__(self, app: ASGIApp, file: Path) -> None:
        self._app, self._file = app, file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/mcp"):
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self._write(scope, bytes(body))
            return message

        if scope["method"] != "POST":
            self._write(scope, b"")
            await self._app(scope, receive, send)
        else:
            await self._app(scope, hear, send)

    def _write(self, scope: Scope, body: bytes) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        request = {
            "method": scope["method"],
            "path": scope["path"],
            "headers": {key: value for key, value in headers.items() if key in _KEPT or key.startswith("mcp-")},
            "body": json.loads(body) if body else None,
        }
        with self._file.open("a") as file:
            file.write(json.dumps(request, ensure_ascii=False) + "\n")


def main() -> int:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from mcp_agent import routes
    from mcp_agent.cli.main import run

    file, application = Path(os.environ[FILE]), routes.http_app
    routes.http_app = lambda *arguments: _Recorder(application(*arguments), file)
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
