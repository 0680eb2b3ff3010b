"""The requests that Open WebUI 0.12.4 sent while a person walked through it, sent again.

tests/clients/test_open_webui.py records them (`make test-openwebui`), and says when a newer version sends others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.clients.test_open_webui import NOTEBOOK
from tests.support import ROOT
from tests.support.daemon import Daemon, running
from tests.support.websocket import reserve, shell_of

_REQUESTS: list[dict[str, Any]] = json.loads(
    (ROOT / "tests" / "open_terminal" / "recorded" / "walk.json").read_text("utf-8")
)
_PLAIN = [each for each in _REQUESTS if "upgrade" not in each["headers"]]
# What Open WebUI asks for to find out that it is not there.
_MISSING = ("/api/v1/policies", "AGENTS.md", "/proxy/1/")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("home")
    project = home / "project"
    project.mkdir()
    (project / "README.md").write_text("# Weather\n")
    (project / "logo.png").write_bytes((ROOT / "docs" / "images" / "open-webui-shell.png").read_bytes())
    (project / "sums.ipynb").write_text(json.dumps(NOTEBOOK))
    with running(home, cwd=project, extra={"SHELL": "/bin/sh"}) as started:
        yield started


@pytest.mark.parametrize("recorded", _PLAIN, ids=lambda each: f"{each['method']} {each['target'][15:60]}")
async def test_what_was_sent_is_answered(machine: Daemon, recorded: dict[str, Any]) -> None:
    values = {"authorization": f"Bearer {machine.token}", "content-type": "application/json"}
    headers = {name: values.get(name, f"the-{name}") for name in recorded["headers"]}
    async with httpx2.AsyncClient(base_url=machine.url, headers=headers, timeout=60) as client:
        command = {"command": "printf one; sleep 30"}
        session = (await client.post("/open-terminal/tools/shell_start_session", json=command)).text.split()[1]
        filled = {
            "{project}": str(machine.home / "project"),
            "{home}": str(machine.home),
            "{id}": session,
            "{offset}": "0",
            # Nothing listens there; tests/previews have sites.
            "{port}": "1",
            "{notebook}": await _open_notebook(client) if "{notebook}" in recorded["target"] else "",
            # The walk stops this one; a test of its own does that.
            "sleep 300": "sleep 0",
        }
        target, body = recorded["target"], recorded["body"]
        for name, value in filled.items():
            target, body = target.replace(name, value), body.replace(name, value)
        answer = await client.request(recorded["method"], target, content=body.encode())
        await client.post("/open-terminal/tools/shell_stop_session", json={"session_id": session})
    assert answer.status_code == (404 if target.endswith(_MISSING) else 200), answer.text


async def _open_notebook(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/open-terminal/notebooks", json={"path": "sums.ipynb"}, timeout=90)
    return str(answer.json()["id"])


async def test_its_websocket_is_opened(machine: Daemon) -> None:
    (recorded,) = (each for each in _REQUESTS if "upgrade" in each["headers"])
    assert recorded["target"] == "/open-terminal/api/terminals/{id}?user_id={user}"
    assert recorded["headers"] == ["upgrade", "x-session-id", "x-user-id"]
    assert await reserve(machine)
    async with shell_of(machine) as opened:
        await opened.type("echo here\r")
        await opened.sees("here\r\n")
