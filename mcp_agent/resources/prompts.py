"""Prompts that a person picks in a client. This host has none of its own: it passes on those of mounted servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from mcp_agent.answers.budget import MOST_RESULT_BYTES
from mcp_agent.calls.call import Caller
from mcp_agent.resources.resources import CannotBeRead
from registry.gate import Gate
from tools.kit.errors import ToolError

if TYPE_CHECKING:
    from mcp_agent.upstream.mounted_servers import Mounts


class Prompts(Protocol):
    """Some prompts from one place. What asks for a prompt by name gets None where the prompt is not one of these."""

    def entries(self, caller: Caller) -> list[dict[str, Any]]: ...

    async def get(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
        """The result of `prompts/get`. Every argument that the listed prompt requires is there."""

    async def completions(self, caller: Caller, name: str, argument: str, value: str) -> list[str] | None:
        """What `value`, the beginning of an argument, could become; the likeliest first."""


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
        try:
            prompt = await self._mounts.prompt(category, str(entry["name"]), dict(arguments), caller.owner)
        except ToolError as error:
            raise CannotBeRead(f"the prompt {name[:100]} cannot be given: {error.message}") from None
        size = len(orjson.dumps(prompt))
        if size > MOST_RESULT_BYTES:
            raise CannotBeRead(f"the prompt {name[:100]} has {size:,} bytes, and a message has {MOST_RESULT_BYTES:,}")
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
