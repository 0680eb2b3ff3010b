"""health: that the pruner is there, and what it can do."""

from __future__ import annotations

from datetime import datetime

from tools.context import ToolContext
from tools.kit.results import Result
from tools.kit.spec import tool

CAPABILITIES = ("prune_text", "recover_text", "annotations", "markers")


class Health(Result, frozen=True):
    status: str
    server: str
    version: str
    capabilities: list[str]
    timestamp: str

    def render(self) -> str:
        return f"[{self.server} {self.version} · {self.status} · {', '.join(self.capabilities)}]"

    def summary(self) -> str:
        return f"{self.server} {self.version} is {self.status}"


@tool("pruning", effect="read", title="Health of the pruner")
async def health(ctx: ToolContext) -> Health:
    """Say whether the pruner works and what it can do."""
    version = "unknown" if ctx.pruner is None else ctx.pruner.version
    return Health(
        status="healthy",
        server="mcp-pruner",
        version=version,
        capabilities=list(CAPABILITIES),
        timestamp=datetime.now().astimezone().isoformat(timespec="seconds"),
    )
