"""What a tool does around a command, so that its result says what the command changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.effects.tracker import ChangeTracker, CommandWatch


class Watch:
    """One command from before its start to its answer."""

    def __init__(self, tracker: ChangeTracker | None, running: CommandWatch | None) -> None:
        self._tracker = tracker
        self._running = running

    async def seen(self, session_id: str) -> dict[str, Any]:
        """The fields of a result that say what the command, in that session, has changed until now; none if nothing
        was."""
        if self._tracker is None or self._running is None:
            return {}
        running, self._running = self._running, None
        seen = await self._tracker.end(running, session_id)
        return {} if seen.effects is None else {"effects": seen.effects, "undo_id": seen.undo_id}

    def drop(self) -> None:
        """Nobody is told: the call was cancelled, or has failed."""
        if self._tracker is not None:
            self._tracker.drop(self._running)


@asynccontextmanager
async def watched(tracker: ChangeTracker | None, folder: Path, command: str) -> AsyncIterator[Watch]:
    """Look at the project of `folder` before a command starts in it. The block starts it, and asks what was `seen`."""
    watch = Watch(tracker, None if tracker is None else await tracker.begin(folder, command))
    try:
        yield watch
    finally:
        watch.drop()
