"""The endpoints behind the Boxes view of a gateway: what it knows of every box, and the sessions that a box shows it.

A box decides what it shows. Files, input and new sessions are ordinary calls of tools with `box`.
"""

from __future__ import annotations

from typing import Any

from mcp_agent.fleet.box_calls import CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.directory import AWAY_S, Box
from mcp_agent.fleet.gateway import Gateway
from mcp_agent.fleet.messages import ReadSessions, Sessions
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes

_MOST_BOXES = 2_000


class BoxViews:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "boxes"): self._list,
            ("GET", "boxes/<box>"): self._show,
            ("GET", "boxes/<box>/sessions"): self._sessions,
            ("GET", "boxes/<box>/sessions/<id>"): self._output,
        }

    async def _list(self, request: ApiRequest) -> dict[str, Any]:
        """The boxes whose name or labels have the words of `text`, the first of them by name."""
        directory = self._gateway.directory
        words = request.query.get("text", "").lower().split()
        found = [box for box in directory.find() if all(word in _search_text(box) for word in words)]
        return {
            "gateway": self._gateway.name,
            "away_s": AWAY_S,
            "total": len(directory.boxes),
            "found": len(found),
            "away": sum(directory.is_away(box) for box in found),
            "boxes": [self._row(box) for box in found[:_MOST_BOXES]],
        }

    async def _show(self, request: ApiRequest) -> dict[str, Any]:
        box = self._find(request)
        tools = self._gateway.directory.tool_sets.get(box.tools, ())
        return {
            **self._row(box),
            "boot": box.boot,
            "tools": [{"name": tool.name, "category": tool.category, "effect": tool.effect} for tool in tools],
        }

    async def _sessions(self, request: ApiRequest) -> dict[str, Any]:
        return {"sessions": (await self._ask(request, ReadSessions())).sessions}

    async def _output(self, request: ApiRequest) -> dict[str, Any]:
        found = await self._ask(request, ReadSessions(request.named["id"], request.number_of_query("since", 0)))
        return {
            "session": found.sessions[0],
            "text": found.text,
            "offset": found.offset,
            "next_offset": found.next_offset,
        }

    async def _ask(self, request: ApiRequest, question: ReadSessions) -> Sessions:
        box = self._find(request)
        try:
            return await self._gateway.calls.read(box.name, box.boot, question, Sessions)
        except CannotRead as error:
            raise BadRequest(f"{box.name}: {error}", "", 404 if error.why == "gone" else 403) from None
        except BusError as error:
            raise BadRequest(f"{box.name} cannot be reached now: {error}", "try again later", 503) from None

    def _find(self, request: ApiRequest) -> Box:
        name = request.named["box"]
        box = self._gateway.directory.boxes.get(name)
        if box is None:
            raise BadRequest(f"there is no box {name[:60]!r}", "GET /api/boxes lists them", 404)
        return box

    def _row(self, box: Box) -> dict[str, Any]:
        directory = self._gateway.directory
        return {
            "name": box.name,
            "labels": dict(box.labels),
            "load": box.load,
            "sessions": box.sessions,
            "calls": box.calls,
            "directory": box.directory,
            "version": box.version,
            "away": directory.is_away(box),
            "heard_s": round(directory.silence_s(box), 1),
        }


def _search_text(box: Box) -> str:
    return " ".join((box.name, box.directory, *(f"{key}={value}" for key, value in box.labels.items()))).lower()
