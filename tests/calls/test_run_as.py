"""Work that a wire does in the name of a tool: its rules hold, and however it ends, the observers hear of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller
from registry.gate import Access
from tests.support.shell_host import ShellHost
from tools.context import Cancelled, ToolContext
from tools.filesystem.raw_files import Folder
from tools.kit.errors import InternalError, NotFound
from tools.kit.spec import Tool


async def _run(host: ShellHost, error: Exception | None) -> Folder:
    def work(ctx: ToolContext, tool: Tool) -> Folder:
        if error is not None:
            raise error
        return Folder(tool.name)

    return await host.daemon.dispatcher.run_as(Call("a-call", Caller("owner", Access(), "test"), "fs_read", {}), work)


def _audited(host: ShellHost) -> list[str]:
    lines: list[dict[str, Any]] = []
    for line in (host.daemon.config.audit_dir / "audit.jsonl").read_text().splitlines():
        lines.append(json.loads(line))
    return [line["outcome"] for line in lines if line.get("tool") == "fs_read"]


async def test_its_result_is_given_and_audited(shell: ShellHost) -> None:
    assert (await _run(shell, None)).path == "fs_read"
    assert _audited(shell) == ["ok"]


async def test_an_error_of_the_tool_and_a_fault_of_ours_are_raised(shell: ShellHost) -> None:
    with pytest.raises(NotFound):
        await _run(shell, NotFound("it is not there"))
    with pytest.raises(InternalError):
        await _run(shell, ZeroDivisionError())
    assert _audited(shell) == ["NOT_FOUND", "INTERNAL_ERROR"]


async def test_work_that_stops_because_it_was_cancelled_is_no_fault(shell: ShellHost) -> None:
    with pytest.raises(asyncio.CancelledError):
        await _run(shell, Cancelled())
    assert _audited(shell) == ["CANCELLED"]
