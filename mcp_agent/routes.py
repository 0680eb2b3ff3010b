"""Which path leads to which wire, with the guard in front of all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from mcp_agent.page.health import HealthRoute
from mcp_agent.page.metrics_page import MetricsPage
from mcp_agent.previews.sites import Sites
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.browser_logins import BrowserLogins
from mcp_agent.security.guard import PREVIEW_PATH, PROXY_PATH, Guard
from mcp_agent.transports.artifact_download import ArtifactDownload
from mcp_agent.transports.connection import TERMINAL_PATH
from mcp_agent.transports.events import Events
from mcp_agent.transports.http import PathTable, header, send_error
from mcp_agent.transports.http_sessions import HttpSessions
from mcp_agent.transports.openapi import OpenApi
from mcp_agent.transports.prune import Prune
from mcp_agent.transports.rpc import Rpc
from mcp_agent.transports.session_records import SessionRecords
from mcp_agent.transports.sse import Sse
from mcp_agent.transports.streamable import StreamableHttp

TERMINAL_PREFIX = "/open-terminal"
# A file that a person uploads. It is kept in a temporary file until it is whole.
MOST_UPLOAD_BYTES = 1024 * 1024 * 1024


def http_app(daemon: Daemon, tokens: Tokens) -> ASGIApp:
    """Every HTTP wire of `daemon`, behind its guard."""
    config = daemon.config
    is_open = not addresses.is_loopback(config.host)
    names = (*config.allow_host, *(addresses.own_names() if is_open else ()))
    records = SessionRecords(config.mcp_sessions_file)
    sessions = HttpSessions(daemon.hub, daemon.on_disconnect, records=records)
    health = HealthRoute(daemon, sessions)
    streamable = StreamableHttp(daemon.methods, daemon.gate, daemon.hub, sessions)
    sse = Sse(daemon.methods, daemon.gate, daemon.hub, daemon.on_disconnect)
    openapi = OpenApi(daemon.gate, daemon.dispatcher)
    either = _EitherStream(streamable, sse)
    sites = Sites(daemon.sessions, daemon.gate)
    logins = BrowserLogins(tokens.owner_digest, config.logouts_file)
    oauth = None
    if config.public_url is not None and tokens.grants is not None:
        from mcp_agent.oauth.authorization import Authorization
        from mcp_agent.oauth.client_documents import ClientDocuments
        from mcp_agent.oauth.oauth_clients import OAuthClients
        from mcp_agent.oauth.public_name import RESOURCE_METADATA, PublicName

        clients = OAuthClients(tokens.grants.key, ClientDocuments().read)
        daemon.public_name = PublicName(config.public_url)
        oauth = Authorization(daemon, tokens, tokens.grants, clients, daemon.public_name)
        names = (*names, oauth.host)

    def make_api() -> ASGIApp:
        from mcp_agent.page.owner_api import owner_api

        def connected() -> list[Caller]:
            return [*sessions.callers, *daemon.streams.listeners]

        return owner_api(daemon, tokens, health, logins, sites, connected, {} if oauth is None else oauth.api)

    def make_page() -> ASGIApp:
        from mcp_agent.page.page_files import PageRoute
        from mcp_agent.page.page_stream import PageStream

        return PageRoute(logins, api, PageStream(daemon), daemon)

    api, page = _AtFirstUse(make_api), _AtFirstUse(make_page)
    plain: dict[str, ASGIApp] = {
        "/mcp": streamable,
        "/sse": either,
        "/mcp/sse": either,
        "/messages": sse.messages,
        "/rpc": Rpc(daemon.methods),
        "/prune": Prune(daemon.gate, daemon.pruner),
        "/openapi.json": openapi.describe,
        "/events": daemon.elsewhere.events or Events(daemon.hub, daemon.gate),
        "/health": health,
        "/metrics": MetricsPage(
            daemon, {"http": sessions.__len__, "sse": sse.__len__, "events": lambda: daemon.hub.followers}
        ),
        "/": _Front(streamable, page),
        **({} if oauth is None else oauth.endpoints),
    }

    @cache
    def patterns() -> ASGIApp:
        # At first use: most daemons are asked only for paths without parameters.
        from starlette.routing import Route, Router, WebSocketRoute

        from mcp_agent.open_terminal.wire import OpenTerminal
        from mcp_agent.previews.preview_requests import Previews

        open_terminal = OpenTerminal(daemon, sites)
        previews = Previews(sites, daemon.audit)
        own_artifacts = ArtifactDownload(daemon.artifacts, daemon.gate, daemon.audit)
        return Router(
            routes=[
                Route("/mcp/{profile}", streamable),
                Route("/tools/{name}", _App(openapi.call)),
                Route("/artifacts/{domain}/{id}", daemon.elsewhere.artifacts or own_artifacts),
                Route("/api/{rest:path}", api),
                Route("/ui/{rest:path}", page),
                *(Route(f"{path}{{rest:path}}", previews) for path in (PREVIEW_PATH, PROXY_PATH)),
                *(
                    WebSocketRoute(f"{path}{{rest:path}}", _App(previews.connect))
                    for path in (PREVIEW_PATH, PROXY_PATH)
                ),
                Route("/open-terminal/{rest:path}", open_terminal),
                *(() if oauth is None else (Route(f"{RESOURCE_METADATA}/{{rest:path}}", oauth),)),
                WebSocketRoute(f"{TERMINAL_PATH}{{id}}", _App(open_terminal.connect)),
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    routes = PathTable(plain, patterns)
    guard = Guard(
        routes,
        tokens,
        daemon.streams,
        names,
        is_open_to_the_network=is_open,
        refusals=daemon.refusals,
        logins=logins,
        origins=config.allow_origin,
        uploads={"/open-terminal/files/upload": MOST_UPLOAD_BYTES},
        oauth=oauth,
    )
    return _BareTerminal(guard)


class _BareTerminal:
    """Takes what Open WebUI asks of a terminal whose URL was given without its path, for what it is.

    Nothing of ours has these paths. Tools do, and there the header says who asks.
    """

    _PATHS = frozenset(("/ports", "/skills", "/system", "/execute", "/notebooks", "/api/config", "/api/terminals"))
    _FOLDERS = ("/files/", "/skills/", "/execute/", "/notebooks/", "/proxy/", "/api/terminals/")

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and self._is_of_terminal(scope):
            path, raw = f"{TERMINAL_PREFIX}{scope['path']}", TERMINAL_PREFIX.encode() + scope["raw_path"]
            scope = {**scope, "path": path, "raw_path": raw}
        await self._app(scope, receive, send)

    def _is_of_terminal(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path.startswith("/tools/"):
            return any(name == b"x-user-id" for name, _ in scope["headers"])
        return path in self._PATHS or path.startswith(self._FOLDERS)


class _AtFirstUse:
    """An application that is made, and its modules imported, when it is first asked for: few daemons need it."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._application = cache(make)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application()(scope, receive, send)


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
    """The bare address: the Tools page in a browser, and MCP for clients that were given it."""

    def __init__(self, streamable: StreamableHttp, page: ASGIApp) -> None:
        self._streamable = streamable
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("POST", "DELETE") or header(scope, b"mcp-session-id") is not None:
            await self._streamable(scope, receive, send)
        else:
            # An older client looks for its stream here, and must not take the page for one.
            is_page = header(scope, b"sec-websocket-key") is None and b"event-stream" not in (
                header(scope, b"accept") or b""
            )
            await (self._page if is_page else _not_found)(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await send_error(send, 404, f"there is nothing at {scope['path'][:100]}", "MCP clients connect to /mcp")
