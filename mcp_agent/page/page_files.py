"""Serves the Tools page: its files to everybody, its data to a browser that has logged in."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.host import Host
from mcp_agent.security.browser_logins import PAGE_PATH, BrowserLogins, cookie_header
from mcp_agent.security.origins import parse_authority
from mcp_agent.transports.http import header, query_value, scheme_of, send_error, send_object

_FOLDER = Path(__file__).parent
_STATIC = _FOLDER / "static"
# What others made: it is in wheels, and in a checkout once it was fetched.
VENDOR = _FOLDER / "vendor"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}


class PageRoute:
    """The ASGI application behind `/` in a browser, and behind `/ui/…`.

    `api` and `stream` are the applications of /api and of the page's events; the guard has checked the login.
    """

    def __init__(self, logins: BrowserLogins, api: ASGIApp, stream: ASGIApp, host: Host) -> None:
        self._logins = logins
        self._api = api
        self._stream = stream
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(f"{PAGE_PATH}api/"):
            inner = path.removeprefix(PAGE_PATH[:-1])
            await self._api({**scope, "path": inner, "raw_path": inner.encode()}, receive, send)
        elif path == f"{PAGE_PATH}stream":
            await self._stream(scope, receive, send)
        elif path == f"{PAGE_PATH}logout" and scope["method"] == "POST":
            await self._log_out(scope, send)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
        elif path == f"{PAGE_PATH}login":
            await self._log_in(scope, send)
        else:
            await _send_file(scope, send, "index.html" if path in ("/", PAGE_PATH) else path.removeprefix(PAGE_PATH))

    async def _log_in(self, scope: Scope, send: Send) -> None:
        """Exchange the ticket of the link for a cookie, and go on to the page, whose address has no ticket."""
        value = self._logins.redeem(query_value(scope, "ticket") or "")
        # The name stays the one of the link: the cookie is for that name.
        headers = {"location": "/" if value else "/#/expired", "cache-control": "no-store", **SAFE_HEADERS}
        if value is not None:
            headers["set-cookie"] = _cookie(scope, value)
            self._note("page_login", scope)
        raw = [(name.encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": 303, "headers": [*raw, (b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _log_out(self, scope: Scope, send: Send) -> None:
        try:
            ended = self._logins.log_out(scope["state"]["headers"])
        except OSError as error:
            await send_error(send, 503, f"the logout cannot be stored: {error.strerror or error}")
            return
        self._host.streams.end(ended)
        self._note("page_logout", scope)
        await send_object(send, 200, {}, {"set-cookie": _cookie(scope, "")})

    def _note(self, event: str, scope: Scope) -> None:
        client = scope.get("client")
        self._host.audit.note(event, address=client[0] if client else "")


def _cookie(scope: Scope, value: str) -> str:
    host = parse_authority(header(scope, b"host") or b"")
    return cookie_header(value, None if host is None else host.port, is_secure=scheme_of(scope) == "https")


async def _send_file(scope: Scope, send: Send, name: str) -> None:
    path = _find(name)
    if path is None:
        await send_error(send, 404, f"the page has no file {name[:100]!r}")
        return
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    is_known = header(scope, b"if-none-match") == tag.encode()
    headers = {
        **SAFE_HEADERS,
        "content-type": _TYPES[path.suffix],
        "cache-control": "no-store" if path.suffix == ".html" else "no-cache",
        "etag": tag,
        "content-length": "0" if is_known else str(len(body)),
    }
    raw = [
        (key.encode(), value.encode()) for key, value in headers.items() if not (is_known and key == "content-length")
    ]
    await send({"type": "http.response.start", "status": 304 if is_known else 200, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if is_known or scope["method"] == "HEAD" else body})


def _find(name: str) -> Path | None:
    """The file of that name, if it is one of ours: a name is compared with those that exist, and never joined."""
    folder = VENDOR if name.startswith("vendor/") else _STATIC
    wanted = name.removeprefix("vendor/")
    for path in folder.rglob("*"):
        if path.suffix in _TYPES and path.is_file() and path.relative_to(folder).as_posix() == wanted:
            return path
    return None
