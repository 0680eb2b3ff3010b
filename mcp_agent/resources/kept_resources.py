"""Resources for what the daemon keeps: artifacts, and the old states of changed files.

ax://{domain}/{id}      a result that was too large, whole; `?cursor=N` goes on where an answer was cut
undo://{id}             what a file held before a change
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.answers.budget import MOST_MESSAGE_BYTES
from mcp_agent.calls.call import Caller
from mcp_agent.resources.resources import FILE_TOOL
from mcp_agent.storage.artifact_store import SCHEME, Artifact, ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from registry.gate import Gate
from tools.artifacts.artifact_read import text_at
from tools.files import disk
from tools.journal.journal import Journal
from tools.kit.errors import Denied, ToolError

_UNDO = "undo://"
_ONE_ARTIFACT = f"{SCHEME}{{domain}}/{{id}}{{?cursor}}"
_ONE_CHANGE = f"{_UNDO}{{id}}"
_LISTED = 100
_PART_BYTES = 800_000


class ArtifactResources:
    """A caller's own artifacts."""

    def __init__(self, store: ArtifactStore, gate: Gate, audit: AuditLog) -> None:
        self._store = store
        self._gate = gate
        self._audit = audit

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {
                "uri": artifact.reference,
                "name": f"{artifact.domain}/{artifact.id}",
                "mimeType": artifact.media_type,
                "size": artifact.size,
            }
            for artifact in self._newest(caller, _LISTED)
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {
                "uriTemplate": _ONE_ARTIFACT,
                "name": "artifact",
                "title": "An artifact",
                "description": "A result that was too large for its message, whole.",
            }
        ]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        if not uri.startswith(SCHEME):
            return None
        contents = await asyncio.to_thread(self._read, caller, uri)
        if contents is not None:
            self._audit.note("artifact_read", client=caller.name, transport=caller.transport, ref=uri[:200])
        return contents

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        if template != _ONE_ARTIFACT or argument not in ("domain", "id"):
            return None
        kept = await asyncio.to_thread(self._newest, caller)
        values = dict.fromkeys(each.domain if argument == "domain" else each.id for each in kept)
        return [each for each in values if each.startswith(value)]

    def _newest(self, caller: Caller, limit: int = 1_000) -> list[Artifact]:
        """The newest artifacts of a caller; none while their disk cannot be read."""
        try:
            found = self._store.newest(caller.owner, limit)
        except OSError:
            return []
        return [each for each in found if self._gate.opens_artifact(caller.access, each.domain)]

    def _read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        reference, _, cursor = uri.partition("?cursor=")
        try:
            artifact = self._store.find(reference, caller.owner)
        except OSError:
            return None
        if artifact is None or not self._gate.opens_artifact(caller.access, artifact.domain) or not _is_offset(cursor):
            return None
        return _part(self._store.path(artifact), uri, reference, int(cursor or 0), artifact.media_type)


class UndoResources:
    """The changes that can be undone, newest first, for every caller that may read files.

    What a rule denies a caller in the file, it denies in the file's old states.
    """

    def __init__(self, gate: Gate, journal: Journal) -> None:
        self._gate = gate
        self._journal = journal

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        if not self._gate.allows(caller.access, FILE_TOOL):
            return []
        return [
            {"uri": f"{_UNDO}{entry.id}", "name": entry.id, "description": f"Before a tool {entry.summary}"}
            for entry in self._journal.entries()[:_LISTED]
            if entry.image_bytes is not None
            # What a command did is several files, each behind a path of its own.
            and entry.action != "command"
            and not self._is_denied(caller, entry.path)
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        if not self._gate.allows(caller.access, FILE_TOOL):
            return []
        return [
            {
                "uriTemplate": _ONE_CHANGE,
                "name": "undo",
                "title": "Before a change",
                "description": "What a file held before the change with this undo_id.",
            }
        ]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        if not uri.startswith(_UNDO) or not self._gate.allows(caller.access, FILE_TOOL):
            return None
        return await asyncio.to_thread(self._read, caller, uri)

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        if (template, argument) != (_ONE_CHANGE, "id") or not self._gate.allows(caller.access, FILE_TOOL):
            return None
        entries = await asyncio.to_thread(self._journal.entries)
        return [entry.id for entry in entries if entry.image_bytes is not None and entry.id.startswith(value)]

    def _is_denied(self, caller: Caller, path: str) -> bool:
        rules = self._gate.deny(caller.access).paths
        try:
            return rules is not None and rules.match(path) is not None
        except Denied:
            return True

    def _read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        reference, _, cursor = uri.partition("?cursor=")
        try:
            path = self._journal.path_of(reference)
            if self._is_denied(caller, str(self._journal.place_of(reference))):
                return None
        except ToolError:
            return None
        if not path.is_file() or not _is_offset(cursor):
            return None
        return _part(path, uri, reference, int(cursor or 0), "text/plain")


def _part(path: Path, uri: str, reference: str, start: int, media_type: str) -> list[dict[str, Any]] | None:
    """As much from `start` on as fits one message, and where to go on."""
    try:
        descriptor = os.open(path, disk.READ_FLAGS | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        limit = _PART_BYTES
        text, end = text_at(descriptor, start, limit)
        while len(orjson.dumps(text)) > MOST_MESSAGE_BYTES - 8_192:
            limit //= 2
            text, end = text_at(descriptor, start, limit)
    finally:
        os.close(descriptor)
    contents: dict[str, Any] = {"uri": uri, "mimeType": media_type, "text": text}
    if end < size:
        contents["_meta"] = {"truncated": True, "size": size, "next": f"{reference}?cursor={end}"}
    return [contents]


def _is_offset(cursor: str) -> bool:
    """Whether a cursor is empty or a number that a file can be as long as."""
    return not cursor or (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18)
