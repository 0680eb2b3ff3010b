"""What a client can do to the switches that bind it: nothing."""

from __future__ import annotations

import json
from typing import Any

from tests.support.daemon import Daemon

_OFF = {"profiles": [{"id": "default", "categories": [{"id": "shell", "enabled": False}]}]}


async def _call(daemon: Daemon, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await daemon.rpc("tools/call", name=name, arguments=arguments)
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found


async def test_a_model_cannot_switch_its_own_tools_on(daemon: Daemon) -> None:
    daemon.save(_OFF)
    operations = [{"type": "replace_all", "pattern": "false", "replacement": "true"}]
    patched = await _call(daemon, "fs_patch", path=str(daemon.tools_json), operations=operations)
    assert patched["error"]["code"] == "DENIED"
    assert "`mcp-agent enable`" in patched["error"]["hint"]
    # The place that is used instead of any other at the next start, and the settings.
    for place in (".mcp-eyes-tools.json", ".config/mcp-agent/config.toml", ".config/mcp-agent/tools.json"):
        written = await _call(daemon, "fs_write", path=str(daemon.home / place), content="{}")
        assert written["error"]["code"] == "DENIED"
    moved = await _call(daemon, "fs_move", **{"from": str(daemon.home), "to": str(daemon.home.with_name("away"))})
    assert moved["error"]["code"] == "DENIED"
    read = await _call(daemon, "fs_read", path=str(daemon.tools_json))
    assert json.loads(read["content"]) == _OFF == json.loads(daemon.tools_json.read_text())


async def test_where_commands_find_the_daemon_is_closed_to_tools(daemon: Daemon) -> None:
    """A command sends the owner's token to the address in that file."""
    runtime = daemon.home / ".local/state/mcp-agent/daemon.json"
    assert (await _call(daemon, "fs_write", path=str(runtime), content="{}"))["error"]["code"] == "DENIED"
