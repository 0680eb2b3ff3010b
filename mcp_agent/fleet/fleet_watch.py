"""One watcher of the sessions of many boxes: a watch on each box that has something to say, and where it is on each.

A box that says nothing costs nothing: its beats tell when there is something to read. The place on all boxes together
is the id of an event, so any gateway can go on from it: `gpu1.9f2c31d0a4.1234,web.03bb6a1ce9.7` is the number of the
last event of each start of a box. A box that is not in it had no session before.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from msgspec import Struct

from mcp_agent.fleet.box_watch import Batch, BoxStops, BoxWatch, Idle, NoSuchSession, SwitchedOff, Unreachable
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import Box, Directory
from mcp_agent.fleet.watch_protocol import MOST_TAIL_BYTES, Form, Opening
from mcp_agent.settings import BOX_NAME

log = logging.getLogger(__name__)

# A watcher of a single box has so many reads under way. Larger ones cost no less, and others wait longer behind them.
_READS = 4
_READ_BYTES = 300_000
# A read of a watcher of many boxes asks for less, but not for less than that.
_LEAST_BYTES = 64 * 1024
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_TAIL_PAUSE_S = 0.1
_ASK_AGAIN_S = 5.0
_FIND_S = 1.0
_SHELL = "shell"
# Of the boxes that an id names; a client cannot send more than some kilobytes.
MOST_PLACES = 200
_PLACE = re.compile(rf"({BOX_NAME.pattern})\.([0-9a-z]{{1,40}})\.(\d{{1,18}})")
# Behind the places of an id that could not name all boxes.
_INCOMPLETE = "+"


class Place(NamedTuple):
    """Where a watcher is on a box: the start of the box, and the number of the last event that it got."""

    boot: str
    number: int


class Output(NamedTuple):
    """What a box says. Without a batch, only the place is news: it is where the watcher begins."""

    box: str
    place: Place | None
    batch: Batch | None


class Missed(NamedTuple):
    """Output of a box that this watcher does not get, and why. With `is_end` it gets no more of what it asked for."""

    box: str
    place: Place | None
    reason: str
    is_end: bool


class BadId(Exception):
    """This is no id of an event of a gateway."""


def parse_places(text: str) -> tuple[dict[str, Place], bool]:
    """The places in the id of an event, and whether it names all. Raises BadId."""
    body = text.removesuffix(_INCOMPLETE)
    places: dict[str, Place] = {}
    for part in body.split(","):
        found = _PLACE.fullmatch(part)
        if found is None:
            raise BadId(part)
        places[found[1]] = Place(found[2], int(found[3]))
    return places, body == text


class _Progress(Struct, eq=False):
    """How far the reads on one box are. What was read may still wait for the client."""

    boot: str
    at: Opening
    number: int = 0
    # All sessions had ended, and everything was read.
    is_complete: bool = False
    # The box would not let us hear of its sessions; when it is asked again, unless it says before that it has changed.
    is_off: bool = False
    ask_again_at: float = 0.0


class FleetWatch:
    """Watches the sessions of all boxes in `directory`, or of one box, or one session of it."""

    def __init__(
        self,
        bus: Bus,
        gateway: str,
        directory: Directory,
        *,
        form: Form = "frames",
        box: str | None = None,
        session: str | None = None,
        places: dict[str, Place] | None = None,
    ) -> None:
        """With `places`, go on from there; without, from now on."""
        self._bus = bus
        self._gateway = gateway
        self._directory = directory
        self._form: Form = form
        self._box = box
        self._session = session
        self._began_at = _now()
        self._is_starting = False
        self._is_resumed = places is not None
        # Where the client is, and where the reads are.
        self._places: dict[str, Place] = dict(places or {})
        self._progress = {
            name: _Progress(place.boot, {"after": place.number}, place.number) for name, place in self._places.items()
        }
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watches: dict[str, BoxWatch] = {}
        self._opened: BoxWatch | None = None
        self._items: deque[Output | Missed] = deque()
        self._has_items, self._has_room = asyncio.Event(), asyncio.Event()
        # The one session has ended, and its exit was read.
        self._is_over = False
        self.is_ended = False

    async def open_session(self, at: Opening) -> None:
        """Begin the watch of one session, and raise what stands against it: WatchEnded."""
        assert self._box is not None, "a session is of a box"
        box = self._directory.boxes[self._box]
        progress = self._progress.setdefault(box.name, _Progress(box.boot, at))
        self._opened = self._watch(box.name, progress)
        await self._opened.open()

    def start(self) -> None:
        """Begin on all boxes that have something to say, and listen to those that will."""
        self._directory.listeners.add(self._consider)
        self._is_starting = True
        for name in [self._box] if self._box is not None else list(self._directory.boxes):
            self._consider(name)
        self._is_starting = False

    def end(self) -> None:
        """Give nothing more."""
        self.is_ended = True
        self._has_items.set()

    def close(self) -> None:
        self._directory.listeners.discard(self._consider)
        for task in self._tasks.values():
            task.cancel()

    async def items(self) -> AsyncGenerator[Output | Missed, None]:
        while not self.is_ended:
            if not self._items:
                self._has_items.clear()
                await self._has_items.wait()
                continue
            item = self._items.popleft()
            self._has_room.set()
            if item.place is not None:
                self._places[item.box] = item.place
            yield item

    @property
    def places(self) -> dict[str, Place]:
        """Where the client is on each box."""
        return dict(self._places)

    def id_line(self, box: str) -> bytes:
        """The line of the id of an event of `box`, with %d for its number."""
        others = [f"{name}.{place.boot}.{place.number}," for name, place in self._places.items() if name != box]
        is_incomplete = len(others) >= MOST_PLACES
        if is_incomplete:
            others = others[1 - MOST_PLACES :]
        # No name and no boot has a % in it.
        line = f"id: {''.join(others)}{box}.{self._places[box].boot}.%d{_INCOMPLETE if is_incomplete else ''}\n"
        return line.encode()

    def _consider(self, name: str) -> None:
        """Watch a box if it has something for this watcher."""
        if self._box is not None and name != self._box:
            return
        box = self._directory.boxes.get(name)
        if name in self._tasks:
            watch = self._watches.get(name)
            if box is not None and watch is not None and watch.boot != box.boot:
                watch.abandon()
            return
        # To one who asked for a single box it is said that it has left.
        has_news = self._box is not None and not self._is_over if box is None else self._is_needed(box)
        if has_news:
            self._tasks[name] = task = asyncio.create_task(self._follow(name))
            task.add_done_callback(lambda task: self._on_done(name, task))

    def _on_done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        self._watches.pop(name, None)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("the sessions of %s cannot be watched", name, exc_info=error)
            self.end()
            return
        # What was heard of the box in the meantime.
        box = self._directory.boxes.get(name)
        if box is not None and self._is_needed(box) and self._consider in self._directory.listeners:
            self._consider(name)

    def _is_needed(self, box: Box) -> bool:
        progress = self._progress.get(box.name)
        if self._is_over or self._directory.is_away(box):
            return False
        if not self._directory.has_category(box, _SHELL):
            if progress is not None:
                progress.ask_again_at = 0.0
            return False
        if progress is None:
            if self._is_resumed:
                self._progress[box.name] = _Progress(box.boot, {"after": 0})
            elif box.sessions:
                # A box that comes later tells of the sessions that began since this watcher did.
                age_s = 0 if self._is_starting else round(_now() - self._began_at, 3)
                self._progress[box.name] = _Progress(box.boot, {"young_s": age_s})
            else:
                # Nothing runs there, so all that will be said comes after this.
                if box.events:
                    self._places[box.name] = Place(box.boot, box.events)
                self._progress[box.name] = _Progress(box.boot, {"after": box.events}, box.events, is_complete=True)
                return False
            return box.sessions > 0 or box.events > 0
        if progress.is_off and _now() < progress.ask_again_at:
            return False
        if progress.boot != box.boot:
            return True
        return (box.sessions > 0 and not progress.is_complete) or box.events > progress.number

    async def _follow(self, name: str) -> None:
        """Read what a box says until it has no more to say, or cannot be reached for long."""
        pause_s = _FIRST_PAUSE_S
        while True:
            box = self._directory.boxes.get(name)
            if box is None:
                await self._put_end(name, "it has left the fleet")
                return
            progress = self._progress[name]
            if progress.boot != box.boot:
                progress = await self._take_restart(box, progress)
                if self._session is not None:
                    return
            watch, self._opened = self._opened or self._watch(name, progress), None
            try:
                await self._read(name, watch, progress)
            except Idle as end:
                progress.is_complete, progress.number = True, max(end.events, progress.number)
                progress.at = {"after": progress.number}
                self._is_over = self._session is not None
                return
            except SwitchedOff as end:
                was_off, progress.is_off = progress.is_off, True
                progress.ask_again_at = _now() + _ASK_AGAIN_S if self._directory.has_category(box, _SHELL) else 0.0
                if not was_off:
                    await self._put(Missed(name, None, f"{name}: {end}", is_end=self._box is not None))
                return
            except BoxStops as end:
                progress.is_complete = True
                await self._put_end(name, str(end))
                return
            except NoSuchSession as end:
                await self._put_end(name, str(end))
                return
            except Unreachable:
                await self._directory.ask_boot(name, _FIND_S)
                if self._directory.is_away(box):
                    await self._put_end(name, "it cannot be reached")
                    return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _read(self, name: str, watch: BoxWatch, progress: _Progress) -> None:
        self._watches[name] = watch
        self._share_reads()
        await watch.open()
        progress.at = watch.at
        # From now on there is something to say.
        progress.is_complete = progress.is_off = False
        if "after" in watch.at and watch.at["after"] != progress.number:
            progress.number = watch.at["after"]
            await self._put(Output(name, Place(watch.boot, progress.number), None))
        async with aclosing(watch.batches()) as batches:
            async for batch in batches:
                last = watch.last_number(batch)
                if last is not None:
                    progress.at, progress.number = {"after": last}, last
                await self._put(Output(name, Place(watch.boot, progress.number), batch))

    async def _take_restart(self, box: Box, progress: _Progress) -> _Progress:
        """The box runs anew: what was not read is gone."""
        was_complete = progress.is_complete
        progress = self._progress[box.name] = _Progress(box.boot, {"after": 0})
        place = Place(box.boot, 0)
        if was_complete:
            await self._put(Output(box.name, place, None))
        else:
            reason = f"{box.name} was restarted; the output of its earlier sessions is gone"
            await self._put(Missed(box.name, place, reason, is_end=self._session is not None))
        return progress

    def _watch(self, name: str, progress: _Progress) -> BoxWatch:
        watch = BoxWatch(
            self._bus, self._gateway, name, progress.boot, progress.at, session=self._session, form=self._form
        )
        if self._form == "tail":
            watch.most_bytes, watch.pause_s = MOST_TAIL_BYTES, _TAIL_PAUSE_S
        return watch

    def _share_reads(self) -> None:
        """What this watcher may have under way, shared among its boxes: so it is bounded for a client that stalls."""
        if self._form == "tail":
            return
        reads = max(1, _READS // len(self._watches))
        most_bytes = max(_LEAST_BYTES, min(_READ_BYTES, _READS * _READ_BYTES // (reads * len(self._watches))))
        for watch in self._watches.values():
            watch.most_reads, watch.most_bytes = reads, most_bytes

    async def _put_end(self, name: str, reason: str) -> None:
        """Say that there will be no more, to one who asked for this box alone."""
        if self._box is not None:
            await self._put(Missed(name, None, f"{name}: {reason}", is_end=True))

    async def _put(self, item: Output | Missed) -> None:
        while self._items:
            self._has_room.clear()
            await self._has_room.wait()
        self._items.append(item)
        self._has_items.set()


def _now() -> float:
    return asyncio.get_running_loop().time()
