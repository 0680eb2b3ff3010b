"""/artifacts of a gateway: those of the boxes, which have the name of their box in the id, and its own."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp_agent.calls.call import Call
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.directory import Box
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.subjects import box_of_uri
from mcp_agent.storage.artifact_store import ArtifactStore
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
    def __init__(self, store: ArtifactStore, gateway: Gateway) -> None:
        super().__init__(store)
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
            first = await self._gateway.read_artifact(box, reference, owner, 0)
        except (BusError, BadMessage) as error:
            raise Unavailable(f"the artifacts of {name} cannot be read now: {error}") from None
        if first is None:
            yield None
            return

        async def read(offset: int) -> bytes:
            return first.data if offset == 0 else await self._read(box, reference, owner, offset)

        yield OpenArtifact(first.size, read)

    async def _read(self, box: Box, reference: str, owner: str, offset: int) -> bytes:
        """The bytes from an offset on; none if they are gone, or the box is."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                found = await self._gateway.read_artifact(box, reference, owner, offset)
                return b"" if found is None else found.data
            except BadMessage:
                return b""
            except BusError:
                if time.monotonic() > deadline:
                    return b""
            await asyncio.sleep(_RETRY_S)


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
