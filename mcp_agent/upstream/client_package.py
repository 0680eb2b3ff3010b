"""The official MCP client is an extra: most daemons mount nothing, and it is a quarter of what would be installed."""

from __future__ import annotations

from mcp_agent.process.extras import import_extra

_MODULES = ("mcp.client", "mcp.client.streamable_http", "mcp.client.subscriptions", "httpx2")


def import_client() -> None:
    """Import the client library, which takes half a second. Raises UserError if it is not installed."""
    import_extra("mount", _MODULES, what="the client of mounted servers")
