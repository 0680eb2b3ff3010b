"""Decides who may use which tool. One look-up answers "does it exist" and "may this caller use it" together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from registry.asking import ToolAsk
from registry.catalog import Catalog
from registry.profiles import Form, Profile, Profiles, empty_profile
from tools.kit.errors import ToolDisabled
from tools.kit.rules import NOTHING, Deny, merge
from tools.kit.spec import Tool
from tools.kit.spelling import nearest

# How results are written. Compact wins over the form that a connection asks for.
Shape = Form | Literal["compact"]
# The part of an unknown name that is compared with those that there are.
_MOST_NAME = 200


class UnknownTool(Exception):
    """There is no tool of that name, neither on nor off. `hint` says what there is instead."""

    def __init__(self, name: str, hint: str | None) -> None:
        self.hint = hint
        super().__init__(f"Unknown tool: {name[:100]}" + (f" ({hint})" if hint else ""))


class Access(NamedTuple):
    """The profiles that apply to a caller: that of its token, and the one in the URL, `/mcp/<profile>`.

    `profile` None is the active profile, so a caller without its own profile follows `mcp-agent profile use`.
    """

    profile: str | None = None
    narrowed_to: str | None = None
    # False for another daemon that has mounted this one: it mounts itself what it wants of other servers.
    offers_mounts: bool = True


class Grant(NamedTuple):
    """What one admitted call may use. Made by the gate, fixed for the life of the call."""

    profile: str
    form: Shape
    deadline_s: float
    deny: Deny = NOTHING
    # The folder of `read`, `bash` and `grep`, if a profile sets one.
    root: Path | None = None
    # Whether what the conversation was shown before is not shown again.
    shows_changes: bool = False
    # What decides, for each profile, whether the call needs the owner's approval; None if none of its calls does.
    asks: tuple[ToolAsk, ...] | None = None


class _Binding:
    """What the profiles that apply to a caller come to together."""

    def __init__(self, profiles: tuple[Profile, ...], tools: Iterable[Tool]) -> None:
        self.profiles = profiles
        self.deny = merge([profile.deny for profile in profiles])
        # If one of them is compact, results are. Else the profile in the URL, which is last, wins over the token's.
        is_compact = any(profile.is_compact for profile in profiles)
        forms = [profile.form for profile in reversed(profiles) if profile.form != "auto"]
        self.form: Shape = "compact" if is_compact else forms[0] if forms else "auto"
        self.shows_changes = any(profile.shows_changes for profile in profiles)
        self._prunes = all(profile.prunes_everywhere for profile in profiles)
        allowed = [tool for tool in tools if all(profile.allows(tool) for profile in profiles)]
        runs_commands = any(tool.effect == "execute" for tool in allowed)
        self.shows_sites = runs_commands and all(each.enabled and each.shows_sites for each in profiles)
        self.visible = tuple(self.with_host_arguments(tool) for tool in allowed)

    def with_host_arguments(self, tool: Tool) -> Tool:
        """The tool with the arguments that the host adds: the focus question and the cursor."""
        seen = tool.with_focus if self._prunes else tool
        return seen.with_cursor if self.form == "compact" else seen

    @property
    def root(self) -> Path | None:
        """The innermost root. The profile in the URL only narrows: its root counts inside that of the token."""
        root: Path | None = None
        for profile in self.profiles:
            own = profile.pruning_root
            if own is not None and (root is None or own.is_relative_to(root)):
                root = own
        return root


class Gate:
    """Holds the profiles in force. A swap is one assignment; calls under way keep their grant."""

    def __init__(self, catalog: Catalog, profiles: Profiles) -> None:
        self.catalog = catalog
        self.profiles = profiles
        self._bindings: dict[Access, _Binding] = {}
        self._admitted: dict[tuple[Access, str], tuple[Tool, Grant]] = {}

    def swap(self, profiles: Profiles, catalog: Catalog | None = None) -> None:
        """Put other profiles into force, and another catalog if one is given."""
        self.catalog = catalog or self.catalog
        self.profiles, self._bindings, self._admitted = profiles, {}, {}

    def has_profile(self, profile_id: str) -> bool:
        return profile_id in self.profiles.by_id

    def visible(self, access: Access) -> tuple[Tool, ...]:
        """The tools that a caller sees and may call, in the catalogue's order."""
        return self._binding(access).visible

    def offers(self, access: Access, category: str) -> bool:
        """Whether a caller may use a tool of `category`, and so may receive its events."""
        return any(tool.category == category for tool in self.visible(access))

    def allows(self, access: Access, name: str) -> bool:
        """Whether a caller may use the tool of that name."""
        return any(tool.name == name for tool in self.visible(access))

    def shows_sites(self, access: Access) -> bool:
        """Whether a caller is shown what its commands serve on a port of this machine."""
        return self._binding(access).shows_sites

    def opens_artifact(self, access: Access, domain: str) -> bool:
        """Whether a caller may still use a tool whose results are kept under this domain: the name of its category."""
        if domain not in self.catalog.categories:
            return True
        # What a command printed is of the shell, whichever tool ran it.
        return self.offers(access, domain) or (domain == "shell" and self.allows(access, "bash"))

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        """The tool and what the call may use. Raises UnknownTool or ToolDisabled."""
        admitted = self._admitted.get((access, name))
        if admitted is None:
            admitted = self._admitted[access, name] = self._examine(access, name)
        return admitted

    def _examine(self, access: Access, name: str) -> tuple[Tool, Grant]:
        tool = self.catalog.by_name.get(name)
        if tool is None or not self._is_offered(tool, access):
            raise UnknownTool(name, _suggestion(name, self.visible(access)))
        bound = self._binding(access)
        for profile in bound.profiles:
            switch = profile.switch(tool)
            if switch is not None:
                raise ToolDisabled(
                    f"Tool {tool.name} is disabled",
                    hint=_hint(tool, profile, switch, is_active=profile.id == self.profiles.active),
                )
        asks = tuple(found for profile in bound.profiles if (found := profile.asking(tool)) is not None)
        own = bound.profiles[0].id
        grant = Grant(own, bound.form, tool.deadline_s, bound.deny, bound.root, bound.shows_changes, asks or None)
        return bound.with_host_arguments(tool), grant

    def _is_offered(self, tool: Tool, access: Access) -> bool:
        return access.offers_mounts or tool.category not in self.profiles.mounts

    def deny(self, access: Access) -> Deny:
        """The deny rules of every profile that applies to the caller."""
        return self._binding(access).deny

    def form(self, access: Access) -> Shape:
        """How the results of a caller are written."""
        return self._binding(access).form

    def _binding(self, access: Access) -> _Binding:
        found = self._bindings.get(access)
        if found is None:
            own = self.profiles.active if access.profile is None else access.profile
            names = (own,) if access.narrowed_to is None else (own, access.narrowed_to)
            profiles = tuple(self.profiles.by_id.get(name) or empty_profile(name) for name in names)
            offered = (tool for tool in self.catalog.tools if self._is_offered(tool, access))
            found = self._bindings[access] = _Binding(profiles, offered)
        return found


def _suggestion(name: str, visible: tuple[Tool, ...]) -> str | None:
    """Suggest what a caller may have meant by an unknown tool name."""
    asked = name[:_MOST_NAME].lower().replace("-", "_").rpartition("__")[2]
    for tool in visible:
        if asked in tool.hints:
            return tool.hints[asked]
        if asked == tool.name or asked in tool.known_as:
            return f"did you mean {tool.name}?"
    near = nearest(asked, [tool.name for tool in visible])
    return f"did you mean {near}?" if near else None


def _hint(tool: Tool, profile: Profile, switch: str, *, is_active: bool) -> str:
    where = {
        "profile": f"the profile {profile.id} is switched off",
        "effect": f"every tool that can {tool.effect} is switched off in the profile {profile.id}",
        "category": f"the category {tool.category} is switched off in the profile {profile.id}",
        "tool": f"{tool.name} is switched off in the profile {profile.id}",
    }[switch]
    target = {"effect": f"--effect {tool.effect}", "category": tool.category}.get(switch, tool.name)
    named = "" if is_active else f" --profile {profile.id}"
    way = "in tools.json" if switch == "profile" else f"with `mcp-agent enable {target}{named}` or in tools.json"
    # Suggest no other tool: the owner may not want another tool to do the same.
    return f"{where}; its owner can switch it on {way}. Ask them, or go on without it."
