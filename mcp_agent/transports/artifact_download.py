"""GET /artifacts/<domain>/<id>: the bytes of an artifact, for its owner.

Always plain text, so that no browser runs it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from mcp_agent.storage.artifact_store import SCHEME, ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.transports.http import caller, send_error, wait_until_left
from registry.gate import Gate
from tools.files import disk

_CHUNK_BYTES = 256 * 1024


class Unavailable(Exception):
    """The artifact may exist, and cannot be read now."""


class OpenArtifact(NamedTuple):
    """`read` gives the next bytes from an offset on; none, if they are gone."""

    size: int
    read: Callable[[int], Awaitable[bytes]]


class ArtifactDownload:
    def __init__(self, store: ArtifactStore, gate: Gate, audit: AuditLog) -> None:
        self._store = store
        self._gate = gate
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        names = scope["path_params"]
        reference = f"{SCHEME}{names['domain']}/{names['id']}"
        who = caller(scope, "artifacts")
        try:
            async with self._open(reference, who.owner) as artifact:
                if artifact is None or not self._gate.opens_artifact(who.access, names["domain"]):
                    await send_error(send, 404, f"there is no artifact {reference[:200]} of yours")
                    return
                self._audit.note("artifact_read", client=who.name, transport=who.transport, ref=reference)
                await send({"type": "http.response.start", "status": 200, "headers": _headers(artifact.size)})
                if scope["method"] == "GET":
                    await _send_bytes(artifact, receive, send)
                await send({"type": "http.response.body", "body": b""})
        except Unavailable as error:
            await send_error(send, 503, str(error))

    @asynccontextmanager
    async def _open(self, reference: str, owner: str) -> AsyncIterator[OpenArtifact | None]:
        """An artifact of this owner; None if there is none. Raises Unavailable before anything is read of it."""
        try:
            artifact = await asyncio.to_thread(self._store.find, reference, owner)
        except OSError as error:
            raise Unavailable(f"the artifacts cannot be read now: {error.strerror or error}") from None
        try:
            path = None if artifact is None else self._store.path(artifact)
            descriptor = None if path is None else os.open(path, disk.READ_FLAGS | os.O_NOFOLLOW)
        except OSError:
            descriptor = None
        if artifact is None or descriptor is None:
            yield None
            return
        try:
            read = partial(os.pread, descriptor, _CHUNK_BYTES)
            yield OpenArtifact(artifact.size, lambda offset: asyncio.to_thread(read, offset))
        finally:
            os.close(descriptor)


async def _send_bytes(artifact: OpenArtifact, receive: Receive, send: Send) -> None:
    """Send it piece by piece, as fast as the client takes it, and no more of it when the client has left."""
    leaving = asyncio.create_task(wait_until_left(receive))
    try:
        offset = 0
        while offset < artifact.size and not leaving.done() and (data := await artifact.read(offset)):
            offset += len(data)
            await send({"type": "http.response.body", "body": data, "more_body": True})
    finally:
        leaving.cancel()


def _headers(size: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(size).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"content-disposition", b"inline; filename=artifact.txt"),
        (b"cache-control", b"private, no-store"),
    ]
