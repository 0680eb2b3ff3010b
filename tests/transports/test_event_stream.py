"""The beginning of a stream of events, and its heartbeat: without one, something on the way would take it for dead."""

from __future__ import annotations

import asyncio
import contextlib
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

    async with shell_host(tmp_path) as host, asyncio.timeout(PATIENCE_S):
        stream = asyncio.create_task(Events(host.daemon.hub, host.daemon.gate, 0.02)(_scope(), _stay_connected, send))
        before = [await sent.get() for _ in range(3)]
        await host.start("echo hello")
        while b"hello" not in await sent.get():
            pass
        while await sent.get() != b": keep-alive\n\n":
            pass
        stream.cancel()
    assert before == [b": connected\n\n", b": keep-alive\n\n", b": keep-alive\n\n"]


async def test_a_session_that_ends_while_a_stream_of_it_is_opened_reaches_that_stream(tmp_path: Path) -> None:
    """Its last event came between the request and the first byte of the answer, and the client waited for ever."""
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    async with shell_host(tmp_path) as host, asyncio.timeout(PATIENCE_S):
        session = await host.start("read line; echo $line; exit 3")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                await host.call("shell_send_input", session_id=session, input="last\n", wait_ms=10_000, until="last")
                await host.daemon.sessions.find(session).wait_for_exit(PATIENCE_S)
            else:
                sent.put_nowait(message["body"])

        query = f"session_id={session}&since=0".encode()
        stream = asyncio.create_task(Events(host.daemon.hub, host.daemon.gate)(_scope(query), _stay_connected, send))
        heard = b""
        while b"shell_session_exit" not in heard:
            heard += await sent.get()
        stream.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stream
        assert host.daemon.hub.followers == 0
    assert b'"chunk":"last\\n"' in heard


def _scope(query: bytes = b"") -> dict[str, Any]:
    state = {"principal": Principal("owner"), "headers": {}, "streams": OpenStreams(), "revocations": 0}
    return {"type": "http", "http_version": "1.1", "method": "GET", "query_string": query, "state": state}


async def _stay_connected() -> Any:
    return await asyncio.Future()
