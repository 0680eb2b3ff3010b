"""What the steps of a small task cost a model, with the headers that Claude Code sends."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import seven_steps
from tests.support.daemon import Daemon

_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def project() -> Iterator[Path]:
    """In a folder whose name is as long as those of people."""
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        yield Path(folder)


async def test_each_step_costs_no_more_than_it_must(shared_daemon: Daemon, project: Path) -> None:
    seven_steps.make_project(project)
    costs: dict[str, int] = {}
    session = ""
    about = {"X-Session-Id": "seven-steps", "X-MCP-Agent-Folder": str(project), "MCP-Protocol-Version": "2026-07-28"}
    async with shared_daemon.http(**about) as http:

        async def take(step: seven_steps.ClientStep) -> str:
            params = {"name": step.tool, "arguments": step.arguments, "_meta": _ENVELOPE}
            named = {"Mcp-Method": "tools/call", "Mcp-Name": step.tool}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = (await http.post("/mcp", json=message, headers=named)).json()
            text: str = answer["result"]["content"][0]["text"]
            costs[step.name] = seven_steps.tokens(text)
            return text

        steps = seven_steps.steps(project)
        for step in steps:
            text = await take(step)
            if step.name == "start":
                session = re.findall(r"\bs[0-9a-f]{8}\b", text)[0]
        rest = seven_steps.steps_of_session(session)
        for step in rest:
            await take(step)
    assert {step.name: costs[step.name] for step in (*steps, *rest) if costs[step.name] > step.most_tokens} == {}
    assert sum(costs.values()) <= seven_steps.MOST_IN_ALL, seven_steps.report(costs)
