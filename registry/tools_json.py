"""Reads tools.json as profiles. A file with a problem is refused, and every problem is reported at once.

What the file does not name follows the profile's `unlisted`; keys that are not ours are left alone, here and when the
file is saved.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from registry.catalog import Catalog
from registry.deny_rules import read_deny
from registry.profiles import (
    DEFAULT_PROFILE,
    SHIPPED,
    VERSION,
    BadRegistry,
    Problem,
    Profile,
    Profiles,
    Switches,
    every_tool,
    no_tool,
)
from tools.kit.rules import Deny

_NOTHING_SET: Mapping[str, Any] = MappingProxyType({})
_MOST_DEPTH = 64
_TOO_DEEP = Problem("", f"it is nested more than {_MOST_DEPTH} levels deep")


def parse(text: str, catalog: Catalog) -> Profiles:
    """The profiles in the text of a tools.json. Raises BadRegistry with every problem."""
    return read(load_document(text), catalog)


def load_document(text: str, origin: str = "tools.json") -> dict[str, Any]:
    """The JSON object in `text`, which came from `origin`. Raises BadRegistry, also for a key that occurs twice.

    It is read strictly, because what we read, we must be able to save again.
    """
    problems: list[Problem] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated = sorted(key for key, count in counts.items() if count > 1)
            problems.extend(Problem("", f"the key {key!r} stands twice in one object") for key in repeated)
        return document

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"at line {error.lineno}, column {error.colno}"
        raise BadRegistry([Problem("", f"no JSON: {error.msg} {where}")], origin) from None
    except ValueError as error:
        raise BadRegistry([Problem("", f"no JSON: {error}")], origin) from None
    except RecursionError:
        raise BadRegistry([_TOO_DEEP], origin) from None
    if _is_deeper(document, _MOST_DEPTH):
        raise BadRegistry([_TOO_DEEP], origin)
    try:
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        unwritable = "no JSON: half a surrogate pair in a text, or a number that is not finite"
        raise BadRegistry([Problem("", unwritable)], origin) from None
    if problems:
        raise BadRegistry(problems, origin)
    if not isinstance(document, dict):
        raise BadRegistry([Problem("", "the file must hold one JSON object")], origin)
    return document


def read(document: dict[str, Any], catalog: Catalog, origin: str = "tools.json") -> Profiles:
    """The profiles in an object that came out of `origin`. Raises BadRegistry with every problem."""
    reader = _Reader(catalog, origin)
    profiles = reader.profiles(document)
    if any(not problem.is_warning for problem in reader.problems):
        raise BadRegistry(reader.problems, origin)
    return profiles


class _Reader:
    """Walks the document and collects problems instead of stopping at the first."""

    def __init__(self, catalog: Catalog, origin: str) -> None:
        self._catalog = catalog
        self._origin = origin
        self.problems: list[Problem] = []

    def profiles(self, document: dict[str, Any]) -> Profiles:
        version = document.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            self._problem("/version", f"must be {VERSION}, not {_as_json(version)}")
        by_id = dict(SHIPPED)
        own: set[str] = set()
        for index, entry in enumerate(self._list(document, "profiles", "")):
            pointer = f"/profiles/{index}"
            profile = self._profile(entry, pointer)
            if profile is None:
                continue
            if profile.id in own:
                self._problem(f"{pointer}/id", f"a profile {profile.id!r} stands above already")
            own.add(profile.id)
            by_id[profile.id] = profile
        active = document.get("activeProfile", DEFAULT_PROFILE)
        if not isinstance(active, str):
            self._problem("/activeProfile", f"must be the id of a profile, not {_as_json(active)}")
            active = DEFAULT_PROFILE
        elif active not in by_id:
            self._problem("/activeProfile", f"there is no profile {active!r}{_suggestion(active, by_id)}")
        return Profiles(active, MappingProxyType(by_id), tuple(p for p in self.problems if p.is_warning))

    def _profile(self, entry: Any, pointer: str) -> Profile | None:
        profile_id = self._id(entry, pointer, "profile")
        if profile_id is None:
            return None
        categories: dict[str, Switches] = {}
        for index, category in enumerate(self._list(entry, "categories", pointer)):
            where = f"{pointer}/categories/{index}"
            category_id = self._id(category, where, "category")
            if category_id is None:
                continue
            if category_id in categories:
                self._problem(f"{where}/id", f"the category {category_id!r} stands above already")
            self._check_category(category_id, where)
            categories[category_id] = self._switches(category, category_id, where)
        unlisted = self._choice(entry, "unlisted", pointer, ("enabled", "disabled"))
        return Profile(
            id=profile_id,
            label=self._text(entry, "label", pointer, profile_id),
            description=self._text(entry, "description", pointer, ""),
            enabled=self._switch(entry, pointer),
            categories=MappingProxyType(categories),
            unlisted=no_tool if unlisted == "disabled" else every_tool,
            response=self._response(entry, pointer),
            pruning=self._pruning(entry, pointer),
            deny=self._deny(entry, profile_id, pointer),
        )

    def _check_category(self, category_id: str, pointer: str) -> None:
        """Report a misspelt category: its tools would stay on. Any other may be of a server that is mounted later."""
        if category_id not in self._catalog.categories:
            near = get_close_matches(category_id, self._catalog.categories, n=1, cutoff=0.8)
            if near:
                self._problem(f"{pointer}/id", f"no category named {category_id} (did you mean {near[0]}?)")

    def _switches(self, category: dict[str, Any], category_id: str, pointer: str) -> Switches:
        switches: dict[str, bool] = {}
        for index, entry in enumerate(self._list(category, "tools", pointer)):
            where = f"{pointer}/tools/{index}"
            name = self._id(entry, where, "tool")
            if name is None:
                continue
            if name in switches:
                self._problem(f"{where}/id", f"the tool {name!r} stands above already")
            self._check_tool(name, category_id, where)
            switches[name] = self._switch(entry, where)
        return Switches(self._switch(category, pointer), MappingProxyType(switches))

    def _check_tool(self, name: str, category_id: str, pointer: str) -> None:
        own = self._catalog.categories.get(category_id)
        if own is None or any(tool.name == name for tool in own):
            return
        elsewhere = self._catalog.by_name.get(name)
        if elsewhere is not None:
            self._problem(f"{pointer}/id", f"{name} is a tool of {elsewhere.category}, not of {category_id}")
            return
        near = get_close_matches(name, self._catalog.names, n=1, cutoff=0.75)
        if near:
            self._problem(f"{pointer}/id", f"no tool named {name} (did you mean {near[0]}?)")
        else:
            self._warn(f"{pointer}/id", f"no tool named {name}; the switch has no effect")

    def _response(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        response = self._object(entry, "response", pointer)
        self._choice(response, "form", f"{pointer}/response", ("auto", "json", "text"))
        self._choice(response, "mode", f"{pointer}/response", ("full", "compact"))
        return response

    def _pruning(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        pruning = self._object(entry, "pruning", pointer)
        everywhere = pruning.get("everywhere", True)
        if not isinstance(everywhere, bool):
            self._problem(f"{pointer}/pruning/everywhere", f"must be true or false, not {_as_json(everywhere)}")
        return pruning

    def _object(self, entry: dict[str, Any], key: str, pointer: str) -> Mapping[str, Any]:
        value = entry.get(key)
        if isinstance(value, dict):
            return MappingProxyType(value)
        if value is not None:
            self._problem(f"{pointer}/{key}", f"must be an object, not {_as_json(value)}")
        return _NOTHING_SET

    def _deny(self, entry: dict[str, Any], profile_id: str, pointer: str) -> Deny:
        if entry.get("deny") is None:
            return Deny()
        return read_deny(entry["deny"], f"{pointer}/deny", f"{self._origin}, profile {profile_id},", self._problem)

    def _id(self, entry: Any, pointer: str, what: str) -> str | None:
        if not isinstance(entry, dict):
            self._problem(pointer, f"a {what} must be an object, not {_as_json(entry)}")
            return None
        value = entry.get("id")
        if isinstance(value, str) and value:
            return value
        self._problem(f"{pointer}/id", f"a {what} needs an id, a string" if value is None else f"not {_as_json(value)}")
        return None

    def _switch(self, entry: dict[str, Any], pointer: str) -> bool:
        value = entry.get("enabled", True)
        if isinstance(value, bool):
            return value
        self._problem(f"{pointer}/enabled", f"must be true or false, not {_as_json(value)}")
        return False

    def _list(self, entry: dict[str, Any], key: str, pointer: str) -> list[Any]:
        value = entry.get(key, [])
        if isinstance(value, list):
            return value
        self._problem(f"{pointer}/{key}", f"must be an array, not {_as_json(value)}")
        return []

    def _text(self, entry: dict[str, Any], key: str, pointer: str, default: str) -> str:
        value = entry.get(key, default)
        if isinstance(value, str):
            return value
        self._problem(f"{pointer}/{key}", f"must be a string, not {_as_json(value)}")
        return default

    def _choice(self, entry: Mapping[str, Any], key: str, pointer: str, options: tuple[str, ...]) -> str | None:
        value = entry.get(key)
        if value is None or value in options:
            return value
        near = _suggestion(value, options) if isinstance(value, str) else ""
        self._problem(f"{pointer}/{key}", f"must be one of {', '.join(options)}, not {_as_json(value)}{near}")
        return None

    def _problem(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message))

    def _warn(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message, is_warning=True))


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    below = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)


def _suggestion(wrong: str, known: Iterable[str]) -> str:
    near = get_close_matches(wrong, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
