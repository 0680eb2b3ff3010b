"""What mounted servers listed last, and what their owner has seen of it. One file for each server in the state folder.

So a daemon that starts has all tools at once, and starts a server only when one of its tools is called. And a tool
whose description turns into something else after its owner has read it is noticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from registry.mounts import Mount
from tools.files import disk

_MOST_LIST_BYTES = 16 * 1024 * 1024
# What a model goes by, and what decides which profiles have the tool.
_SEEN_KEYS = ("title", "description", "inputSchema", "annotations")


class ToolChange(NamedTuple):
    """A tool that is not as its owner has seen it. `before` None: it is new. `after` None: it is gone."""

    name: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class KnownTools:
    """The tools, resources and prompts of one server."""

    def __init__(self, folder: Path, mount: Mount) -> None:
        self._file = folder / f"{mount.category}.json"
        # Another program under the same name has other tools.
        self._origin = f"{mount.command} {' '.join(mount.args)} {mount.url}"
        facts = _load(self._file)
        self.is_known = facts.get("origin") == self._origin
        kept = facts if self.is_known else {}
        self.tools: list[dict[str, Any]] = kept.get("tools", [])
        self.resources: list[dict[str, Any]] = kept.get("resources", [])
        self.templates: list[dict[str, Any]] = kept.get("templates", [])
        self.prompts: list[dict[str, Any]] = kept.get("prompts", [])
        self._seen: dict[str, dict[str, Any]] = kept.get("seen", {})
        self._parts_of_templates = [_fixed_parts(str(each["uriTemplate"])) for each in self.templates]

    def learn(
        self,
        tools: list[dict[str, Any]],
        resources: list[dict[str, Any]],
        templates: list[dict[str, Any]],
        prompts: list[dict[str, Any]],
    ) -> bool:
        """Keep what the server lists now. True if it is different. The first list is the one that its owner sees."""
        listed = tools, resources, templates, prompts
        if self.is_known and listed == (self.tools, self.resources, self.templates, self.prompts):
            return False
        if not self.is_known:
            self._seen = {str(tool["name"]): _seen_fields(tool) for tool in tools}
        self.tools, self.resources, self.templates, self.prompts = listed
        self.is_known = True
        self._parts_of_templates = [_fixed_parts(str(each["uriTemplate"])) for each in templates]
        self._save()
        return True

    def offers(self, uri: str) -> bool:
        """Whether a resource is in the list, or is one of a template."""
        return any(each["uri"] == uri for each in self.resources) or any(
            _fits(uri, each) for each in self._parts_of_templates
        )

    @property
    def changes(self) -> list[ToolChange]:
        """The tools that are not as the owner has seen them."""
        now = {str(tool["name"]): _seen_fields(tool) for tool in self.tools}
        return [
            ToolChange(name, self._seen.get(name), now.get(name))
            for name in (*now, *(name for name in self._seen if name not in now))
            if self._seen.get(name) != now.get(name)
        ]

    def accept(self) -> None:
        """The owner has seen the tools as they are now."""
        self._seen = {str(tool["name"]): _seen_fields(tool) for tool in self.tools}
        self._save()

    def _save(self) -> None:
        facts = {
            "origin": self._origin,
            "tools": self.tools,
            "resources": self.resources,
            "templates": self.templates,
            "prompts": self.prompts,
            "seen": self._seen,
        }
        # A list that cannot be kept is asked for again at the next start.
        with suppress(OSError):
            disk.replace_file(self._file, json.dumps(facts).encode(), sync=False)


def _seen_fields(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in _SEEN_KEYS if key in tool}


def _fixed_parts(template: str) -> list[str]:
    """What is around the variables of a template."""
    return re.split(r"\{[^{}]*\}", template)


def _fits(uri: str, parts: Sequence[str]) -> bool:
    """Whether a URI has these parts in their order, with any text between them. In linear time: it is a caller's."""
    first, *others = parts
    if not others:
        return uri == first
    *between, last = others
    at, end = len(first), len(uri) - len(last)
    if at > end or not uri.startswith(first) or not uri.endswith(last):
        return False
    for part in between:
        found = uri.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _load(file: Path) -> dict[str, Any]:
    kinds = {"origin": str, "tools": list, "resources": list, "templates": list, "seen": dict}
    try:
        facts = json.loads(disk.read_small_file(file, _MOST_LIST_BYTES))
        return facts if all(isinstance(facts[key], kind) for key, kind in kinds.items()) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
