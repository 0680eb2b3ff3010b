"""The two ways to a site: with a token below /open-terminal/proxy/<port>/, as Open WebUI asks, and with a ticket below
/preview/<ticket>/, for a browser.

The ticket is a part of the path, so that all that a page asks for below its own address comes, too, though its
requests carry no cookie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import OPEN_TERMINAL, Caller
from mcp_agent.previews.relay import relay_request, relay_websocket
from mcp_agent.previews.sites import Site, Sites
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.guard import PREVIEW_PATH, PROXY_PATH, refuse_websocket
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.transports.http import ClientLeft, TokenRevoked, caller, read_body, send_error, while_connected

_LOOK_EVERY_S = 1.0
_MOST_WEBSOCKETS = 64
_MOST_NOTED = 1_000
_BEARER = "bearer "


class _NoSite(Exception):
    """There is nothing to show; the message says why."""


class Previews:
    """The ASGI applications behind both paths."""

    def __init__(self, sites: Sites, audit: AuditLog) -> None:
        self._sites = sites
        self._audit = audit
        self._noted: dict[tuple[str, str, int, int], None] = {}
        self._websockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            person, site, target = await self._find(scope, scope["state"].get("principal"))
            body = await read_body(receive)
            work = self._while_shown(person, relay_request(site, target, scope, body, send))
            await while_connected(scope, receive, work, person.name)
        except _NoSite as error:
            await send_error(send, 404, str(error))
        except (ClientLeft, TokenRevoked):
            return

    async def connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket. One of a browser has a ticket; another program can send its token in the head."""
        state = scope["state"]
        sent = state["headers"].get(b"authorization", b"").decode("latin-1")
        identify: Callable[[bytes], Principal | None] = state["identify"]
        state["principal"] = identify(sent[len(_BEARER) :].encode()) if sent.lower().startswith(_BEARER) else None
        if self._websockets >= _MOST_WEBSOCKETS:
            await refuse_websocket(send, 503, f"{_MOST_WEBSOCKETS} WebSockets of previews are open already")
            return
        self._websockets += 1
        try:
            person, site, target = await self._find(scope, state["principal"])
            work = asyncio.ensure_future(self._while_shown(person, relay_websocket(site, target, scope, receive, send)))
            with state["streams"].register(person.name, state["revocations"], work.cancel) as is_valid:
                if is_valid:
                    await asyncio.wait((work,))
                work.cancel()
        except _NoSite as error:
            await refuse_websocket(send, 404, str(error))
        finally:
            self._websockets -= 1

    async def _find(self, scope: Scope, principal: Principal | None) -> tuple[Caller, Site, bytes]:
        """For whom the request is, the site, and path and query as the site is to see them. Raises _NoSite."""
        raw: bytes = scope["raw_path"].partition(b"?")[0]
        prefix = PREVIEW_PATH if scope["path"].startswith(PREVIEW_PATH) else PROXY_PATH
        named, _, rest = raw.removeprefix(prefix.encode()).partition(b"/")
        query: bytes = scope["query_string"]
        target = b"/" + rest + (b"?" + query if query else b"")
        name = named.decode("latin-1")
        if prefix == PREVIEW_PATH:
            redeemed = await self._sites.redeem(name, scope["state"]["revocations"])
            if redeemed is None:
                raise _NoSite("this preview has ended; open it again on the Tools page")
            return *redeemed, target
        if principal is None:
            raise _NoSite("a token is needed here")
        person = caller(scope, OPEN_TERMINAL, form="json")
        sees_all = principal.is_owner and not person.user and not person.chat
        port = int(name) if name.isdecimal() and len(name) <= 5 else 0
        site = await self._sites.find(person, port, sees_all=sees_all)
        if site is None:
            raise _NoSite(f"nothing that was started for this user listens on port {name[:20]}, or previews are off")
        self._note(person, site)
        return person, site, target

    def _note(self, person: Caller, site: Site) -> None:
        """A line in the audit log, once for each program that somebody looks at."""
        seen = (person.name, person.user, site.port, site.listener.pid)
        if seen not in self._noted:
            self._noted[seen] = None
            if len(self._noted) > _MOST_NOTED:
                del self._noted[next(iter(self._noted))]
            self._audit.note(
                "site_shown", client=person.name, claimed_user=person.user, port=site.port, session=site.started_in
            )

    async def _while_shown(self, person: Caller, work: Awaitable[Any]) -> None:
        """Do `work` until it is done, or the person may see sites no more."""
        working = asyncio.ensure_future(work)
        try:
            while not working.done() and self._sites.is_allowed(person):
                await asyncio.wait((working,), timeout=_LOOK_EVERY_S)
            if working.done():
                working.result()
        finally:
            working.cancel()
            await asyncio.wait((working,))
