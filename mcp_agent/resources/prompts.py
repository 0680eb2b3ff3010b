"""Prompts that a person picks in a client. This host has none of its own: those of mounted servers are served here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcp_agent.calls.call import Caller


class Prompts(Protocol):
    """Some prompts from one place. What asks for a prompt by name gets None where the prompt is not one of these."""

    def entries(self, caller: Caller) -> list[dict[str, Any]]: ...

    async def get(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
        """The result of `prompts/get`. Every argument that the listed prompt requires is there."""

    async def completions(self, caller: Caller, name: str, argument: str, value: str) -> list[str] | None:
        """What `value`, the beginning of an argument, could become; the likeliest first."""
