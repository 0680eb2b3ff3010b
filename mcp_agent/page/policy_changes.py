"""Changes of tools.json that the running daemon makes for a command or the Tools page, and what it reports of them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from registry.consequences import describe_change
from registry.edits import edit_named, optional_truth
from registry.gate import Access
from tools.sessions.session import Session

# The path of a wire, where it is not its name.
_WIRES = {"http": "mcp"}


class Changes:
    """Makes changes in `daemon`. `connected` gives the clients that are connected now."""

    def __init__(self, daemon: Daemon, connected: Callable[[], list[Caller]]) -> None:
        self._daemon = daemon
        self._connected = connected

    async def make(self, name: str, arguments: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Make the change of that name (`registry.edits`), and report it once it is in force.

        The report says which file was changed, what is different, what the connected clients now see, and which
        sessions go on where the shell is off now. With `stop_sessions`, all sessions are ended before the report.
        Raises what `Daemon.change` raises, and BadArguments.
        """
        daemon = self._daemon
        edit = edit_named(name, arguments)
        stops_sessions = optional_truth(arguments, "stop_sessions")
        clients = Counter(
            (each.name, each.client, _WIRES.get(each.transport, each.transport), each.access)
            for each in self._connected()
        )
        seen = {access: self._count(access) for *_, access in clients}
        before = await daemon.change(edit, by)
        running = daemon.sessions.live
        stopped = await self._stop(running) if stops_sessions else []
        after, catalog = daemon.gate.profiles, daemon.gate.catalog
        profile = after[edit.profile or after.active]
        has_shell = any(profile.allows(tool) for tool in catalog.categories.get("shell", ()))
        return {
            **describe_change(before, after, edit, catalog, is_pinned=daemon.config.profile is not None),
            "file": str(daemon.file.path),
            "clients": [
                {
                    "token": token,
                    "client": client,
                    "wire": wire,
                    "profile": access.narrowed_to or access.profile or after.active,
                    "connections": count,
                    "tools": self._count(access),
                    "tools_before": seen[access],
                }
                for (token, client, wire, access), count in sorted(clients.items(), key=lambda item: item[0][:3])
            ],
            "sessions": [] if has_shell else [_describe(each) for each in running if each.is_running],
            "stopped_sessions": stopped,
        }

    def _count(self, access: Access) -> int:
        return len(self._daemon.gate.visible(access))

    async def _stop(self, sessions: list[Session]) -> list[dict[str, Any]]:
        await asyncio.gather(*(each.stop(signal.SIGTERM) for each in sessions))
        return [_describe(each) for each in sessions]


def _describe(session: Session) -> dict[str, Any]:
    return {"id": session.id, "command": session.command}
