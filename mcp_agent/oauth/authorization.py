"""The endpoints of OAuth that everybody may ask: metadata, registration, and the exchange of codes and tokens.

Their paths are those that older clients take without reading the metadata. The issuer is the name by which a request
came, which the guard has checked; behind the public name that is the public URL, whatever a header says.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent.daemon import Daemon
from mcp_agent.oauth.consent import RESOURCE_PATH, Codes, Consent
from mcp_agent.oauth.oauth_clients import OAuthClients, OAuthError, addresses_to_paste
from mcp_agent.oauth.public_name import PROBE, RESOURCE_METADATA, PublicName
from mcp_agent.page.endpoints import ApiRequest, Routes
from mcp_agent.page.page_files import SAFE_HEADERS
from mcp_agent.security.auth_tokens import BadToken, Tokens
from mcp_agent.security.grants import ClientGrant, Grants, Issued, RefusedGrant, WrongResource
from mcp_agent.security.origins import parse_authority
from mcp_agent.security.wrong_logins import WINDOW_S, WrongLogins, sender
from mcp_agent.transports.http import (
    ClientLeft,
    header,
    query_value,
    read_body,
    scheme_of,
    send_empty,
    send_json,
    send_object,
)

SERVER_METADATA = "/.well-known/oauth-authorization-server"
CONSENT_PATH = "/ui/consent"
_SCOPE = "mcp"
_MOST_QUERY_BYTES = 8_000
_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, mcp-protocol-version",
    "access-control-max-age": "600",
}
_CACHED = {"cache-control": "max-age=300"}
_SECRET = {"cache-control": "no-store", "pragma": "no-cache"}

_PAGE = Path(__file__).with_name("consent.html")
# No Cross-Origin-Opener-Policy: a client that opened us in a window waits for what becomes of it. No form-action: it
# would hold for where an answer sends the browser.
_PAGE_HEADERS = {
    name: value.replace("form-action 'none'; ", "")
    for name, value in SAFE_HEADERS.items()
    if name != "cross-origin-opener-policy"
} | {"cache-control": "no-store"}

_Handler = Callable[[Scope, Receive], Awaitable[tuple[int, Any, Mapping[str, str]]]]


class Authorization:
    """Our side of OAuth. `endpoints` are its routes, and the guard asks it what is open and how a 401 begins."""

    def __init__(
        self, daemon: Daemon, tokens: Tokens, grants: Grants, clients: OAuthClients, public_name: PublicName
    ) -> None:
        self._daemon = daemon
        self._tokens = tokens
        self._grants = grants
        self._clients = clients
        self._public_name = public_name
        self._codes = Codes()
        self.wrong_logins = WrongLogins()
        self._handlers: dict[str, tuple[str, _Handler]] = {
            SERVER_METADATA: ("GET", self._describe_server),
            "/register": ("POST", self._register),
            "/authorize": ("GET", self._authorize),
            "/token": ("POST", self._exchange),
            "/revoke": ("POST", self._revoke),
        }

    @property
    def host(self) -> str:
        """The public name, to which the daemon answers."""
        return self._public_name.host

    @property
    def endpoints(self) -> Mapping[str, ASGIApp]:
        return {**dict.fromkeys((*self._handlers, RESOURCE_METADATA), self), CONSENT_PATH: self._send_page}

    @property
    def api(self) -> Routes:
        """What the screen of the consent asks, and the owner about the public name."""

        async def show(_: ApiRequest) -> dict[str, Any]:
            return {**self._public_name.facts, **addresses_to_paste(self._public_name.url)}

        async def check(request: ApiRequest) -> dict[str, Any]:
            await self._public_name.check()
            return await show(request)

        consent = Consent(self._daemon, self._tokens, self._clients, self._codes)
        return {**consent.routes(self.issuer), ("GET", "public"): show, ("POST", "public/check"): check}

    def is_endpoint(self, path: str) -> bool:
        path = path.rstrip("/")
        return path in self._handlers or _is_resource_metadata(path)

    def challenge(self, scope: Scope, *, is_invalid: bool) -> bytes:
        path = scope["path"].rstrip("/")
        if not RESOURCE_PATH.fullmatch(path):
            path = ""
        error = ', error="invalid_token"' if is_invalid else ""
        where = f"{self.issuer(scope)}{RESOURCE_METADATA}{path}"
        return f'Bearer resource_metadata="{where}", scope="{_SCOPE}"{error}'.encode("latin-1", "replace")

    def issuer(self, scope: Scope) -> str:
        """Our URL for whoever sent this request; the guard has checked its Host."""
        value = dict(scope["headers"]).get(b"host", b"")
        host = parse_authority(value)
        if host is None or host.name == self.host:
            self._public_name.note_request()
            return self._public_name.url
        return f"{scheme_of(scope)}://{value.decode('ascii').lower()}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].rstrip("/")
        method, handle = self._handlers.get(path, ("GET", self._describe_resource))
        try:
            if scope["method"] == "OPTIONS":
                await send_empty(send, 204, _CORS)
                return
            if scope["method"] not in (method, "HEAD" if method == "GET" else method):
                raise OAuthError("invalid_request", f"use {method} here", 405)
            status, body, headers = await handle(scope, receive)
        except ClientLeft:
            return
        except OAuthError as error:
            status, headers = error.status, _SECRET
            body = {"error": error.code, "error_description": error.message}
            if path in ("/token", "/revoke") and self._is_guessing(scope):
                status, headers = 429, {**_SECRET, "retry-after": str(WINDOW_S)}
        except (BadToken, OSError) as error:
            status, headers = 503, {**_SECRET, "retry-after": "30"}
            body = {"error": "temporarily_unavailable", "error_description": str(error)}
        if body is None:
            await send_empty(send, status, {**headers, **_CORS})
        else:
            await send_object(send, status, body, {**headers, **_CORS})

    def _is_guessing(self, scope: Scope) -> bool:
        """Note a wrong code or token. True if there were too many from that address."""
        address = sender(scope, scope["state"]["headers"])
        is_guessing = self.wrong_logins.are_too_many(address)
        self.wrong_logins.add(address)
        return is_guessing

    async def _send_page(self, scope: Scope, _: Receive, send: Send) -> None:
        """The page of the consent, for everybody: what it shows needs the login."""
        if scope["method"] not in ("GET", "HEAD"):
            await send_empty(send, 405, {"allow": "GET"})
            return
        await send_json(send, 200, _PAGE.read_bytes(), _PAGE_HEADERS, "text/html; charset=utf-8")

    async def _describe_resource(self, scope: Scope, _: Receive) -> tuple[int, Any, Mapping[str, str]]:
        issuer = self.issuer(scope)
        if (probe := query_value(scope, PROBE)) is not None:
            self._public_name.arrived(probe)
        return (
            200,
            {
                "resource": f"{issuer}{scope['path'].rstrip('/').removeprefix(RESOURCE_METADATA)}",
                "authorization_servers": [issuer],
                "bearer_methods_supported": ["header"],
                "scopes_supported": [_SCOPE],
                "resource_name": "mcp-agent",
            },
            _CACHED,
        )

    async def _describe_server(self, scope: Scope, _: Receive) -> tuple[int, Any, Mapping[str, str]]:
        issuer = self.issuer(scope)
        return (
            200,
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "registration_endpoint": f"{issuer}/register",
                "revocation_endpoint": f"{issuer}/revoke",
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "revocation_endpoint_auth_methods_supported": ["none"],
                "scopes_supported": [_SCOPE],
                "client_id_metadata_document_supported": True,
                "authorization_response_iss_parameter_supported": True,
            },
            _CACHED,
        )

    async def _register(self, _: Scope, receive: Receive) -> tuple[int, Any, Mapping[str, str]]:
        try:
            asked = orjson.loads(await read_body(receive))
        except orjson.JSONDecodeError:
            raise OAuthError("invalid_client_metadata", "the body must be JSON") from None
        return 201, {**self._clients.register(asked), "client_id_issued_at": int(time.time())}, _SECRET

    async def _authorize(self, scope: Scope, _: Receive) -> tuple[int, Any, Mapping[str, str]]:
        """Send the browser on to the page of the consent.

        The cookie of the login is Strict: a browser that comes from another site does not send it here, and it does
        from a page of ours. So nothing is decided here, and no document is fetched for somebody who is not logged in.
        """
        query = scope["query_string"].decode("latin-1")
        if len(query) > _MOST_QUERY_BYTES:
            raise OAuthError("invalid_request", f"a request may have at most {_MOST_QUERY_BYTES} bytes")
        return 303, None, {"location": f"{CONSENT_PATH}?{query}", "referrer-policy": "no-referrer", **_SECRET}

    async def _exchange(self, scope: Scope, receive: Receive) -> tuple[int, Any, Mapping[str, str]]:
        asked = await _form(scope, receive)
        client_id = asked.get("client_id", "")
        self._clients.check_id(client_id)
        match asked.get("grant_type"):
            case "authorization_code":
                issued = await self._redeem(asked, client_id)
            case "refresh_token":
                issued = await self._refresh(asked, client_id)
            case _:
                raise OAuthError("unsupported_grant_type", "use authorization_code or refresh_token")
        self._daemon.apply_tokens(self._tokens)
        answer = {
            "access_token": issued.access_token,
            "token_type": "Bearer",
            "expires_in": issued.expires_in,
            "refresh_token": issued.refresh_token,
            "scope": _SCOPE,
        }
        return 200, answer, _SECRET

    async def _redeem(self, asked: Mapping[str, str], client_id: str) -> Issued:
        code = self._codes.find(asked.get("code", ""))
        if code is None or code.request.client.id != client_id:
            raise OAuthError("invalid_grant", "the code is not valid, or no longer")
        if code.is_used:
            self._note_end(self._grants.end(code.grant.id), "code_reused")
            raise OAuthError("invalid_grant", "the code was used before, so what came of it is revoked")
        verifier = asked.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if not hmac.compare_digest(challenge, code.request.challenge):
            raise OAuthError("invalid_grant", "the code_verifier does not fit")
        named = code.request.named_redirect
        if named is not None and asked.get("redirect_uri") != named:
            raise OAuthError("invalid_grant", "the redirect_uri is not the one of the request")
        resource = code.request.named_resource
        if resource is not None and asked.get("resource", resource) != resource:
            raise OAuthError("invalid_target", "the resource is not the one of the request")
        code.is_used = True
        return self._grants.add(code.grant)

    async def _refresh(self, asked: Mapping[str, str], client_id: str) -> Issued:
        try:
            return self._grants.refresh(asked.get("refresh_token", ""), client_id, asked.get("resource"))
        except WrongResource:
            raise OAuthError("invalid_target", "the grant is for another resource") from None
        except RefusedGrant as refused:
            self._note_end(refused.ended, "refresh_reused")
            raise OAuthError("invalid_grant", str(refused)) from None

    async def _revoke(self, scope: Scope, receive: Receive) -> tuple[int, Any, Mapping[str, str]]:
        """End a grant for its client (RFC 7009), which is told nothing of tokens that are not its own."""
        asked = await _form(scope, receive)
        ended = self._grants.end_by_token(asked.get("token", ""), asked.get("client_id", ""))
        self._note_end(ended, "revoked_by_client")
        return 200, None, _SECRET

    def _note_end(self, grant: ClientGrant | None, reason: str) -> None:
        if grant is not None:
            self._daemon.audit.note("oauth_ended", name=grant.name, program=grant.program, reason=reason)
            self._daemon.apply_tokens(self._tokens)


def _is_resource_metadata(path: str) -> bool:
    return path == RESOURCE_METADATA or path.startswith(f"{RESOURCE_METADATA}/")


async def _form(scope: Scope, receive: Receive) -> Mapping[str, str]:
    kind = (header(scope, b"content-type") or b"").split(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "the body must be a form: application/x-www-form-urlencoded")
    try:
        return dict(parse_qsl((await read_body(receive)).decode(), max_num_fields=50))
    except ValueError:
        raise OAuthError("invalid_request", "the form cannot be read") from None
