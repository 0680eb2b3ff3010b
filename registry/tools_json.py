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
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from registry.catalog import Catalog
from registry.deny_rules import read_deny
from registry.known_keys import EFFECTS, KEYS, Level, check_keys, escape, nearest
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

# What reads them is imported when there is one in the file.
if TYPE_CHECKING:
    from registry.mount_entries import Mount
    from tools.cli.wrap import Wrap

_NOTHING_SET: Mapping[str, Any] = MappingProxyType({})
# What is read at all. The largest file that our own commands write has a tenth of that.
MOST_DEPTH = 64
MOST_VALUES = 100_000
MOST_KEYS = 1_000
MOST_RULES = 500
MOST_PATTERNS = 1_000
_MOST_PROBLEMS = 100
_KINDS: Mapping[type, str] = {bool: "true or false", list: "an array", str: "a string", dict: "an object"}
_TOO_DEEP = Problem("", f"it is nested more than {MOST_DEPTH} levels deep")

_Kind = TypeVar("_Kind", bool, list[Any], str, dict[str, Any])


def load_document(data: bytes, origin: str = "tools.json") -> dict[str, Any]:
    """The JSON object in the bytes of the file `origin`. Raises BadRegistry, also for a key that occurs twice.

    It is read strictly, because what we read, we must be able to save again.
    """
    problems: list[Problem] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated = sorted(key for key, count in counts.items() if count > 1)[:_MOST_PROBLEMS]
            problems.extend(Problem("", f"the key {key!r} stands twice in one object") for key in repeated)
        return document

    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise BadRegistry([Problem("", f"no UTF-8: byte {error.start} fits no character")], origin) from None
    except json.JSONDecodeError as error:
        where = f"at line {error.lineno}, column {error.colno}"
        raise BadRegistry([Problem("", f"no JSON: {error.msg} {where}")], origin) from None
    except ValueError as error:
        raise BadRegistry([Problem("", f"no JSON: {error}")], origin) from None
    except RecursionError:
        raise BadRegistry([_TOO_DEEP], origin) from None
    if (excess := _excess(document)) is not None:
        raise BadRegistry([excess], origin)
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


def read(document: dict[str, Any], catalog: Catalog, origin: str = "tools.json", digest: str = "") -> Profiles:
    """The profiles in an object from the file `origin` with this hash. Raises BadRegistry with every problem."""
    return _Reader(catalog, origin).profiles(document, digest)


class _Reader(Struct, eq=False):
    """Walks the document and collects problems instead of stopping at the first."""

    _catalog: Catalog
    _origin: str
    _reads_rules: bool = True
    # In the order of the file. Warnings are among them too.
    _problems: list[Problem] = field(default_factory=list)
    _warnings: list[Problem] = field(default_factory=list)
    _counts: Counter[bool] = field(default_factory=Counter)
    # Every wrapped program, by its id and by the names of its tools, and every mounted server, by its category.
    _wraps: dict[str, Wrap] = field(default_factory=dict)
    _wrapped: dict[str, Wrap] = field(default_factory=dict)
    _mounted: dict[str, Mount] = field(default_factory=dict)
    # The categories that some profile makes with a mount or a wrap.
    _added: set[str] = field(default_factory=set)

    def profiles(self, document: dict[str, Any], digest: str) -> Profiles:
        version = document.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            self._problem("/version", f"must be {VERSION}, not {_as_json(version)}")
        self._check_keys(document, "file", "")
        entries = self._value(document, "profiles", "", list, [])
        self._look_ahead(entries)
        by_id = dict(SHIPPED)
        own: set[str] = set()
        for index, entry in enumerate(entries):
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
        if len(self._problems) > len(self._warnings):
            raise BadRegistry(self._problems, self._origin)
        return Profiles(
            active,
            MappingProxyType(by_id),
            tuple(self._warnings),
            tuple(self._wraps.values()),
            MappingProxyType(self._mounted),
            digest,
        )

    def _look_ahead(self, entries: list[Any]) -> None:
        """Find the categories that profiles add, and report more rules or patterns than are read.

        Each rule costs time at every reading, and at every call.
        """
        rules = patterns = 0
        for entry in entries:
            if not isinstance(entry, dict):
                continue
            categories, deny = entry.get("categories"), entry.get("deny")
            for category in categories if isinstance(categories, list) else ():
                if isinstance(category, dict) and not category.keys().isdisjoint(("mount", "wrap")):
                    self._added.add(str(category.get("id")))
            for kind in deny.values() if isinstance(deny, dict) else ():
                for rule in kind if isinstance(kind, list) else ():
                    pattern = rule.get("pattern") if isinstance(rule, dict) else None
                    rules += 1
                    patterns += len(pattern) if isinstance(pattern, list) else 1
        for count, most, what in (
            (rules, MOST_RULES, "deny rules"),
            (patterns, MOST_PATTERNS, "patterns in deny rules"),
        ):
            if count > most:
                self._problem("/profiles", f"it has {count:,} {what}, and may have {most:,}")
                self._reads_rules = False

    def _profile(self, entry: Any, pointer: str) -> Profile | None:
        profile_id = self._id(entry, pointer, "profile")
        if profile_id is None:
            return None
        self._check_keys(entry, "profile", pointer)
        categories: dict[str, Switches] = {}
        for index, category in enumerate(self._value(entry, "categories", pointer, list, [])):
            where = f"{pointer}/categories/{index}"
            category_id = self._id(category, where, "category")
            if category_id is None:
                continue
            if category_id in categories:
                self._problem(f"{where}/id", f"the category {category_id!r} stands above already")
            self._check_keys(category, "category", where)
            if category_id not in self._catalog.categories and category_id not in self._added:
                # Misspelt, its tools would stay on. Any other may be of a server that is mounted later.
                near = nearest(category_id, self._catalog.categories)
                if near is not None:
                    self._problem(f"{where}/id", f"no category named {category_id} (did you mean {near}?)")
            categories[category_id] = self._switches(category, category_id, where)
        unlisted = self._choice(entry, "unlisted", pointer, ("enabled", "disabled"))
        return Profile(
            id=profile_id,
            label=self._value(entry, "label", pointer, str, profile_id),
            description=self._value(entry, "description", pointer, str, ""),
            enabled=self._value(entry, "enabled", pointer, bool, True),
            categories=MappingProxyType(categories),
            unlisted=no_tool if unlisted == "disabled" else every_tool,
            response=self._response(entry, pointer),
            pruning=self._pruning(entry, pointer),
            deny=self._deny(entry, profile_id, pointer),
            effects=self._effects(entry, pointer),
        )

    def _switches(self, category: dict[str, Any], category_id: str, pointer: str) -> Switches:
        switches: dict[str, bool] = {}
        for index, entry in enumerate(self._value(category, "tools", pointer, list, [])):
            where = f"{pointer}/tools/{index}"
            name = self._id(entry, where, "tool")
            if name is None:
                continue
            if name in switches:
                self._problem(f"{where}/id", f"the tool {name!r} stands above already")
            self._check_keys(entry, "tool", where)
            self._check_tool(name, category_id, where)
            switches[name] = self._value(entry, "enabled", where, bool, True)
        if category.get("wrap") is not None:
            self._read_wraps(category["wrap"], category_id, f"{pointer}/wrap")
        if category.get("mount") is not None:
            self._read_mount(category["mount"], category_id, f"{pointer}/mount")
        return Switches(self._value(category, "enabled", pointer, bool, True), MappingProxyType(switches))

    def _read_wraps(self, value: Any, category_id: str, pointer: str) -> None:
        """Take over the programs that a category wraps. Several profiles may have the same entry."""
        from registry.wrap_entries import read_wraps

        for wrap in read_wraps(value, category_id, pointer, self._problem):
            self._wraps[wrap.id] = wrap
            for name in wrap.tool_names:
                if name in self._catalog.by_name or self._wrapped.setdefault(name, wrap) != wrap:
                    self._problem(pointer, f"there is another tool named {name}")

    def _read_mount(self, value: Any, category_id: str, pointer: str) -> None:
        """Take over the server that a category mounts. Several profiles may have the same entry."""
        from registry.mount_entries import read_mount

        mount = read_mount(value, category_id, pointer, self._problem)
        if category_id in self._catalog.categories:
            self._problem(pointer, f"{category_id} is a category of ours; give the mount one of its own")
        if self._mounted.setdefault(category_id, mount) != mount:
            self._problem(pointer, f"another profile mounts another server as {category_id}")

    def _check_tool(self, name: str, category_id: str, pointer: str) -> None:
        if category_id not in self._catalog.categories:
            return
        tool = self._catalog.by_name.get(name)
        if tool is not None:
            if (tool.name, tool.category) != (name, category_id):
                self._problem(f"{pointer}/id", f"{name} is a tool of {tool.category}, not of {category_id}")
            return
        near = nearest(name, self._catalog.names)
        if near is not None:
            self._problem(f"{pointer}/id", f"no tool named {name} (did you mean {near}?)")
        else:
            self._warn(f"{pointer}/id", f"no tool named {name[:100]}; the switch has no effect")

    def _response(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        response = self._object(entry, "response", pointer)
        self._check_keys(response, "response", f"{pointer}/response")
        self._choice(response, "form", f"{pointer}/response", ("auto", "json", "text"))
        self._choice(response, "mode", f"{pointer}/response", ("full", "compact"))
        return response

    def _pruning(self, entry: dict[str, Any], pointer: str) -> Mapping[str, Any]:
        pruning = self._object(entry, "pruning", pointer)
        self._check_keys(pruning, "pruning", f"{pointer}/pruning")
        self._value(pruning, "everywhere", f"{pointer}/pruning", bool, True)
        root = pruning.get("root")
        if root is not None and not (isinstance(root, str) and root.startswith(("/", "~/")) and "\0" not in root):
            self._problem(f"{pointer}/pruning/root", f"must be the absolute path of a folder, not {_as_json(root)}")
        return pruning

    def _effects(self, entry: dict[str, Any], pointer: str) -> Mapping[str, bool]:
        effects = self._object(entry, "effects", pointer)
        for name, value in effects.items():
            where = f"{pointer}/effects/{escape(name)}"
            if name not in EFFECTS:
                self._problem(where, f"must be one of {', '.join(EFFECTS)}{_suggestion(name, EFFECTS)}")
            elif not isinstance(value, bool):
                self._problem(where, f"must be true or false, not {_as_json(value)}")
        return effects

    def _object(self, entry: dict[str, Any], key: str, pointer: str) -> Mapping[str, Any]:
        return _NOTHING_SET if entry.get(key) is None else MappingProxyType(self._value(entry, key, pointer, dict, {}))

    def _deny(self, entry: dict[str, Any], profile_id: str, pointer: str) -> Deny:
        if entry.get("deny") is None or not self._reads_rules:
            return Deny()
        place = f"{self._origin}, profile {profile_id},"
        return read_deny(entry["deny"], f"{pointer}/deny", place, self._problem, self._warn)

    def _id(self, entry: Any, pointer: str, what: str) -> str | None:
        if not isinstance(entry, dict):
            self._problem(pointer, f"a {what} must be an object, not {_as_json(entry)}")
            return None
        value = entry.get("id")
        if isinstance(value, str) and value:
            return value
        self._problem(f"{pointer}/id", f"a {what} needs an id, a string" if value is None else f"not {_as_json(value)}")
        return None

    def _value(self, entry: Mapping[str, Any], key: str, pointer: str, kind: type[_Kind], default: _Kind) -> _Kind:
        value = entry.get(key, default)
        if isinstance(value, kind):
            return value
        self._problem(f"{pointer}/{key}", f"must be {_KINDS[kind]}, not {_as_json(value)}")
        return default

    def _choice(self, entry: Mapping[str, Any], key: str, pointer: str, options: tuple[str, ...]) -> str | None:
        value = entry.get(key)
        if value is None or value in options:
            return value
        near = _suggestion(value, options) if isinstance(value, str) else ""
        self._problem(f"{pointer}/{key}", f"must be one of {', '.join(options)}, not {_as_json(value)}{near}")
        return None

    def _check_keys(self, entry: Mapping[str, Any], level: Level, pointer: str) -> None:
        if not entry.keys() <= KEYS[level].keys():
            check_keys(entry, level, pointer, self._problem, self._warn)

    def _problem(self, pointer: str, message: str) -> None:
        self._add(Problem(pointer, message))

    def _warn(self, pointer: str, message: str) -> None:
        self._add(Problem(pointer, message, is_warning=True))

    def _add(self, problem: Problem) -> None:
        """Keep the first problems and the first warnings. Nobody reads thousands of them."""
        self._counts[problem.is_warning] += 1
        if self._counts[problem.is_warning] <= _MOST_PROBLEMS:
            self._problems.append(problem)
            if problem.is_warning:
                self._warnings.append(problem)
        elif not problem.is_warning:
            raise BadRegistry([*self._problems, Problem("", "there are more problems")], self._origin)


def _excess(document: Any) -> Problem | None:
    """What is too much in a document; None if nothing is."""
    values = 0
    level = [document]
    for _ in range(MOST_DEPTH):
        below: list[Any] = []
        for each in level:
            if not isinstance(each, dict | list):
                continue
            if len(each) > MOST_KEYS:
                what = "an object in it has {:,} keys" if isinstance(each, dict) else "an array in it has {:,} elements"
                return Problem("", f"{what.format(len(each))}, and may have {MOST_KEYS:,}")
            values += len(each)
            below.extend(each.values() if isinstance(each, dict) else each)
        if values > MOST_VALUES:
            return Problem("", f"it has more than {MOST_VALUES:,} keys and array elements")
        if not below:
            return None
        level = below
    return _TOO_DEEP if any(isinstance(each, dict | list) for each in level) else None


def _suggestion(wrong: str, known: Iterable[str]) -> str:
    near = get_close_matches(wrong, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
