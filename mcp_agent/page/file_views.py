"""The endpoints behind the Files view that no tool has: the bytes of a file, and the list of artifacts.

A file is opened under the same rules as `fs_read` has for the owner, and a line of the audit log says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, File, Routes
from mcp_agent.storage.artifact_store import SCHEME
from registry.gate import Access
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.sources import Source, open_source

_CHUNK_BYTES = 256 * 1024
_MOST_ARTIFACTS = 500
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".ico": "image/x-icon",
    ".svg": "image/svg+xml",
}


class FileViews:
    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def routes(self) -> Routes:
        artifacts: Routes = {
            ("GET", "artifacts"): self._list_artifacts,
            ("GET", "artifacts/<domain>/<id>"): self._artifact,
        }
        if not self._daemon.elsewhere.has_machine:
            # The files that its tools reach are on other machines.
            return artifacts
        return {("GET", "files/start"): self._start, ("GET", "files/content"): self._content, **artifacts}

    async def _start(self, _: ApiRequest) -> dict[str, Any]:
        return {"path": to_wire(self._daemon.paths.working_directory), "home": to_wire(Path.home())}

    async def _content(self, request: ApiRequest) -> File:
        shown = request.query.get("path", "")
        _, grant = self._daemon.gate.admit(Access(), "fs_read")
        rules = grant.deny.paths
        paths = self._daemon.paths if rules is None else self._daemon.paths.denying(rules)
        target = paths.resolve(shown)

        def open_file() -> tuple[int, int]:
            with open_source(paths, Source(target, to_wire(target), target)) as found:
                return os.dup(found.descriptor), found.status.st_size

        descriptor, size = await asyncio.to_thread(open_file)
        self._daemon.audit.note("download", by=request.by, path=to_wire(target), bytes=size)
        media_type = _IMAGES.get(target.suffix.lower(), "application/octet-stream")
        return File(_chunks(descriptor, size), size, target.name, media_type)

    async def _list_artifacts(self, _: ApiRequest) -> dict[str, Any]:
        store = self._daemon.artifacts
        found = await asyncio.to_thread(store.newest, None, _MOST_ARTIFACTS)
        return {
            "artifacts": [
                {
                    "ref": each.reference,
                    "owner": each.owner,
                    "media_type": each.media_type,
                    "bytes": each.size,
                    "at": each.created,
                }
                for each in found
            ],
            "used_bytes": await asyncio.to_thread(store.used_bytes),
            "most_bytes": self._daemon.config.artifacts_mb * 1_000_000,
        }

    async def _artifact(self, request: ApiRequest) -> File:
        reference = f"{SCHEME}{request.named['domain']}/{request.named['id']}"
        store = self._daemon.artifacts
        artifact = await asyncio.to_thread(store.find, reference)
        if artifact is None:
            raise BadRequest(f"there is no artifact {reference[:200]}", status=404)
        descriptor = await asyncio.to_thread(os.open, store.path(artifact), disk.READ_FLAGS | os.O_NOFOLLOW)
        name = f"{artifact.domain}-{artifact.id}.txt"
        return File(_chunks(descriptor, artifact.size), artifact.size, name, "text/plain; charset=utf-8")


async def _chunks(descriptor: int, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes of a file, which is closed afterwards. One that has become shorter is filled up."""
    try:
        offset = 0
        while offset < size:
            data = await asyncio.to_thread(os.pread, descriptor, min(_CHUNK_BYTES, size - offset), offset)
            data = data or bytes(min(_CHUNK_BYTES, size - offset))
            offset += len(data)
            yield data
    finally:
        os.close(descriptor)
