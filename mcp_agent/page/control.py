"""The endpoints of /api that the command line uses: profiles, switches, sessions, the state of the daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Endpoint, Routes
from mcp_agent.page.health import HealthRoute
from mcp_agent.page.policy_changes import Changes
from mcp_agent.security.auth_tokens import BadToken, Tokens
from registry.deny_rules import describe_rules
from registry.edits import EDITS
from registry.profiles import Profile
from tools.kit.errors import InvalidParams, SessionNotFound
from tools.sessions.session import describe_session
from tools.shell.session_tools import signal_number


class Control:
    """What is asked of a running daemon, and switched in it."""

    def __init__(
        self, daemon: Daemon, tokens: Tokens, health: HealthRoute, connected: Callable[[], list[Caller]]
    ) -> None:
        self._daemon = daemon
        self._tokens = tokens
        self._health = health
        self.changes = Changes(daemon, connected)

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "status"): self._status,
            ("GET", "profiles"): self._list_profiles,
            ("GET", "profiles/<id>"): self._show_profile,
            ("GET", "sessions"): self._list_sessions,
            ("POST", "sessions/<id>/stop"): self._stop,
            ("POST", "tokens/reload"): self._reload_tokens,
            **{("POST", name): self._changer(name) for name in EDITS},
        }

    def _changer(self, name: str) -> Endpoint:
        async def change(request: ApiRequest) -> dict[str, Any]:
            return {**await self.changes.make(name, request.body, request.by), **self._profiles()}

        return change

    async def _status(self, _: ApiRequest) -> dict[str, Any]:
        return self._health.report()

    async def _list_profiles(self, _: ApiRequest) -> dict[str, Any]:
        return self._profiles()

    async def _show_profile(self, request: ApiRequest) -> dict[str, Any]:
        return self.profile(request.named["id"])

    async def _list_sessions(self, _: ApiRequest) -> dict[str, Any]:
        return {"sessions": [describe_session(each) for each in self._daemon.sessions.all]}

    def _profiles(self) -> dict[str, Any]:
        profiles = self._daemon.gate.profiles
        return {
            "active": profiles.active,
            "profiles": [summarise_profile(each) for each in profiles.by_id.values()],
        }

    def profile(self, profile_id: str) -> dict[str, Any]:
        profile = self._daemon.gate.profiles[profile_id]
        return {
            **summarise_profile(profile),
            "deny": {"paths": describe_rules(profile.deny.paths), "commands": describe_rules(profile.deny.commands)},
            "categories": [
                {
                    "id": category,
                    "enabled": (named := profile.categories.get(category)) is None or named.enabled,
                    "tools": [{"name": tool.name, "enabled": profile.switch(tool) != "tool"} for tool in tools],
                }
                for category, tools in self._daemon.gate.catalog.categories.items()
            ],
        }

    async def _reload_tokens(self, _: ApiRequest) -> dict[str, Any]:
        """Put the token files into force now, for a command that has changed one."""
        try:
            self._daemon.apply_tokens(self._tokens)
        except BadToken as error:
            raise BadRequest(str(error), status=409) from None
        return {"tokens": [each.name for each in self._tokens.principals]}

    async def _stop(self, request: ApiRequest) -> dict[str, Any]:
        try:
            session = self._daemon.sessions.find(request.named["id"])
            ending = await session.stop(signal_number(request.optional_text("signal") or "TERM"))
        except SessionNotFound as error:
            raise BadRequest(error.message, error.hint, 404) from None
        except InvalidParams as error:
            raise BadRequest(error.message) from None
        return {**describe_session(session), "escalated": ending.escalated, "left": list(ending.left)}


def summarise_profile(profile: Profile) -> dict[str, Any]:
    return {
        "id": profile.id,
        "label": profile.label,
        "description": profile.description,
        "enabled": profile.enabled,
        "shipped": profile.is_shipped,
    }
