"""The gateway's end of a call, where it has no connection."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcp_agent.calls.call import Call, Caller
from mcp_agent.fleet import box_calls
from mcp_agent.fleet.box_calls import BoxCalls
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import Box, Directory
from registry.gate import Access, Grant
from tests.support.nats import nats_server
from tests.support.waiting import eventually
from tools.kit.errors import BoxUnreachable


async def test_without_nats_no_other_box_is_recommended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_calls, "_RECONNECT_S", 0.5)
    with nats_server(tmp_path) as server:
        bus = Bus(server.url, name="test", inbox_prefix="_INBOX.test")
        calls = BoxCalls(bus, Directory(bus), "gw")
        await bus.start()
        try:
            server.kill()
            await eventually(lambda: bus.problem)
            call = Call("test", Caller("owner", Access(), "rpc"), "shell_exec", {"command": "true"})
            with pytest.raises(BoxUnreachable) as refused:
                await calls.call(Box("one", "b00t", heard_at=time.monotonic()), call, Grant("default", "auto", 60.0))
        finally:
            await bus.close()
    error = refused.value
    assert f"no connection to NATS (NATS at {server.host}:{server.port} cannot be used: " in error.message
    assert error.message.endswith("; the call has not run")
    assert (error.hint, error.may_have_run) == ("no box can be reached now; try again later", False)
