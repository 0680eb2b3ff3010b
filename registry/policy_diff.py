"""The differences between two states of tools.json, in words for the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from registry.catalog import Catalog
from registry.known_keys import EFFECTS
from registry.profiles import Profile, Profiles, empty_profile
from tools.kit.rules import Deny, Rule

_MOST_CHANGES = 50


class _Difference(NamedTuple):
    text: str
    # Whether a caller may do more after it than before.
    widens: bool = False


def policy_change(before: Profiles, after: Profiles, catalog: Catalog) -> dict[str, Any]:
    """What the audit log says of a change: the differences, those that allow more, and the hashes of both files."""
    found = list(_differences(before, after, catalog))
    return {
        "changes": _first([each.text for each in found]),
        "widened": _first([each.text for each in found if each.widens]),
        "old": before.digest,
        "new": after.digest,
    }


def differences(before: Profiles, after: Profiles, catalog: Catalog) -> list[str]:
    """One phrase for each change, such as `default: shell off`."""
    return _first([each.text for each in _differences(before, after, catalog)])


def _first(found: list[str]) -> list[str]:
    more = len(found) - _MOST_CHANGES
    return found if more <= 0 else [*found[:_MOST_CHANGES], f"and {more} more"]


def _differences(before: Profiles, after: Profiles, catalog: Catalog) -> Iterator[_Difference]:
    if before.active != after.active:
        old, new = (each.by_id.get(each.active) or empty_profile(each.active) for each in (before, after))
        widens = any(each.widens for each in _profile_differences(old, new, catalog))
        yield _Difference(f"active profile: {before.active} → {after.active}", widens)
    if (before.wraps, before.mounts) != (after.wraps, after.mounts):
        yield from _addition_differences(before, after)
    for profile_id in dict.fromkeys((*before.by_id, *after.by_id)):
        known, changed = before.by_id.get(profile_id), after.by_id.get(profile_id)
        if known == changed:
            continue
        if changed is None:
            yield _Difference(f"{profile_id}: profile removed")
            continue
        if known is None:
            yield _Difference(f"{profile_id}: new profile")
        for each in _profile_differences(known or empty_profile(profile_id), changed, catalog):
            # Nobody has a profile that did not exist.
            yield _Difference(f"{profile_id}: {each.text}", each.widens and known is not None)


def _profile_differences(old: Profile, new: Profile, catalog: Catalog) -> Iterator[_Difference]:
    for effect in EFFECTS:
        is_on = new.effects.get(effect, True)
        if old.effects.get(effect, True) != is_on:
            yield _Difference(f"effect {effect} {'on' if is_on else 'off'}", is_on)
    for category, tools in catalog.categories.items():
        switched = [tool for tool in tools if old.allows(tool) != new.allows(tool)]
        if not switched:
            continue
        states = {new.allows(tool) for tool in tools}
        if len(switched) == len(tools) and len(states) == 1:
            yield _Difference(f"{category} {'on' if states == {True} else 'off'}", states == {True})
        else:
            for tool in switched:
                yield _Difference(f"{tool.name} {'on' if new.allows(tool) else 'off'}", new.allows(tool))
    if old.deny != new.deny:
        yield from _rule_differences(_rules(old.deny), _rules(new.deny))
    if old.response != new.response:
        yield _Difference("response changed")
    if old.pruning != new.pruning:
        root, wider = old.pruning_root, new.pruning_root
        yield _Difference("pruning changed", root is not None and not (wider and wider.is_relative_to(root)))


def _addition_differences(before: Profiles, after: Profiles) -> Iterator[_Difference]:
    """What is wrapped and mounted. The tools of a server that is not connected yet are in no catalog."""
    old, new = _additions(before), _additions(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            yield _Difference(f"{name} removed")
        elif name not in old:
            yield _Difference(f"{name} added", widens=True)
        elif old[name] != new[name]:
            yield _Difference(f"{name} changed", widens=True)


def _additions(profiles: Profiles) -> dict[str, object]:
    programs = {f"wrapped program {wrap.id}": wrap for wrap in profiles.wraps}
    return {**programs, **{f"mounted server {category}": mount for category, mount in profiles.mounts.items()}}


def _rule_differences(old: dict[str, Rule], new: dict[str, Rule]) -> Iterator[_Difference]:
    for rule_id in dict.fromkeys((*old, *new)):
        if rule_id not in new:
            yield _Difference(f"deny rule {rule_id} removed", widens=True)
        elif rule_id not in old:
            yield _Difference(f"deny rule {rule_id} added")
        elif (old[rule_id].patterns, old[rule_id].reason) != (new[rule_id].patterns, new[rule_id].reason):
            # It may match less than before: whether it does cannot be told from its patterns.
            widens = old[rule_id].patterns != new[rule_id].patterns
            yield _Difference(f"deny rule {rule_id} changed", widens)


def _rules(deny: Deny) -> dict[str, Rule]:
    return {rule.id: rule for rules in (deny.paths, deny.commands) if rules is not None for rule in rules.rules}
