"""The changes of tools.json that people ask for, by a command or on the Tools page. Each has a name and arguments.

The running daemon and a command without one make the same change of the same arguments: `edit_named` gives it, and
`RegistryFile.edit` saves it. Its name is also its path under /api.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from registry.catalog import Catalog
from registry.profiles import DEFAULT_PROFILE, EFFECTS, SHIPPED, Profile, Profiles, UnknownName, describe_profile
from registry.schema import Level, Report
from registry.tools_json import MOST_KEYS, MOUNT, WRAP, read_mount, read_wrap
from registry.user_error import UsageError
from tools.kit.spec import Effect
from tools.kit.spelling import nearest

# The two kinds of machine that people set up most often, and the built-in profile of each.
PRESETS: Mapping[str, str] = {"full-access": DEFAULT_PROFILE, "browser-only": "browser-only"}
DenyKind = Literal["paths", "commands"]
_PROFILE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_LABEL_CHARS = 80

Document = dict[str, Any]


class BadArguments(UsageError):
    """The arguments of a change do not fit it."""


class Edit(Struct, frozen=True, kw_only=True):
    """One change. Its fields are its arguments."""

    # The profile that is changed; None: the active one, whichever that is.
    profile: str | None = None
    # Whether the shell sessions are ended when it is in force.
    stop_sessions: bool = False

    @property
    def follows_active(self) -> bool:
        """Whether it chooses the active profile, or changes whichever is active. A pinned daemon refuses it."""
        return False

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        """Change the document, which means `profiles`, in place. Raises UnknownName and BadArguments."""
        raise NotImplementedError

    def changed_profile(self, profiles: Profiles) -> Profile:
        """The profile that is different now; the active one where that is gone, or is not one alone."""
        return profiles.by_id.get(self.profile or profiles.active) or profiles[profiles.active]

    def entry(self, document: Document, profiles: Profiles, catalog: Catalog) -> Document:
        """The entry of the profile that is changed."""
        return profile_entry(document, profiles[self.profile or profiles.active], catalog)


def edit_named(name: str, arguments: Mapping[str, Any]) -> Edit:
    """The change of that name. An argument that is null is absent. Raises BadArguments."""
    given = {key: value for key, value in arguments.items() if value is not None}
    try:
        return msgspec.convert(given, EDITS[name])
    except msgspec.ValidationError as error:
        raise BadArguments(f"{name}: {error}") from None


class Switch(Edit, frozen=True, kw_only=True):
    """Switch categories, tools, and all tools of an effect."""

    enabled: bool
    target: str | None = None
    targets: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    # Whether what is switched on asks the owner; None: as before. "never": a tool does not, whatever its category and
    # its effect say.
    ask: bool | Literal["never"] | None = None

    def __post_init__(self) -> None:
        if not self.switched:
            raise BadArguments("target is needed and must be a string, or targets or effects an array of strings")

    @property
    def switched(self) -> tuple[str, ...]:
        return (*([] if self.target is None else [self.target]), *self.targets, *self.effects)

    @property
    def follows_active(self) -> bool:
        return self.profile is None

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        profile = profiles[self.profile or profiles.active]
        entry = self.entry(document, profiles, catalog)
        for target in self.switched[: len(self.switched) - len(self.effects)]:
            category, tool_name = _place(target, profile, catalog)
            switches = _category_entry(entry, category)
            if tool_name is not None:
                switches = _entry(switches.setdefault("tools", []), tool_name)
            switches["enabled"] = self.enabled
            if self.ask is True or (self.ask == "never" and tool_name is not None):
                switches["ask"] = self.ask is True
            elif self.ask is not None:
                switches.pop("ask", None)
        for effect in self.effects:
            asks = self.enabled and (self.ask is True or (self.ask is None and profile.effects.get(effect) == "ask"))
            entry.setdefault("effects", {})[effect] = "ask" if asks else self.enabled


class UseProfile(Edit, frozen=True, kw_only=True):
    """Make a profile the active one."""

    profile: str

    @property
    def follows_active(self) -> bool:
        return True

    def apply(self, document: Document, profiles: Profiles, _: Catalog) -> None:
        document["activeProfile"] = profiles[self.profile].id


class UsePreset(Edit, frozen=True, kw_only=True):
    """Make the built-in profile of a preset active, with every switch as it was shipped. Its deny rules stay."""

    preset: str

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise BadArguments(f"there is no preset {self.preset[:100]!r}; there are {', '.join(PRESETS)}")

    @property
    def follows_active(self) -> bool:
        return True

    def apply(self, document: Document, _: Profiles, catalog: Catalog) -> None:
        profile = SHIPPED[PRESETS[self.preset]]
        for entry in document.get("profiles", []):
            if entry["id"] == profile.id:
                _reset_switches(entry, describe_profile(profile, catalog))
        document["activeProfile"] = profile.id


class CreateProfile(Edit, frozen=True, kw_only=True, rename={"origin": "from"}):
    """Make a profile: a copy of `origin`, or else one with everything on, or with nothing on if it is `empty`.

    Without an id, its id is made of the label.
    """

    origin: str | None = None
    label: str | None = None
    description: str | None = None
    empty: bool = False

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        label = None if self.label is None else _checked_label(self.label)
        if self.profile is None and label is None:
            raise BadArguments("profile, the id of the new profile, is needed, or a label")
        profile_id = self.profile or _free_id(label or "", profiles)
        if not _PROFILE_ID.fullmatch(profile_id):
            raise BadArguments(f"{profile_id[:100]!r} cannot name a profile: use letters, digits, dots and dashes")
        if profile_id in profiles.by_id:
            raise BadArguments(f"there is a profile {profile_id} already")
        entry: Document = {"enabled": True, "unlisted": "disabled" if self.empty else "enabled", "categories": []}
        if self.origin is not None:
            entry = profile_entry(copy.deepcopy(document), profiles[self.origin], catalog)
            # What a shipped profile says of itself is in no file.
            entry.setdefault("description", profiles[self.origin].description)
        if self.description is not None:
            entry["description"] = self.description
        own = {"id": profile_id, "label": label or profile_id}
        document.setdefault("profiles", []).append({"id": "", **entry} | own)


class UpdateProfile(Edit, frozen=True, kw_only=True):
    """Switch a whole profile, or give it another label. Its id stays, because tokens and addresses name it."""

    profile: str
    label: str | None = None
    enabled: bool | None = None

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        entry = self.entry(document, profiles, catalog)
        if self.label is not None:
            entry["label"] = _checked_label(self.label)
        if self.enabled is not None:
            entry["enabled"] = self.enabled


class ReplaceProfile(Edit, frozen=True, kw_only=True, rename={"new": "entry"}):
    """Put another entry in the place of what tools.json says of a profile."""

    profile: str
    new: Document

    def __post_init__(self) -> None:
        if self.new.get("id", self.profile) != self.profile:
            advice = "to rename a profile, copy it and delete the old one"
            raise BadArguments(f"the id must stay {self.profile}; {advice}")

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        entry = self.entry(document, profiles, catalog)
        entry.clear()
        entry.update({"id": self.profile, **self.new})


class DeleteProfile(Edit, frozen=True, kw_only=True):
    """Remove what tools.json says of a profile. A shipped one is then as it was shipped."""

    profile: str

    def apply(self, document: Document, profiles: Profiles, _: Catalog) -> None:
        profile = profiles[self.profile]
        if profile.id == profiles.active:
            raise BadArguments(f"{profile.id} is the active profile; make another one active first")
        entries: list[Document] = document.get("profiles", [])
        if not any(entry["id"] == profile.id for entry in entries):
            raise BadArguments(f"{profile.id} is built in, and tools.json does not change it")
        document["profiles"] = [entry for entry in entries if entry["id"] != profile.id]


class AddRule(Edit, frozen=True, kw_only=True):
    """Deny something in a profile. The patterns are the lines of `pattern`."""

    profile: str
    kind: DenyKind
    id: str
    pattern: str
    reason: str

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        patterns = [line.strip() for line in self.pattern.splitlines() if line.strip()]
        if not patterns:
            raise BadArguments("pattern is empty: write one pattern a line")
        deny = self.entry(document, profiles, catalog).setdefault("deny", {})
        pattern = patterns[0] if len(patterns) == 1 else patterns
        deny.setdefault(self.kind, []).append({"id": self.id, "pattern": pattern, "reason": self.reason})


class RemoveRule(Edit, frozen=True, kw_only=True):
    """Remove a deny rule from a profile."""

    profile: str
    kind: DenyKind
    id: str

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        deny = self.entry(document, profiles, catalog).get("deny") or {}
        kept = [rule for rule in deny.get(self.kind, []) if rule["id"] != self.id]
        if len(kept) == len(deny.get(self.kind, [])):
            raise UnknownName(f"there is no rule {self.id[:100]!r}", None)
        deny[self.kind] = kept


class AddException(Edit, frozen=True, kw_only=True):
    """What the owner answers with "always": the command runs without a question from now on, or the tool does.

    `rule` is the id of the ask rule that asked; None: a switch did. `pattern` is an expression for the whole command;
    None where the tool runs no commands.
    """

    profile: str
    tool: str
    rule: str | None = None
    pattern: str | None = None

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        profile = profiles[self.profile]
        entry = self.entry(document, profiles, catalog)
        if self.rule is not None:
            rules = (entry.get("ask") or {}).get("commands") or []
            rule = next((each for each in rules if each["id"] == self.rule), None)
            if rule is None or self.pattern is None:
                raise UnknownName(f"there is no ask rule {self.rule[:100]!r}", None)
            if rule.get("always") is False:
                raise BadArguments(f"the rule {self.rule} takes no exceptions")
            _add_text(rule, "except", self.pattern)
        elif self.pattern is not None:
            _add_text(entry.setdefault("ask", {}), "except", self.pattern)
        else:
            category, tool_name = _place(self.tool, profile, catalog)
            switches = _entry(_category_entry(entry, category).setdefault("tools", []), tool_name or self.tool)
            switches["ask"] = False


class MountServer(Edit, frozen=True, kw_only=True):
    """Mount a server as the category `name`: where it is mounted already, else in the profile."""

    name: str
    mount: Document

    def __post_init__(self) -> None:
        report = Report()
        values = _checked_entry(self.mount, MOUNT, "mount", report)
        read_mount(values, self.name, "mount", report)
        _refuse_problems(report)

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        if self.name in catalog.categories and self.name not in profiles.mounts:
            raise BadArguments(f"there is a category {self.name} already; give the mount another name")
        found = [each for each in _category_entries(document) if each["id"] == self.name and each.get("mount")]
        for each in found or [_category_entry(self.entry(document, profiles, catalog), self.name)]:
            each["mount"] = self.mount


class UnmountServer(Edit, frozen=True, kw_only=True):
    """Remove a mounted category with its switches from every profile."""

    name: str

    def apply(self, document: Document, profiles: Profiles, _: Catalog) -> None:
        if self.name not in profiles.mounts:
            raise UnknownName.among("no server is mounted as", self.name, profiles.mounts)
        for profile in document["profiles"]:
            if "categories" in profile:
                profile["categories"] = [each for each in profile["categories"] if each["id"] != self.name]


class WrapProgram(Edit, frozen=True, kw_only=True):
    """Wrap a program in a category: in place of the one with that id, else in the profile."""

    wrap: Document
    category: str = "cli"

    def __post_init__(self) -> None:
        report = Report()
        values = _checked_entry(self.wrap, WRAP, "wrap", report)
        read_wrap(values, self.category, "wrap", report)
        _refuse_problems(report)

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        own = self.wrap["id"]
        entries = [each for each in _category_entries(document) if each["id"] == self.category]
        found = [each for each in entries if any(wrap["id"] == own for wrap in _wraps(each))]
        for each in found or [_category_entry(self.entry(document, profiles, catalog), self.category)]:
            others = [other for other in _wraps(each) if other["id"] != own]
            each["wrap"] = [*others, self.wrap] if others else self.wrap


class UnwrapProgram(Edit, frozen=True, kw_only=True):
    """Remove a wrapped program from every profile."""

    id: str

    def apply(self, document: Document, profiles: Profiles, _: Catalog) -> None:
        names = [each.id for each in profiles.wraps]
        if self.id not in names:
            raise UnknownName.among("no program is wrapped as", self.id, names)
        for each in _category_entries(document):
            others = [other for other in _wraps(each) if other["id"] != self.id]
            if others and len(others) < len(_wraps(each)):
                each["wrap"] = others
            elif not others:
                each.pop("wrap", None)


class ListTools(Edit, frozen=True, kw_only=True):
    """Write the tools of a mounted server into its category, wherever the file has it, each with its switch."""

    category: str

    def apply(self, document: Document, profiles: Profiles, catalog: Catalog) -> None:
        for entry in document["profiles"]:
            profile = profiles[entry["id"]]
            for switches in _category_entries({"profiles": [entry]}):
                if switches["id"] != self.category:
                    continue
                listed = switches.setdefault("tools", [])
                named = {each["id"] for each in listed}
                listed += [
                    {"id": tool.name, "label": tool.title, "enabled": profile.names_on(tool)}
                    for tool in catalog.categories.get(self.category, ())
                    if tool.name not in named
                ][: max(0, MOST_KEYS - len(listed))]


EDITS: Mapping[str, type[Edit]] = {
    "switch": Switch,
    "profiles/use": UseProfile,
    "profiles/preset": UsePreset,
    "profiles/create": CreateProfile,
    "profiles/update": UpdateProfile,
    "profiles/edit": ReplaceProfile,
    "profiles/delete": DeleteProfile,
    "rules/add": AddRule,
    "rules/remove": RemoveRule,
    "mount": MountServer,
    "unmount": UnmountServer,
    "wrap": WrapProgram,
    "unwrap": UnwrapProgram,
}


def profile_entry(document: Document, profile: Profile, catalog: Catalog) -> Document:
    """The profile's entry in the file. A built-in profile is written out in full at its first change."""
    entries: list[Document] = document.setdefault("profiles", [])
    for entry in entries:
        if entry["id"] == profile.id:
            return entry
    entries.append(describe_profile(profile, catalog))
    return entries[-1]


def _place(target: str, profile: Profile, catalog: Catalog) -> tuple[str, str | None]:
    """The category and the tool that `target` names, or the category alone. Raises UnknownName."""
    if (tool := catalog.by_name.get(target)) is not None:
        return tool.category, tool.name
    if target in catalog.categories or target in profile.categories:
        return target, None
    for category, switches in profile.categories.items():
        # A tool of a server that is not connected now.
        if target in switches.tools:
            return category, target
    near = nearest(target, [*catalog.names, *catalog.categories])
    hint = f"did you mean {near}?" if near else None
    if target in EFFECTS:
        hint = f"--effect {target} is for every tool that can {target}"
    raise UnknownName(f"there is no category or tool {target[:100]!r}", hint)


def _checked_entry(entry: Document, level: Level, pointer: str, report: Report) -> Document:
    """What `level` reads of an entry. Raises BadArguments for one without a key that is required."""
    values = level(entry, pointer, report)
    if values is None:
        _refuse_problems(report)
    return values or {}


def _refuse_problems(report: Report) -> None:
    """Raise BadArguments with everything that was reported."""
    if report.found:
        raise BadArguments("; ".join(f"{each.pointer}: {each.message}" for each in report.found))


def _category_entries(document: Document) -> Iterator[Document]:
    """The entries of all categories in every profile of the file."""
    for profile in document.get("profiles", ()):
        yield from profile.get("categories", ())


def _category_entry(profile: Document, category: str) -> Document:
    return _entry(profile.setdefault("categories", []), category)


def _entry(entries: list[Document], entry_id: str) -> Document:
    for entry in entries:
        if entry["id"] == entry_id:
            return entry
    entries.append({"id": entry_id, "enabled": True})
    return entries[-1]


def _add_text(entry: Document, key: str, text: str) -> None:
    """Add to what is one text or several."""
    found = entry.get(key) or []
    found = [found] if isinstance(found, str) else found
    if text not in found:
        entry[key] = [*found, text]


def _wraps(category: Document) -> list[Document]:
    found = category.get("wrap") or []
    return found if isinstance(found, list) else [found]


def _reset_switches(entry: Document, shipped: Document) -> None:
    """Set every switch of `entry` as in `shipped`. What else is in it, such as a mount, stays."""
    entry["enabled"] = True
    entry.pop("effects", None)
    entry.pop("unlisted", None)
    if "unlisted" in shipped:
        entry["unlisted"] = shipped["unlisted"]
    fresh = {category["id"]: category for category in shipped["categories"]}
    for own in entry.setdefault("categories", []):
        category = fresh.pop(own["id"], {"enabled": True, "tools": []})
        own["enabled"] = category["enabled"]
        own.pop("ask", None)
        tools = {tool["id"]: tool for tool in category["tools"]}
        for tool in own.setdefault("tools", []) if "tools" in own or tools else ():
            # What is not listed follows the profile's `unlisted`.
            tool["enabled"] = tools.pop(tool["id"], {"enabled": "unlisted" not in shipped})["enabled"]
            tool.pop("ask", None)
        if tools:
            own["tools"] += tools.values()
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
