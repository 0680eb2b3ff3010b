"""The endpoints behind the Tools view: every profile with every switch, what a tool costs, and changes of profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from mcp_agent.daemon import Daemon
from mcp_agent.page.control import summarise_profile
from mcp_agent.page.endpoints import ApiRequest, Endpoint, Routes
from registry.catalog import label
from registry.deny_rules import describe_rules
from registry.edits import Arguments, Edit
from registry.gate import Access
from registry.profile_edits import PRESETS, PROFILE_EDITS, deny_kind
from registry.profiles import SHIPPED, Profile
from tools.kit.errors import Denied
from tools.kit.spec import Effect, Tool

_EFFECTS = get_args(Effect)


class Switchboard:
    """Reads and changes the profiles of one daemon. Each change is answered when it is in force."""

    def __init__(self, daemon: Daemon, used: Callable[[], dict[str, int]]) -> None:
        """`used` tells how often each tool was called lately."""
        self._daemon = daemon
        self._used = used

    @property
    def routes(self) -> Routes:
        changes = {("POST", f"switchboard/{name}"): self._changer(make) for name, make in PROFILE_EDITS.items()}
        return {
            ("GET", "switchboard"): self._show,
            ("POST", "switchboard/rules/try"): self._try_rules,
            **changes,
        }

    async def _show(self, _: ApiRequest) -> dict[str, Any]:
        return self._board()

    def _board(self) -> dict[str, Any]:
        daemon = self._daemon
        profiles, catalog = daemon.gate.profiles, daemon.gate.catalog
        used = self._used()
        shown = {tool.name: tool for tool in daemon.gate.visible(Access())}
        categories = dict(catalog.categories)
        for category in profiles.mounts:
            categories.setdefault(category, ())
        return {
            "path": str(daemon.file.path),
            "active": profiles.active,
            "pinned": daemon.config.profile is not None,
            "problems": [problem.as_object() for problem in (*daemon.problems, *profiles.warnings)],
            "effects": _EFFECTS,
            "presets": PRESETS,
            "mounts": daemon.mounts.facts,
            "categories": [
                {
                    "id": category,
                    "label": label(category),
                    "mounted": category in profiles.mounts,
                    "tools": [self._describe(tool, shown, used) for tool in tools],
                }
                for category, tools in categories.items()
            ],
            "profiles": [self._profile(each) for each in profiles.by_id.values()],
        }

    def _describe(self, tool: Tool, shown: dict[str, Tool], used: dict[str, int]) -> dict[str, Any]:
        return {
            "name": tool.name,
            "description": tool.description,
            "effect": tool.effect,
            # As the active profile shows it: with the focus question, a tool costs more.
            "tokens": shown.get(tool.name, tool).list_tokens,
            "used": used.get(tool.name, 0),
        }

    def _profile(self, profile: Profile) -> dict[str, Any]:
        tools = self._daemon.gate.catalog.tools
        visible = self._daemon.gate.visible(Access(profile.id))
        return {
            **summarise_profile(profile),
            "builtin": profile.id in SHIPPED,
            "compact": profile.is_compact,
            "effects": {effect: profile.effects.get(effect, True) for effect in _EFFECTS},
            "categories": {name: switches.enabled for name, switches in profile.categories.items()},
            "on": [tool.name for tool in tools if profile.names_on(tool)],
            "visible": [tool.name for tool in visible],
            "tokens": sum(tool.list_tokens for tool in visible),
            "deny": {"paths": describe_rules(profile.deny.paths), "commands": describe_rules(profile.deny.commands)},
        }

    async def _try_rules(self, request: ApiRequest) -> dict[str, Any]:
        """What the rules of a profile say of a path or a command. Nothing is opened or run."""
        deny = self._daemon.gate.profiles[request.text("profile")].deny
        kind, text = deny_kind(request.body), request.text("text")
        rules = deny.paths if kind == "paths" else deny.commands
        try:
            if kind == "paths":
                text = str(self._daemon.paths.resolve(text))
            found = rules.match(text) if rules is not None else None
        except Denied as error:
            return {"denied": True, "text": text, "message": error.message}
        if found is None:
            return {"denied": False, "text": text}
        return {
            "denied": True,
            "text": text,
            "rule": found.rule.id,
            "matched": found.matched,
            "reason": found.rule.reason,
        }

    def _changer(self, make: Callable[[Arguments], Edit]) -> Endpoint:
        async def change(request: ApiRequest) -> dict[str, Any]:
            await self._daemon.change(make(request.body), request.by)
            return self._board()

        return change
