"""What the coding clients really sent, sent again: `make test-clients RECORD=1` has written these exchanges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import Daemon

_RECORDED = {path.stem: path for path in sorted((Path(__file__).parent / "recorded").glob("*.json"))}
_NAMES = {
    "claude-code": "claude-code",
    "cline": "@cline/core",
    "codex": "codex-mcp-client",
    "copilot-cli": "copilot-cli",
    "gemini-cli": "gemini-cli-mcp-client",
    "opencode": "opencode",
    "qwen-code": "qwen-cli-mcp-client-devbox",
}


def test_there_is_an_exchange_of_every_client() -> None:
    assert list(_RECORDED) == list(_NAMES)


class _Player:
    """Sends the requests of one client in their order, in sessions of its own."""

    def __init__(self, http: httpx2.AsyncClient, daemon: Daemon) -> None:
        self._http, self._daemon = http, daemon
        self._sessions: dict[str, str] = {}
        self._newest = ""

    async def send(self, request: dict[str, Any]) -> tuple[int, Any]:
        """The status, and the message that answers; for a stream the first one of it that is no notification."""
        headers = {key: value for key, value in request["headers"].items() if key != "last-event-id"}
        if recorded := headers.get("mcp-session-id"):
            headers["mcp-session-id"] = self._sessions.setdefault(recorded, self._newest)
        text = json.dumps(request["body"]).replace("$HOME", str(self._daemon.home))
        content = None if request["body"] is None else text
        async with self._http.stream(request["method"], request["path"], headers=headers, content=content) as answer:
            self._newest = answer.headers.get("mcp-session-id", self._newest)
            kind = answer.headers.get("content-type", "")
            if request["method"] != "POST" or (request["body"] or {}).get("method") == "subscriptions/listen":
                return answer.status_code, None
            if kind.startswith("text/event-stream"):
                async for line in answer.aiter_lines():
                    if line.startswith("data: {") and "id" in (message := json.loads(line[6:])):
                        return answer.status_code, message
            body = await answer.aread()
            return answer.status_code, json.loads(body) if body else None


@pytest.mark.parametrize("client", _RECORDED)
async def test_it_is_answered_as_it_expects(shared_daemon: Daemon, client: str) -> None:
    requests = json.loads(_RECORDED[client].read_text())
    (shared_daemon.home / "work").mkdir(exist_ok=True)
    calls = 0
    async with shared_daemon.http() as http:
        player = _Player(http, shared_daemon)
        for request in requests:
            status, message = await player.send(request)
            method = (request["body"] or {}).get("method", request["method"])
            if client == "copilot-cli" and method == "server/discover":
                assert status == 404, "it is served with a handshake"
                continue
            assert status in (200, 202, 204), (method, status, message)
            if "id" not in (request["body"] or {}) or method == "subscriptions/listen":
                continue
            result = message["result"]
            if method == "initialize":
                params = request["body"]["params"]
                assert params["clientInfo"]["name"] == _NAMES[client]
                assert result["protocolVersion"] == params["protocolVersion"]
            elif method == "tools/list":
                assert len(result["tools"]) == 13
                assert all(("_meta" in tool) is (client == "claude-code") for tool in result["tools"])
            elif method == "tools/call":
                calls += 1
                (block,) = result["content"]
                assert "structuredContent" not in result, "the same content twice"
                assert block["text"].startswith(("[exit 0", str(shared_daemon.home)))
                assert len(block["text"].encode()) <= 32_000
    assert calls >= 4
