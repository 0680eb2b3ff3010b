"""What the owner is asked before a client gets access, and what comes of the answer.

The page of the consent asks us by its own login, so another web page can neither send an answer nor hold the screen in
a frame. A request is the query that the client made, checked each time that it is used: nothing waits here that a
stranger could fill or push out.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from starlette.types import Scope

from mcp_agent.daemon import Daemon
from mcp_agent.oauth.oauth_clients import LOOPBACK, OAuthClient, OAuthClients, OAuthError
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.grants import NAME_END, ClientGrant

CODE_S = 60
_DAY_S = 86_400
_MOST_DAYS = 3_650
_MOST_STATE_CHARS = 4_000
_FIRST_PROFILE = "read-only"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
RESOURCE_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
# Where the messages of the 2024 transport go, for a client that was given the address of its stream.
_STREAMS = {"/sse": ("/sse", "/messages"), "/mcp/sse": ("/mcp/sse", "/messages")}


class AuthorizationRequest(Struct, frozen=True):
    """What a client asks for, checked."""

    client: OAuthClient
    redirect: str
    # As the client wrote them, and must repeat them; None: it left them out.
    named_redirect: str | None
    named_resource: str | None
    resource: str
    path: str
    challenge: str
    issuer: str
    state: str | None

    def answer(self, **values: str) -> str:
        """Where the browser goes with an answer. It names us, so that the client takes it for no other server's."""
        return _with_query(self.redirect, {**values, "state": self.state, "iss": self.issuer})


class RefusedAtClient(Exception):
    """A request is wrong in a way that its client is told of, at `location`."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class Code(Struct):
    """A code that a client can exchange for tokens, once."""

    request: AuthorizationRequest
    grant: ClientGrant
    until: float
    is_used: bool = False


class Codes:
    """The codes of the last minute, by their hashes. Only the owner's click makes one."""

    def __init__(self) -> None:
        self._kept: dict[str, Code] = {}

    def create(self, request: AuthorizationRequest, grant: ClientGrant) -> str:
        now = time.monotonic()
        self._kept = {hashed: code for hashed, code in self._kept.items() if code.until > now}
        text = secrets.token_urlsafe(32)
        self._kept[_hash(text)] = Code(request, grant, now + CODE_S)
        return text

    def find(self, text: str) -> Code | None:
        code = self._kept.get(_hash(text))
        return code if code is not None and code.until > time.monotonic() else None


class Consent:
    """The endpoints of /api behind the screen of the consent."""

    def __init__(self, daemon: Daemon, tokens: Tokens, clients: OAuthClients, codes: Codes) -> None:
        self._daemon = daemon
        self._tokens = tokens
        self._clients = clients
        self._codes = codes

    def routes(self, issuer: Callable[[Scope], str]) -> Routes:
        """`issuer` gives our own URL for a request."""

        async def show(request: ApiRequest) -> dict[str, Any]:
            return await self._show(request.query, issuer(request.scope))

        async def answer(request: ApiRequest) -> dict[str, Any]:
            return await self._answer(request, issuer(request.scope))

        return {("GET", "oauth/request"): show, ("POST", "oauth/answer"): answer}

    async def _show(self, query: Mapping[str, str], issuer: str) -> dict[str, Any]:
        """Who asks, where the answer goes, and what the owner can choose."""
        try:
            asked = await self._check(query, issuer)
        except RefusedAtClient as refused:
            return {"location": refused.location}
        redirect = urlsplit(asked.redirect)
        return {
            "client": asked.client.name,
            "voucher": asked.client.voucher,
            "redirect_host": redirect.netloc or f"{redirect.scheme}:",
            "is_local": redirect.hostname in LOOPBACK,
            "resource": asked.resource,
            "profiles": self._profiles(),
        }

    async def _answer(self, request: ApiRequest, issuer: str) -> dict[str, Any]:
        """Grant what was asked for, or deny it; in both cases the browser goes back to the client."""
        query = {name: value for name, value in request.mapping("request").items() if isinstance(value, str)}
        try:
            asked = await self._check(query, issuer)
        except RefusedAtClient as refused:
            return {"location": refused.location}
        audit = self._daemon.audit.note
        about = {
            "program": asked.client.name,
            "voucher": asked.client.voucher,
            "redirect": urlsplit(asked.redirect).netloc,
        }
        if request.body.get("allow") is not True:
            audit("oauth_denied", by=request.by, **about)
            return {"location": asked.answer(error="access_denied")}
        profile = request.text("profile")
        self._daemon.gate.profiles[profile]
        days = None if request.body.get("days") is None else request.whole_number("days")
        if days is not None and not 0 < days <= _MOST_DAYS:
            raise BadRequest(f"days must be from 1 to {_MOST_DAYS}")
        now = int(time.time())
        grant = ClientGrant(
            id=secrets.token_hex(8),
            name=_grant_name(asked, {each.name for each in self._tokens.principals}),
            client=asked.client.id,
            program=asked.client.name,
            profile=profile,
            resource=asked.resource,
            paths=_STREAMS.get(asked.path) or ((asked.path,) if asked.path else ()),
            created=now,
            expires=None if days is None else now + days * _DAY_S,
        )
        audit("oauth_allowed", by=request.by, name=grant.name, profile=profile, expires=grant.expires, **about)
        return {"location": asked.answer(code=self._codes.create(asked, grant))}

    async def _check(self, query: Mapping[str, str], issuer: str) -> AuthorizationRequest:
        """Raises RefusedAtClient, and BadRequest where the browser must not go on to the client."""
        redirect, state = query.get("redirect_uri"), query.get("state")
        try:
            client = await self._clients.find(query.get("client_id", ""), redirect)
            target = client.redirect(redirect)
        except OAuthError as error:
            raise BadRequest(error.message, "start again in the client") from None
        if state is not None and len(state) > _MOST_STATE_CHARS:
            raise BadRequest(f"state has {len(state)} characters, and {_MOST_STATE_CHARS} are allowed")
        resource = query.get("resource") or issuer
        path = resource[len(issuer) :].rstrip("/")
        problem = None
        if query.get("response_type") != "code":
            problem = "unsupported_response_type"
        elif query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(query.get("code_challenge", "")):
            problem = "invalid_request"
        elif resource[: len(issuer)].lower() != issuer.lower() or not RESOURCE_PATH.fullmatch(path):
            problem = "invalid_target"
        asked = AuthorizationRequest(
            client,
            target,
            redirect,
            query.get("resource"),
            resource,
            path,
            query.get("code_challenge", ""),
            issuer,
            state,
        )
        if problem is not None:
            raise RefusedAtClient(asked.answer(error=problem))
        return asked

    def _profiles(self) -> list[dict[str, str]]:
        found = [each for each in self._daemon.gate.profiles.by_id.values() if each.enabled]
        found.sort(key=lambda each: each.id != _FIRST_PROFILE)
        return [{"id": each.id, "label": each.label, "description": each.description} for each in found]


def _grant_name(asked: AuthorizationRequest, taken: Collection[str]) -> str:
    """A name that no token has. Only one that somebody vouches for says who it is; others say where the answer went."""
    redirect = urlsplit(asked.redirect)
    if asked.client.voucher is not None:
        stem = asked.client.name
    elif redirect.hostname in LOOPBACK:
        stem = f"local-{asked.client.name}"
    else:
        stem = redirect.hostname or redirect.scheme
    stem = re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.")[:40] or "client"
    number = 1
    while (name := f"{stem}{NAME_END}" if number == 1 else f"{stem}-{number}{NAME_END}") in taken:
        number += 1
    return name


def _with_query(url: str, values: Mapping[str, str | None]) -> str:
    query = urlencode({name: value for name, value in values.items() if value is not None})
    return f"{url}{'&' if '?' in url else '?'}{query}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
