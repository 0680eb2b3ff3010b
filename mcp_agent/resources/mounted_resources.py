"""The resources of mounted servers, under their own URIs and never ours, for callers that have a tool of the server."""

from __future__ import annotations

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
    """Lists what servers have listed, and reads it from them. The deny rules for paths hold for file URIs."""

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
        size = len(orjson.dumps(contents))
        if size > MOST_RESULT_BYTES:
            raise CannotBeRead(f"{uri[:200]} has {size:,} bytes, and a message has {MOST_RESULT_BYTES:,}")
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
