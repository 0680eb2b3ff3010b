"""Whether the public name leads to this daemon: it asks for itself there, and sees whether its question arrives.

A question from here is no proof of what the internet sees. Where this machine cannot reach its own name, as behind many
routers at home, requests that came by it say more.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

import orjson

from mcp_agent.oauth.client_documents import addresses_of, is_on_internet
from mcp_agent.process.logs import event

log = logging.getLogger(__name__)

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
# The parameter that a question of ours is known by.
PROBE = "probe"
_TIMEOUT_S = 10.0
_MOST_BYTES = 64 * 1024
_AGAIN_S, _AGAIN_IF_BAD_S = 600.0, 60.0
# A request by the public name counts for so long.
_RECENT_S = 3_600.0


class PublicName:
    """The public URL, and what is known of where it leads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.host = urlsplit(url).hostname or ""
        self._last_request = 0.0
        self._checked = 0.0
        self._reached = False
        # Why the question has not arrived; None: it has, or none was asked yet.
        self._problem: str | None = None
        self._advice: tuple[str, ...] = ()
        self._asked: dict[str, asyncio.Event] = {}

    @property
    def facts(self) -> dict[str, Any]:
        """What /health shows. `leads_here` is None before the first check."""
        is_used = time.time() - self._last_request < _RECENT_S
        return {
            "url": self.url,
            "leads_here": None if not self._checked else self._reached or is_used,
            "problem": self._problem,
            "advice": list(self._advice),
            "checked": int(self._checked) or None,
            "last_request": int(self._last_request) or None,
        }

    def note_request(self) -> None:
        """A request has come by the public name. While ours is on its way, it may be that."""
        if not self._asked:
            self._last_request = time.time()

    def arrived(self, probe: str) -> None:
        """A question has come, perhaps ours."""
        if probe in self._asked:
            self._asked[probe].set()

    async def follow(self) -> None:
        """Until cancelled, look again and again, and log when it has changed."""
        before: bool | None = None
        while True:
            await self.check()
            if (now := self.facts["leads_here"]) != before:
                level = logging.INFO if now else logging.WARNING
                event(log, level, "oauth.public_name", url=self.url, leads_here=now, problem=self._problem)
            before = now
            await asyncio.sleep(_AGAIN_S if now else _AGAIN_IF_BAD_S)

    async def check(self) -> None:
        """Ask for ourselves at the public name."""
        probe = secrets.token_urlsafe(16)
        has_arrived = self._asked[probe] = asyncio.Event()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._advice = await self._look_up()
                problem = await self._ask(probe, has_arrived)
        except TimeoutError:
            problem = f"{self.url} does not answer within {_TIMEOUT_S:.0f} s"
        finally:
            del self._asked[probe]
        self._problem, self._reached, self._checked = problem, problem is None, time.time()

    async def _look_up(self) -> tuple[str, ...]:
        """What claude.ai and ChatGPT would not take of the name. A name that is not found is for `_ask` to say."""
        parts = urlsplit(self.url)
        if parts.scheme != "https":
            return ("clients on the internet need https://",)
        found = []
        if parts.port is not None:
            found.append(f"claude.ai connects to port 443 only, and this is {parts.port}")
        try:
            addresses = await addresses_of(self.host, 443)
        except OSError:
            return tuple(found)
        private = [each for each in addresses if not is_on_internet(each)]
        if private:
            found.append(f"{self.host} is {private[0]} here, which is no address on the internet")
        elif not any(isinstance(ipaddress.ip_address(each), ipaddress.IPv4Address) for each in addresses):
            found.append(f"{self.host} has no IPv4 address, and claude.ai takes no other")
        return tuple(found)

    async def _ask(self, probe: str, has_arrived: asyncio.Event) -> str | None:
        """Why the question has not come to us as it should; None if it has."""
        import httpx2

        url = f"{self.url}{RESOURCE_METADATA}/mcp?{PROBE}={probe}"
        # Less than all of it: a handshake that is cancelled would leave its socket open.
        client = httpx2.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=0.8 * _TIMEOUT_S)
        body = b""
        try:
            async with client, client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > _MOST_BYTES:
                        break
        except (OSError, httpx2.HTTPError) as error:
            return f"{self.url} cannot be reached from here: {str(error) or type(error).__name__}"
        if answer.status_code == 421:
            return f"what answers at {self.url} sends another Host on; it must keep the name {self.host}"
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict) or "resource" not in found:
            return f"{self.url} answers {answer.status_code}, and is not this daemon"
        if not has_arrived.is_set():
            return f"another mcp-agent answers at {self.url}, and not this one"
        if found["resource"] != f"{self.url}/mcp":
            return f"what answers at {self.url} sends another Host on, so that clients are told {found['resource']}"
        return None
