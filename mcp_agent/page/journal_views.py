"""The endpoints behind "Files changed": the undo journal, who made each change, its diff, and the way back.

What is read and put back goes through the filesystem tools, under their rules and on record.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.page.page_calls import PageCalls
from mcp_agent.storage.audit_reader import LineFilter, Trail
from tools.files.diffs import diff_texts
from tools.files.paths import to_wire
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalEntry
from tools.kit.errors import IsBinary, NotAFile, NotFound

_MOST_ENTRIES = 500
_MOST_CALLS = 5_000
_MOST_TEXT_BYTES = 1_000_000
_MOST_DIFF_CHARS = 200_000


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
        """The change as a diff: from what was there before to what the change left, or what is there now."""
        entries = await asyncio.to_thread(self._journal.entries)
        entry = _find(entries, request.named["id"])
        answer = _describe(entry, None)
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
        moved = await self._calls.run(
            "fs_move", from_=f"undo://{entry.id}", to=to_wire(target), overwrite=overwrite or None
        )
        return {"path": moved["to"], "undo_id": moved.get("undo_id"), "why": moved.get("why")}

    async def _text(self, path: str) -> str:
        found = await self._calls.run("fs_read", path=path, max_bytes=_MOST_TEXT_BYTES)
        return str(found["content"])

    def _read(self) -> tuple[list[JournalEntry], dict[str, dict[str, Any]]]:
        """What can be undone, newest first, and the calls that did it, by the id of the change."""
        entries = self._journal.entries()
        lines = self._trail.last(_MOST_CALLS, LineFilter(tool="fs_*", outcome="ok")) if entries else []
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
        "by": None if line is None else {key: line.get(key) for key in ("client", "program", "tool", "transport")},
    }
