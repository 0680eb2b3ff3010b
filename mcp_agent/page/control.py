"""The endpoints of /api that show and change profiles, and those that the command line uses besides."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mcp_agent.calls.call import Caller
from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Endpoint, Routes
from mcp_agent.page.health import HealthRoute
from mcp_agent.security.auth_tokens import BadToken, Tokens
from registry.catalog import label
from registry.consequences import describe_change
from registry.deny_rules import describe_rules
from registry.edits import EDITS, PRESETS, DeleteProfile, edit_named
from registry.gate import Access
from registry.profiles import EFFECTS, SHIPPED, Profile
from tools.kit.errors import Denied, InvalidParams, SessionNotFound
from tools.kit.spec import Tool
from tools.sessions.session import Session, describe_session
from tools.shell.session_tools import signal_number

# The path of a wire, where it is not its name.
_WIRES = {"http": "mcp"}


class Control:
    """What is asked of a running daemon, and switched in it. Each change is answered when it is in force."""

    def __init__(
        self, daemon: Daemon, tokens: Tokens, health: HealthRoute, connected: Callable[[], list[Caller]]
    ) -> None:
        """`connected` gives the clients that are connected now."""
        self._daemon = daemon
        self._tokens = tokens
        self._health = health
        self._connected = connected

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "status"): self._status,
            ("GET", "profiles"): self._list_profiles,
            ("GET", "profiles/<id>"): self._show_profile,
            ("GET", "switchboard"): self._show_switchboard,
            ("GET", "sessions"): self._list_sessions,
            ("POST", "sessions/<id>/stop"): self._stop,
            ("POST", "tokens/reload"): self._reload_tokens,
            ("POST", "rules/try"): self._try_rules,
            **{("POST", name): self._changer(name) for name in EDITS},
        }

    def _changer(self, name: str) -> Endpoint:
        async def change(request: ApiRequest) -> dict[str, Any]:
            return {**await self._change(name, request), **self._profiles()}

        return change

    async def _change(self, name: str, request: ApiRequest) -> dict[str, Any]:
        """Make a change of `registry.edits`, and report it once it is in force.

        The report says which file was changed, what is different, what the connected clients now see, and which
        sessions go on where the shell is off now.
        """
        daemon = self._daemon
        edit = edit_named(name, request.body)
        if isinstance(edit, DeleteProfile):
            await asyncio.to_thread(self._tokens.check_unused, request.text("profile"))
        clients = Counter(
            (each.name, each.client, _WIRES.get(each.transport, each.transport), each.access)
            for each in self._connected()
        )
        seen = {access: self._count(access) for *_, access in clients}
        before = await daemon.change(edit, request.by)
        running = daemon.sessions.live
        if edit.stop_sessions:
            await asyncio.gather(*(each.stop(signal.SIGTERM) for each in running))
        after, catalog = daemon.gate.profiles, daemon.gate.catalog
        profile = edit.changed_profile(after)
        has_shell = any(profile.allows(tool) for tool in catalog.categories.get("shell", ()))
        return {
            **describe_change(before, after, edit, catalog, is_pinned=daemon.config.profile is not None),
            "file": str(daemon.file.path),
            "clients": [
                {
                    "token": token,
                    "client": client,
                    "wire": wire,
                    "profile": access.narrowed_to or access.profile or after.active,
                    "connections": count,
                    "tools": self._count(access),
                    "tools_before": seen[access],
                }
                for (token, client, wire, access), count in sorted(clients.items(), key=lambda item: item[0][:3])
            ],
            "sessions": [] if has_shell else _name_sessions(each for each in running if each.is_running),
            "stopped_sessions": _name_sessions(running) if edit.stop_sessions else [],
        }

    def _count(self, access: Access) -> int:
        return len(self._daemon.gate.visible(access))

    async def _status(self, _: ApiRequest) -> dict[str, Any]:
        return self._health.report(is_owner=True)

    async def _list_profiles(self, _: ApiRequest) -> dict[str, Any]:
        return self._profiles()

    def _profiles(self) -> dict[str, Any]:
        profiles = self._daemon.gate.profiles
        return {
            "active": profiles.active,
            "profiles": [_summarise_profile(each) for each in profiles.by_id.values()],
        }

    async def _show_profile(self, request: ApiRequest) -> dict[str, Any]:
        profile = self._daemon.gate.profiles[request.named["id"]]
        return {
            **_summarise_profile(profile),
            "deny": _describe_deny(profile),
            "categories": [
                {
                    "id": category,
                    "enabled": (named := profile.categories.get(category)) is None or named.enabled,
                    "tools": [{"name": tool.name, "enabled": profile.switch(tool) != "tool"} for tool in tools],
                }
                for category, tools in self._daemon.gate.catalog.categories.items()
            ],
        }

    async def _show_switchboard(self, _: ApiRequest) -> dict[str, Any]:
        """Every profile with every switch, and what each tool costs, for the Tools view."""
        daemon = self._daemon
        profiles, catalog = daemon.gate.profiles, daemon.gate.catalog
        shown = {tool.name: tool for tool in daemon.gate.visible(Access())}
        used = {name: sum(counts.by_code.values()) for name, counts in daemon.metrics.by_tool.items()}
        categories = {**catalog.categories, **{each: () for each in profiles.mounts if each not in catalog.categories}}
        return {
            "path": str(daemon.file.path),
            "active": profiles.active,
            "pinned": daemon.config.profile is not None,
            "problems": [problem.as_object() for problem in (*daemon.problems, *profiles.warnings)],
            "effects": EFFECTS,
            "presets": PRESETS,
            "mounts": daemon.mounts.facts,
            "categories": [
                {
                    "id": category,
                    "label": label(category),
                    "mounted": category in profiles.mounts,
                    "tools": [
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "effect": tool.effect,
                            # As the active profile shows it: with the focus question, a tool costs more.
                            "tokens": shown.get(tool.name, tool).list_tokens,
                            "used": used.get(tool.name, 0),
                        }
                        for tool in tools
                    ],
                }
                for category, tools in categories.items()
            ],
            "profiles": [
                _describe_switches(each, catalog.tools, daemon.gate.visible(Access(each.id)))
                for each in profiles.by_id.values()
            ],
        }

    async def _try_rules(self, request: ApiRequest) -> dict[str, Any]:
        """What the rules of a profile say of a path or a command. Nothing is opened or run."""
        deny = self._daemon.gate.profiles[request.text("profile")].deny
        kind, text = request.text("kind"), request.text("text")
        if kind not in ("paths", "commands"):
            raise BadRequest(f"kind is {kind[:60]!r} and must be paths or commands")
        rules = deny.paths if kind == "paths" else deny.commands
        try:
            if kind == "paths":
                text = str(self._daemon.paths.resolve(text))
            found = rules.match(text) if rules is not None else None
        except Denied as error:
            return {"denied": True, "text": text, "message": error.message}
        if found is None:
            return {"denied": False, "text": text}
        rule = found.rule
        return {"denied": True, "text": text, "rule": rule.id, "matched": found.matched, "reason": rule.reason}

    async def _list_sessions(self, _: ApiRequest) -> dict[str, Any]:
        return {"sessions": [describe_session(each) for each in self._daemon.sessions.all]}

    async def _stop(self, request: ApiRequest) -> dict[str, Any]:
        try:
            session = self._daemon.sessions.find(request.named["id"])
            name = request.optional_text("signal") or "TERM"
            ending = await session.stop(signal_number(name))
        except SessionNotFound as error:
            raise BadRequest(error.message, error.hint, 404) from None
        except InvalidParams as error:
            raise BadRequest(error.message) from None
        self._daemon.audit.note("session_stopped", by=request.by, session=session.id, signal=name)
        return {**describe_session(session), "escalated": ending.escalated, "left": list(ending.left)}

    async def _reload_tokens(self, _: ApiRequest) -> dict[str, Any]:
        """Put the token files into force now, for a command that has changed one."""
        try:
            self._daemon.apply_tokens(self._tokens)
        except BadToken as error:
            raise BadRequest(str(error), status=409) from None
        return {"tokens": [each.name for each in self._tokens.principals]}


def _summarise_profile(profile: Profile) -> dict[str, Any]:
    return {
        "id": profile.id,
        "label": profile.label,
        "description": profile.description,
        "enabled": profile.enabled,
        "shipped": profile.is_shipped,
    }


def _describe_switches(profile: Profile, tools: Sequence[Tool], visible: Sequence[Tool]) -> dict[str, Any]:
    return {
        **_summarise_profile(profile),
        "builtin": profile.id in SHIPPED,
        "compact": profile.is_compact,
        "effects": {effect: bool(profile.effects.get(effect, True)) for effect in EFFECTS},
        "asks": {
            "effects": [effect for effect in EFFECTS if profile.effects.get(effect) == "ask"],
            "categories": [name for name, switches in profile.categories.items() if switches.asks],
            "tools": [tool.name for tool in tools if profile.asking_switch(tool) is not None],
            "rules": [rule.id for rule in profile.ask.rules],
        },
        "categories": {name: switches.enabled for name, switches in profile.categories.items()},
        "on": [tool.name for tool in tools if profile.names_on(tool)],
        "visible": [tool.name for tool in visible],
        "tokens": sum(tool.list_tokens for tool in visible),
        "deny": _describe_deny(profile),
    }


def _describe_deny(profile: Profile) -> dict[str, Any]:
    return {"paths": describe_rules(profile.deny.paths), "commands": describe_rules(profile.deny.commands)}


def _name_sessions(sessions: Iterable[Session]) -> list[dict[str, Any]]:
    return [{"id": each.id, "command": each.command} for each in sessions]
