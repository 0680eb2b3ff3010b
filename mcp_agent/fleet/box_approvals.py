"""The calls that wait on the boxes of a gateway. Its owner answers those of the gateway, and sees those of others."""

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
        return [
            {**each, "box": box.name, "is_for_box": is_for_box}
            for box, calls in zip(boxes, found, strict=True)
            for is_for_box, listed in ((False, calls.approvals), (True, calls.others))
            for each in listed
        ]

    async def decide(self, request_id: str, decision: str, reason: str) -> bool:
        found = next((each for each in await self.waiting() if each["id"] == request_id), None)
        box = None if found is None else self._directory.boxes.get(found["box"])
        if found is None or box is None:
            return False
        if found["is_for_box"]:
            raise UserError(f"{request_id} is a call of a client of {box.name} itself: answer it on that box")
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

    async def _read(self, box: Box) -> WaitingCalls:
        try:
            return await self._calls.read(box.name, box.boot, ReadApprovals(), WaitingCalls)
        except (CannotRead, BusError):
            # It is away, or has an older version.
            return WaitingCalls([])
