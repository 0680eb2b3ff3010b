"""All endpoints of /api: what the owner sees and switches, from commands and from the Tools page."""

from __future__ import annotations

from collections.abc import Callable

from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from mcp_agent.page.activity import Activity
from mcp_agent.page.approval_views import ApprovalViews
from mcp_agent.page.connections import Connections
from mcp_agent.page.control import Control
from mcp_agent.page.endpoints import Api, Routes
from mcp_agent.page.file_views import FileViews, JournalViews
from mcp_agent.page.health import HealthRoute
from mcp_agent.page.mount_control import MountControl
from mcp_agent.page.page_calls import PageCalls
from mcp_agent.page.session_views import SessionViews
from mcp_agent.previews.sites import Sites
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.browser_logins import BrowserLogins
from mcp_agent.storage.audit_reader import Trail


def owner_api(
    daemon: Daemon,
    tokens: Tokens,
    health: HealthRoute,
    logins: BrowserLogins,
    sites: Sites,
    connected: Callable[[], list[Caller]],
    consent: Routes,
) -> Api:
    """Every endpoint of /api. `consent` are those of OAuth, if it is on."""
    calls = PageCalls(daemon.dispatcher, daemon.gate, tokens)
    trail = Trail(daemon.config.audit_dir, lambda: None)
    groups = [
        Control(daemon, tokens, health, connected).routes,
        MountControl(daemon).routes,
        calls.routes,
        ApprovalViews(daemon).routes,
        SessionViews(daemon.sessions, calls, sites).routes,
        Activity(trail, daemon.audit, daemon.recent_results).routes,
        JournalViews(daemon.journal, trail, calls).routes,
        FileViews(daemon).routes,
        Connections(daemon, tokens, logins, connected).routes,
        daemon.elsewhere.routes(),
        consent,
    ]
    return Api(groups, str(daemon.file.path))
