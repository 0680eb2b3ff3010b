"""What the owner does in the tests: sees what waits, and decides."""

from __future__ import annotations

from typing import Any

from tests.support.daemon import Daemon
from tests.support.waiting import eventually


async def pending(daemon: Daemon, count: int = 1) -> list[dict[str, Any]]:
    """The questions that wait, once there are so many."""
    async with daemon.http() as http:

        async def look() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await http.get("/api/approvals")).json()["approvals"]
            return found

        return await eventually(look, lambda found: len(found) == count and all(each["waiting"] for each in found))


async def decide(daemon: Daemon, request_id: str, decision: str, **more: str) -> dict[str, Any]:
    async with daemon.http() as http:
        answer = await http.post(f"/api/approvals/{request_id}", json={"decision": decision, **more})
        found: dict[str, Any] = answer.json()
        return {"status": answer.status_code, **found}
