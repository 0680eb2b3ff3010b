"""Which path leads to which wire, with the guard in front of all of them."""

from __future__ import annotations

from functools import cache

from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.admin.control import Control
from mcp_agent.admin.health import Health
from mcp_agent.admin.metrics_page import MetricsPage
from mcp_agent.daemon import Daemon
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.guard import Guard
from mcp_agent.transports.artifact_download import Artifacts
from mcp_agent.transports.events import Events
from mcp_agent.transports.http import header, send_error
from mcp_agent.transports.http_sessions import HttpSessions
from mcp_agent.transports.openapi import OpenApi
from mcp_agent.transports.prune import Prune
from mcp_agent.transports.rpc import Rpc
from mcp_agent.transports.sse import Sse
from mcp_agent.transports.streamable import StreamableHttp


def http_app(daemon: Daemon, tokens: Tokens) -> ASGIApp:
    """Every HTTP wire of `daemon`, behind its guard."""
    config = daemon.config
    is_open = not addresses.is_loopback(config.host)
    names = (*config.allow_host, *(addresses.own_names() if is_open else ()))
    sessions = HttpSessions(daemon.hub, daemon.sessions.on_disconnect)
    health = Health(daemon, sessions)
    streamable = StreamableHttp(daemon.methods, daemon.gate, daemon.hub, sessions)
    sse = Sse(daemon.methods, daemon.gate, daemon.hub, daemon.sessions.on_disconnect)
    openapi = OpenApi(daemon.gate, daemon.dispatcher)
    either = _EitherStream(streamable, sse)
    plain: dict[str, ASGIApp] = {
        "/mcp": streamable,
        "/sse": either,
        "/mcp/sse": either,
        "/messages": sse.messages,
        "/rpc": Rpc(daemon.methods),
        "/prune": Prune(daemon.gate, daemon.pruner),
        "/openapi.json": openapi.describe,
        "/events": Events(daemon.hub, daemon.gate),
        "/health": health,
        "/metrics": MetricsPage(
            daemon, {"http": sessions.__len__, "sse": sse.__len__, "events": lambda: daemon.hub.lossless_clients}
        ),
        "/": _Front(streamable),
    }

    @cache
    def patterns() -> ASGIApp:
        # At first use: most daemons are asked only for paths without parameters.
        from starlette.routing import Route, Router

        return Router(
            routes=[
                Route("/mcp/{profile}", streamable),
                Route("/tools/{name}", _App(openapi.call)),
                Route("/artifacts/{domain}/{id}", Artifacts(daemon.artifacts)),
                Route("/api/{rest:path}", Control(daemon, health)),
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        # A table finds a path without parameters in a fraction of what matching patterns costs.
        app = plain.get(scope["path"]) or patterns()
        await app(scope, receive, send)

    return Guard(route, tokens, daemon.streams, names, is_open_to_the_network=is_open, refusals=daemon.refusals)


class _App:
    """A method as an ASGI application: Starlette takes a bare function for a request handler."""

    def __init__(self, handle: ASGIApp) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handle(scope, receive, send)


class _EitherStream:
    """A URL of the 2024 transport. People paste it into clients of the newer one too, so both are served there."""

    def __init__(self, streamable: StreamableHttp, sse: Sse) -> None:
        self._streamable = streamable
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_older = scope["method"] in ("GET", "HEAD") and header(scope, b"mcp-session-id") is None
        await (self._sse.stream if is_older else self._streamable)(scope, receive, send)


class _Front:
    """The bare address: MCP for clients that were given it."""

    def __init__(self, streamable: StreamableHttp) -> None:
        self._streamable = streamable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_mcp = scope["method"] in ("POST", "DELETE") or header(scope, b"mcp-session-id") is not None
        await (self._streamable if is_mcp else _not_found)(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await send_error(send, 404, f"there is nothing at {scope['path'][:100]}", "MCP clients connect to /mcp")
