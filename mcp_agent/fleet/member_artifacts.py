"""The artifacts of this box, for the clients of gateways: read in ranges, each by a message of its own."""

from __future__ import annotations

import asyncio
import os

from mcp_agent.fleet.call_protocol import caller_name
from mcp_agent.fleet.messages import ArtifactGone, ArtifactPiece, Misunderstood, ReadArtifact
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.files import disk

_READ_AT_ONCE = 8
_PIECE_BYTES = 900_000


class MemberArtifacts:
    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._places = asyncio.Semaphore(_READ_AT_ONCE)

    async def answer(self, asked: ReadArtifact) -> ArtifactPiece | ArtifactGone | Misunderstood:
        async with self._places:
            return await asyncio.to_thread(self._piece, asked)

    def _piece(self, asked: ReadArtifact) -> ArtifactPiece | ArtifactGone | Misunderstood:
        try:
            artifact = self._store.find(asked.reference, caller_name(asked.owner))
        except OSError as error:
            return Misunderstood(f"the artifacts cannot be read now: {error.strerror or error}")
        if artifact is None:
            return ArtifactGone()
        try:
            with open(os.open(self._store.path(artifact), disk.READ_FLAGS | os.O_NOFOLLOW), "rb") as file:
                return ArtifactPiece(artifact.size, os.pread(file.fileno(), _PIECE_BYTES, asked.offset))
        except OSError:
            return ArtifactGone()
