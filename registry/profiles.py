"""The text of tools.json, read as profiles: either all of it holds, or every problem is told at once.

A profile says which tools its callers may use. What the file does not name follows the profile's `unlisted`;
keys that are not ours are left alone, here and when the file is saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from registry.catalog import Catalog, label
from registry.deny import read_deny
from tools.denying import NOTHING, Deny
from tools.records import record
from tools.spec import Tool

Form = Literal["auto", "json", "text"]
VERSION = 1
DEFAULT_PROFILE = "default"
_MOST_DEPTH = 64
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class Problem(NamedTuple):
    """Something wrong in tools.json. A warning is told and survived; anything else refuses the file."""

    pointer: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"

    def as_object(self) -> dict[str, Any]:
        severity = "warning" if self.is_warning else "error"
        return {"pointer": self.pointer, "message": self.message, "severity": severity}


class BadRegistry(Exception):
    """A tools.json that cannot be used. `problems` has every one of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


@record
class Switches:
    """One category of one profile: its master switch and the tools it names."""

    enabled: bool
    tools: Mapping[str, bool] = field(default_factory=dict)


@record
class Profile:
    """What its callers may use. `unlisted` decides on what `categories` does not name."""

    id: str
    label: str
    description: str
    enabled: bool
    categories: Mapping[str, Switches]
    unlisted: Callable[[Tool], bool]
    response: Mapping[str, Any] = field(default_factory=dict)
    pruning: Mapping[str, Any] = field(default_factory=dict)
    is_shipped: bool = False
    deny: Deny = NOTHING

    def allows(self, tool: Tool) -> bool:
        return self.enabled and self.switch(tool) is None

    def switch(self, tool: Tool) -> str | None:
        """What is off and keeps `tool` away: the profile, its category or the tool itself; None if nothing is."""
        if not self.enabled:
            return "profile"
        named = self.categories.get(tool.category)
        if named is not None and not named.enabled:
            return "category"
        listed = None if named is None else named.tools.get(tool.name)
        on = self.unlisted(tool) if listed is None else listed
        return None if on else "tool"

    @property
    def form(self) -> Form:
        form: Form | None = self.response.get("form")
        return form or "auto"

    @property
    def is_compact(self) -> bool:
        """Whether results are kept short, and go on where a cursor says."""
        return self.response.get("mode") == "compact"

    @property
    def prunes_everywhere(self) -> bool:
        """Whether the focus question works on the filesystem and shell tools too."""
        return bool(self.pruning.get("everywhere", True))


@record
class Profiles:
    """A whole tools.json, with the shipped profiles that it does not replace."""

    active: str
    by_id: Mapping[str, Profile]
    warnings: tuple[Problem, ...] = ()
    # What the file was when it was read, in a few digits; a change of spaces is none of the profiles.
    digest: str = field(default="", compare=False)

    def __getitem__(self, profile_id: str) -> Profile:
        return self.by_id[profile_id]


def closed(profile_id: str) -> Profile:
    """A stand-in for a profile that is named somewhere and does not exist: it allows nothing."""
    return Profile(profile_id, profile_id, "does not exist", False, {}, _never)


def _always(_: Tool) -> bool:
    return True


def _never(_: Tool) -> bool:
    return False


def _is_primitive(tool: Tool) -> bool:
    return tool.category in ("filesystem", "shell")


def _only_reads(tool: Tool) -> bool:
    return tool.effect == "read"


def _drives_a_browser(tool: Tool) -> bool:
    return tool.category == "browser"


def _prunes(tool: Tool) -> bool:
    return tool.category == "pruning"


def _shipped(
    profile_id: str, title: str, description: str, rule: Callable[[Tool], bool], **response: str
) -> tuple[str, Profile]:
    return profile_id, Profile(profile_id, title, description, True, {}, rule, response, is_shipped=True)


# The profiles that are there without a file. A profile of the same id in the file takes its place.
SHIPPED: Mapping[str, Profile] = MappingProxyType(
    dict(
        (
            _shipped(DEFAULT_PROFILE, "Default", "everything on", _always),
            _shipped("lean", "Lean", "the filesystem and shell tools only", _is_primitive),
            _shipped("read-only", "Read only", "nothing that writes or executes", _only_reads),
            _shipped("browser-only", "Browser only", "the browser tools only", _drives_a_browser),
            _shipped("pruner", "Pruner", "the pruning tools only", _prunes),
            _shipped("compact", "Compact", "everything on, results kept short", _always, mode="compact"),
        )
    )
)


def parse(text: str, catalog: Catalog) -> Profiles:
    """The profiles in the text of a tools.json. Raises BadRegistry with every problem."""
    return read(load_document(text), catalog)


def load_document(text: str) -> dict[str, Any]:
    """The JSON object in `text`, no key twice. Raises BadRegistry."""
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        repeated.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadRegistry([Problem("", f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}")]) from None
    except ValueError as error:
        raise BadRegistry([Problem("", f"no JSON: {error}")]) from None
    except RecursionError:
        raise _too_deep() from None
    if _is_deeper(document, _MOST_DEPTH):
        raise _too_deep()
    if not _can_be_written(document):
        raise BadRegistry([Problem("", "no JSON: half a surrogate pair in a text, or a number that is not finite")])
    if repeated:
        raise BadRegistry(Problem("", f"the key {key!r} stands twice in one object") for key in repeated)
    if not isinstance(document, dict):
        raise BadRegistry([Problem("", "the file must hold one JSON object")])
    return document


def _too_deep() -> BadRegistry:
    return BadRegistry([Problem("", f"it is nested more than {_MOST_DEPTH} levels deep")])


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    below = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)


def _can_be_written(document: Any) -> bool:
    """Whether a document that Python has read is one that others can read: what we read, we save again."""
    try:
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def read(document: dict[str, Any], catalog: Catalog, origin: str = "tools.json") -> Profiles:
    """The profiles in an object that came out of `origin`. Raises BadRegistry with every problem."""
    reader = _Reader(catalog, origin)
    profiles = reader.profiles(document)
    if any(not problem.is_warning for problem in reader.problems):
        raise BadRegistry(reader.problems)
    return profiles


def described(profile: Profile, catalog: Catalog) -> dict[str, Any]:
    """`profile` as an entry of `profiles` in tools.json, every tool of today named."""
    entry: dict[str, Any] = {"id": profile.id, "label": profile.label, "enabled": profile.enabled}
    if profile.unlisted is not _always:
        entry["unlisted"] = "disabled"
    if profile.response:
        entry["response"] = dict(profile.response)
    if profile.pruning:
        entry["pruning"] = dict(profile.pruning)
    entry["categories"] = [
        {
            "id": category,
            "label": label(category),
            "enabled": (named := profile.categories.get(category)) is None or named.enabled,
            "tools": [_described_tool(tool, profile) for tool in found],
        }
        for category, found in catalog.categories.items()
    ]
    return entry


def default_document(catalog: Catalog) -> dict[str, Any]:
    """The tools.json that is written where there is none: one profile, every tool on."""
    default = SHIPPED[DEFAULT_PROFILE]
    return {"version": VERSION, "activeProfile": DEFAULT_PROFILE, "profiles": [described(default, catalog)]}


def _described_tool(tool: Tool, profile: Profile) -> dict[str, Any]:
    return {
        "id": tool.name,
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "enabled": profile.switch(tool) != "tool",
        "inputSchema": tool.input_schema,
    }


class _Reader:
    """Walks the document and collects problems instead of stopping at the first."""

    def __init__(self, catalog: Catalog, origin: str) -> None:
        self._catalog = catalog
        self._origin = origin
        self.problems: list[Problem] = []

    def profiles(self, document: dict[str, Any]) -> Profiles:
        version = document.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            self._problem("/version", f"must be {VERSION}, not {_shown(version)}")
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
            self._problem("/activeProfile", f"must be the id of a profile, not {_shown(active)}")
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
            unlisted=_never if unlisted == "disabled" else _always,
            response=self._response(entry, pointer),
            pruning=self._pruning(entry, pointer),
            deny=self._deny(entry, profile_id, pointer),
        )

    def _check_category(self, category_id: str, pointer: str) -> None:
        """A misspelt category would leave on what its writer means to switch off; a foreign one is a mount to come."""
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
        elsewhere = self._catalog.get(name)
        if elsewhere is not None:
            self._problem(f"{pointer}/id", f"{name} is a tool of {elsewhere.category}, not of {category_id}")
            return
        near = get_close_matches(name, self._catalog.names, n=1, cutoff=0.75)
        if near:
            self._problem(f"{pointer}/id", f"no tool named {name} (did you mean {near[0]}?)")
        else:
            self._warn(f"{pointer}/id", f"no tool named {name}; the switch has no effect")

    def _response(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        if entry.get("response") is None:
            return _EMPTY
        response = entry["response"]
        where = f"{pointer}/response"
        if not isinstance(response, dict):
            self._problem(where, f"must be an object, not {_shown(response)}")
            return _EMPTY
        self._choice(response, "form", where, ("auto", "json", "text"))
        self._choice(response, "mode", where, ("full", "compact"))
        return MappingProxyType(response)

    def _pruning(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        if entry.get("pruning") is None:
            return _EMPTY
        pruning = entry["pruning"]
        where = f"{pointer}/pruning"
        if not isinstance(pruning, dict):
            self._problem(where, f"must be an object, not {_shown(pruning)}")
            return _EMPTY
        everywhere = pruning.get("everywhere", True)
        if not isinstance(everywhere, bool):
            self._problem(f"{where}/everywhere", f"must be true or false, not {_shown(everywhere)}")
        return MappingProxyType(pruning)

    def _deny(self, entry: dict[str, Any], profile_id: str, pointer: str) -> Deny:
        if entry.get("deny") is None:
            return Deny()
        return read_deny(entry["deny"], f"{pointer}/deny", f"{self._origin}, profile {profile_id},", self._problem)

    def _id(self, entry: Any, pointer: str, what: str) -> str | None:
        if not isinstance(entry, dict):
            self._problem(pointer, f"a {what} must be an object, not {_shown(entry)}")
            return None
        value = entry.get("id")
        if isinstance(value, str) and value:
            return value
        self._problem(f"{pointer}/id", f"a {what} needs an id, a string" if value is None else f"not {_shown(value)}")
        return None

    def _switch(self, entry: dict[str, Any], pointer: str) -> bool:
        value = entry.get("enabled", True)
        if isinstance(value, bool):
            return value
        self._problem(f"{pointer}/enabled", f"must be true or false, not {_shown(value)}")
        return False

    def _list(self, entry: dict[str, Any], key: str, pointer: str) -> list[Any]:
        value = entry.get(key, [])
        if isinstance(value, list):
            return value
        self._problem(f"{pointer}/{key}", f"must be an array, not {_shown(value)}")
        return []

    def _text(self, entry: dict[str, Any], key: str, pointer: str, default: str) -> str:
        value = entry.get(key, default)
        if isinstance(value, str):
            return value
        self._problem(f"{pointer}/{key}", f"must be a string, not {_shown(value)}")
        return default

    def _choice(self, entry: dict[str, Any], key: str, pointer: str, options: tuple[str, ...]) -> str | None:
        value = entry.get(key)
        if value is None or value in options:
            return value
        near = _suggestion(value, options) if isinstance(value, str) else ""
        self._problem(f"{pointer}/{key}", f"must be one of {', '.join(options)}, not {_shown(value)}{near}")
        return None

    def _problem(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message))

    def _warn(self, pointer: str, message: str) -> None:
        self.problems.append(Problem(pointer, message, is_warning=True))


def _suggestion(wrong: str, known: Iterable[str]) -> str:
    near = get_close_matches(wrong, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
