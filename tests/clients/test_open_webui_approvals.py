"""A chat in the real Open WebUI whose tool call waits for the owner: `make test-openwebui`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx2
import pytest

from tests.approvals.asking import pending
from tests.support.daemon import Daemon, running
from tests.support.open_webui import OpenWebUI, open_webui, scripted_model
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_OPEN_WEBUI"), reason="run it with `make test-openwebui`"),
]

_ASKING = {"profiles": [{"id": "default", "categories": [{"id": "shell", "ask": True}]}]}
_ANSWERS = {"approve": "one 21", "deny": "use the test database"}


async def test_the_chat_goes_on_with_what_the_owner_answered(home: Path, tmp_path: Path) -> None:
    data, mark = tmp_path / "webui", home / "runs"
    data.mkdir()
    (home / "tools.json").write_text(json.dumps(_ASKING))
    call = ("devbox_shell_exec", {"command": f"echo run >> {mark}; echo one $((20 + 1))"})
    with running(home) as daemon, scripted_model({"Do it": call}) as (model, told):
        async with open_webui(data, model) as webui:
            await _connect(webui, daemon)
            for answer, expected in _ANSWERS.items():
                told.results = []
                await _ask(webui, "Do it")
                (request,) = await pending(daemon)
                assert request["command"] == call[1]["command"]
                # Its owner reads the question for a while.
                await asyncio.sleep(5)
                assert told.results == []
                reason = ["--reason", expected] if answer == "deny" else []
                done = await asyncio.to_thread(daemon.cli, "approvals", answer, request["id"], *reason)
                assert done.returncode == 0, done.stderr
                results = await eventually(lambda: told.results, within_s=60)
                print(answer, request, results)
                assert expected in results[-1]
    assert mark.read_text() == "run\n"


async def _connect(webui: OpenWebUI, daemon: Daemon) -> None:
    connection = {
        "url": f"{daemon.url}/mcp",
        "path": "",
        "type": "mcp",
        "auth_type": "bearer",
        "key": daemon.token,
        "config": {"enable": True},
        "info": {"id": "devbox", "name": "devbox", "description": ""},
    }
    async with _http(webui) as http:
        saved = await http.post("/api/v1/configs/tool_servers", json={"TOOL_SERVER_CONNECTIONS": [connection]})
        assert saved.status_code == 200, saved.text


async def _ask(webui: OpenWebUI, text: str) -> None:
    """What the page sends when a person says so."""
    question = {
        "model": "scripted",
        "messages": [{"role": "user", "content": text}],
        "tool_ids": ["server:mcp:devbox"],
        "params": {"function_calling": "native"},
        "stream": True,
        "chat_id": "local:a-test",
        "id": "an-answer",
        "session_id": "a-session",
    }
    async with _http(webui) as http:
        asked = await http.post("/api/chat/completions", json=question)
        assert asked.status_code == 200, asked.text


def _http(webui: OpenWebUI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=webui.url, headers={"Authorization": f"Bearer {webui.token}"}, timeout=60)
