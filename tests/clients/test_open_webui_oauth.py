"""The real Open WebUI, let in by OAuth 2.1 with the click of the owner: `make test-openwebui`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx2
import pytest

from tests.support import consent
from tests.support.browser import chromium
from tests.support.oauth import public_daemon
from tests.support.open_webui import open_webui, scripted_model
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("MCP_AGENT_TEST_OPEN_WEBUI"), reason="run it with `make test-openwebui`"),
]


async def test_a_connection_with_oauth_sees_what_its_profile_allows(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "webui"
    data.mkdir()
    (home / "hello.txt").write_text("hello")
    script = {"List it": ("devbox_fs_list", {"path": str(home)})}
    with public_daemon(home) as daemon, scripted_model(script) as (model, told):
        async with open_webui(data, model) as webui, chromium() as browser:
            url, headers = f"{daemon.url}/mcp", {"Authorization": f"Bearer {webui.token}"}
            async with httpx2.AsyncClient(base_url=f"{webui.url}/api/v1/configs", headers=headers, timeout=60) as http:
                # What its form does when a connection with OAuth 2.1 is saved.
                registered = await http.post(
                    "oauth/clients/register?type=mcp", json={"url": url, "client_id": "devbox"}
                )
                assert registered.status_code == 200, registered.text
                connection = {
                    "url": url,
                    "path": "",
                    "type": "mcp",
                    "auth_type": "oauth_2.1",
                    "key": "",
                    "config": {"enable": True},
                    "info": {"id": "devbox", "name": "devbox", "description": "", **registered.json()},
                }
                saved = await http.post("tool_servers", json={"TOOL_SERVER_CONNECTIONS": [connection]})
                assert saved.status_code == 200, saved.text

                context = await browser.new_context()
                await context.add_cookies([{"name": "token", "value": webui.token, "url": webui.url}])
                page = await context.new_page()
                page.set_default_timeout(60_000)
                await page.goto(f"{webui.url}/oauth/clients/mcp:devbox/authorize")
                shown = await consent.answer(page, daemon)
                assert "It calls itself \u201cOpen WebUI\u201d" in shown
                await page.wait_for_url(f"{webui.url}/**")

                tools = (await http.get(f"{webui.url}/api/v1/tools/")).json()
                (listed,) = [each for each in tools if each["id"] == "server:mcp:devbox"]
                assert listed["authenticated"] is True
                # In a chat, its model calls a tool: as the grant says, by its name.
                question = {
                    "model": "scripted",
                    "messages": [{"role": "user", "content": "List it"}],
                    "tool_ids": ["server:mcp:devbox"],
                    "params": {"function_calling": "native"},
                    "stream": True,
                    "chat_id": "local:a-test",
                    "id": "an-answer",
                    "session_id": "a-session",
                }
                asked = await http.post(f"{webui.url}/api/chat/completions", json=question)
                assert asked.status_code == 200, asked.text
                results = await eventually(lambda: told.results, within_s=60)
                assert "hello.txt" in results[-1]
    called = [json.loads(line) for line in (home / ".local/state/mcp-agent/audit/audit.jsonl").read_text().splitlines()]
    assert [(each["tool"], each["client"]) for each in called if "tool" in each] == [
        ("fs_list", "local-open-webui@oauth")
    ]
