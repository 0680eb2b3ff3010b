"""POST /api/ticket: a one-time link for a browser, for `mcp-agent open`."""

from __future__ import annotations

from typing import Any

from mcp_agent.page.endpoints import ApiRequest, Routes
from mcp_agent.security.browser_logins import TICKET_S, BrowserLogins


class PageLogin:
    def __init__(self, logins: BrowserLogins) -> None:
        self._logins = logins

    @property
    def routes(self) -> Routes:
        return {("POST", "ticket"): self._create}

    async def _create(self, _: ApiRequest) -> dict[str, Any]:
        return {"path": f"/ui/login?ticket={self._logins.create_ticket()}", "valid_s": TICKET_S}
