"""A composed daemon with mounted servers, for tests: most mount tests/support/small_server.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.calls.call import Call, Caller, Failure, Success
from mcp_agent.protocol.methods import tool_result
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import PATIENCE_S, eventually

SMALL_SERVER = Path(__file__).parents[1] / "support" / "small_server.py"


def small(*arguments: str, **more: Any) -> dict[str, Any]:
    """The `mount` of a small server."""
    return {"command": sys.executable, "args": [str(SMALL_SERVER), *arguments], **more}


def document(mounts: dict[str, Any], **profile: Any) -> dict[str, Any]:
    """A tools.json with these mounts in its default profile."""
    categories = [{"id": category, "mount": mount} for category, mount in mounts.items()]
    return {"profiles": [{"id": "default", **profile, "categories": [*profile.get("categories", ()), *categories]}]}


@contextlib.asynccontextmanager
async def mounted(
    folder: Path, mounts: dict[str, Any] | None = None, *, within_s: float = PATIENCE_S, **profile: Any
) -> AsyncIterator[ShellHost]:
    """A daemon that follows its tools.json; with `mounts`, that file is written and all their tools are known."""
    if mounts is not None:
        (folder / "tools.json").write_text(json.dumps(document(mounts, **profile)))
    async with shell_host(folder) as host:
        follower = asyncio.create_task(host.daemon.follow_registry())
        try:
            await eventually(lambda: all(_is_known(host, each) for each in mounts or {}), within_s=within_s)
            yield host
        finally:
            follower.cancel()
            await asyncio.wait([follower])


def _is_known(host: ShellHost, category: str) -> bool:
    """Whether the tools of a mount are listed, and their switches are in the file, which a test may now replace."""
    listed = names(host, category)
    return bool(listed) and not host.daemon.gate.profiles.lacks_tools(category, listed)


def names(host: ShellHost, category: str) -> list[str]:
    return [tool.name for tool in host.daemon.gate.catalog.categories.get(category, ())]


async def send(host: ShellHost, tool: str, *, client: str = "", **arguments: Any) -> dict[str, Any]:
    """The result of tools/call as an MCP client gets it."""
    caller = Caller("owner", Access(), "http", client)
    outcome = await host.daemon.dispatcher.call(Call("test", caller, tool, arguments))
    assert isinstance(outcome, Success | Failure), outcome
    found: dict[str, Any] = orjson.loads(orjson.dumps(tool_result(outcome)))
    return found
