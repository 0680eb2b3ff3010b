"""The artifacts of this box, for the clients of gateways: read in pieces, each by a message of its own.

    gateway                                             member
    {"artifact": reference, "owner", "from": offset} →  {"is": "piece", "size"} and bytes, {"is": "gone"}
                                                        or {"is": "failed", "message"}

Nothing is kept between two of them, so any may be asked for again, also after a restart.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from mcp_agent.fleet.call_protocol import caller_name, pack
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.files import disk

_READ_AT_ONCE = 8


class MemberArtifacts:
    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._places = asyncio.Semaphore(_READ_AT_ONCE)

    async def answer(self, head: Mapping[str, Any], most_bytes: int) -> bytes:
        """A piece of at most so many bytes. Raises BadMessage."""
        reference, owner, offset = head["artifact"], head.get("owner"), head.get("from")
        if not (isinstance(reference, str) and isinstance(owner, str) and isinstance(offset, int) and offset >= 0):
            raise BadMessage("a piece is of an artifact of an owner, from an offset on")
        async with self._places:
            return await asyncio.to_thread(self._piece, reference, caller_name(owner), offset, most_bytes)

    def _piece(self, reference: str, owner: str, offset: int, most_bytes: int) -> bytes:
        try:
            artifact = self._store.find(reference, owner)
        except OSError as error:
            return pack({"is": "failed", "message": f"the artifacts cannot be read now: {error.strerror or error}"})
        if artifact is None:
            return pack({"is": "gone"})
        try:
            with open(os.open(self._store.path(artifact), disk.READ_FLAGS | os.O_NOFOLLOW), "rb") as file:
                data = os.pread(file.fileno(), most_bytes, offset)
        except OSError:
            return pack({"is": "gone"})
        return pack({"is": "piece", "size": artifact.size}, data)
