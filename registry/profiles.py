"""Profiles say which tools their callers may use. Some are built in; tools.json defines the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from registry.catalog import Catalog, label
from registry.user_error import UserError
from tools.kit.rules import NOTHING, Deny
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from registry.mount_entries import Mount
    from tools.cli.wrap import Wrap

Form = Literal["auto", "json", "text"]
VERSION = 1
DEFAULT_PROFILE = "default"


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


class BadRegistry(UserError):
    """A tools.json cannot be used. `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], origin: str = "tools.json") -> None:
        self.problems = tuple(problems)
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{origin} cannot be used:{listed}")


class UnusableFile(BadRegistry):
    """The file itself cannot be read or written, whatever is in it."""


class UnknownName(UserError):
    """There is no profile, category or tool of the name that the user gave."""

    def __init__(self, message: str, hint: str | None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class Switches:
    """One category of one profile: its master switch and the tools it names."""

    enabled: bool
    tools: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """The tools that its callers may use. `unlisted` decides about tools that `categories` does not name."""

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
    # What tools can do, with false for what is switched off; what is not named is on.
    effects: Mapping[str, bool] = field(default_factory=dict)

    def allows(self, tool: Tool) -> bool:
        return self.switch(tool) is None

    def switch(self, tool: Tool) -> str | None:
        """The switch that is off for `tool`: "profile", "effect", "category" or "tool"; None if the tool is on."""
        if not self.enabled:
            return "profile"
        if not self.effects.get(tool.effect, True):
            return "effect"
        named = self.categories.get(tool.category)
        if named is not None and not named.enabled:
            return "category"
        return None if self.names_on(tool) else "tool"

    def names_on(self, tool: Tool) -> bool:
        """The tool's own switch, whatever the switches above it say."""
        named = self.categories.get(tool.category)
        listed = None if named is None else named.tools.get(tool.name)
        return self.unlisted(tool) if listed is None else listed

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


@dataclass(frozen=True, slots=True)
class Profiles:
    """A whole tools.json, with the shipped profiles that it does not replace."""

    active: str
    by_id: Mapping[str, Profile]
    warnings: tuple[Problem, ...] = ()
    # The programs that become tools, and the servers whose tools become ours, by category. Every profile has them all.
    wraps: tuple[Wrap, ...] = ()
    mounts: Mapping[str, Mount] = field(default_factory=dict)
    # Hash of the file. It is not compared: a change of whitespace changes no profile.
    digest: str = field(default="", compare=False)

    def lacks_tools(self, category: str, names: Iterable[str]) -> bool:
        """Whether a profile that has an entry for `category` has no switch for one of these tools."""
        every = set(names)
        named = (profile.categories.get(category) for profile in self.by_id.values())
        return any(switches is not None and not every <= switches.tools.keys() for switches in named)

    def __getitem__(self, profile_id: str) -> Profile:
        """The profile of that id. Raises UnknownName."""
        profile = self.by_id.get(profile_id)
        if profile is None:
            raise UnknownName(f"there is no profile {profile_id[:100]!r}", f"there are {', '.join(self.by_id)}")
        return profile


def empty_profile(profile_id: str) -> Profile:
    """Stands for a profile that a token or a URL names but that does not exist: it allows nothing."""
    return Profile(profile_id, profile_id, "does not exist", False, {}, no_tool)


def every_tool(_: Tool) -> bool:
    return True


def no_tool(_: Tool) -> bool:
    return False


def _shipped_profile(
    profile_id: str, title: str, description: str, rule: Callable[[Tool], bool], **response: str
) -> Profile:
    return Profile(profile_id, title, description, True, {}, rule, response, is_shipped=True)


# The built-in profiles. A profile of the same id in the file replaces one.
SHIPPED: Mapping[str, Profile] = MappingProxyType(
    {
        profile.id: profile
        for profile in (
            _shipped_profile(DEFAULT_PROFILE, "Default", "everything on", every_tool),
            _shipped_profile(
                "lean",
                "Lean",
                "the filesystem and shell tools only",
                lambda tool: tool.category in ("filesystem", "shell"),
            ),
            _shipped_profile(
                "read-only", "Read only", "nothing that writes or executes", lambda tool: tool.effect == "read"
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
    if profile.response:
        entry["response"] = dict(profile.response)
    if profile.pruning:
        entry["pruning"] = dict(profile.pruning)
    entry["categories"] = [
        {
            "id": category,
            "label": label(category),
            "enabled": (named := profile.categories.get(category)) is None or named.enabled,
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
    return {
        "id": tool.name,
        "name": tool.name,
        "description": tool.description,
        "category": tool.category,
        "enabled": profile.names_on(tool),
        "inputSchema": tool.input_schema,
    }
