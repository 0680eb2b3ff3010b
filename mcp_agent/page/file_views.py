"""The endpoints behind Files and "Files changed": bytes of files, artifacts, and the undo journal with its diffs.

What a tool can do goes through the tool, under its rules and on record. A download is opened under the rules that
`fs_read` has for the owner, and a line of the audit log says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, File, Routes
from mcp_agent.page.page_calls import PageCalls
from mcp_agent.storage.artifact_store import SCHEME
from mcp_agent.storage.audit_reader import LineFilter, Trail
from registry.gate import Access
from tools.files import disk
from tools.files.diffs import diff_texts
from tools.files.paths import from_wire, to_wire
from tools.files.sources import Source, open_source
from tools.journal.command_rows import CommandRow
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalEntry
from tools.kit.errors import IsBinary, NotAFile, NotFound, ToolError

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
_MOST_ENTRIES = 500
_MOST_CALLS = 5_000
_MOST_TEXT_BYTES = 1_000_000
_MOST_PATHS = 500
_MOST_DIFF_CHARS = 200_000


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


class JournalViews:
    def __init__(self, journal: Journal, trail: Trail, calls: PageCalls) -> None:
        self._journal = journal
        self._trail = trail
        self._calls = calls

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "changes"): self._list,
            ("GET", "changes/<id>"): self._show,
            ("POST", "changes/<id>/undo"): self._undo,
        }

    async def _list(self, _: ApiRequest) -> dict[str, Any]:
        entries, makers = await asyncio.to_thread(self._read)
        shown = [_describe(entry, makers.get(entry.id)) for entry in entries[:_MOST_ENTRIES]]
        return {"changes": shown, "more": max(0, len(entries) - _MOST_ENTRIES)}

    async def _show(self, request: ApiRequest) -> dict[str, Any]:
        """The change as a diff: from what was there before to what the change left, or what is there now.

        What a command did is a list of paths; with `path`, the diff of one of them.
        """
        entries = await asyncio.to_thread(self._journal.entries)
        entry = _find(entries, request.named["id"])
        answer = _describe(entry, None)
        if entry.action == "command":
            rows = await asyncio.to_thread(self._journal.rows_of, entry)
            if "path" not in request.query:
                paths = [_describe_row(row) for row in rows if not (row.is_same and _is_folder(row))]
                return {**answer, "paths": paths[:_MOST_PATHS], "more": max(0, len(paths) - _MOST_PATHS)}
            row = next((row for row in rows if to_wire(row.path) == request.query["path"]), None)
            if row is None:
                raise BadRequest("this command did nothing to that path", status=404)
            return {**answer, **await self._diff_of_row(entry, row)}
        if entry.action == "move":
            return {**answer, "diff": "", "note": "it was moved, and its content is the same"}
        newer = [
            each for each in entries[: entries.index(entry)] if each.path == entry.path and each.action != "create"
        ]
        after = f"undo://{newer[-1].id}" if newer else to_wire(entry.path)
        try:
            old = "" if entry.action == "create" else await self._text(f"undo://{entry.id}")
            new = "" if entry.action == "delete" else await self._text(after)
        except (IsBinary, NotAFile, NotFound) as error:
            return {**answer, "diff": "", "note": error.message}
        diff = await asyncio.to_thread(diff_texts, old, new, limit_chars=_MOST_DIFF_CHARS)
        return {**answer, "diff": diff, "note": None if diff else "the text is the same"}

    async def _undo(self, request: ApiRequest) -> dict[str, Any]:
        entries = await asyncio.to_thread(self._journal.entries)
        entry = _find(entries, request.named["id"])
        target = entry.source if entry.action == "move" and entry.source is not None else entry.path
        overwrite = request.body.get("overwrite") is True
        inner = request.body.get("path")
        source = f"undo://{entry.id}"
        if entry.action == "command" and isinstance(inner, str) and inner:
            source, target = f"{source}/{inner}", f"{entry.path}/{from_wire(inner)}"
        moved = await self._calls.run("fs_move", from_=source, to=to_wire(target), overwrite=overwrite or None)
        return {"path": moved["to"], "undo_id": moved.get("undo_id"), "why": moved.get("why")}

    async def _diff_of_row(self, entry: JournalEntry, row: CommandRow) -> dict[str, Any]:
        if row.is_same or _is_folder(row):
            return {"diff": "", "note": "its rights or times were changed" if row.is_same else "it is a folder"}
        try:
            old = "" if row.before is None else await self._text(f"undo://{entry.id}/{to_wire(row.path)}")
            new = "" if row.after is None else await self._text(to_wire(f"{entry.path}/{row.path}"))
        except ToolError as error:
            return {"diff": "", "note": error.message}
        diff = await asyncio.to_thread(diff_texts, old, new, limit_chars=_MOST_DIFF_CHARS)
        return {"diff": diff, "note": None if diff else "the text is the same"}

    async def _text(self, path: str) -> str:
        found = await self._calls.run("fs_read", path=path, max_bytes=_MOST_TEXT_BYTES)
        return str(found["content"])

    def _read(self) -> tuple[list[JournalEntry], dict[str, dict[str, Any]]]:
        """What can be undone, newest first, and the calls that did it, by the id of the change."""
        entries = self._journal.entries()
        lines = self._trail.last(_MOST_CALLS, LineFilter(outcome="ok")) if entries else []
        return entries, {line["undo"]: line for line in lines if "undo" in line}


def _find(entries: list[JournalEntry], undo_id: str) -> JournalEntry:
    entry = next((each for each in entries if each.id == undo_id), None)
    if entry is None:
        raise BadRequest(
            f"there is nothing to undo under the id {undo_id[:40]!r}: it was undone, or is too old", status=404
        )
    return entry


def _describe(entry: JournalEntry, line: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "id": entry.id,
        "action": entry.action,
        "path": to_wire(entry.path),
        "source": None if entry.source is None else to_wire(entry.source),
        "at": entry.at,
        "command": entry.command,
        "counts": entry.counts,
        "by": None if line is None else {key: line.get(key) for key in ("client", "program", "tool", "transport")},
    }


def _describe_row(row: CommandRow) -> dict[str, Any]:
    action = "create" if row.before is None else "delete" if row.after is None else "write"
    return {"path": to_wire(row.path), "action": action}


def _is_folder(row: CommandRow) -> bool:
    state = row.after or row.before
    return state is not None and state.is_folder
