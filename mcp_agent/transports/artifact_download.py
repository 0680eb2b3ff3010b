"""GET /artifacts/<domain>/<id>: the bytes of an artifact, for its owner.

Always plain text, so that no browser runs it.
"""

from __future__ import annotations

import asyncio
import os

from starlette.types import Receive, Scope, Send

from mcp_agent.storage.artifact_store import SCHEME, ArtifactStore
from mcp_agent.transports.http import principal, send_error
from tools.files import disk

_CHUNK_BYTES = 256 * 1024


class Artifacts:
    def __init__(self, store: ArtifactStore) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        names = scope["path_params"]
        reference = f"{SCHEME}{names['domain']}/{names['id']}"
        try:
            artifact = await asyncio.to_thread(self._store.find, reference, principal(scope).name)
        except OSError as error:
            await send_error(send, 503, f"the artifacts cannot be read now: {error.strerror or error}")
            return
        if artifact is None:
            await send_error(send, 404, f"there is no artifact {reference[:200]} of yours")
            return
        try:
            descriptor = os.open(self._store.path(artifact), disk.READ_FLAGS | os.O_NOFOLLOW)
        except OSError:
            await send_error(send, 404, f"there is no artifact {reference[:200]} of yours")
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _headers(artifact.size)})
            offset = 0
            while scope["method"] == "GET" and offset < artifact.size:
                data = await asyncio.to_thread(os.pread, descriptor, _CHUNK_BYTES, offset)
                if not data:
                    break
                offset += len(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            os.close(descriptor)


def _headers(size: int) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(size).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"content-disposition", b"inline; filename=artifact.txt"),
        (b"cache-control", b"private, no-store"),
    ]
