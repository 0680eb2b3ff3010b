"""The consequences of a change of switches, in sentences for the person who made it.

A switch that says "off" is not the whole truth where another tool can do the same, and one that says "on" is not
where a switch above it is off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from registry.catalog import Catalog
from registry.edits import Edit, Switch
from registry.profiles import Profile, Profiles, differences
from tools.kit.spec import Effect, Tool

_MOST_NAMES = 8


def describe_change(
    before: Profiles, after: Profiles, edit: Edit, catalog: Catalog, *, is_pinned: bool = False
) -> dict[str, Any]:
    """What `edit` made different, and in `notes` what the person who asked for it may not expect."""
    profile = edit.changed_profile(after)
    flags = f" --profile {profile.id}" if is_pinned or profile.id != after.active else ""
    notes: list[str] = []
    if isinstance(edit, Switch):
        notes = (obstacles if edit.enabled else remaining_ways)(profile, edit.switched, catalog, flags=flags)
        if edit.enabled and edit.ask is not True:
            notes += still_asking(profile, edit.switched, catalog)
    return {
        "profile": profile.id,
        "active": after.active,
        "changes": differences(before, after, catalog),
        "notes": notes,
    }


def remaining_ways(profile: Profile, targets: Iterable[str], catalog: Catalog, *, flags: str = "") -> list[str]:
    """After targets were switched off: which tools can still do what they did, and the command that ends that too.

    `flags` are for the end of that command.
    """
    kinds = {_reach(tool) for target in targets for tool in _tools(target, catalog)} - {None}
    left = [tool for tool in catalog.tools if profile.allows(tool)]
    named = [tool for tool in left if tool.effect != "execute" and _reach(tool) in kinds]
    executing = [tool for tool in left if tool.effect == "execute"] if kinds else []
    if not named and not executing:
        return []
    what = [f"{_names(found)} can {effect} files" for effect, found in _by_effect(named).items()]
    if executing:
        what.append(f"{_names(executing)} can execute anything" + ("" if kinds == {"execute"} else ", these included"))
    effects = ("--effect execute",) if executing else ()
    command = " ".join(("mcp-agent disable", *(tool.name for tool in named), *effects))
    return [f"still on: {'; '.join(what)}. To switch that off, too: {command}{flags}"]


def obstacles(profile: Profile, targets: Iterable[str], catalog: Catalog, *, flags: str = "") -> list[str]:
    """After targets (categories, tools, effects) were switched on: what still hides them."""
    found: dict[str, None] = {}
    for target in targets:
        tools = _tools(target, catalog)
        if not tools or any(profile.allows(tool) for tool in tools):
            continue
        match profile.switch(tools[0]):
            case "profile":
                found[f"but the whole profile {profile.id} is switched off in tools.json"] = None
            case "effect":
                effect = tools[0].effect
                found[f"but every tool that can {effect} is off: mcp-agent enable --effect {effect}{flags}"] = None
            case "category":
                category = tools[0].category
                found[f"but the category {category} is off: mcp-agent enable {category}{flags}"] = None
            case "tool" if target not in catalog.by_name:
                names = " ".join(tool.name for tool in tools)
                found[f"but every tool of {target} is off: mcp-agent enable {names}{flags}"] = None
    return list(found)


def still_asking(profile: Profile, targets: Iterable[str], catalog: Catalog) -> list[str]:
    """After targets were switched on: which of them ask the owner all the same, by another switch."""
    found: dict[str, list[Tool]] = {}
    for target in targets:
        for tool in _tools(target, catalog):
            switch = profile.asking_switch(tool)
            if switch is not None and profile.allows(tool):
                found.setdefault(switch, []).append(tool)
    what = {"tool": "their own switches say so", "category": "the category {} asks", "effect": "all that can {} asks"}
    return [
        f"but {_names(tools)} asks you first: " + what[kind].format(name)
        for (kind, _, name), tools in ((switch.partition(":"), tools) for switch, tools in found.items())
    ]


def _reach(tool: Tool) -> Effect | None:
    """What a tool can do to this machine; None for one that only handles what it is given, or what we keep."""
    has_path = any(field.is_path for field in tool.parameters.fields.values())
    return tool.effect if tool.effect == "execute" or has_path else None


def _by_effect(tools: Iterable[Tool]) -> dict[Effect, list[Tool]]:
    found: dict[Effect, list[Tool]] = {}
    for tool in tools:
        found.setdefault(tool.effect, []).append(tool)
    return found


def _tools(target: str, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools behind a name: one tool, a category, or all tools of an effect."""
    if target in catalog.by_name:
        return (catalog.by_name[target],)
    return catalog.categories.get(target) or tuple(tool for tool in catalog.tools if tool.effect == target)


def _names(tools: list[Tool]) -> str:
    names = [tool.name for tool in tools[:_MOST_NAMES]]
    more = len(tools) - len(names)
    if more > 0:
        names.append(f"{more} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
