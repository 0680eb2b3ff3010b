"""A program that the daemon runs for itself, such as a mounted server: it has a tag, and is ended with the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import signal

from msgspec import Struct, field

from tools.sessions import process_end, process_tree
from tools.sessions.process import Child
from tools.sessions.process_tree import Tree


class OwnProgram(Struct, eq=False):
    """A running program and the tag of all processes that it starts."""

    child: Child
    tag: str
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def end(self, grace_s: float) -> None:
        """Close its input, which asks a server to end; then end every process of it."""
        self.child.keeps_zombie = True
        self.child.close_input()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.has_ended.wait(), grace_s)
        await self._end_tree(signal.SIGTERM)

    async def hang_up(self) -> None:
        """End every process of it as a terminal does that is closed. A shell ignores SIGTERM."""
        self.child.keeps_zombie = True
        await self._end_tree(signal.SIGHUP)

    async def _end_tree(self, number: int) -> None:
        child = self.child
        entry = process_tree.environment_entry(self.tag + "\0")
        tree = Tree(entry, lambda: () if child.is_reaped else (child.pid,))
        await process_end.end(tree, number, 1.0)
        child.resume()
        child.reap()
        child.close()
