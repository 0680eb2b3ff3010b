"""Changes of whole profiles in tools.json: presets, copies, labels, deny rules. Single switches: `registry.edits`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from registry.catalog import Catalog
from registry.edits import (
    Arguments,
    BadArguments,
    Document,
    Edit,
    copy_profile_entry,
    edit_named,
    profile_entry,
    text,
    truth,
)
from registry.profiles import DEFAULT_PROFILE, SHIPPED, Profiles, UnknownName, describe_profile

# The two kinds of machine that people set up most often, and the built-in profile of each.
PRESETS: Mapping[str, str] = {"full-access": DEFAULT_PROFILE, "browser-only": "browser-only"}
DenyKind = Literal["paths", "commands"]
_MOST_LABEL_CHARS = 80


def switch_profile(profile_id: str, enabled: bool) -> Edit:
    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        profile_entry(document, profiles[profile_id], catalog)["enabled"] = enabled

    return Edit(apply, profile_id)


def duplicate(profile_id: str, label: str) -> Edit:
    """A copy under another label. Its id is made of the label."""
    label = _checked_label(label)

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        entry = copy_profile_entry(document, profiles[profile_id], catalog)
        document.setdefault("profiles", []).append({**entry, "id": _free_id(label, profiles), "label": label})

    return Edit(apply, profile_id)


def rename(profile_id: str, label: str) -> Edit:
    """Another label. The id stays, because tokens and addresses name it."""
    label = _checked_label(label)

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        profile_entry(document, profiles[profile_id], catalog)["label"] = label

    return Edit(apply, profile_id)


def apply_preset(name: str) -> Edit:
    """Make the built-in profile of a preset active, with every switch as it was shipped. Its deny rules stay."""
    profile_id = PRESETS.get(name)
    if profile_id is None:
        raise BadArguments(f"there is no preset {name[:100]!r}; there are {', '.join(PRESETS)}")

    def apply(document: Document, _: Profiles, catalog: Catalog) -> None:
        entry = next((each for each in document.get("profiles", []) if each["id"] == profile_id), None)
        if entry is not None:
            _reset_switches(entry, describe_profile(SHIPPED[profile_id], catalog))
        document["activeProfile"] = profile_id

    return Edit(apply, profile_id, follows_active=True)


def add_rule(profile_id: str, kind: DenyKind, rule_id: str, patterns: list[str], reason: str) -> Edit:
    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        deny = profile_entry(document, profiles[profile_id], catalog).setdefault("deny", {})
        pattern = patterns[0] if len(patterns) == 1 else patterns
        deny.setdefault(kind, []).append({"id": rule_id, "pattern": pattern, "reason": reason})

    return Edit(apply, profile_id)


def remove_rule(profile_id: str, kind: DenyKind, rule_id: str) -> Edit:
    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        deny = profile_entry(document, profiles[profile_id], catalog).get("deny", {})
        kept = [rule for rule in deny.get(kind, []) if rule["id"] != rule_id]
        if len(kept) == len(deny.get(kind, [])):
            raise UnknownName(f"there is no rule {rule_id[:100]!r}", None)
        deny[kind] = kept

    return Edit(apply, profile_id)


def deny_kind(arguments: Arguments) -> DenyKind:
    """The argument `kind`. Raises BadArguments."""
    match text(arguments, "kind"):
        case "paths":
            return "paths"
        case "commands":
            return "commands"
        case other:
            raise BadArguments(f"kind is {other[:60]!r} and must be paths or commands")


def _add_rule(arguments: Arguments) -> Edit:
    patterns = [line.strip() for line in text(arguments, "pattern").splitlines() if line.strip()]
    if not patterns:
        raise BadArguments("pattern is empty: write one pattern a line")
    profile_id, kind = text(arguments, "profile"), deny_kind(arguments)
    return add_rule(profile_id, kind, text(arguments, "id"), patterns, text(arguments, "reason"))


def _reset_switches(entry: dict[str, Any], shipped: dict[str, Any]) -> None:
    """Set every switch of `entry` as in `shipped`. What else is in it, such as a mount, stays."""
    entry["enabled"] = True
    entry.pop("effects", None)
    entry.pop("unlisted", None)
    if "unlisted" in shipped:
        entry["unlisted"] = shipped["unlisted"]
    fresh = {category["id"]: category for category in shipped["categories"]}
    for own in entry.setdefault("categories", []):
        category = fresh.pop(own["id"], None)
        own["enabled"] = True if category is None else category["enabled"]
        if "tools" in own:
            # What is not listed follows the profile's `unlisted`.
            tools = {} if category is None else {tool["id"]: tool["enabled"] for tool in category["tools"]}
            own["tools"] = [
                {**tool, "enabled": tools.get(tool["id"], "unlisted" not in shipped)} for tool in own["tools"]
            ]
            listed = {tool["id"] for tool in own["tools"]}
            own["tools"] += [tool for tool in (category or {}).get("tools", ()) if tool["id"] not in listed]
        elif category is not None:
            own["tools"] = category["tools"]
    entry["categories"] += fresh.values()


def _checked_label(label: str) -> str:
    label = " ".join(label.split())
    if not label or len(label) > _MOST_LABEL_CHARS or not label.isprintable():
        raise BadArguments(f"a label is a line of 1 to {_MOST_LABEL_CHARS} characters")
    return label


def _free_id(label: str, profiles: Profiles) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:48] or "profile"
    found, number = base, 1
    while found in profiles.by_id:
        number += 1
        found = f"{base}-{number}"
    return found


# Every change of a profile by its name, with those of `registry.edits` that concern one.
PROFILE_EDITS: Mapping[str, Callable[[Arguments], Edit]] = {
    "switch": lambda arguments: edit_named("switch", arguments),
    "use": lambda arguments: edit_named("profiles/use", arguments),
    "enable": lambda arguments: switch_profile(text(arguments, "profile"), truth(arguments, "enabled")),
    "preset": lambda arguments: apply_preset(text(arguments, "preset")),
    "duplicate": lambda arguments: duplicate(text(arguments, "profile"), text(arguments, "label")),
    "rename": lambda arguments: rename(text(arguments, "profile"), text(arguments, "label")),
    "delete": lambda arguments: edit_named("profiles/delete", arguments),
    "rules/add": _add_rule,
    "rules/remove": lambda arguments: remove_rule(
        text(arguments, "profile"), deny_kind(arguments), text(arguments, "id")
    ),
}
