"""The differences between two states of tools.json, in words for the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from registry.catalog import Catalog
from registry.profiles import Profile, Profiles, empty_profile
from tools.kit.rules import Deny, Rule

_MOST_CHANGES = 50


def policy_change(before: Profiles, after: Profiles, catalog: Catalog) -> dict[str, Any]:
    """What the audit log says of a change: the differences, and the hashes of both files."""
    return {"changes": differences(before, after, catalog), "old": before.digest, "new": after.digest}


def differences(before: Profiles, after: Profiles, catalog: Catalog) -> list[str]:
    """One phrase for each change, such as `default: shell off`."""
    found = list(_differences(before, after, catalog))
    more = len(found) - _MOST_CHANGES
    return found if more <= 0 else [*found[:_MOST_CHANGES], f"and {more} more"]


def _differences(before: Profiles, after: Profiles, catalog: Catalog) -> Iterator[str]:
    if before.active != after.active:
        yield f"active profile: {before.active} → {after.active}"
    for profile_id in dict.fromkeys((*before.by_id, *after.by_id)):
        old, new = before.by_id.get(profile_id), after.by_id.get(profile_id)
        if old == new:
            continue
        if new is None:
            yield f"{profile_id}: profile removed"
            continue
        if old is None:
            yield f"{profile_id}: new profile"
        for change in _profile_differences(old or empty_profile(profile_id), new, catalog):
            yield f"{profile_id}: {change}"


def _profile_differences(old: Profile, new: Profile, catalog: Catalog) -> Iterator[str]:
    for category, tools in catalog.categories.items():
        switched = [tool for tool in tools if old.allows(tool) != new.allows(tool)]
        if not switched:
            continue
        states = {new.allows(tool) for tool in tools}
        if len(switched) == len(tools) and len(states) == 1:
            yield f"{category} {'on' if states == {True} else 'off'}"
        else:
            yield from (f"{tool.name} {'on' if new.allows(tool) else 'off'}" for tool in switched)
    yield from _rule_differences(_rules(old.deny), _rules(new.deny))
    for name in ("response", "pruning"):
        if getattr(old, name) != getattr(new, name):
            yield f"{name} changed"


def _rule_differences(old: dict[str, Rule], new: dict[str, Rule]) -> Iterator[str]:
    for rule_id in dict.fromkeys((*old, *new)):
        if rule_id not in new:
            yield f"deny rule {rule_id} removed"
        elif rule_id not in old:
            yield f"deny rule {rule_id} added"
        elif (old[rule_id].patterns, old[rule_id].reason) != (new[rule_id].patterns, new[rule_id].reason):
            yield f"deny rule {rule_id} changed"


def _rules(deny: Deny) -> dict[str, Rule]:
    return {rule.id: rule for rules in (deny.paths, deny.commands) if rules is not None for rule in rules.rules}
