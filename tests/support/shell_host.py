"""A composed daemon for tests of the shell: calls go through its dispatcher, and nothing may be left at its end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Failure, Success
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from registry.gate import Access
from tools.sessions import process_tree


class ShellHost:
    """Calls tools as one caller; `client` names another one."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder

    async def call(
        self, tool: str, *, wire: str = "rpc", client: str = "", connection: str = "a-test", **arguments: Any
    ) -> dict[str, Any]:
        """The result of a call, or its error."""
        caller = Caller("owner", Access(), wire, client, connection=connection)
        outcome = await self.daemon.dispatcher.call(Call("test", caller, tool, arguments))
        assert isinstance(outcome, Success | Failure), outcome
        return outcome.reply.as_object()

    async def start(self, command: str, **arguments: Any) -> str:
        """The id of a new session. Another conversation starts it: for this one, all its output is new."""
        started = await self.call("shell_start_session", connection="a-start", command=command, **arguments)
        assert "error" not in started, started
        return str(started["session_id"])

    async def read(self, session_id: str, until: str, **arguments: Any) -> dict[str, Any]:
        """What a session has printed once it has printed `until`."""
        read = await self.call(
            "shell_send_input", session_id=session_id, **{"input": "", "wait_ms": 10_000, "until": until, **arguments}
        )
        assert read.get("matched"), read
        return read

    def processes(self) -> set[process_tree.ProcessId]:
        """Every living process that this daemon started, and all that those started."""
        return process_tree.find(process_tree.environment_entry(f"{self.daemon.hub.boot}-"))


@contextlib.asynccontextmanager
async def shell_host(folder: Path, **settings: Any) -> AsyncIterator[ShellHost]:
    flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json"), **settings}
    daemon = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder)
    host = ShellHost(daemon, folder)
    try:
        yield host
    finally:
        await daemon.stop(0.5)
        daemon.close()
        assert host.processes() == set()
