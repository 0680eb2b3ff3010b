"""The changes of tools.json that people ask for, by a command or on the Tools page. Each has a name.

The running daemon and a command without one make the same change with the same arguments: `edit_named` gives it, and
`RegistryFile.edit` saves it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from registry.catalog import Catalog
from registry.known_keys import EFFECTS, Tell
from registry.mount_entries import read_mount
from registry.profiles import Profile, Profiles, UnknownName, describe_profile
from registry.tools_json import MOST_KEYS
from registry.user_error import UsageError
from registry.wrap_entries import read_wraps

_PROFILE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Document = dict[str, Any]
Arguments = Mapping[str, Any]


class BadArguments(UsageError):
    """The arguments of a change do not fit it."""


class Edit(Struct, frozen=True):
    """One change. `apply` changes the document in place, and raises UnknownName if a name in it does not exist."""

    apply: Callable[[Document, Profiles, Catalog], None]
    # The profile that is changed; None: the active one, whichever that is.
    profile: str | None = None
    # Whether it chooses the active profile, or changes whichever is active. A daemon with a pinned profile refuses it.
    follows_active: bool = False
    # The categories, tools and effects that it switches, and whether on or off.
    switched: tuple[str, ...] = ()
    enabled: bool = True


def edit_named(name: str, arguments: Arguments) -> Edit:
    """The change of that name. Raises BadArguments."""
    return EDITS[name](arguments)


def use_profile(profile_id: str) -> Edit:
    """Make `profile_id` the active profile."""

    def apply(document: Document, profiles: Profiles, _: Catalog) -> None:
        profiles[profile_id]
        document["activeProfile"] = profile_id

    return Edit(apply, profile_id, follows_active=True)


def switch(targets: Iterable[str], enabled: bool, profile_id: str | None = None, effects: Iterable[str] = ()) -> Edit:
    """Switch categories, tools, and all tools of an effect, in `profile_id` or in the active profile."""
    targets, effects = tuple(targets), tuple(effects)

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        profile = profiles[profile_id or profiles.active]
        entry = profile_entry(document, profile, catalog)
        for target in targets:
            category, tool_name = _place(target, profile, catalog)
            switches = _entry(entry.setdefault("categories", []), category)
            if tool_name is not None:
                switches = _entry(switches.setdefault("tools", []), tool_name)
            switches["enabled"] = enabled
        for effect in effects:
            entry.setdefault("effects", {})[effect] = enabled

    return Edit(apply, profile_id, profile_id is None, (*targets, *effects), enabled)


def mount(category: str, entry: Document, profile_id: str | None = None) -> Edit:
    """Mount a server as `category`: where it is mounted already, else in `profile_id` or in the active profile.

    Raises BadArguments for an entry that is none.
    """
    _refuse_problems(lambda problem: read_mount(entry, category, "mount", problem))

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        if category in catalog.categories and category not in profiles.mounts:
            raise BadArguments(f"there is a category {category} already; give the mount another name")
        found = [each for each in _category_entries(document, category) if each.get("mount") is not None]
        if not found:
            profile = profiles[profile_id or profiles.active]
            found = [_entry(profile_entry(document, profile, catalog).setdefault("categories", []), category)]
        for each in found:
            each["mount"] = entry

    return Edit(apply, profile_id)


def unmount(category: str) -> Edit:
    """Remove a mounted category with its switches from every profile."""

    def apply(document: Document, profiles: Profiles, _: Catalog) -> None:
        if category not in profiles.mounts:
            there_are = f"there are {', '.join(profiles.mounts)}" if profiles.mounts else None
            raise UnknownName(f"no server is mounted as {category[:100]!r}", there_are)
        for profile in document["profiles"]:
            if "categories" in profile:
                profile["categories"] = [each for each in profile["categories"] if each["id"] != category]

    return Edit(apply)


def wrap(entry: Document, category: str, profile_id: str | None = None) -> Edit:
    """Wrap a program in `category`: in place of the one with that id, else in `profile_id` or the active profile.

    Raises BadArguments for an entry that is none.
    """
    _refuse_problems(lambda problem: read_wraps(entry, category, "wrap", problem))

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        found = [each for each in _category_entries(document, category) if entry.get("id") in _wrap_ids(each)]
        if not found:
            profile = profiles[profile_id or profiles.active]
            found = [_entry(profile_entry(document, profile, catalog).setdefault("categories", []), category)]
        for each in found:
            others = [other for other in _wraps(each) if other.get("id") != entry.get("id")]
            each["wrap"] = [*others, entry] if others else entry

    return Edit(apply, profile_id)


def unwrap(wrap_id: str) -> Edit:
    """Remove a wrapped program from every profile. Raises UnknownName."""

    def apply(document: Document, profiles: Profiles, _: Catalog) -> None:
        names = [each.id for each in profiles.wraps]
        if wrap_id not in names:
            there_are = f"there are {', '.join(names)}" if names else None
            raise UnknownName(f"no program is wrapped as {wrap_id[:100]!r}", there_are)
        for each in _category_entries(document):
            others = [other for other in _wraps(each) if other["id"] != wrap_id]
            if len(others) < len(_wraps(each)):
                each["wrap"] = others
                if not others:
                    del each["wrap"]

    return Edit(apply)


def list_tools(category: str) -> Edit:
    """Write the tools of a mounted server into its category, wherever the file has it, each with its switch."""

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        for entry in document["profiles"]:
            profile = profiles[entry["id"]]
            for switches in _category_entries({"profiles": [entry]}, category):
                listed = switches.setdefault("tools", [])
                named = {each["id"] for each in listed}
                listed += [
                    {"id": tool.name, "label": tool.title, "enabled": profile.names_on(tool)}
                    for tool in catalog.categories.get(category, ())
                    if tool.name not in named
                ][: max(0, MOST_KEYS - len(listed))]

    return Edit(apply)


def create_profile(
    profile_id: str, origin: str | None = None, description: str | None = None, *, is_empty: bool = False
) -> Edit:
    """Make a profile: a copy of `origin`, or else one with everything on, or with nothing on if it `is_empty`."""

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        if not _PROFILE_ID.fullmatch(profile_id):
            raise BadArguments(f"{profile_id[:100]!r} cannot name a profile: use letters, digits, dots and dashes")
        if profile_id in profiles.by_id:
            raise BadArguments(f"there is a profile {profile_id} already")
        entry: Document = {"enabled": True, "unlisted": "disabled" if is_empty else "enabled", "categories": []}
        if origin is not None:
            entry = copy_profile_entry(document, profiles[origin], catalog)
            # What a shipped profile says of itself is in no file.
            entry.setdefault("description", profiles[origin].description)
        if description is not None:
            entry["description"] = description
        document.setdefault("profiles", []).append({"id": "", **entry} | {"id": profile_id, "label": profile_id})

    return Edit(apply, profile_id)


def replace_profile(profile_id: str, entry: Any) -> Edit:
    """Put `entry` in the place of what tools.json says of a profile. Raises BadArguments."""
    if not isinstance(entry, dict):
        raise BadArguments("a profile is a JSON object")
    if entry.get("id", profile_id) != profile_id:
        raise BadArguments(f"the id must stay {profile_id}; to rename a profile, copy it and delete the old one")

    def apply(document: Document, profiles: Profiles, catalog: Catalog) -> None:
        current = profile_entry(document, profiles[profile_id], catalog)
        current.clear()
        current.update({"id": profile_id, **entry})

    return Edit(apply, profile_id)


def delete_profile(profile_id: str) -> Edit:
    """Remove what tools.json says of a profile. A shipped one is then as it was shipped."""

    def apply(document: Document, profiles: Profiles, _: Catalog) -> None:
        profiles[profile_id]
        if profile_id == profiles.active:
            raise BadArguments(f"{profile_id} is the active profile; make another one active first")
        entries: list[Document] = document.get("profiles", [])
        if not any(entry["id"] == profile_id for entry in entries):
            raise BadArguments(f"{profile_id} is built in, and tools.json does not change it")
        document["profiles"] = [entry for entry in entries if entry["id"] != profile_id]

    return Edit(apply)


def profile_entry(document: Document, profile: Profile, catalog: Catalog) -> Document:
    """The profile's entry in the file. A built-in profile is written out in full at its first change."""
    entries: list[Document] = document.setdefault("profiles", [])
    for entry in entries:
        if entry["id"] == profile.id:
            return entry
    entries.append(describe_profile(profile, catalog))
    return entries[-1]


def copy_profile_entry(document: Document, profile: Profile, catalog: Catalog) -> Document:
    """A copy of what the file says of a profile, or would say of a built-in one."""
    return profile_entry(copy.deepcopy(document), profile, catalog)


def text(arguments: Arguments, name: str) -> str:
    """The argument `name`, a string. Raises BadArguments."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise BadArguments(f"{name} is needed and must be a string")
    return value


def optional_text(arguments: Arguments, name: str) -> str | None:
    return None if arguments.get(name) is None else text(arguments, name)


def texts(arguments: Arguments, name: str) -> tuple[str, ...]:
    """The argument `name`, an array of strings; empty if it is absent. Raises BadArguments."""
    value = arguments.get(name) or []
    if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise BadArguments(f"{name} must be an array of strings")
    return tuple(value)


def an_object(arguments: Arguments, name: str) -> Document:
    value = arguments.get(name)
    if not isinstance(value, dict):
        raise BadArguments(f"{name} is needed and must be an object")
    return value


def truth(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name)
    if not isinstance(value, bool):
        raise BadArguments(f"{name} is needed and must be true or false")
    return value


def optional_truth(arguments: Arguments, name: str) -> bool:
    return arguments.get(name) is not None and truth(arguments, name)


def _switch(arguments: Arguments) -> Edit:
    target = optional_text(arguments, "target")
    targets = texts(arguments, "targets") if target is None else (target,)
    effects = texts(arguments, "effects")
    for effect in effects:
        if effect not in EFFECTS:
            raise BadArguments(f"there is no effect {effect[:100]!r}; there are {', '.join(EFFECTS)}")
    if not (targets or effects):
        raise BadArguments("target is needed and must be a string, or targets or effects an array of strings")
    return switch(targets, truth(arguments, "enabled"), optional_text(arguments, "profile"), effects)


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
    near = get_close_matches(target, [*catalog.names, *catalog.categories], n=1)
    hint = f"did you mean {near[0]}?" if near else None
    if target in EFFECTS:
        hint = f"--effect {target} is for every tool that can {target}"
    raise UnknownName(f"there is no category or tool {target[:100]!r}", hint)


def _refuse_problems(read: Callable[[Tell], object]) -> None:
    """Raise BadArguments with everything that `read` finds wrong."""
    problems: list[str] = []
    read(lambda pointer, message: problems.append(f"{pointer}: {message}"))
    if problems:
        raise BadArguments("; ".join(problems))


def _category_entries(document: Document, category: str | None = None) -> Iterator[Document]:
    """The entries of a category, or of all, in every profile of the file."""
    for profile in document.get("profiles", ()):
        for entry in profile.get("categories", ()):
            if category is None or entry["id"] == category:
                yield entry


def _wraps(category: Document) -> list[Document]:
    found = category.get("wrap") or []
    return found if isinstance(found, list) else [found]


def _wrap_ids(category: Document) -> list[str]:
    return [each["id"] for each in _wraps(category)]


def _entry(entries: list[Document], entry_id: str) -> Document:
    for entry in entries:
        if entry["id"] == entry_id:
            return entry
    entries.append({"id": entry_id, "enabled": True})
    return entries[-1]


# Every change by its name, which is also its path under /api.
EDITS: Mapping[str, Callable[[Arguments], Edit]] = {
    "switch": _switch,
    "profiles/use": lambda arguments: use_profile(text(arguments, "profile")),
    "profiles/create": lambda arguments: create_profile(
        text(arguments, "profile"),
        optional_text(arguments, "from"),
        optional_text(arguments, "description"),
        is_empty=optional_truth(arguments, "empty"),
    ),
    "profiles/edit": lambda arguments: replace_profile(text(arguments, "profile"), arguments.get("entry")),
    "profiles/delete": lambda arguments: delete_profile(text(arguments, "profile")),
    "mount": lambda arguments: mount(
        text(arguments, "name"), an_object(arguments, "mount"), optional_text(arguments, "profile")
    ),
    "unmount": lambda arguments: unmount(text(arguments, "name")),
    "wrap": lambda arguments: wrap(
        an_object(arguments, "wrap"), optional_text(arguments, "category") or "cli", optional_text(arguments, "profile")
    ),
    "unwrap": lambda arguments: unwrap(text(arguments, "id")),
}
