"""The endpoints of /api for mounted servers: their state, and what their owner does with them."""

from __future__ import annotations

from typing import Any

from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, Routes
from registry.gate import Access, Gate

# As long as a server may take to start.
_SETTLE_S = 65.0


class MountControl:
    """What is asked of the mounted servers of a daemon, and done to them."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "mounts"): self._list,
            ("GET", "mounts/<name>"): self._show,
            ("POST", "mounts/<name>/restart"): self._restart,
            ("POST", "mounts/<name>/accept"): self._accept,
        }

    async def _list(self, _: ApiRequest) -> dict[str, Any]:
        return {"mounts": {name: self._with_tokens(name, facts) for name, facts in self._daemon.mounts.facts.items()}}

    async def _show(self, request: ApiRequest) -> dict[str, Any]:
        """One mount, once its server has listed its tools or has failed."""
        name = request.named["name"]
        facts = await self._daemon.mounts.settle(name, _SETTLE_S)
        changes = [change._asdict() for change in self._daemon.mounts.known(name).changes]
        return {**self._with_tokens(name, facts), "changes": changes}

    async def _restart(self, request: ApiRequest) -> dict[str, Any]:
        await self._daemon.mounts.restart(request.named["name"])
        self._daemon.audit.note("mount_restarted", by=request.by, mount=request.named["name"])
        return await self._show(request)

    async def _accept(self, request: ApiRequest) -> dict[str, Any]:
        """The owner has seen the tools as they are."""
        self._daemon.mounts.known(request.named["name"]).accept()
        self._daemon.audit.note("mount_accepted", by=request.by, mount=request.named["name"])
        return await self._list(request)

    def _with_tokens(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, **list_cost(self._daemon.gate, name)}


def list_cost(gate: Gate, category: str) -> dict[str, int]:
    """How many tools of a mount callers of the active profile are shown, and what they cost a model in tokens."""
    # A wrapped program may stand in the same category: only a mounted tool has a schema that it was given.
    shown = gate.visible(Access())
    tools = [tool for tool in shown if tool.category == category and tool.given_schema is not None]
    return {"shown": len(tools), "tokens": sum(tool.list_tokens for tool in tools)}
