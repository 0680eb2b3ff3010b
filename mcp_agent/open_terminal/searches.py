"""The two searches of the file browser: by name, and by name and content, best matches first."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from tools.context import ToolContext
from tools.files.paths import from_wire
from tools.kit.results import Result
from tools.kit.spec import Tool

_MOST_NAMES = 10_000
_MOST_LINES = 2_000
_MOST_LINES_OF_ONE = 3
_PAGE = 100
_PART_OF_NAME = 2
_NO_MATCH = 4


class _Found(Result, frozen=True):
    """What a tool has found: paths with their types, or lines."""

    matches: list[dict[str, Any]]

    def render(self) -> str:
        return f"{len(self.matches)} matches"


class Searches:
    def __init__(self, files: Files) -> None:
        self._files = files

    async def by_name(self, request: TerminalRequest) -> dict[str, Any]:
        """Files and folders whose name has the query in it."""
        query = request.query.get("query", "").strip().lower()
        base = self._files.path(request, request.query.get("path") or ".")
        kind = request.query.get("type", "any")
        limit = min(max(int(request.number("limit", 20)), 1), _PAGE)
        found = await self._names(request, base, f"*{_any_case(query)}*" if query else "*")
        ranked = sorted(
            (_rank(path, query, base), len(path), path, type_)
            for path, type_ in found
            if kind in ("any", type_)
            and _rank(path, query, base) <= _PART_OF_NAME
            and (request.flag("show_hidden") or not _is_hidden(path, base))
        )
        return {"results": [_describe(path, type_) for _, _, path, type_ in ranked[:limit]]}

    async def by_content(self, request: TerminalRequest) -> dict[str, Any]:
        """Files and folders with the query in their path, and files with it in their text, with the first lines."""
        query = request.query.get("query", "").strip()
        if not query:
            raise TerminalRefusal(400, "the query is empty")
        base = self._files.path(request, request.query.get("path") or ".")
        offset = int(request.number("offset", 0))
        kinds = dict(await self._names(request, base, "**"))
        lines = await self._lines(request, base, query)
        ranked = sorted(
            (rank, len(path), path, type_)
            for path, type_ in {**dict.fromkeys(lines, "file"), **kinds}.items()
            if ((rank := _rank(path, query.lower(), base)) < _NO_MATCH or path in lines)
            and (request.flag("show_hidden") or not _is_hidden(path, base))
        )
        page = ranked[offset : offset + _PAGE]
        return {
            "results": [
                {
                    "path": path,
                    "relative_path": _below(path, base),
                    "name": path.rpartition("/")[2],
                    "type": type_,
                    "name_match": rank < _NO_MATCH,
                    "content_matches": lines.get(path, [])[:_MOST_LINES_OF_ONE],
                }
                for rank, _, path, type_ in page
            ],
            "next_offset": offset + _PAGE if offset + _PAGE < len(ranked) else None,
        }

    async def _names(self, request: TerminalRequest, base: str, glob: str) -> list[tuple[str, str]]:
        def work(ctx: ToolContext, tool: Tool) -> _Found:
            return _Found(tool.function(ctx, base=base, glob=glob, max_results=_MOST_NAMES).matches)

        found = await self._files.run(request, "fs_search", work, base=base, glob=glob)
        return [(match["path"], match["type"]) for match in found.matches]

    async def _lines(self, request: TerminalRequest, base: str, query: str) -> dict[str, list[dict[str, Any]]]:
        def work(ctx: ToolContext, tool: Tool) -> _Found:
            found = tool.function(ctx, base=base, pattern=query, fixed=True, ignore_case=True, max_matches=_MOST_LINES)
            return _Found(found.matches)

        lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for match in (await self._files.run(request, "fs_grep", work, base=base, pattern=query)).matches:
            line = {"line": match["line"], "column": match.get("column", 1), "text": match["text"]}
            lines[match["path"]].append(line)
        return lines


def _rank(path: str, query: str, base: str) -> int:
    """0 for the name itself, 1 for its beginning, 2 for a part of it, 3 for a part of the path, 4 for none of these."""
    name = path.rpartition("/")[2].lower()
    if name == query:
        return 0
    if name.startswith(query):
        return 1
    if query in name:
        return 2
    return 3 if query in _below(path, base).lower() else _NO_MATCH


def _describe(path: str, type_: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": path, "name": path.rpartition("/")[2], "type": type_}
    try:
        status = os.stat(from_wire(path))  # noqa: PTH116 - the text of a path as the tools give it
    except OSError:
        return entry
    return {**entry, "size": status.st_size, "modified": status.st_mtime}


def _below(path: str, base: str) -> str:
    return path.removeprefix(base.rstrip("/") + "/")


def _is_hidden(path: str, base: str) -> bool:
    return any(part.startswith(".") for part in _below(path, base).split("/"))


def _any_case(query: str) -> str:
    """A glob for all names that can have the query in them: in any case, with `?` for what may be special in a glob."""
    return "".join(f"[{each.lower()}{each.upper()}]" if each.isalpha() else "?" for each in query)
