"""A composed daemon whose results are kept short, with the tests' own tools beside the real ones, and no socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import orjson

import tests.support.probes
from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Caller
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.methods import McpRequest
from registry.catalog import Catalog, discover
from registry.gate import Access
from tests.answers import promises

Era = Literal["handshake", "stateless", "rpc"]
ERAS: tuple[Era, ...] = ("handshake", "stateless", "rpc")
EVERY_TOOL = Catalog([*discover().tools, *discover(tests.support.probes).tools])


class CompactHost:
    """Calls tools through the protocol, and gives the results as the bytes that a wire would send."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder

    async def answer(
        self, tool: str, *, era: Era = "handshake", who: str = "owner", profile: str = "compact", **arguments: Any
    ) -> dict[str, Any]:
        """The whole message that answers a call."""
        caller = Caller(who, Access(profile), "rpc" if era == "rpc" else "http", "a test")
        message = jsonrpc.message(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        )
        assert message is not None
        conversation = None if era == "stateless" else Conversation(eras.LATEST_HANDSHAKE)
        body: dict[str, Any] = orjson.loads(
            (await self.daemon.methods.answer(McpRequest(message, caller, conversation))).body
        )
        return body

    async def result(self, tool: str, **arguments: Any) -> bytes:
        """The result as it is sent; every promise is checked on the way."""
        answer = await self.answer(tool, **arguments)
        assert "result" in answer, answer
        encoded = orjson.dumps(answer["result"])
        assert promises.broken(encoded, tool) == [], encoded[:2_000]
        return encoded

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The object in the result."""
        return promises.shown(await self.result(tool, **arguments))

    async def pages(self, tool: str, first: dict[str, Any]) -> list[dict[str, Any]]:
        """All pages of a result, each asked for over another wire; the last one has no cursor."""
        pages = [first]
        while "nextCursor" in pages[-1]:
            assert pages[-1]["hasMore"] is True
            pages.append(await self.call(tool, era=ERAS[len(pages) % 3], cursor=pages[-1]["nextCursor"]))
            assert pages[-1]["artifactRef"] == first["artifactRef"]
        return pages

    def kept(self, shown: dict[str, Any], who: str = "owner") -> bytes:
        """The artifact that a result refers to."""
        return self.daemon.artifacts.of(who).path_of(shown["artifactRef"]).read_bytes()


@contextlib.asynccontextmanager
async def compact_host(folder: Path, **settings: Any) -> AsyncIterator[CompactHost]:
    flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json"), **settings}
    daemon = compose_daemon(load({"command_undo": False, **flags}, {}), EVERY_TOOL, working_directory=folder)
    try:
        yield CompactHost(daemon, folder)
    finally:
        await daemon.stop(0.5)
        daemon.close()
