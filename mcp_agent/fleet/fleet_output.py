"""The output of sessions of many boxes, for the watchers at a gateway.

Boxes publish output while somebody wants it. A watcher that has all before it takes it as it comes; one that missed
some reads it from the box, as often as it takes. A box that says nothing costs nothing: its beats tell when there is
something to read, and are the time to say that it is still wanted.

Where a watcher is on all boxes together is the id of an event, so any gateway can go on from it:
`gpu1.9f2c31d0a4.1234,web.03bb6a1ce9.7` is the number of the last event of each start of a box. A box that is not in it
had no session before.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, NamedTuple

from msgspec import Struct

from mcp_agent.fleet.box_calls import BoxCalls, CannotRead
from mcp_agent.fleet.bus import Bus, BusError, Message, NoResponders
from mcp_agent.fleet.directory import Box, Directory
from mcp_agent.fleet.messages import (
    BadMessage,
    Output,
    OutputRow,
    ReadOutput,
    read_output,
)
from mcp_agent.fleet.subjects import EVERY_OUTPUT
from mcp_agent.settings import BOX_NAME

log = logging.getLogger(__name__)

_READ_BYTES = 512 * 1024
_ANSWER_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_FIND_S = 1.0
# Of what was published, a client that is slow has so much before it; then it reads.
_MOST_ITEMS = 64
_SHELL = "shell"
# Of the boxes that an id names; a client cannot send more than some kilobytes.
_MOST_POSITIONS = 200
_POSITION = re.compile(rf"({BOX_NAME.pattern})\.([0-9a-z]{{1,40}})\.(\d{{1,18}})")
# Behind the positions of an id that could not name all boxes.
_INCOMPLETE = "+"


class StreamPosition(NamedTuple):
    """Where a watcher is on a box: the start of the box, and the number of the last event that it got."""

    boot: str
    number: int


class Printed(NamedTuple):
    """What sessions of a box printed, in order."""

    box: str
    position: StreamPosition
    rows: list[OutputRow]


class Missed(NamedTuple):
    """Output of a box that this watcher does not get, and why. With `is_end` it gets no more of what it asked for."""

    box: str
    position: StreamPosition | None
    reason: str
    is_end: bool


def parse_positions(text: str) -> tuple[dict[str, StreamPosition], bool] | None:
    """The positions in the id of an event, and whether it names all; None for an id of somebody else."""
    body = text.removesuffix(_INCOMPLETE)
    found = [_POSITION.fullmatch(part) for part in body.split(",")]
    if None in found:
        return None
    return {each[1]: StreamPosition(each[2], int(each[3])) for each in found if each}, body == text


class FleetOutput:
    """What boxes publish, given to every watcher of a gateway."""

    def __init__(self, bus: Bus, directory: Directory, calls: BoxCalls) -> None:
        self.bus = bus
        self.directory = directory
        self.calls = calls
        self.watches: set[OutputWatch] = set()
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        bus.serve(EVERY_OUTPUT, self._hear)
        directory.on_box = self._consider

    def watch(
        self,
        *,
        box: str | None = None,
        session: str | None = None,
        positions: dict[str, StreamPosition] | None = None,
        is_newest: bool = False,
    ) -> OutputWatch:
        """Watches the sessions of all boxes, or of one box, or one session of it.

        With `positions`, go on from there; without, from now on. `is_newest`: of much, only the end is worth reading.
        """
        return OutputWatch(self, f"w{next(self._numbers)}", box, session, positions, is_newest=is_newest)

    async def _hear(self, message: Message) -> None:
        name = message.subject.split(".")[1]
        try:
            output = read_output(message.data)
        except BadMessage as error:
            log.warning("output of %s cannot be read: %s", name, error)
            return
        for watch in tuple(self.watches):
            watch.hear(name, output)

    def _consider(self, name: str) -> None:
        """A box was heard of, or has left."""
        for watch in tuple(self.watches):
            watch.consider(name)
        box = self.directory.boxes.get(name)
        if box is not None and box.sessions and any(watch.follows(box) for watch in self.watches):
            # So it publishes on.
            self._own(self._want(box))

    async def _want(self, box: Box) -> None:
        with contextlib.suppress(BusError, CannotRead):
            await self.calls.read(box.name, box.boot, ReadOutput("", after=box.events), Output)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Progress(Struct, eq=False):
    """How far a watcher is on one box. What was read may still wait for the client."""

    boot: str
    # None: it has not begun.
    number: int | None
    # Where it begins: of a session, at this offset; of those that begin after this event, with their first byte.
    since: int | None = None
    begun_after: int = 0
    # Whether sessions ran there when it was last heard of.
    is_busy: bool = False
    # The box does not let us hear of its sessions.
    is_off: bool = False
    task: asyncio.Task[None] | None = None
    # What the box told of while it was read: the answer may be older.
    told: int = 0


class OutputWatch:
    """One watcher. `items` gives what there is, in order for each box."""

    def __init__(
        self,
        output: FleetOutput,
        name: str,
        box: str | None,
        session: str | None,
        positions: dict[str, StreamPosition] | None,
        *,
        is_newest: bool,
    ) -> None:
        self._output = output
        self._directory = output.directory
        self._name = name
        self._box, self._session = box, session
        self._is_newest = is_newest
        self._is_resumed = positions is not None
        # Where the client is, and how far the reads are.
        self._positions = dict(positions or {})
        # Sessions may have run since.
        self._progress = {each: _Progress(at.boot, at.number, is_busy=True) for each, at in self._positions.items()}
        self._items: deque[Printed | Missed] = deque()
        self._has_items, self._has_room = asyncio.Event(), asyncio.Event()
        # The one session has ended, and its exit was read.
        self._is_over = False
        self.is_ended = False

    async def open_session(self, since: int | None) -> None:
        """Begin with one session from an offset on, and raise what stands against it, as `BoxCalls.read` does."""
        assert self._box is not None, "a session is of a box"
        box = self._directory.boxes[self._box]
        progress = self._progress.setdefault(box.name, _Progress(box.boot, None, since))
        answer = await self._output.calls.read(box.name, box.boot, self._question(progress, most_bytes=0), Output)
        if since is None and progress.number is None:
            progress.number = answer.last

    def start(self) -> None:
        """Begin on all boxes that have something to say, and listen to those that will."""
        self._output.watches.add(self)
        for name in [self._box] if self._box is not None else list(self._directory.boxes):
            self.consider(name, is_start=True)

    def end(self) -> None:
        """Give nothing more."""
        self.is_ended = True
        self._has_items.set()

    def close(self) -> None:
        self._output.watches.discard(self)
        for progress in self._progress.values():
            if progress.task is not None:
                progress.task.cancel()

    async def items(self) -> AsyncGenerator[Printed | Missed, None]:
        while not self.is_ended:
            if not self._items:
                self._has_items.clear()
                await self._has_items.wait()
                continue
            item = self._items.popleft()
            self._has_room.set()
            if item.position is not None:
                self._positions[item.box] = item.position
            yield item

    def id_line(self, box: str) -> bytes:
        """The line of the id of an event of `box`, with %d for its number."""
        others = [f"{name}.{at.boot}.{at.number}," for name, at in self._positions.items() if name != box]
        is_incomplete = len(others) >= _MOST_POSITIONS
        if is_incomplete:
            others = others[1 - _MOST_POSITIONS :]
        # No name and no boot has a % in it.
        tail = _INCOMPLETE if is_incomplete else ""
        return f"id: {''.join(others)}{box}.{self._positions[box].boot}.%d{tail}\n".encode()

    def follows(self, box: Box) -> bool:
        """Whether it would take what this box publishes."""
        return self._box in (None, box.name) and not self._is_over and self._directory.has_category(box, _SHELL)

    def hear(self, name: str, output: Output) -> None:
        """What a box has published. Taken as it is only if nothing before it is missing."""
        progress = self._progress.get(name)
        if progress is None or progress.boot != output.boot or progress.is_off:
            return
        if progress.task is not None:
            progress.told = max(progress.told, output.last)
            return
        if progress.number is None or output.last <= progress.number:
            return
        if output.after > progress.number or not output.rows or len(self._items) >= _MOST_ITEMS:
            self._catch_up(name, progress)
            return
        item = self._printed(name, progress, output, progress.number)
        progress.number = output.last
        if item.rows:
            self._offer(item)

    def consider(self, name: str, *, is_start: bool = False) -> None:
        """Read of a box that has something for this watcher. At the start, also of one that may have by now."""
        if self._box not in (None, name) or self._is_over:
            return
        box, progress = self._directory.boxes.get(name), self._progress.get(name)
        if box is None:
            if progress is not None:
                progress.is_busy = False
            if progress is None or progress.task is None:
                self._end_of(name, "it has left the fleet")
            return
        if self._directory.is_away(box):
            self._end_of(name, "it cannot be reached")
            return
        if not self._directory.has_category(box, _SHELL):
            if progress is not None:
                self._note_off(name, progress)
            return
        if progress is None:
            progress = self._progress[name] = self._begin(box)
        if progress.boot != box.boot:
            self._note_restart(box, progress)
        progress.is_off, progress.is_busy = False, box.sessions > 0
        is_behind = progress.number is None or box.events > progress.number or (is_start and box.sessions > 0)
        if progress.task is not None:
            progress.told = max(progress.told, box.events)
        elif is_behind:
            self._catch_up(name, progress)

    def _begin(self, box: Box) -> _Progress:
        if self._is_resumed:
            # It had no session before.
            return _Progress(box.boot, box.joined_after)
        if box.sessions:
            return _Progress(box.boot, None, begun_after=box.events)
        # Nothing runs there, so all that will be said comes after this.
        if box.events:
            self._positions[box.name] = StreamPosition(box.boot, box.events)
        return _Progress(box.boot, box.events)

    def _note_off(self, name: str, progress: _Progress) -> None:
        if not progress.is_off:
            progress.is_off = True
            reason = f"{name}: the shell tools are switched off for gateways there"
            self._offer(Missed(name, None, reason, is_end=self._box is not None))

    def _note_restart(self, box: Box, progress: _Progress) -> None:
        """The box runs anew: what was not read is gone."""
        was_busy = progress.is_busy or progress.task is not None
        if progress.task is not None:
            progress.task.cancel()
        progress.boot, progress.number, progress.task = box.boot, box.joined_after, None
        position = StreamPosition(box.boot, box.joined_after)
        if was_busy or self._session is not None:
            reason = f"{box.name} was restarted, and its sessions have ended"
            self._offer(Missed(box.name, position, reason, is_end=self._session is not None))
        else:
            self._offer(Printed(box.name, position, []))

    def _end_of(self, name: str, reason: str) -> None:
        """Say that there will be no more, to one who asked for this box alone."""
        if self._box is not None and not self._is_over:
            self._is_over = True
            self._offer(Missed(name, None, f"{name}: {reason}", is_end=True))

    def _catch_up(self, name: str, progress: _Progress) -> None:
        progress.task = task = asyncio.create_task(self._read_on(name, progress))
        task.add_done_callback(lambda done: self._on_read(name, progress, done))

    def _on_read(self, name: str, progress: _Progress, task: asyncio.Task[None]) -> None:
        if progress.task is not task:
            return
        progress.task = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("the sessions of %s cannot be watched", name, exc_info=error)
            self.end()

    async def _read_on(self, name: str, progress: _Progress) -> None:
        """Read what a box has until that is all, or it cannot be reached for long."""
        pause_s, is_whole = _FIRST_PAUSE_S, False
        while not is_whole:
            progress.told = 0
            try:
                question = self._question(progress, _READ_BYTES)
                answer = await self._output.calls.read(name, progress.boot, question, Output)
            except CannotRead as error:
                if error.why == "off":
                    self._note_off(name, progress)
                else:
                    self._end_of(name, str(error))
                return
            except NoResponders:
                await self._directory.ask_boot(name, _FIND_S)
                box = self._directory.boxes.get(name)
                if box is None or self._directory.is_away(box):
                    self._end_of(name, "it has left the fleet" if box is None else "it cannot be reached")
                    return
            except BusError:
                await self._output.bus.wait_connected(_ANSWER_S)
            else:
                item = self._printed(name, progress, answer, progress.number or 0)
                is_first = progress.number is None
                progress.number, pause_s = answer.last, _FIRST_PAUSE_S
                is_whole = answer.is_whole and progress.told <= answer.last
                if item.rows or is_first:
                    await self._put(item)
                continue
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _question(self, progress: _Progress, most_bytes: int) -> ReadOutput:
        begun_after = progress.begun_after if progress.number is None and self._session is None else None
        return ReadOutput(
            self._name, progress.number, self._session, progress.since, begun_after, most_bytes, self._is_newest
        )

    def _printed(self, name: str, progress: _Progress, output: Output, after: int) -> Printed:
        """The rows that are for this watcher and that it has not got."""
        rows = [
            row
            for row in output.rows
            if (row.number > after or row.kind == "lost") and self._session in (None, row.session_id)
        ]
        self._is_over = self._is_over or (self._session is not None and any(row.kind == "exit" for row in rows))
        return Printed(name, StreamPosition(progress.boot, output.last), rows)

    def _offer(self, item: Printed | Missed) -> None:
        self._items.append(item)
        self._has_items.set()

    async def _put(self, item: Printed) -> None:
        while len(self._items) > 1:
            self._has_room.clear()
            await self._has_room.wait()
        self._offer(item)
