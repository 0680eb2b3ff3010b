"""Which path leads to which wire, with the guard in front of all of them."""

from __future__ import annotations

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.app import Daemon
from mcp_agent.security import Guard
from mcp_agent.transports.artifacts import Artifacts
from mcp_agent.transports.control import Control
from mcp_agent.transports.health import Health
from mcp_agent.transports.http import send_error
from mcp_agent.transports.http_sessions import HttpSessions
from mcp_agent.transports.rpc import Rpc
from mcp_agent.transports.streamable import StreamableHttp


def http_app(daemon: Daemon, token: str, names: tuple[str, ...], *, is_open_to_the_network: bool) -> ASGIApp:
    """Every HTTP wire of `daemon`, behind its guard."""
    sessions = HttpSessions(daemon.hub)
    health = Health(daemon, sessions)
    streamable = StreamableHttp(daemon.methods, daemon.gate, daemon.hub, sessions)
    router = Router(
        routes=[
            Route("/mcp", streamable),
            Route("/mcp/{profile}", streamable),
            Route("/rpc", Rpc(daemon.methods)),
            Route("/health", health),
            Route("/artifacts/{domain}/{id}", Artifacts(daemon.artifacts)),
            Route("/api/{rest:path}", Control(daemon, health)),
        ],
        redirect_slashes=False,
        default=_not_found,
    )
    return Guard(router, token, names, is_open_to_the_network=is_open_to_the_network)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await send_error(send, 404, f"there is nothing at {scope['path'][:100]}", "MCP clients connect to /mcp")
