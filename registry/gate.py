"""Decides who may use which tool. One look-up answers "does it exist" and "may this caller use it" together."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal, NamedTuple

from registry.catalog import Catalog
from registry.profiles import Form, Profile, Profiles, empty_profile
from tools.kit.errors import ToolDisabled
from tools.kit.records import record
from tools.kit.rules import NOTHING, Deny, merge
from tools.kit.spec import Tool

# How results are written. Compact wins over the form that a connection asks for.
Shape = Form | Literal["compact"]


class UnknownTool(Exception):
    """There is no tool of that name, neither on nor off."""

    def __init__(self, name: str, near: str | None) -> None:
        self.name = name
        self.near = near
        super().__init__(f"Unknown tool: {name[:100]}" + (f" (did you mean {near}?)" if near else ""))


@record
class Access:
    """The profiles that apply to a caller: that of its token, and the one in the URL, `/mcp/<profile>`.

    `profile` None is the active profile, so a caller without its own profile follows `mcp-agent profile use`.
    """

    profile: str | None = None
    narrowed_to: str | None = None


class Grant(NamedTuple):
    """What one admitted call may use. Made by the gate, fixed for the life of the call."""

    profile: str
    form: Shape
    deadline_s: float
    deny: Deny = NOTHING


class Gate:
    """Holds the profiles in force. A swap is one assignment; calls under way keep their grant."""

    def __init__(self, catalog: Catalog, profiles: Profiles) -> None:
        self.catalog = catalog
        self.profiles = profiles
        self._visible: dict[Access, tuple[Tool, ...]] = {}
        self._admitted: dict[tuple[str | None, str | None, str], tuple[Tool, Grant]] = {}
        self._denied: dict[Access, Deny] = {}

    def swap(self, profiles: Profiles) -> None:
        self.profiles, self._visible, self._admitted, self._denied = profiles, {}, {}, {}

    def has_profile(self, profile_id: str) -> bool:
        return profile_id in self.profiles.by_id

    def visible(self, access: Access) -> tuple[Tool, ...]:
        """The tools that a caller sees and may call, in the catalogue's order."""
        found = self._visible.get(access)
        if found is None:
            bound = self._binding_profiles(access)
            allowed = (tool for tool in self.catalog.tools if all(profile.allows(tool) for profile in bound))
            found = self._visible[access] = tuple(_with_host_arguments(tool, bound) for tool in allowed)
        return found

    def offers(self, access: Access, category: str) -> bool:
        """Whether a caller may use a tool of `category`, and so may receive its events."""
        return any(tool.category == category for tool in self.visible(access))

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        """The tool and what the call may use. Raises UnknownTool or ToolDisabled."""
        key = access.profile, access.narrowed_to, name
        admitted = self._admitted.get(key)
        if admitted is None:
            admitted = self._admitted[key] = self._examine(access, name)
        return admitted

    def _examine(self, access: Access, name: str) -> tuple[Tool, Grant]:
        tool = self.catalog.by_name.get(name)
        if tool is None:
            near = get_close_matches(name, [visible.name for visible in self.visible(access)], n=1)
            raise UnknownTool(name, near[0] if near else None)
        bound = self._binding_profiles(access)
        for profile in bound:
            switch = profile.switch(tool)
            if switch is not None:
                raise ToolDisabled(f"Tool {tool.name} is disabled", hint=_hint(tool, profile, switch))
        return _with_host_arguments(tool, bound), Grant(
            bound[0].id, self.form(access), tool.deadline_s, self.deny(access)
        )

    def deny(self, access: Access) -> Deny:
        """The deny rules of every profile that applies to the caller."""
        found = self._denied.get(access)
        if found is None:
            found = self._denied[access] = merge([profile.deny for profile in self._binding_profiles(access)])
        return found

    def form(self, access: Access) -> Shape:
        """How the results of a caller are written. The profile in the URL wins over that of the token.

        If one of them is compact, results are compact.
        """
        bound = self._binding_profiles(access)
        if _is_compact(bound):
            return "compact"
        return next((profile.form for profile in reversed(bound) if profile.form != "auto"), "auto")

    def _binding_profiles(self, access: Access) -> tuple[Profile, ...]:
        profiles = self.profiles
        own = profiles.active if access.profile is None else access.profile
        names = (own,) if access.narrowed_to is None else (own, access.narrowed_to)
        return tuple(profiles.by_id.get(name) or empty_profile(name) for name in names)


def _with_host_arguments(tool: Tool, bound: tuple[Profile, ...]) -> Tool:
    """The tool with the arguments that the host adds: the focus question and the cursor."""
    seen = tool.with_focus if all(profile.prunes_everywhere for profile in bound) else tool
    return seen.with_cursor if _is_compact(bound) else seen


def _is_compact(bound: tuple[Profile, ...]) -> bool:
    return any(profile.is_compact for profile in bound)


def _hint(tool: Tool, profile: Profile, switch: str) -> str:
    where = {
        "profile": f"the profile {profile.id} is switched off",
        "category": f"the category {tool.category} is switched off in the profile {profile.id}",
        "tool": f"{tool.name} is switched off in the profile {profile.id}",
    }[switch]
    target = tool.category if switch == "category" else tool.name
    way = "in tools.json" if switch == "profile" else f"with `mcp-agent enable {target}` or in tools.json"
    return f"{where}; its owner can switch it on {way}. Do the work with the tools that are listed."
