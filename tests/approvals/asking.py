"""What the owner does in the tests: sees what waits, and decides."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

from tests.support.daemon import Daemon
from tests.support.waiting import eventually


async def pending(daemon: Daemon, count: int = 1) -> list[dict[str, Any]]:
    """The questions that wait, once there are so many."""
    async with daemon.http() as http:

        async def look() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await http.get("/api/approvals")).json()["approvals"]
            return found

        return await eventually(look, lambda found: len(found) == count and all(each["waiting"] for each in found))


async def decide(daemon: Daemon, request_id: str, decision: str, **more: str) -> dict[str, Any]:
    async with daemon.http() as http:
        answer = await http.post(f"/api/approvals/{request_id}", json={"decision": decision, **more})
        found: dict[str, Any] = answer.json()
        return {"status": answer.status_code, **found}


Era = Literal["handshake", "stateless"]
_STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextlib.asynccontextmanager
async def streamed_command(daemon: Daemon, era: Era, command: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """What is on the stream that answers a shell_exec with a progress token, message by message."""
    headers = {"Accept": "application/json, text/event-stream"}
    meta: dict[str, Any] = {"progressToken": "p"}
    if era == "stateless":
        headers |= {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "shell_exec"}
        meta |= _STATELESS
    params = {"name": "shell_exec", "arguments": {"command": command}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with daemon.http(**headers) as http, http.stream("POST", "/mcp", json=message) as response:
        assert response.headers["content-type"].startswith("text/event-stream")

        async def messages() -> AsyncIterator[dict[str, Any]]:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))

        yield messages()
