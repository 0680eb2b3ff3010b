"""Which boxes there are: a table in memory, from what they say of themselves. Any gateway can rebuild it.

Every member sends a beat each `HEARTBEAT_S`, with its boot id, its load and a digest of its facts. Whenever a gateway
is connected, it asks all of them who they are. Tools are fetched once for each digest: boxes of one version and profile
have the same.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from mcp_agent.fleet.bus import Bus, BusError, Message
from mcp_agent.fleet.messages import BadMessage, Beat, Leaves, ToolEntry, Who, encode, read_beat, read_tools
from mcp_agent.fleet.subjects import EVERY_BEAT, WHO, who_subject
from mcp_agent.process.logs import event
from mcp_agent.settings import BOX_NAME
from tools.kit.errors import InvalidParams

log = logging.getLogger(__name__)

HEARTBEAT_S = 10.0
# A box that was not heard of for so long is marked as away, and forgotten much later.
AWAY_S = 25.0
_FORGET_S = 3_600.0
_SWEEP_EVERY_S = 5.0
# Members answer the question who they are at once; those of a fleet far away take a moment.
_GATHER_S = 0.25
_ASK_S = 2.0
_ASKED_AT_ONCE = 16
_MOST_BOXES = 20_000
# Of the digests that a gateway says it has.
_MOST_SETS = 100
# Many boxes come and go at once, and the list of tools is made for all of them together.
_COALESCE_S = 0.05


class Box(Struct, eq=False):
    """One member, as it was last heard of."""

    name: str
    boot: str
    labels: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    version: str = ""
    # The digest of all facts, and that of its tools alone.
    facts: str = ""
    tools: str = ""
    # The names of tools that it has and lets no gateway use.
    off: tuple[str, ...] = ()
    load: float = 0.0
    sessions: int = 0
    # The number of the newest event of its sessions, and of the last one before it joined.
    events: int = 0
    joined_after: int = 0
    calls: int = 0
    # Which calls wait for its owner; 0 for none.
    approvals: int = 0
    heard_at: float = 0.0

    def fits(self, labels: Mapping[str, str]) -> bool:
        return all(self.labels.get(key) == value for key, value in labels.items())


class Directory:
    """The table of a gateway. `on_change` is called when the tools of the fleet may be different."""

    def __init__(self, bus: Bus) -> None:
        self.boxes: dict[str, Box] = {}
        # The tools of boxes as they describe them, by digest.
        self.tool_sets: dict[str, tuple[ToolEntry, ...]] = {}
        self.on_change: Callable[[], None] = lambda: None
        self.on_approvals: Callable[[], None] = lambda: None
        # Called with the name of a box that was heard of, is away, or has left.
        self.on_box: Callable[[str], None] = lambda name: None
        self._bus = bus
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_ASKED_AT_ONCE)
        self._change: asyncio.TimerHandle | None = None
        # Both made anew when a box comes, goes or has other tools: all boxes by name, and the holders of tools.
        self._by_name: list[Box] = []
        self._holders: dict[str, list[Box]] = {}
        bus.serve(EVERY_BEAT, self._hear)

    async def ask_everybody(self) -> None:
        """Ask all members who they are. Returns when those nearby have answered. Raises BusError."""
        await self._bus.publish(WHO, encode(Who()))
        await asyncio.sleep(_GATHER_S)
        while self._asking:
            await asyncio.wait(self._asking.values())
        self._notify()

    async def follow(self) -> None:
        """Until cancelled, mark boxes that are silent, and forget those that are gone."""
        try:
            while True:
                await asyncio.sleep(_SWEEP_EVERY_S)
                for box in [box for box in self.boxes.values() if self.is_away(box)]:
                    if self.silence_s(box) > _FORGET_S:
                        self._remove(box.name)
                    else:
                        self.on_box(box.name)
        finally:
            for task in self._asking.values():
                task.cancel()
            if self._change is not None:
                self._change.cancel()

    def is_away(self, box: Box) -> bool:
        return self.silence_s(box) > AWAY_S

    def silence_s(self, box: Box) -> float:
        return time.monotonic() - box.heard_at

    def silence(self, box: Box) -> str:
        return f"{self.silence_s(box):.0f} s"

    def holders(self, tool: str) -> list[Box]:
        """The boxes that have a tool, by name."""
        found = self._holders.get(tool)
        if found is None:
            sets = {key for key, tools in self.tool_sets.items() if any(each.name == tool for each in tools)}
            found = sorted((box for box in self.boxes.values() if box.tools in sets), key=lambda box: box.name)
            self._holders[tool] = found
        return found

    def find(self, *, labels: Mapping[str, str] | None = None, names: str = "*") -> Sequence[Box]:
        """The boxes with these labels whose name fits a glob, or one of several behind commas, by name."""
        if not self._by_name:
            self._by_name = sorted(self.boxes.values(), key=lambda box: box.name)
        if not labels and names == "*":
            return self._by_name
        globs = (fnmatch.translate(each.strip()) for each in names.split(","))
        wanted, fits_name = labels or {}, re.compile("|".join(globs)).match
        return [box for box in self._by_name if box.fits(wanted) and fits_name(box.name)]

    def counted_sets(self) -> list[tuple[tuple[ToolEntry, ...], int]]:
        """Every set of tools, with the number of boxes that have it, the most common and then the largest first."""
        counts = Counter(box.tools for box in self.boxes.values())
        counted = [(key, self.tool_sets[key], count) for key, count in counts.items()]
        counted.sort(key=lambda each: (-each[2], -len(each[1]), each[0]))
        return [(tools, count) for _, tools, count in counted]

    def has_category(self, box: Box, category: str) -> bool:
        return any(tool.category == category for tool in self.tool_sets.get(box.tools, ()))

    async def ask_boot(self, name: str, within_s: float) -> str | None:
        """The boot id of a box, asked for now; None if it does not answer in time."""
        try:
            self._take(name, await self._ask_who(name, Who(), within_s))
        except (BusError, BadMessage):
            return None
        box = self.boxes.get(name)
        return None if box is None else box.boot

    async def _ask_who(self, name: str, question: Who, within_s: float) -> Beat:
        answer = read_beat(await self._bus.request(who_subject(name), encode(question), within_s))
        if isinstance(answer, Leaves):
            raise BadMessage(f"{name} was asked who it is, and leaves")
        return answer

    async def _hear(self, message: Message) -> None:
        """A beat. Facts that are not known yet are asked for."""
        name = message.subject.split(".")[1]
        if BOX_NAME.fullmatch(name) is None:
            return
        try:
            beat = read_beat(message.data)
            if isinstance(beat, Leaves):
                if name in self.boxes and self.boxes[name].boot == beat.boot:
                    self._remove(name)
                return
            if name not in self.boxes and len(self.boxes) >= _MOST_BOXES:
                return
            is_known = self._take(name, beat)
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", box=name, message=str(error))
            return
        if not is_known and name not in self._asking:
            task = asyncio.get_running_loop().create_task(self._ask(name))
            self._asking[name] = task
            task.add_done_callback(lambda _: self._asking.pop(name, None))

    def _take(self, name: str, beat: Beat) -> bool:
        """Take over what a box says. False if it has facts or tools that are not known. Raises BadMessage."""
        about = beat.about
        tools = None if about is None or beat.tools is None else read_tools(beat.tools, about.tools)
        box = self.boxes.get(name)
        if box is None:
            box = Box(name, beat.boot)
        box.boot, box.load, box.sessions, box.calls = beat.boot, beat.load, beat.sessions, beat.calls
        box.events, box.heard_at = beat.events, time.monotonic()
        waited, box.approvals = box.approvals, beat.approvals
        if waited != box.approvals:
            self.on_approvals()
        if about is not None:
            if tools is not None:
                self.tool_sets[about.tools] = tools
            if about.tools not in self.tool_sets:
                return False
            box.labels, box.off, box.directory, box.version = about.labels, about.off, about.directory, about.version
            box.facts, box.joined_after = beat.facts, about.joined_after
            self._put(box, about.tools)
        elif box.facts != beat.facts:
            return False
        self.on_box(name)
        return True

    def _put(self, box: Box, tools: str) -> None:
        if box.name not in self.boxes:
            event(log, logging.INFO, "fleet.box_joined", box=box.name, version=box.version)
        elif box.tools == tools:
            return
        self.boxes[box.name], box.tools = box, tools
        self._plan_change()

    def _remove(self, name: str) -> None:
        del self.boxes[name]
        event(log, logging.INFO, "fleet.box_left", box=name)
        self._plan_change()
        self.on_box(name)

    async def _ask(self, name: str) -> None:
        """Ask a box for all its facts, and for its tools unless another box has the same."""
        async with self._places:
            try:
                self._take(name, await self._ask_who(name, Who(has=tuple(self.tool_sets)[:_MOST_SETS]), _ASK_S))
            except (BusError, BadMessage) as error:
                # The next beat is a new chance.
                event(log, logging.INFO, "fleet.box_not_known", box=name, message=str(error))

    def _plan_change(self) -> None:
        self._holders, self._by_name = {}, []
        if self._change is None:
            self._change = asyncio.get_running_loop().call_later(_COALESCE_S, self._notify)

    def _notify(self) -> None:
        if self._change is not None:
            self._change.cancel()
            self._change = None
        used = {box.tools for box in self.boxes.values()}
        self.tool_sets = {key: tools for key, tools in self.tool_sets.items() if key in used}
        self.on_change()


def parse_labels(text: str, argument: str) -> dict[str, str]:
    """`gpu=1,zone=eu` as labels. Raises InvalidParams, which names the argument."""
    labels: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise invalid(argument, f"{each[:60]!r} is no label with its value, such as gpu=1")
        if labels.setdefault(key, value) != value:
            values = f"{labels[key][:60]} and {value[:60]}"
            raise invalid(argument, f"{key[:60]} cannot be both {values}: a box has all of the labels")
    return labels


def invalid(argument: str, message: str) -> InvalidParams:
    return InvalidParams(message, issues=[{"path": f"arguments.{argument}", "code": "custom", "message": "custom"}])


def list_names(boxes: Iterable[Box], most: int = 20) -> str:
    """Boxes as a person or a model reads them: each name with its labels."""
    every = list(boxes)
    shown = ", ".join(
        box.name + (f" ({', '.join(f'{key}={value}' for key, value in box.labels.items())})" if box.labels else "")
        for box in every[:most]
    )
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
