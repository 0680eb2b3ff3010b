"""The calls of a gateway that wait on its boxes: the profile of a box asks, and the owner of the gateway may answer."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_agent.fleet.box_calls import BoxCalls, CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.directory import Box, Directory
from mcp_agent.fleet.messages import ReadApprovals, WaitingCalls
from registry.user_error import UserError


class BoxApprovals:
    def __init__(self, calls: BoxCalls, directory: Directory) -> None:
        self._calls = calls
        self._directory = directory

    async def waiting(self) -> list[dict[str, Any]]:
        """Of every box that has some and can be reached."""
        boxes = [box for box in self._directory.boxes.values() if box.approvals]
        found = await asyncio.gather(*(self._read(box) for box in boxes))
        return [{**each, "box": box.name} for box, calls in zip(boxes, found, strict=True) for each in calls]

    async def decide(self, request_id: str, decision: str, reason: str) -> bool:
        found = next((each for each in await self.waiting() if each["id"] == request_id), None)
        box = None if found is None else self._directory.boxes.get(found["box"])
        if box is None:
            return False
        try:
            question = ReadApprovals(request_id, decision, reason)
            await self._calls.read(box.name, box.boot, question, WaitingCalls)
        except CannotRead as error:
            if error.why == "gone":
                return False
            raise UserError(f"{box.name}: {error}") from None
        except BusError as error:
            raise UserError(f"{box.name} cannot be reached now: {error}") from None
        return True

    async def _read(self, box: Box) -> list[dict[str, Any]]:
        try:
            return (await self._calls.read(box.name, box.boot, ReadApprovals(), WaitingCalls)).approvals
        except (CannotRead, BusError):
            # It is away, or has an older version.
            return []
