"""What boxes keep, read through a gateway by the references that results have given, in which their box is named.

Resources (a session, an artifact, what a file held before a change) are not listed here. At /artifacts are the bytes of
the artifacts of boxes, and of the gateway's own: results of its own tools that were too large.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp_agent.calls.call import Call, Caller
from mcp_agent.fleet.box_calls import CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.messages import FilePiece, ReadPiece
from mcp_agent.fleet.subjects import box_of_uri
from mcp_agent.resources.resources import FILE_TOOL, CannotBeRead
from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.transports.artifact_download import ArtifactDownload, OpenArtifact, Unavailable
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.artifacts.artifact_read import artifact_read
from tools.kit.errors import ToolError
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway

# A box that is restarted, and a connection that breaks, have so long to come back while an artifact is sent.
_PATIENCE_S = 15.0
_PIECE_BYTES = 900_000
# An artifact of a gateway: no box is in its name.
_OWN = re.compile(r"ax://[a-z0-9_-]{1,40}/[0-9a-f]{20}")


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


class BoxArtifacts(ArtifactDownload):
    def __init__(self, store: ArtifactStore, gate: Gate, audit: AuditLog, gateway: Gateway) -> None:
        super().__init__(store, gate, audit)
        self._gateway = gateway

    @asynccontextmanager
    async def _open(self, reference: str, owner: str) -> AsyncIterator[OpenArtifact | None]:
        name = box_of_uri(reference)
        if name is None:
            async with super()._open(reference, owner) as own:
                yield own
            return
        box = self._gateway.directory.boxes.get(name)
        if box is None:
            yield None
            return

        async def read(offset: int, patience_s: float = _PATIENCE_S) -> FilePiece:
            question = ReadPiece(reference, offset, _PIECE_BYTES, owner)
            return await self._gateway.calls.read(box.name, box.boot, question, FilePiece, patience_s=patience_s)

        try:
            first = await read(0, 0.0)
        except (BusError, CannotRead) as error:
            if isinstance(error, CannotRead) and error.why == "gone":
                yield None
                return
            raise Unavailable(f"the artifacts of {name} cannot be read now: {error}") from None

        async def read_on(offset: int) -> bytes:
            """The next bytes; none if they are gone, or the box is."""
            try:
                return (first if offset == 0 else await read(offset)).data
            except (BusError, CannotRead):
                return b""

        yield OpenArtifact(first.whole, read_on)


def reads_own_artifact(call: Call) -> bool:
    """Whether a call is for an artifact of the gateway, and not for one of a box."""
    return call.tool == artifact_read.name and any(
        isinstance(value, str) and _OWN.fullmatch(value) for value in call.arguments.values()
    )


class OwnArtifactGate(Gate):
    """Admits `artifact_read` as it runs here, for whoever may use that of the boxes."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(Catalog((artifact_read,)), gate.profiles)
        self._gate = gate

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        _, grant = self._gate.admit(access, name)
        return artifact_read, grant._replace(deadline_s=artifact_read.deadline_s)

    def form(self, access: Access) -> Shape:
        return self._gate.form(access)
