"""/artifacts of a gateway: those of the boxes, which have the name of their box in the id, and its own."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_agent.calls.call import Call
from mcp_agent.fleet.box_calls import CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.directory import Box
from mcp_agent.fleet.messages import ArtifactPiece, ReadArtifact
from mcp_agent.fleet.subjects import box_of_uri
from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.transports.artifact_download import ArtifactDownload, OpenArtifact, Unavailable
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.artifacts.artifact_read import artifact_read
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway

# A box that is restarted, and a connection that breaks, have so long to come back while an artifact is sent.
_PATIENCE_S = 15.0
_RETRY_S = 0.2
# What a gateway keeps itself: results of its own tools, which were too large. No box is in their names.
_OWN = re.compile(r"ax://[a-z0-9_-]{1,40}/[0-9a-f]{20}")


class FleetArtifacts(ArtifactDownload):
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
        try:
            first = await self._read(box, reference, owner, 0)
        except (BusError, CannotRead) as error:
            raise Unavailable(f"the artifacts of {name} cannot be read now: {error}") from None
        if first is None:
            yield None
            return

        async def read(offset: int) -> bytes:
            return first.data if offset == 0 else await self._read_on(box, reference, owner, offset)

        yield OpenArtifact(first.size, read)

    async def _read(self, box: Box, reference: str, owner: str, offset: int) -> ArtifactPiece | None:
        """The bytes from an offset on; None if there is no such artifact. Raises BusError, CannotRead."""
        question = ReadArtifact(reference, owner, offset)
        try:
            return await self._gateway.calls.read(box.name, box.boot, question, ArtifactPiece)
        except CannotRead as error:
            if error.why == "gone":
                return None
            raise

    async def _read_on(self, box: Box, reference: str, owner: str, offset: int) -> bytes:
        """The bytes from an offset on; none if they are gone, or the box is."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                found = await self._read(box, reference, owner, offset)
                return b"" if found is None else found.data
            except CannotRead:
                return b""
            except BusError:
                await asyncio.sleep(_RETRY_S)
        return b""


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
