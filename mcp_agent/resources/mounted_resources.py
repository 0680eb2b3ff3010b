"""What mounted servers offer beside their tools, to callers that have a tool of that server: resources and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from mcp_agent.answers.budget import MOST_RESULT_BYTES
from mcp_agent.calls.call import Caller
from mcp_agent.resources.resources import CannotBeRead, is_ours, scheme
from registry.gate import Gate
from tools.context import ToolContext
from tools.kit.errors import ToolError
from tools.kit.tolerance import plain_path

if TYPE_CHECKING:
    from mcp_agent.upstream.mounted_servers import Mounts


class MountedResources:
    """Their resources, under their own URIs and never ours. The deny rules for paths hold for file URIs."""

    def __init__(self, gate: Gate, mounts: Mounts, context: ToolContext) -> None:
        self._gate = gate
        self._mounts = mounts
        self._context = context

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        listed = (entry for name in self._visible_categories(caller) for entry in self._mounts.known(name).resources)
        return [entry for entry in listed if not is_ours(str(entry["uri"]))]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        listed = (entry for name in self._visible_categories(caller) for entry in self._mounts.known(name).templates)
        return [entry for entry in listed if not is_ours(str(entry["uriTemplate"]))]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        category = None if is_ours(uri) else self._mounts.owner_of(uri)
        if category is None or category not in self._visible_categories(caller):
            return None
        try:
            self._check_path(caller, uri)
            contents = await self._mounts.read_resource(category, uri, caller.owner)
        except ToolError as error:
            raise CannotBeRead(f"{uri[:200]} cannot be read: {error.message}") from None
        _check_size(uri[:200], contents)
        return contents

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        return None

    def _visible_categories(self, caller: Caller) -> list[str]:
        return [name for name in self._mounts.categories if self._gate.offers(caller.access, name)]

    def _check_path(self, caller: Caller, uri: str) -> None:
        if scheme(uri) == "file":
            denied = self._gate.deny(caller.access).paths
            paths = self._context.paths if denied is None else self._context.paths.denying(denied)
            paths.check(paths.resolve(plain_path(uri)))


class MountedPrompts:
    """The prompts of mounted servers, for callers that have a tool of that server.

    A prompt has the name that its server gives it. Where an earlier server has one of that name, the category is put
    before it.
    """

    def __init__(self, gate: Gate, mounts: Mounts) -> None:
        self._gate = gate
        self._mounts = mounts

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {**entry, "name": name}
            for name, (category, entry) in self._by_name().items()
            if self._gate.offers(caller.access, category)
        ]

    async def get(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
        found = self._find(caller, name)
        if found is None:
            return None
        category, entry = found
        what = f"the prompt {name[:100]}"
        try:
            prompt = await self._mounts.prompt(category, str(entry["name"]), dict(arguments), caller.owner)
        except ToolError as error:
            raise CannotBeRead(f"{what} cannot be given: {error.message}") from None
        _check_size(what, prompt)
        return prompt

    async def completions(self, caller: Caller, name: str, argument: str, value: str) -> list[str] | None:
        """None are known: the argument is there, and the server that mounts it is not asked at each key."""
        found = self._find(caller, name)
        if found is None or argument not in (each.get("name") for each in found[1].get("arguments") or ()):
            return None
        return []

    def _find(self, caller: Caller, name: str) -> tuple[str, dict[str, Any]] | None:
        found = self._by_name().get(name)
        return found if found is not None and self._gate.offers(caller.access, found[0]) else None

    def _by_name(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Every prompt by its name here: its category, and how its server lists it."""
        named: dict[str, tuple[str, dict[str, Any]]] = {}
        for category in self._mounts.categories:
            for entry in self._mounts.known(category).prompts:
                name = str(entry["name"])
                named.setdefault(f"{category}_{name}" if name in named else name, (category, entry))
        return named


def _check_size(what: str, value: Any) -> None:
    """Raise CannotBeRead for what no message holds."""
    size = len(orjson.dumps(value))
    if size > MOST_RESULT_BYTES:
        raise CannotBeRead(f"{what} has {size:,} bytes, and a message has {MOST_RESULT_BYTES:,}")
