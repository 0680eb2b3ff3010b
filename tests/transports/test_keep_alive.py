"""A stream with nothing to tell says so now and then, or something on the way would take it for dead."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.transports.events import Events
from tests.support.shell_host import shell_host
from tests.support.waiting import PATIENCE_S


async def test_a_quiet_stream_says_again_and_again_that_it_is_alive(tmp_path: Path) -> None:
    sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.put_nowait(message["body"])

    async def receive() -> Any:
        return await asyncio.Future()

    state = {"principal": Principal("owner"), "headers": {}, "streams": OpenStreams(), "revocations": 0}
    scope = {"type": "http", "http_version": "1.1", "method": "GET", "query_string": b"", "state": state}
    async with shell_host(tmp_path) as host, asyncio.timeout(PATIENCE_S):
        stream = asyncio.create_task(Events(host.daemon.hub, host.daemon.gate, 0.02)(scope, receive, send))
        before = [await sent.get() for _ in range(3)]
        await host.start("echo hello")
        while b"hello" not in await sent.get():
            pass
        while await sent.get() != b": keep-alive\n\n":
            pass
        stream.cancel()
    assert before == [b": connected\n\n", b": keep-alive\n\n", b": keep-alive\n\n"]
