"""Profiles say which tools their callers may use. Some are built in; tools.json defines the others.

The differences between two states of tools.json are here too, in words for the audit log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from registry.asking import NO_ASK, AskPolicy, AskRule, ToolAsk, describe_ask
from registry.catalog import Catalog, label
from registry.user_error import UsageError
from tools.kit.listed_commands import HARMLESS
from tools.kit.rules import NOTHING, Deny, Rule
from tools.kit.spec import Effect, Tool
from tools.kit.spelling import nearest

if TYPE_CHECKING:
    from registry.mounts import Mount
    from tools.cli.wrap import Wrap

Form = Literal["auto", "json", "text"]
State = Literal["off", "ask", "on"]
FORMS: tuple[Form, ...] = get_args(Form)
EFFECTS: tuple[Effect, ...] = get_args(Effect)
VERSION = 1
DEFAULT_PROFILE = "default"
_MOST_CHANGES = 50


class Problem(NamedTuple):
    """A problem in tools.json. A warning is only reported; any other problem makes the file unusable."""

    pointer: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"

    def as_object(self) -> dict[str, Any]:
        severity = "warning" if self.is_warning else "error"
        return {"pointer": self.pointer, "message": self.message, "severity": severity}


class BadRegistry(UsageError):
    """A tools.json cannot be used. `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], origin: str = "tools.json") -> None:
        self.problems = tuple(problems)
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{origin} cannot be used:{listed}")


class UnusableFile(BadRegistry):
    """The file itself cannot be read or written, whatever is in it."""


class UnknownName(UsageError):
    """There is no profile, category or tool of the name that the user gave."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message, self.hint = message, hint

    @classmethod
    def among(cls, problem: str, name: str, known: Iterable[str]) -> Self:
        """`problem` says that there is none of that name; the hint is the one that may be meant, or all there are."""
        names = list(known)
        near = nearest(name, names)
        there_are = f"there are {', '.join(names)}" if names else None
        return cls(f"{problem} {name[:100]!r}", f"did you mean {near}?" if near else there_are)


class Switches(Struct, frozen=True):
    """One category of one profile: its master switch and the tools it names, and which of them ask the owner."""

    enabled: bool
    tools: Mapping[str, bool] = field(default_factory=dict)
    asks: bool = False
    asking: Mapping[str, bool] = field(default_factory=dict)


class Profile(Struct, frozen=True):
    """The tools that its callers may use. `unlisted` decides about tools that `categories` does not name."""

    id: str
    label: str
    description: str
    enabled: bool
    categories: Mapping[str, Switches]
    unlisted: Callable[[Tool], bool]
    response: Mapping[str, Any] = field(default_factory=dict)
    pruning: Mapping[str, Any] = field(default_factory=dict)
    # Whether a conversation is shown only the changes of what it was shown before.
    shows_changes: bool = False
    # Whether what its commands serve on a port is shown to a person.
    shows_sites: bool = True
    is_shipped: bool = False
    deny: Deny = NOTHING
    # What tools can do, with false for what is switched off, and "ask" for what needs the owner's approval; what is not
    # named is on.
    effects: Mapping[str, bool | Literal["ask"]] = field(default_factory=dict)
    # The rules by which commands ask the owner.
    ask: AskPolicy = NO_ASK

    def allows(self, tool: Tool) -> bool:
        return self.switch(tool) is None

    def switch(self, tool: Tool) -> str | None:
        """The switch that is off for `tool`: "profile", "effect", "category" or "tool"; None if the tool is on."""
        if not self.enabled:
            return "profile"
        if not self.effects.get(tool.effect, True):
            return "effect"
        placed = _placements(tool)
        named = [self.categories[each.category] for each in placed if each.category in self.categories]
        if not all(switches.enabled for switches in named):
            return "category"
        return None if all(map(self.names_on, placed)) else "tool"

    def names_on(self, tool: Tool) -> bool:
        """The tool's own switch, whatever the switches above it say."""
        named = self.categories.get(tool.category)
        listed = None if named is None else named.tools.get(tool.name)
        return self.unlisted(tool) if listed is None else listed

    def asking(self, tool: Tool) -> ToolAsk | None:
        """What decides which calls of `tool` need the owner's approval; None if none does."""
        switch = self.asking_switch(tool)
        if switch is None and not (self.ask.rules and tool.runs_commands):
            return None
        return ToolAsk(self.id, self.ask, switch)

    def asking_switch(self, tool: Tool) -> str | None:
        """The switch that says "ask": `tool:…`, `category:…` or `effect:…`. A tool's own switch decides first."""
        return next(filter(None, map(self._asking_switch, _placements(tool))), None)

    def _asking_switch(self, tool: Tool) -> str | None:
        named = self.categories.get(tool.category)
        own = None if named is None else named.asking.get(tool.name)
        if own is not None:
            return f"tool:{tool.name}" if own else None
        if named is not None and named.asks:
            return f"category:{tool.category}"
        return f"effect:{tool.effect}" if self.effects.get(tool.effect) == "ask" else None

    def state(self, tool: Tool) -> State:
        """Whether `tool` is off, on, or asks by a switch."""
        if not self.allows(tool):
            return "off"
        return "on" if self.asking_switch(tool) is None else "ask"

    @property
    def form(self) -> Form:
        form: Form | None = self.response.get("form")
        return form or "auto"

    @property
    def is_compact(self) -> bool:
        """Whether results are short, with a cursor for the next page."""
        return self.response.get("mode") == "compact"

    @property
    def pruning_root(self) -> Path | None:
        """The folder that `read`, `bash` and `grep` are confined to; None if the profile sets none."""
        root: str | None = self.pruning.get("root")
        return None if root is None else Path(root).expanduser()

    @property
    def prunes_everywhere(self) -> bool:
        """Whether the focus question works on the filesystem and shell tools too."""
        return bool(self.pruning.get("everywhere", True))


class Profiles(Struct, frozen=True):
    """A whole tools.json, with the shipped profiles that it does not replace."""

    active: str
    by_id: Mapping[str, Profile]
    warnings: tuple[Problem, ...] = ()
    # The programs that become tools, and the servers whose tools become ours, by category. Every profile has them all.
    wraps: tuple[Wrap, ...] = ()
    mounts: Mapping[str, Mount] = field(default_factory=dict)
    # Hash of the file.
    digest: str = ""

    def is_same_policy(self, other: Profiles) -> bool:
        """Whether both files say the same: a change of whitespace changes no profile."""
        return replace(other, digest=self.digest) == self

    def lacks_tools(self, category: str, names: Iterable[str]) -> bool:
        """Whether a profile that has an entry for `category` has no switch for one of these tools."""
        every = set(names)
        named = (profile.categories.get(category) for profile in self.by_id.values())
        return any(switches is not None and not every <= switches.tools.keys() for switches in named)

    def __getitem__(self, profile_id: str) -> Profile:
        """The profile of that id. Raises UnknownName."""
        profile = self.by_id.get(profile_id)
        if profile is None:
            raise UnknownName.among("there is no profile", profile_id, self.by_id)
        return profile


def empty_profile(profile_id: str) -> Profile:
    """Stands for a profile that a token or a URL names but that does not exist: it allows nothing."""
    return Profile(profile_id, profile_id, "does not exist", False, {}, no_tool)


def _placements(tool: Tool) -> tuple[Tool, ...]:
    """The tool in each category that it counts as."""
    return (tool, *(dataclasses.replace(tool, category=each) for each in tool.other_categories))


def every_tool(_: Tool) -> bool:
    return True


def no_tool(_: Tool) -> bool:
    return False


def _shipped_profile(
    profile_id: str,
    title: str,
    description: str,
    rule: Callable[[Tool], bool],
    *,
    shows_sites: bool = True,
    **response: str,
) -> Profile:
    return Profile(profile_id, title, description, True, {}, rule, response, shows_sites=shows_sites, is_shipped=True)


# Our own categories that `lean` leaves out. Whatever else there is, the owner has mounted or wrapped.
_BESIDE_FILES_AND_SHELL = ("pruning", "artifacts", "fleet")

# The built-in profiles. A profile of the same id in the file replaces one.
SHIPPED: Mapping[str, Profile] = MappingProxyType(
    {
        profile.id: profile
        for profile in (
            _shipped_profile(DEFAULT_PROFILE, "Default", "everything on", every_tool),
            _shipped_profile(
                "lean",
                "Lean",
                "files and the shell, and what you have mounted and wrapped",
                lambda tool: tool.category not in _BESIDE_FILES_AND_SHELL,
            ),
            Profile(
                "careful",
                "Careful",
                "reads and writes freely, and asks you before it executes anything but commands that only look",
                True,
                # What is started with your approval may be stopped without.
                MappingProxyType({"shell": Switches(True, asking=MappingProxyType({"shell_stop_session": False}))}),
                every_tool,
                is_shipped=True,
                effects=MappingProxyType({"execute": "ask"}),
                ask=AskPolicy(unasked=tuple(HARMLESS)),
            ),
            _shipped_profile(
                "read-only",
                "Read only",
                "nothing that writes or executes",
                lambda tool: tool.effect == "read",
                shows_sites=False,
            ),
            _shipped_profile(
                "browser-only", "Browser only", "the browser tools only", lambda tool: tool.category == "browser"
            ),
            _shipped_profile("pruner", "Pruner", "the pruning tools only", lambda tool: tool.category == "pruning"),
            _shipped_profile("compact", "Compact", "everything on, results kept short", every_tool, mode="compact"),
        )
    }
)


def describe_profile(profile: Profile, catalog: Catalog) -> dict[str, Any]:
    """`profile` as an entry of `profiles` in tools.json, with every tool that exists now."""
    entry: dict[str, Any] = {"id": profile.id, "label": profile.label, "enabled": profile.enabled}
    if profile.unlisted is not every_tool:
        entry["unlisted"] = "disabled"
    if profile.effects:
        entry["effects"] = dict(profile.effects)
    if ask := describe_ask(profile.ask):
        entry["ask"] = ask
    if profile.response:
        entry["response"] = dict(profile.response)
    if profile.shows_changes:
        entry["repeat"] = "changes"
    if not profile.shows_sites:
        entry["sites"] = False
    if profile.pruning:
        entry["pruning"] = dict(profile.pruning)
    entry["categories"] = [
        {
            "id": category,
            "label": label(category),
            "enabled": (named := profile.categories.get(category)) is None or named.enabled,
            **({"ask": True} if named is not None and named.asks else {}),
            "tools": [_describe_tool(tool, profile) for tool in found],
        }
        for category, found in catalog.categories.items()
    ]
    return entry


def default_document(catalog: Catalog) -> dict[str, Any]:
    """The tools.json that is written if there is none: one profile, every tool on."""
    default = SHIPPED[DEFAULT_PROFILE]
    return {"version": VERSION, "activeProfile": DEFAULT_PROFILE, "profiles": [describe_profile(default, catalog)]}


def _describe_tool(tool: Tool, profile: Profile) -> dict[str, Any]:
    named = profile.categories.get(tool.category)
    asks = None if named is None else named.asking.get(tool.name)
    return {
        "id": tool.name,
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "enabled": profile.names_on(tool),
        **({} if asks is None else {"ask": asks}),
        "inputSchema": tool.input_schema,
    }


class _Difference(NamedTuple):
    text: str
    # Whether a caller may do more after it than before.
    widens: bool = False


def policy_change(before: Profiles, after: Profiles, catalog: Catalog) -> dict[str, Any]:
    """What the audit log says of a change: the differences, those that allow more, and the hashes of both files."""
    texts: list[str] = []
    widening: list[str] = []
    for found in _differences(before, after, catalog):
        texts.append(found.text)
        if found.widens:
            widening.append(found.text)
    return {
        "changes": _first(texts),
        "widened": _first(widening),
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


# What a tool may do, from nothing to everything.
_STATES: tuple[State, ...] = ("off", "ask", "on")


def _effect_state(profile: Profile, effect: Effect) -> State:
    said = profile.effects.get(effect, True)
    return "ask" if said == "ask" else "on" if said else "off"


def _profile_differences(old: Profile, new: Profile, catalog: Catalog) -> Iterator[_Difference]:
    for effect in EFFECTS:
        before, after = _effect_state(old, effect), _effect_state(new, effect)
        if before != after:
            yield _Difference(f"effect {effect} {after}", _STATES.index(after) > _STATES.index(before))
    for category, tools in catalog.categories.items():
        switched: dict[str, tuple[State, bool]] = {}
        for tool in tools:
            was, state = old.state(tool), new.state(tool)
            if was != state:
                switched[tool.name] = state, _STATES.index(state) > _STATES.index(was)
        is_whole = len(switched) == len(tools) and len(set(switched.values())) == 1
        for name, (state, widens) in switched.items():
            yield _Difference(f"{category if is_whole else name} {state}", widens)
            if is_whole:
                break
    if old.deny != new.deny:
        yield from _rule_differences("deny rule", _rules(old.deny), _rules(new.deny))
    if old.ask != new.ask:
        yield from _ask_differences(old.ask, new.ask)
    if old.response != new.response:
        yield _Difference("response changed")
    if old.shows_changes != new.shows_changes:
        yield _Difference(f"repeat {'changes' if new.shows_changes else 'all'}")
    if old.shows_sites != new.shows_sites:
        yield _Difference(f"sites {'on' if new.shows_sites else 'off'}", new.shows_sites)
    if old.pruning != new.pruning:
        root, wider = old.pruning_root, new.pruning_root
        yield _Difference("pruning changed", root is not None and not (wider and wider.is_relative_to(root)))


def _ask_differences(old: AskPolicy, new: AskPolicy) -> Iterator[_Difference]:
    yield from _rule_differences(
        "ask rule", {each.id: each for each in old.rules}, {each.id: each for each in new.rules}
    )
    for key, before, after in (
        ("unasked", old.unasked, new.unasked),
        ("exception", old.exceptions, new.exceptions),
    ):
        for text in dict.fromkeys((*before, *after)):
            if (text in before) != (text in after):
                yield _Difference(f"ask: {key} {text!r} {'added' if text in after else 'removed'}", text in after)
    if old.alone != new.alone:
        yield _Difference(f"ask: alone {new.alone}", new.alone == "wait")


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


def _rule_differences(kind: str, old: Mapping[str, Rule], new: Mapping[str, Rule]) -> Iterator[_Difference]:
    for rule_id in dict.fromkeys((*old, *new)):
        if rule_id not in new:
            yield _Difference(f"{kind} {rule_id} removed", widens=True)
        elif rule_id not in old:
            yield _Difference(f"{kind} {rule_id} added")
        elif _substance(old[rule_id]) != _substance(new[rule_id]):
            # It may match less than before: whether it does cannot be told from its patterns.
            widens = _matching(old[rule_id]) != _matching(new[rule_id])
            yield _Difference(f"{kind} {rule_id} changed", widens)


def _substance(rule: Rule) -> tuple[object, ...]:
    return rule.reason, rule.may_always if isinstance(rule, AskRule) else None, *_matching(rule)


def _matching(rule: Rule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return rule.patterns, rule.exceptions if isinstance(rule, AskRule) else ()


def _rules(deny: Deny) -> dict[str, Rule]:
    return {rule.id: rule for rules in (deny.paths, deny.commands) if rules is not None for rule in rules.rules}
