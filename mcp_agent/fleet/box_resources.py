"""The resources of boxes, read through a gateway: a session, an artifact, what a file held before a change.

They are not listed here. A client reads what a result has named, and the name of the box is in the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_agent.calls.call import Caller
from mcp_agent.fleet.subjects import box_of_uri
from mcp_agent.resources.resources import FILE_TOOL, CannotBeRead
from registry.gate import Gate
from tools.kit.errors import ToolError

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway


class BoxResources:
    def __init__(self, gate: Gate, gateway: Gateway) -> None:
        self._gate = gate
        self._gateway = gateway

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return []

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        return []

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        box = self._gateway.directory.boxes.get(box_of_uri(uri) or "")
        if box is None or not self._may_read(caller, uri.partition("://")[0]):
            return None
        try:
            return await self._gateway.calls.read_resource(box, caller, uri)
        except ToolError as error:
            raise CannotBeRead(f"{error.code}: {error.message}") from None

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        return None

    def _may_read(self, caller: Caller, scheme: str) -> bool:
        """As the box itself decides: who may not use the tools may not read what they would show."""
        if scheme == "undo":
            # The path is known to the box alone, and the rule to the gateway alone.
            has_rules = self._gate.deny(caller.access).paths is not None
            return not has_rules and self._gate.allows(caller.access, FILE_TOOL)
        return scheme != "session" or self._gate.offers(caller.access, "shell")
