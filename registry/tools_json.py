"""Every key of tools.json, and how the file becomes profiles. A file with problems is refused with all of them.

What the file does not name follows the profile's `unlisted`; keys that are not ours are left alone, here and when the
file is saved. A new key is a line in one of the tables below.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from registry import jsonc
from registry.ask_rules import read_ask
from registry.catalog import Catalog
from registry.deny_rules import patterns, read_deny
from registry.profiles import (
    DEFAULT_PROFILE,
    EFFECTS,
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
from registry.schema import (
    BOOLEAN,
    FILLED_TEXT,
    SWITCH_LIKENESS,
    TEXT,
    TEXTS,
    TOOL_NAME,
    VARIABLE,
    ArrayOf,
    KeyRule,
    Level,
    Report,
    by_name,
    checked,
    is_variable,
    one_of,
    one_or_more,
    seconds,
)
from tools.kit.spelling import did_you_mean, nearest

# Imported when there is one in the file.
if TYPE_CHECKING:
    from registry.mounts import Mount
    from tools.cli.wrap import Wrap

# What is read at all. The largest file that our own commands write has a tenth of that.
MOST_DEPTH = 64
MOST_VALUES = 100_000
MOST_KEYS = 1_000
MOST_RULES = 500
MOST_PATTERNS = 1_000
_MOST_REPEATED = 100
_TOO_DEEP = Problem("", f"it is nested more than {MOST_DEPTH} levels deep")


def _is_folder(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.startswith(("/", "~/")) and "\0" not in value)


def _is_secret(value: Any) -> bool:
    """A text, or the place of one: a file or a variable."""
    if isinstance(value, dict) and len(value) == 1:
        value = value.get("file", value.get("variable"))
    return isinstance(value, str) and "\0" not in value


_SECRET = checked(_is_secret, 'a string, {"file": PATH} or {"variable": NAME}')
_RULE = Level(
    "a rule",
    "in a deny rule",
    {
        "id": KeyRule(FILLED_TEXT, is_required=True),
        "pattern": KeyRule(patterns, guards=True, is_required=True),
        "reason": KeyRule(FILLED_TEXT, is_required=True),
        "match": KeyRule(one_or_more, guards=True),
        "not_match": KeyRule(one_or_more, guards=True),
    },
)
_DENY = Level(
    "deny",
    "in deny",
    {"paths": KeyRule(ArrayOf(_RULE), guards=True), "commands": KeyRule(ArrayOf(_RULE), guards=True)},
)
# "ask": {"commands": [{"id": "push", "pattern": "git push", "reason": "it is public"}], "alone": "deny"}
_ASK_RULE = Level(
    "a rule",
    "in an ask rule",
    {
        **_RULE.keys,
        "except": KeyRule(one_or_more, guards=True),
        "always": KeyRule(BOOLEAN, guards=True),
    },
)
_ASK = Level(
    "ask",
    "in the ask of a profile",
    {
        "commands": KeyRule(ArrayOf(_ASK_RULE), guards=True),
        "unasked": KeyRule(one_or_more),
        "except": KeyRule(one_or_more),
        "alone": KeyRule(one_of("wait", "deny"), guards=True),
    },
    is_strict=True,
)
_IDENTITY = Level(
    "an identity",
    "",
    {
        "name": KeyRule(TOOL_NAME, is_required=True),
        "registry": KeyRule(FILLED_TEXT, is_required=True),
        "session_variable": KeyRule(VARIABLE),
        "agent_variable": KeyRule(VARIABLE),
    },
    is_strict=True,
)
_RESOURCE = Level(
    "a resource",
    "",
    {
        "uri": KeyRule(
            checked(lambda value: isinstance(value, str) and "://" in value, "a URI such as name://thing"),
            is_required=True,
        ),
        "args": KeyRule(TEXTS),
        "file": KeyRule(FILLED_TEXT),
        "description": KeyRule(TEXT),
    },
    is_strict=True,
)
# "wrap": {"id": "bn_run", "command": "bn", "blocked": {"gui": "It opens a window."}, "value_options": ["--repo"]}
WRAP = Level(
    "a wrap",
    "",
    {
        "id": KeyRule(TOOL_NAME, is_required=True),
        "command": KeyRule(FILLED_TEXT, is_required=True),
        "blocked": KeyRule(
            by_name(
                TEXT,
                lambda name: len(name.split()) == 1 and not name.startswith("-") and name == name.strip(),
                "would block nothing: a subcommand is one word and no option",
            )
        ),
        "value_options": KeyRule(TEXTS),
        "timeout_seconds": KeyRule(seconds(3_600)),
        "env": KeyRule(by_name(TEXT, is_variable, "is no name of a variable")),
        "cwd_required": KeyRule(BOOLEAN),
        "description": KeyRule(TEXT),
        "identity": KeyRule(_IDENTITY),
        "resources": KeyRule(ArrayOf(_RESOURCE)),
    },
    is_strict=True,
)
# "mount": {"command": "npx", "args": ["@playwright/mcp", "--headless"], "env": {"DEBUG": "pw:api"}}
# "mount": {"url": "https://example.com/mcp", "headers": {"Authorization": {"file": "~/.secret"}}}
MOUNT = Level(
    "a mount",
    "",
    {
        "command": KeyRule(TEXT),
        "args": KeyRule(TEXTS),
        "env": KeyRule(by_name(_SECRET, is_variable, "is no name of a variable")),
        "cwd": KeyRule(TEXT),
        "url": KeyRule(TEXT),
        "headers": KeyRule(by_name(_SECRET)),
        "only": KeyRule(TEXTS),
        "except": KeyRule(TEXTS),
        "paths": KeyRule(TEXTS),
        "instance": KeyRule(one_of("shared", "caller")),
        "timeout_seconds": KeyRule(seconds(86_400)),
    },
    is_strict=True,
)
_TOOL = Level(
    "a tool",
    "in a tool",
    {
        "id": KeyRule(FILLED_TEXT, is_required=True),
        "name": KeyRule(),
        "label": KeyRule(),
        "description": KeyRule(),
        "category": KeyRule(guards=True),
        "enabled": KeyRule(BOOLEAN, guards=True),
        "ask": KeyRule(BOOLEAN, guards=True),
        "inputSchema": KeyRule(),
    },
)
_CATEGORY = Level(
    "a category",
    "in a category",
    {
        "id": KeyRule(FILLED_TEXT, is_required=True),
        "label": KeyRule(),
        "description": KeyRule(),
        "enabled": KeyRule(BOOLEAN, guards=True),
        "ask": KeyRule(BOOLEAN, guards=True),
        "tools": KeyRule(ArrayOf(_TOOL), guards=True),
        "mount": KeyRule(MOUNT),
        "wrap": KeyRule(ArrayOf(WRAP, may_be_one=True)),
    },
)
_RESPONSE = Level(
    "response",
    "in response",
    {"form": KeyRule(one_of("auto", "json", "text")), "mode": KeyRule(one_of("full", "compact"))},
)
_PRUNING = Level(
    "pruning",
    "in pruning",
    {
        "everywhere": KeyRule(BOOLEAN),
        "root": KeyRule(checked(_is_folder, "the absolute path of a folder"), guards=True),
    },
)
_EFFECT = checked(lambda value: isinstance(value, bool) or value == "ask", 'true, false or "ask"')
_EFFECTS = Level("effects", "in effects", {effect: KeyRule(_EFFECT, guards=True) for effect in EFFECTS}, is_strict=True)
_PROFILE = Level(
    "a profile",
    "in a profile",
    {
        "id": KeyRule(FILLED_TEXT, is_required=True),
        "label": KeyRule(TEXT),
        "description": KeyRule(TEXT),
        "enabled": KeyRule(BOOLEAN, guards=True),
        "categories": KeyRule(ArrayOf(_CATEGORY), guards=True, known_as=("category",)),
        "unlisted": KeyRule(one_of("enabled", "disabled"), guards=True),
        "response": KeyRule(_RESPONSE),
        "repeat": KeyRule(one_of("all", "changes")),
        "sites": KeyRule(BOOLEAN, guards=True),
        "pruning": KeyRule(_PRUNING),
        "effects": KeyRule(_EFFECTS, guards=True),
        "deny": KeyRule(_DENY, guards=True, known_as=("denied", "denies")),
        "ask": KeyRule(_ASK, guards=True, known_as=("asks",)),
    },
)
FILE = Level(
    "the file",
    "at the top of the file",
    {
        "version": KeyRule(checked(lambda value: value == VERSION and not isinstance(value, bool), str(VERSION))),
        "activeProfile": KeyRule(TEXT, guards=True, known_as=("active", "defaultProfile")),
        "profiles": KeyRule(ArrayOf(_PROFILE), guards=True),
    },
)
LEVELS = FILE.where_keys_belong()


def load_document(data: bytes, origin: str = "tools.json") -> dict[str, Any]:
    """The JSON object in the bytes of the file `origin`. Raises BadRegistry, also for a key that occurs twice.

    It is read strictly, because what we read, we must be able to save again.
    """
    problems: list[Problem] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated = sorted(key for key, count in counts.items() if count > 1)[:_MOST_REPEATED]
            problems.extend(Problem("", f"the key {key!r} stands twice in one object") for key in repeated)
        return document

    try:
        document = jsonc.loads(data.decode(), object_pairs_hook=unique)
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
    report = Report(origin, LEVELS)
    values = FILE(document, "", report)
    assert values is not None, "an object without required keys"
    return _Reader(catalog, report).profiles(values, digest)


def read_mount(values: dict[str, Any], category: str, pointer: str, report: Report) -> Mount:
    """The mounted server of a category, from what MOUNT has read at `pointer`."""
    from registry.mounts import Mount

    if TOOL_NAME(category, pointer, Report()) is None:
        # It may stand before the names of its tools, and it names the file that keeps them.
        report.problem(pointer, "the category of a mount must be letters, digits, _ and -, at most 64")
    url = values.get("url")
    if bool(values.get("command")) == bool(url):
        report.problem(pointer, "a mount needs a command or a url: a program to start, or a server to connect to")
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        report.problem(f"{pointer}/url", f"{url!r} is no http or https URL")
    return msgspec.convert({**values, "category": category}, Mount)


def read_wrap(values: dict[str, Any], category: str, pointer: str, report: Report) -> Wrap:
    """A wrapped program of a category, from what WRAP has read at `pointer`."""
    from tools.cli.wrap import Wrap

    resources = [each for each in values.get("resources", ()) if each is not None]
    for index, each in enumerate(resources):
        if ("args" in each) == ("file" in each):
            problem = "a resource needs args or file: what the program prints, or a file"
            report.problem(f"{pointer}/resources/{index}", problem)
    return msgspec.convert({**values, "category": category, "resources": resources}, Wrap)


class _Reader:
    """Makes profiles of what FILE has read, and checks what one entry cannot know of others."""

    def __init__(self, catalog: Catalog, report: Report) -> None:
        self._catalog = catalog
        self._report = report
        # Every wrapped program, by its id and by the names of its tools, and every mounted server, by its category.
        self._wraps: dict[str, Wrap] = {}
        self._wrapped: dict[str, Wrap] = {}
        self._mounted: dict[str, Mount] = {}
        # The categories that some profile makes with a mount or a wrap.
        self._added: set[str] = set()

    def profiles(self, values: dict[str, Any], digest: str) -> Profiles:
        entries = [(f"/profiles/{index}", each) for index, each in enumerate(values.get("profiles", ())) if each]
        self._added |= {
            each["id"]
            for _, entry in entries
            for each in entry.get("categories", ())
            if each and not each.keys().isdisjoint(("mount", "wrap"))
        }
        has_excess = self._has_too_many_rules(
            [entry[key] for _, entry in entries for key in ("deny", "ask") if key in entry]
        )
        by_id = dict(SHIPPED)
        for pointer, entry in entries:
            if has_excess:
                entry.pop("deny", None)
                entry.pop("ask", None)
            by_id[entry["id"]] = self._profile(entry, pointer)
        active = values.get("activeProfile", DEFAULT_PROFILE)
        if active not in by_id:
            self._report.problem("/activeProfile", f"there is no profile {active!r}{did_you_mean(active, by_id)}")
        self._report.raise_problems()
        wraps, warnings = tuple(self._wraps.values()), tuple(self._report.found)
        return Profiles(active, MappingProxyType(by_id), warnings, wraps, MappingProxyType(self._mounted), digest)

    def _has_too_many_rules(self, policies: list[dict[str, Any]]) -> bool:
        """Report more rules or patterns than are read: each costs time at every reading, and at every call.

        `policies` are what stands under `deny` and `ask`.
        """
        rules = [rule for policy in policies for kind in ("paths", "commands") for rule in policy.get(kind, ())]
        total = sum(len(rule["pattern"]) + len(rule.get("except", ())) for rule in rules if rule)
        total += sum(len(policy.get(key, ())) for policy in policies for key in ("except", "unasked"))
        found = [(len(rules), MOST_RULES, "deny rules"), (total, MOST_PATTERNS, "patterns in deny rules")]
        for count, most, what in found:
            if count > most:
                self._report.problem("/profiles", f"it has {count:,} {what}, and may have {most:,}")
        return any(count > most for count, most, _ in found)

    def _profile(self, entry: dict[str, Any], pointer: str) -> Profile:
        categories: dict[str, Switches] = {}
        for index, category in enumerate(entry.get("categories", ())):
            if category is not None:
                categories[category["id"]] = self._switches(category, f"{pointer}/categories/{index}")
        place = f"{self._report.origin}, profile {entry['id']},"
        return Profile(
            id=entry["id"],
            label=entry.get("label", entry["id"]),
            description=entry.get("description", ""),
            enabled=entry.get("enabled", True),
            categories=MappingProxyType(categories),
            unlisted=no_tool if entry.get("unlisted") == "disabled" else every_tool,
            response=_frozen(entry, "response"),
            shows_changes=entry.get("repeat") == "changes",
            shows_sites=entry.get("sites", True),
            pruning=_frozen(entry, "pruning"),
            deny=read_deny(entry.get("deny", {}), f"{pointer}/deny", place, self._report),
            ask=read_ask(entry.get("ask", {}), f"{pointer}/ask", place, self._report),
            effects=_frozen(entry, "effects"),
        )

    def _switches(self, category: dict[str, Any], pointer: str) -> Switches:
        category_id = category["id"]
        if category_id in self._catalog.categories:
            for index, tool in enumerate(category.get("tools", ())):
                if tool is not None:
                    self._check_tool(tool["id"], category_id, f"{pointer}/tools/{index}/id")
        elif category_id not in self._added:
            # Misspelt, its tools would stay on. Any other may be of a server that is mounted later.
            near = nearest(category_id, self._catalog.categories, SWITCH_LIKENESS)
            if near is not None:
                self._report.problem(f"{pointer}/id", f"no category named {category_id} (did you mean {near}?)")
        for wrap in category.get("wrap", ()):
            self._add_wrap(wrap, category_id, f"{pointer}/wrap")
        if "mount" in category:
            self._add_mount(category["mount"], category_id, f"{pointer}/mount")
        tools = {each["id"]: each.get("enabled", True) for each in category.get("tools", ()) if each is not None}
        asking = {each["id"]: each["ask"] for each in category.get("tools", ()) if each is not None and "ask" in each}
        asks = category.get("ask", False)
        return Switches(category.get("enabled", True), MappingProxyType(tools), asks, MappingProxyType(asking))

    def _add_wrap(self, values: dict[str, Any] | None, category: str, pointer: str) -> None:
        """Take over a program that a category wraps. Several profiles may have the same entry."""
        if values is None:
            return
        wrap = read_wrap(values, category, pointer, self._report)
        self._wraps[wrap.id] = wrap
        for name in wrap.tool_names:
            if name in self._catalog.by_name or self._wrapped.setdefault(name, wrap) != wrap:
                self._report.problem(pointer, f"there is another tool named {name}")

    def _add_mount(self, values: dict[str, Any], category: str, pointer: str) -> None:
        """Take over the server that a category mounts. Several profiles may have the same entry."""
        mount = read_mount(values, category, pointer, self._report)
        if category in self._catalog.categories:
            self._report.problem(pointer, f"{category} is a category of ours; give the mount one of its own")
        if self._mounted.setdefault(category, mount) != mount:
            self._report.problem(pointer, f"another profile mounts another server as {category}")

    def _check_tool(self, name: str, category: str, pointer: str) -> None:
        tool = self._catalog.by_name.get(name)
        if tool is not None:
            if (tool.name, tool.category) != (name, category):
                self._report.problem(pointer, f"{name} is a tool of {tool.category}, not of {category}")
        elif near := nearest(name, self._catalog.names, SWITCH_LIKENESS):
            self._report.problem(pointer, f"no tool named {name} (did you mean {near}?)")
        else:
            self._report.warn(pointer, f"no tool named {name[:100]}; the switch has no effect")


def _frozen(entry: dict[str, Any], key: str) -> Mapping[str, Any]:
    return MappingProxyType(entry.get(key, {}))


def _excess(document: Any) -> Problem | None:
    """Which limit a document exceeds; None if none."""
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
