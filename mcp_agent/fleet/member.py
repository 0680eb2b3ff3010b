"""A daemon as a member of a fleet: it says who it is, and serves the calls of gateways beside its own clients."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import platform
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from mcp_agent import __version__
from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import Topic
from mcp_agent.fleet.bus import Bus, BusError, FleetError, Message, NoResponders, NotPermitted, TimedOut
from mcp_agent.fleet.call_protocol import LEASE_S, MOST_PIECE_BYTES, BadMessage, pack, unpack
from mcp_agent.fleet.call_signatures import Trust
from mcp_agent.fleet.directory import BEAT_S
from mcp_agent.fleet.member_calls import MemberCalls
from mcp_agent.fleet.member_tools import MemberTools
from mcp_agent.fleet.member_watches import MemberWatches
from mcp_agent.fleet.nats_service import NatsService
from mcp_agent.fleet.subjects import WHO, beat_subject, verb_subject, who_subject
from mcp_agent.process import signals
from mcp_agent.process.logs import event
from registry.gate import Access
from tools.kit.spec import Tool

log = logging.getLogger(__name__)

# How long another daemon of the same name has to say that it is there.
_NAMESAKE_S = 2.0
# Of two that joined within that time of each other, the smaller boot id decides who stays.
_SAME_TIME_S = 10.0
# All members answer a gateway that starts; a little apart, so that a large fleet does not answer in one instant.
_ANSWER_WITHIN_S = 0.1
_BETWEEN_BEATS_S = 0.02
_MOST_OFF = 500
# While NATS cannot be reached; a connection is noticed at once.
_WAIT_S = 60.0
_AGAIN_S = 0.5


class Member:
    """Made with the daemon; `join` connects it, and `follow` keeps it a member until it is cancelled."""

    def __init__(self, daemon: Daemon, *, lease_s: float = LEASE_S) -> None:
        config = daemon.config
        if config.fleet is None:
            raise ValueError("this daemon is configured for no fleet")
        self.box = config.box_name
        self.boot = daemon.hub.boot
        self._url = config.fleet
        self._creds = config.creds
        self._labels = dict(config.label)
        self._daemon = daemon
        self._bus: Bus | None = None
        self._joined_at = 0.0
        self._is_joined = False
        self._trust = Trust(())
        # Why it had to leave again: another daemon has the name.
        self.refusal: FleetError | None = None
        self._tools = MemberTools(daemon)
        self._calls = MemberCalls(
            self._tools.dispatcher,
            daemon.methods,
            self._access(),
            lambda: self._connection.is_connected,
            lease_s=lease_s,
        )
        self._watches = MemberWatches(daemon, lambda: daemon.gate.offers(self._access(), "shell"))
        self._service = NatsService(self.box, self.boot, self._labels, lambda: self._calls.count)
        self._about: tuple[dict[str, Any], list[dict[str, Any]], str] | None = None
        self._has_changed = asyncio.Event()

    async def join(self) -> None:
        """Connect, and take the name. Raises FleetError, also if another daemon has the name.

        Where NATS cannot be reached, `follow` does it as soon as it can.
        """
        self._check_profile()
        try:
            self._trust = Trust(self._daemon.config.fleet_trust)
        except ValueError as error:
            raise FleetError(f"fleet.trust: {error}") from None
        prefix = f"_INBOX.box.{self.box}"
        self._bus = bus = await Bus.connect(
            self._url,
            name=f"mcp-agent box {self.box}",
            credentials=self._creds,
            inbox_prefix=prefix,
            must_be_there=False,
        )
        self._watches.max_payload = lambda: bus.max_payload
        self._tools.join(bus)
        self._daemon.fleet_facts = lambda: {"box": self.box, "joined": self._is_joined, **bus.facts}
        if not bus.is_connected:
            event(log, logging.WARNING, "fleet.not_joined", box=self.box, message=str(bus.problem))
            return
        try:
            await self._enter(bus)
        except BusError as error:
            await bus.close()
            raise FleetError(f"{self.box} could not join the fleet: {error}") from None
        except BaseException:
            await bus.close()
            raise

    async def _enter(self, bus: Bus) -> None:
        """Take the name, and serve gateways from now on. Raises FleetError and BusError, and then nothing is served."""
        trust = self._trust
        await self._check_name(bus)
        ends: list[Callable[[], Awaitable[None]]] = []
        try:
            for subject, serve in (
                (who_subject(self.box), self._serve_who),
                (beat_subject(self.box), self._hear_namesake),
                (verb_subject(self.box, self.boot, "call", "*"), trust.guard(self._calls.serve_call)),
                (verb_subject(self.box, self.boot, "cancel", "*"), trust.guard(self._calls.serve_cancel)),
                (verb_subject(self.box, self.boot, "read", "*"), trust.guard(self._watches.serve)),
                (verb_subject(self.box, self.boot, "copy", "*"), self._tools.sender.serve),
            ):
                ends.append(await bus.subscribe(subject, serve))
            self._joined_at = time.monotonic()
            ends.append(await bus.subscribe(WHO, self._serve_question))
            await self._beat(bus, with_facts=True)
            await self._offer_service(bus, ends)
        except BaseException:
            for end in ends:
                await end()
            raise
        self._daemon.hub.observe(self._on_change)
        self._is_joined = True
        event(log, logging.INFO, "fleet.joined", box=self.box, boot=self.boot)

    async def _enter_when_possible(self, bus: Bus) -> None:
        """Join once NATS can be reached; one that refuses us ends this daemon, as it does at the start."""
        while not self._is_joined:
            try:
                if await bus.wait_connected(_WAIT_S):
                    await self._enter(bus)
                elif bus.refusal is not None:
                    raise bus.refusal
            except BusError as error:
                event(log, logging.WARNING, "fleet.not_joined", box=self.box, message=str(error))
                await asyncio.sleep(_AGAIN_S)
            except FleetError as error:
                self._end(error)
                await asyncio.Event().wait()

    def _end(self, error: FleetError) -> None:
        """End this daemon, which cannot be a member."""
        self.refusal = error
        event(log, logging.ERROR, "fleet.refused", box=self.box, message=str(error))
        signals.end_process()

    async def _offer_service(self, bus: Bus, ends: list[Callable[[], Awaitable[None]]]) -> None:
        """Be seen by the tools of NATS. It is a courtesy: credentials that do not allow it are no reason to fail."""
        for subject, serve in self._service.subscriptions():
            try:
                ends.append(await bus.subscribe(subject, serve))
            except NotPermitted:
                event(log, logging.INFO, "fleet.no_service", subject=subject)
                return

    async def follow(self) -> None:
        """Until cancelled, send a beat every ten seconds, and at once when the facts have changed; then leave."""
        bus = self._connection
        expiry = [
            asyncio.create_task(self._calls.expire()),
            asyncio.create_task(self._tools.sender.expire(lambda: bus.is_connected)),
        ]
        try:
            await self._enter_when_possible(bus)
            while True:
                self._has_changed.clear()
                try:
                    async with asyncio.timeout(BEAT_S * random.uniform(0.9, 1.0)):
                        await self._has_changed.wait()
                except TimeoutError:
                    pass
                try:
                    await self._beat(bus)
                except BusError as error:
                    event(log, logging.DEBUG, "fleet.beat_not_sent", message=str(error))
                # Many sessions that begin and end at once are told together.
                await asyncio.sleep(_BETWEEN_BEATS_S)
        finally:
            for task in expiry:
                task.cancel()
            self._daemon.hub.unobserve(self._on_change)
            await asyncio.shield(self._leave(bus))

    async def _leave(self, bus: Bus) -> None:
        await self._watches.stop()
        await self._calls.stop()
        try:
            await bus.publish(beat_subject(self.box), pack({"leaves": True, "boot": self.boot}))
        except BusError as error:
            event(log, logging.DEBUG, "fleet.beat_not_sent", message=str(error))
        await bus.close()

    @property
    def _connection(self) -> Bus:
        assert self._bus is not None, "the member has not joined"
        return self._bus

    def _access(self) -> Access:
        return Access(self._daemon.config.fleet_profile)

    def _check_profile(self) -> None:
        profile = self._daemon.config.fleet_profile
        known = self._daemon.gate.profiles.by_id
        if profile is not None and profile not in known:
            raise FleetError(f"fleet.profile {profile}: there is no such profile; there are {', '.join(known)}")

    async def _check_name(self, bus: Bus) -> None:
        """Raise FleetError if another daemon has the name."""
        try:
            head, _ = unpack(await bus.request(who_subject(self.box), b"{}", _NAMESAKE_S))
        except (NoResponders, TimedOut, BadMessage):
            return
        raise self._name_taken(head)

    async def _hear_namesake(self, message: Message) -> None:
        """Our own beat comes back. One of another daemon says that two joined at the same time: one has to leave."""
        try:
            head, _ = unpack(message.data)
            boot, age_s = str(head["boot"]), float(head["age_s"])
        except (BadMessage, KeyError, TypeError, ValueError):
            return
        if boot == self.boot:
            return
        older_by_s = self._age_s - age_s
        if older_by_s < -_SAME_TIME_S or (older_by_s <= _SAME_TIME_S and boot < self.boot):
            self._end(self._name_taken(head))
        else:
            # The other one has to hear of us.
            await self._beat(self._connection)

    def _name_taken(self, head: Mapping[str, Any]) -> FleetError:
        about = head.get("about")
        where = f" on {about.get('host')}" if isinstance(about, dict) else ""
        return FleetError(
            f"there is a box {self.box} in the fleet already{where}; end that daemon, or choose another name: --box"
        )

    def check(self) -> None:
        """Raise FleetError if it had to leave."""
        if self.refusal is not None:
            raise self.refusal

    @property
    def _age_s(self) -> float:
        return time.monotonic() - self._joined_at

    async def _serve_who(self, message: Message) -> None:
        """Who this box is, with its tools unless the asker has them."""
        try:
            head, _ = unpack(message.data)
        except BadMessage:
            return
        answer = self._facts()
        about, tools, _ = self._description()
        has = head.get("has")
        if isinstance(has, list) and about["tools"] not in has:
            answer["tool_list"] = tools
        await message.respond(pack(answer))

    async def _serve_question(self, message: Message) -> None:
        """A gateway has started, and asks everybody. The answer is a beat, which all gateways hear."""
        await asyncio.sleep(random.uniform(0.0, _ANSWER_WITHIN_S))
        await self._beat(self._connection, with_facts=True)

    async def _beat(self, bus: Bus, *, with_facts: bool = False) -> None:
        beat = self._facts()
        if not with_facts:
            del beat["about"]
        await bus.publish(beat_subject(self.box), pack(beat))

    def _facts(self) -> dict[str, Any]:
        about, _, digest = self._description()
        return {
            "box": self.box,
            "boot": self.boot,
            "age_s": round(self._age_s, 3),
            "facts": digest,
            "load": round(os.getloadavg()[0], 2),
            "sessions": len(self._daemon.sessions.live),
            "events": self._daemon.hub.last_number,
            "calls": self._calls.running,
            "about": about,
        }

    def _description(self) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
        """What changes seldom: the facts, the tools, and the hash of both. Made again when the tools change."""
        if self._about is None:
            visible = self._daemon.gate.visible(self._access())
            tools = fitting_tools([describe_tool(tool) for tool in visible])
            about: dict[str, Any] = {
                "labels": self._labels,
                "directory": str(self._daemon.directory),
                "version": __version__,
                "host": platform.node(),
                "tools": _digest(tools),
            }
            # So that a gateway can tell a tool that nobody lets it use from one that there is not.
            names = {tool.name for tool in visible}
            if off := [name for name in self._daemon.gate.catalog.by_name if name not in names]:
                about["off"] = off[:_MOST_OFF]
            self._about = about, tools, _digest(about)
        return self._about

    def _on_change(self, topic: Topic) -> None:
        if topic == "tools":
            self._about = None
        # A session that begins or ends is told at once, too: gateways know by that whether there is anything to read.
        self._has_changed.set()


def describe_tool(tool: Tool) -> dict[str, Any]:
    """A tool as a gateway offers it."""
    return {
        "name": tool.name,
        "category": tool.category,
        "effect": tool.effect,
        "title": tool.title,
        "description": tool.description,
        "schema": tool.input_schema,
        "listed": tool.listed_schema,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "aliases": tool.aliases,
        "known_as": tool.known_as,
        "hints": tool.hints,
    }


def fitting_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the tools as one message has room for: mounted servers can have hundreds."""
    room = MOST_PIECE_BYTES
    for place, tool in enumerate(tools):
        room -= len(orjson.dumps(tool)) + 1
        if room < 0:
            left_out = len(tools) - place
            event(log, logging.WARNING, "fleet.too_many_tools", offered=place, left_out=left_out)
            return tools[:place]
    return tools


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
