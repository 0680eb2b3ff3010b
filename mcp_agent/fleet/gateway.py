"""A gateway: the wires of a daemon, over the tools of all boxes of a fleet.

It has tokens, profiles and an audit log of its own. What a call may do on a box is decided there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mcp_agent.calls.approval_question import ApprovalQuestion, Approver, Nobody, PolicyChanged
from mcp_agent.calls.call import OPENAPI, Call, Caller, Failure, Outcome, Refusal, Success
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.daemon import Daemon, Elsewhere
from mcp_agent.events.hub import EventHub
from mcp_agent.fleet.box_approvals import BoxApprovals
from mcp_agent.fleet.box_calls import BoxCalls
from mcp_agent.fleet.box_resources import BoxArtifacts, BoxResources, OwnArtifactGate, reads_own_artifact
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import Box, Directory, invalid, list_names, parse_labels
from mcp_agent.fleet.fleet_output import FleetOutput
from mcp_agent.fleet.fleet_tools import fleet_tools
from mcp_agent.fleet.messages import LEAST_PAYLOAD_BYTES
from mcp_agent.fleet.remote_tools import BOX, RemoteTool, remote_tools
from mcp_agent.fleet.session_tail import LOOK_EVERY_S, SessionTail
from mcp_agent.fleet.subjects import boxes_in
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.resources.resources import Resources
from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from registry.gate import Gate, Grant, UnknownTool
from registry.profiles import Profiles
from tools.context import ToolContext
from tools.kit.errors import BoxNeeded, BoxUnreachable, NotFound, ToolDisabled, ToolError
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from mcp_agent.page.endpoints import Routes

_MOST_DEFAULTS = 10_000
_SHELL_EXEC = "shell_exec"
_BOX_USE = "box_use"
_ROW_BYTES = 2_000
# Boxes in the hint of an error.
_MOST_NAMED = 5


class Gateway:
    """What a gateway knows of its fleet, and how a call finds its box."""

    def __init__(
        self,
        url: str,
        credentials: Path | None,
        name: str,
        *,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Raises FleetError for an address that cannot be used."""
        self.name = name
        self.bus = Bus(
            url,
            name=f"mcp-agent gateway {name}",
            credentials=credentials,
            inbox_prefix=f"_INBOX.gateway.{name}",
            least_payload=LEAST_PAYLOAD_BYTES,
        )
        self.directory = Directory(self.bus)
        self.bus.on_connected = self.directory.ask_everybody
        self.calls = BoxCalls(self.bus, self.directory, name)
        self.output = FleetOutput(self.bus, self.directory, self.calls)
        self._look_every_s = look_every_s
        self._tail: SessionTail | None = None
        self.gate: Gate | None = None
        self.approvals: Approver = Nobody()
        # Calls of the gateway's own tools, by id.
        self.under_way: dict[str, Call] = {}
        # The default box of a conversation or a token, set by `box_use`.
        self._defaults: OrderedDict[str, str] = OrderedDict()

    def own_tools(self) -> tuple[Tool, ...]:
        return fleet_tools(self)

    def tools(self, _: Profiles, taken: Collection[str]) -> list[Tool]:
        return remote_tools(self.directory, taken)

    def dispatcher(self, gate: Gate, *others: Any) -> Dispatcher:
        """What runs the calls of this gateway; made of what every dispatcher is made of."""
        self.gate = gate
        made = _GatewayDispatcher(gate, *others)
        made.gateway, self.approvals = self, made.approvals
        made.own_artifacts = made.with_gate(OwnArtifactGate(gate), ())
        return made

    def resources(self, gate: Gate) -> Resources:
        return BoxResources(gate, self)

    def elsewhere(self, hub: EventHub, gate: Gate, artifacts: ArtifactStore, audit: AuditLog) -> Elsewhere:
        """What its daemon serves in the place of its own: the output and the artifacts of boxes, and views of them."""
        # It knows the gateway.
        from mcp_agent.fleet.fleet_events import FleetEvents

        def routes() -> Routes:
            from mcp_agent.fleet.box_views import BoxViews

            return BoxViews(self).routes

        downloads = BoxArtifacts(artifacts, gate, audit, self)
        approvals = BoxApprovals(self.calls, self.directory)
        return Elsewhere(False, self.name, FleetEvents(hub, gate, self), downloads, routes, approvals)

    async def join(self, daemon: Daemon) -> None:
        """Connect, once NATS can be reached, and offer the tools of the boxes from then on. Raises FleetError."""
        self.directory.on_change = daemon.refresh_catalog
        self.directory.on_approvals = lambda: daemon.hub.announce("approvals")
        self._tail = SessionTail(daemon.hub, lambda: self.output.watch(is_newest=True), self._look_every_s)
        daemon.fleet_facts = lambda: {"gateway": self.name, "boxes": len(self.directory.boxes), **self.bus.facts}
        await self.bus.start()

    async def follow(self) -> None:
        """Until cancelled, keep the directory; then leave."""
        try:
            await self.directory.follow()
        finally:
            if self._tail is not None:
                await self._tail.close()
            await asyncio.shield(self.bus.close())

    def default_of(self, caller: Caller) -> str | None:
        if not self._defaults:
            return None
        return next((self._defaults[key] for key in _places(caller) if key in self._defaults), None)

    def set_default(self, caller: Caller, box: str | None) -> Literal["conversation", "token"]:
        """Set the default box of the conversation, or of the token if there is none. Returns which of the two."""
        place = _places(caller)[0]
        self._defaults.pop(place, None)
        if box is not None:
            self._defaults[place] = box
            if len(self._defaults) > _MOST_DEFAULTS:
                self._defaults.popitem(last=False)
        return "conversation" if caller.origin.conversations else "token"

    def caller_of(self, ctx: ToolContext) -> Caller:
        """Who called a tool of the gateway itself."""
        return self.under_way[ctx.call_id].caller

    async def run_command(self, caller: Caller, box: Box, command: str, timeout_s: float) -> dict[str, Any]:
        """A command on one box in a row: what it printed and how it ended, or the error."""
        # What it prints beyond that is an artifact of the box.
        arguments = {"command": command, "timeout_seconds": timeout_s, "max_output_bytes": _ROW_BYTES}
        try:
            result = await self.call_as_program(caller, box, _SHELL_EXEC, _SHELL_EXEC, arguments)
        except ToolError as error:
            return {"box": box.name, "error": error.as_object()["error"]}
        output = "\n".join(text.rstrip("\n") for name in ("stdout", "stderr") if (text := result.get(name)))
        facts = {
            name: result[name] for name in ("exit_code", "timed_out", "artifactRef") if result.get(name) is not None
        }
        return {"box": box.name, **facts, "output": output}

    async def call_as_program(
        self,
        caller: Caller,
        box: Box,
        name: str,
        needed: str,
        arguments: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The object that a call gives on a box, for a caller who may use the tool `needed`. Raises ToolError."""
        assert self.gate is not None, "only a tool that was admitted calls others"
        try:
            _, grant = self.gate.admit(caller.access, needed)
        except UnknownTool as error:
            raise NotFound(str(error)) from None
        # Then the answer is an object, and a command does not become a session.
        program = replace(caller, transport=OPENAPI, form="json")
        call = Call(new_call_id(), program, name, arguments)
        outcome = await self.run_on(box, call, self.gate.catalog.by_name[needed], grant._replace(form="json"))
        if isinstance(outcome, Success):
            return outcome.reply.as_object()
        if isinstance(outcome, Failure):
            raise outcome.error
        raise BoxUnreachable(
            f"{box.name} refused the call: {outcome.message if isinstance(outcome, Refusal) else 'a page'}",
            hint="it may have another version of mcp-agent",
            may_have_run=False,
        )

    async def run_on(self, box: Box, call: Call, tool: Tool, grant: Grant) -> Outcome:
        """Run a call on a box, if the profile here does not ask or the owner approves. The box may ask besides.

        Raises ToolError, PolicyChanged.
        """
        if grant.asks is None:
            return await self.calls.call(box, call, grant)
        keyword = tool.command_keyword
        command = None if keyword is None else str(call.arguments.get(keyword) or "")
        if command and grant.deny.commands is not None:
            grant.deny.commands.check(command)

        async def look() -> None:
            """What would change is on the box."""

        async def run() -> Outcome:
            return await self.calls.call(box, call, grant)

        question = ApprovalQuestion(call, tool, grant.asks, call.arguments, command, f"the box {box.name}", look)
        return await self.approvals.run(question, run)

    def find_box(self, asked: str) -> Box:
        """The box that a name or labels mean. Raises NotFound, BoxNeeded, InvalidParams."""
        box = self.directory.boxes.get(asked)
        if box is not None:
            return box
        if "=" not in asked:
            known = list_names(self.directory.find())
            raise NotFound(f"there is no box {asked[:60]!r}", hint=f"there are {known}" if known else "no box is there")
        fitting = self.directory.find(labels=parse_labels(asked, BOX))
        if len(fitting) != 1:
            if not fitting:
                raise NotFound(f"no box has the labels {asked[:200]}", hint="`boxes` lists them")
            raise BoxNeeded(
                f"{len(fitting)} boxes have the labels {asked[:200]}", hint=f"name one: {list_names(fitting)}"
            )
        return fitting[0]

    def disabled_everywhere(self, tool: str) -> ToolDisabled | None:
        """The error for a tool that no box offers, if there are boxes where it is switched off."""
        boxes = [box for box in self.directory.find() if tool in box.off]
        if not boxes:
            return None
        where = list_names(boxes, _MOST_NAMED)
        return ToolDisabled(
            f"Tool {tool} is disabled",
            hint=f"it is switched off for gateways on {where}; the owner can switch it on there with "
            f"`mcp-agent enable {tool}`. Ask them, or go on without it.",
        )

    def choose_box(self, call: Call, tool: RemoteTool) -> tuple[Box, Call]:
        """The box that a call is for, and the call as the box knows it. Raises ToolError."""
        arguments = call.arguments
        asked = None if tool.has_own_box else arguments.get(BOX)
        if asked is not None:
            if not isinstance(asked, str):
                raise invalid(BOX, "box must be a string: the name of a box, or labels such as gpu=1")
            arguments = {name: value for name, value in arguments.items() if name != BOX}
            call = replace(call, arguments=arguments)
        given = boxes_in(arguments)
        # An empty one is as good as none.
        if asked:
            box = self.find_box(asked)
            if given - {box.name}:
                raise invalid(
                    BOX,
                    f"box is {box.name}, and the arguments have an id of {', '.join(sorted(given - {box.name}))}: "
                    "leave box out, an id finds its box",
                )
            return box, call
        if len(given) > 1:
            raise invalid(BOX, f"the arguments have ids of several boxes: {', '.join(sorted(given))}")
        if given:
            return self.find_box(given.pop()), call
        return self._default_box(call.caller, tool), call

    def _default_box(self, caller: Caller, tool: Tool) -> Box:
        holders = self.directory.holders(tool.name)
        default = self.default_of(caller)
        if default is not None:
            box = next((box for box in holders if box.name == default), None)
            if box is None:
                # Never on another machine than the one that was chosen.
                why = f"has no {tool.name}" if default in self.directory.boxes else "has left the fleet"
                raise BoxNeeded(f"{default}, your default box, {why}", hint=self._how_to_choose(caller, "another"))
            return box
        if len(holders) == 1:
            return holders[0]
        if not holders:
            raise NotFound(f"no box has {tool.name} any more", hint="`boxes` lists what there is")
        raise BoxNeeded(
            f"{len(holders)} boxes have {tool.name}",
            hint=f"{self._how_to_choose(caller, 'one')}: {list_names(holders)}",
        )

    def _how_to_choose(self, caller: Caller, which: str) -> str:
        assert self.gate is not None, "only a tool that was admitted needs a box"
        can_choose = any(tool.name == _BOX_USE for tool in self.gate.visible(caller.access))
        return f"pass box, or choose {which} with {_BOX_USE}" if can_choose else "pass box"


class _GatewayDispatcher(Dispatcher):
    """Sends the calls of remote tools to their box. All others are run here."""

    gateway: Gateway
    own_artifacts: Dispatcher

    async def _carry_out(self, call: Call) -> Outcome:
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
        except UnknownTool:
            error = self.gateway.disabled_everywhere(call.tool)
            if error is not None:
                return await self._fail(error, self._answers.budget(call, None, self._gate.form(call.caller.access)))
            return await super()._carry_out(call)
        except ToolDisabled:
            return await super()._carry_out(call)
        if not isinstance(tool, RemoteTool):
            self.gateway.under_way[call.id] = call
            try:
                return await super()._carry_out(call)
            finally:
                del self.gateway.under_way[call.id]
        if reads_own_artifact(call):
            return await self.own_artifacts.call(call)
        name = ""
        try:
            box, call = self.gateway.choose_box(call, tool)
            name = box.name
            return await self.gateway.run_on(box, call, tool, grant)
        except PolicyChanged:
            return await self._carry_out(call)
        except ToolError as error:
            return replace(await self._fail(error, self._answers.budget(call, tool, grant.form)), box=name)


def _places(caller: Caller) -> tuple[str, ...]:
    """Where the default of a caller is kept, closest first."""
    return *(f"conversation {each}" for each in caller.origin.conversations), f"token {caller.owner}"
