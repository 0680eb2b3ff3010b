"""A daemon as a member of a fleet: it says who it is, and serves the calls of gateways beside its own clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import random
from collections.abc import Coroutine, Sequence

from msgspec.structs import replace

from mcp_agent import __version__
from mcp_agent.approvals.waiting_calls import Request
from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import Topic
from mcp_agent.fleet.bus import Bus, BusError, Message, NoResponders, TimedOut
from mcp_agent.fleet.directory import HEARTBEAT_S
from mcp_agent.fleet.member_calls import MemberCalls
from mcp_agent.fleet.member_files import MemberFiles
from mcp_agent.fleet.member_output import MemberOutput
from mcp_agent.fleet.messages import (
    LEASE_S,
    LEAST_PAYLOAD_BYTES,
    About,
    BadMessage,
    Beat,
    Leaves,
    NotShown,
    ReadAnswer,
    ReadApprovals,
    ReadPiece,
    ToolEntry,
    WaitingCalls,
    Who,
    WritePiece,
    digest,
    encode,
    pack_tools,
    read_beat,
    read_read_question,
    read_who,
)
from mcp_agent.fleet.nats_address import FleetError
from mcp_agent.fleet.subjects import WHO, beat_subject, gateway_of, verb_subject, who_subject
from mcp_agent.process.logs import event
from registry.gate import Access
from registry.user_error import UserError

log = logging.getLogger(__name__)

# How long another daemon of the same name has to say that it is there; at once it is known that there is none.
_NAMESAKE_S = 2.0
# All members answer a gateway that starts; a little apart, so that a large fleet does not answer in one instant.
_ANSWER_WITHIN_S = 0.1
_BETWEEN_BEATS_S = 0.02
_MOST_OFF = 500
_MOST_TOOL_BYTES = 900_000


class Member:
    """Made with the daemon; `join` connects it, and `follow` keeps it a member until it is cancelled."""

    def __init__(self, daemon: Daemon, *, lease_s: float = LEASE_S) -> None:
        """Raises FleetError if it is configured for a fleet that it cannot join."""
        config = daemon.config
        if config.fleet is None:
            raise ValueError("this daemon is configured for no fleet")
        self.box = config.box_name
        self.boot = daemon.hub.boot
        self.bus = bus = Bus(
            config.fleet,
            name=f"mcp-agent box {self.box}",
            credentials=config.creds,
            inbox_prefix=f"_INBOX.box.{self.box}",
            least_payload=LEAST_PAYLOAD_BYTES,
        )
        self._labels = dict(config.label)
        self._daemon = daemon
        self._is_joined = False
        self._joined_after = 0
        self._files = MemberFiles(daemon)
        self._calls = MemberCalls(self._files.dispatcher, daemon.methods, self._access(), bus, lease_s=lease_s)
        self._output = MemberOutput(daemon, bus, self.box, self._may_hear)
        self._described: tuple[About, bytes] | None = None
        self._has_changed = asyncio.Event()
        self._check_profile()
        daemon.fleet_facts = lambda: {"box": self.box, "joined": self._is_joined, **bus.facts}
        bus.on_connected = self._enter
        # In the order in which they come: a cancellation does not overtake its call.
        bus.serve(verb_subject(self.box, self.boot, "call", "*"), self._calls.serve_call, is_quick=True)
        bus.serve(verb_subject(self.box, self.boot, "cancel", "*"), self._calls.serve_cancel, is_quick=True)
        bus.serve(verb_subject(self.box, self.boot, "read", "*"), self._serve_read)
        bus.serve(who_subject(self.box), self._serve_who)
        bus.serve(WHO, self._serve_question)

    async def join(self) -> None:
        """Connect, and take the name; if NATS cannot be reached, as soon as it can. Raises FleetError.

        That is also raised, or ends this process later, if another daemon has the name.
        """
        await self.bus.start()

    async def _enter(self) -> None:
        """Take the name at the first connection; say at each that this box is there. Raises FleetError, BusError."""
        if not self._is_joined:
            self._joined_after, self._described = self._daemon.hub.last_number, None
            await self._check_name()
        await self._beat(with_facts=True)
        if not self._is_joined:
            self._is_joined = True
            self._daemon.hub.observe(self._on_change)
            event(log, logging.INFO, "fleet.joined", box=self.box, boot=self.boot)

    async def follow(self) -> None:
        """Until cancelled, send a beat every ten seconds, and at once when the facts have changed; then leave."""
        expiry = asyncio.create_task(self._calls.expire())
        publishing = asyncio.create_task(self._output.publish())
        try:
            while True:
                self._has_changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S * random.uniform(0.9, 1.0)):
                        await self._has_changed.wait()
                if self._is_joined:
                    await self._try(self._beat())
                # Many sessions that begin and end at once are told together.
                await asyncio.sleep(_BETWEEN_BEATS_S)
        finally:
            expiry.cancel()
            self._daemon.hub.unobserve(self._on_change)
            await asyncio.shield(self._leave(publishing))

    async def _leave(self, publishing: asyncio.Task[None]) -> None:
        await self._output.stop()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        await self._calls.stop()
        if self._is_joined:
            await self._try(self.bus.publish(beat_subject(self.box), encode(Leaves(self.boot))))
        await self.bus.close()

    async def _try(self, sending: Coroutine[None, None, None]) -> None:
        try:
            await sending
        except BusError as error:
            event(log, logging.DEBUG, "fleet.beat_not_sent", message=str(error))

    def _access(self) -> Access:
        return Access(self._daemon.config.fleet_profile)

    def _check_profile(self) -> None:
        profile = self._daemon.config.fleet_profile
        known = self._daemon.gate.profiles.by_id
        if profile is not None and profile not in known:
            raise FleetError(f"fleet.profile {profile}: there is no such profile; there are {', '.join(known)}")

    async def _check_name(self) -> None:
        """Raise FleetError if another daemon has the name, or is about to take it.

        We answer such questions already: of two that ask at the same time, not both can be told that it is free.
        """
        try:
            answer = await self.bus.request(who_subject(self.box), encode(Who(boot=self.boot)), _NAMESAKE_S)
        except (NoResponders, TimedOut):
            return
        try:
            beat = read_beat(answer)
            host = beat.about.host if isinstance(beat, Beat) and beat.about is not None else "another machine"
        except BadMessage:
            host = "another machine, with another version of mcp-agent"
        raise FleetError(
            f"there is a box {self.box} in the fleet already on {host}; end that daemon, or choose another name: --box"
        )

    async def _serve_who(self, message: Message) -> None:
        """Who this box is, with its tools unless the asker has them."""
        try:
            who = read_who(message.data)
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        # Before it has joined, this concerns only those who would take the same name.
        if self._is_joined or who.boot:
            about, tools = self._description
            answer = replace(self._news(), about=about, tools=None if about.tools in who.has else tools)
            await message.respond(encode(answer))

    async def _serve_read(self, message: Message) -> None:
        answer: ReadAnswer
        try:
            question = read_read_question(message.data)
            if isinstance(question, ReadPiece | WritePiece):
                answer = await self._files.answer(question)
            elif isinstance(question, ReadApprovals):
                answer = await self._answer_approvals(question, gateway_of(message.subject))
            else:
                answer = self._output.answer(question, gateway_of(message.subject))
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            answer = NotShown("misunderstood", str(error))
        await message.respond(encode(answer))

    def _may_hear(self) -> bool:
        """Whether gateways may hear of what others run here."""
        return self._daemon.gate.offers(self._access(), "shell")

    async def _answer_approvals(self, question: ReadApprovals, gateway: str) -> WaitingCalls | NotShown:
        """The calls that wait here. The owner of a gateway may answer its own, and those of nobody else."""
        # When a gateway asks first: the page is a part of the daemon that many boxes do not need.
        from mcp_agent.page.approval_views import answer_request, describe_request
        from mcp_agent.page.endpoints import BadRequest

        def is_own(request: Request) -> bool:
            return ("gateway", gateway) in request.caller.passed_on_by

        approvals = self._daemon.approvals
        if question.id:
            found = approvals.find(question.id)
            if found is None or not is_own(found):
                return NotShown("gone")
            try:
                by = f"gateway {gateway}"
                await answer_request(self._daemon, found, question.decision, question.reason, by)
            except (BadRequest, UserError) as error:
                return NotShown("failed", str(error))
        # As with the sessions of others.
        shown = [each for each in approvals.pending if is_own(each) or self._may_hear()]
        own, others = ([describe_request(each) for each in shown if is_own(each) is wanted] for wanted in (True, False))
        return WaitingCalls(own, others)

    async def _serve_question(self, message: Message) -> None:
        """A gateway has started, and asks everybody. The answer is a beat, which all gateways hear."""
        if self._is_joined:
            await asyncio.sleep(random.uniform(0.0, _ANSWER_WITHIN_S))
            await self._beat(with_facts=True)

    async def _beat(self, *, with_facts: bool = False) -> None:
        beat = self._news()
        if with_facts:
            beat = replace(beat, about=self._description[0])
        await self.bus.publish(beat_subject(self.box), encode(beat))

    def _news(self) -> Beat:
        return Beat(
            boot=self.boot,
            facts=digest(encode(self._description[0])),
            load=round(os.getloadavg()[0], 2),
            sessions=len(self._daemon.sessions.live),
            events=self._daemon.hub.last_number,
            calls=self._calls.running,
            approvals=self._daemon.approvals.state,
        )

    @property
    def _description(self) -> tuple[About, bytes]:
        """What changes seldom: the facts and the tools. Made again when the tools change."""
        if self._described is None:
            visible = self._daemon.gate.visible(self._access())
            tools = pack_tools(fitting_tools([ToolEntry.of(tool) for tool in visible]))
            # So that a gateway can tell a tool that nobody lets it use from one that there is not.
            names = {tool.name for tool in visible}
            off = tuple(name for name in self._daemon.gate.catalog.by_name if name not in names)[:_MOST_OFF]
            directory = str(self._daemon.directory)
            about = About(self._labels, directory, __version__, platform.node(), digest(tools), off, self._joined_after)
            self._described = about, tools
        return self._described

    def _on_change(self, topic: Topic) -> None:
        if topic == "tools":
            self._described = None
        # A session that begins or ends is told at once, too: gateways know by that whether there is anything to read.
        self._has_changed.set()


def fitting_tools(tools: Sequence[ToolEntry]) -> Sequence[ToolEntry]:
    """As many of the tools as one message has room for: mounted servers can have hundreds."""
    room = _MOST_TOOL_BYTES
    for place, tool in enumerate(tools):
        room -= len(pack_tools([tool]))
        if room < 0:
            left_out = len(tools) - place
            event(log, logging.WARNING, "fleet.too_many_tools", offered=place, left_out=left_out)
            return tools[:place]
    return tools
