"""box_copy: a file from one box to another. The gateway brings the two together; the bytes do not pass through it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

from mcp_agent.fleet.call_protocol import RemoteError
from mcp_agent.fleet.copy_receiver import DEADLINE_S, RECEIVE
from mcp_agent.fleet.copy_sender import SEND
from mcp_agent.fleet.member_tools import NEEDS
from mcp_agent.protocol.methods import new_call_id
from tools.context import ToolContext
from tools.filesystem.changes import undo_note
from tools.kit.errors import BoxUnreachable, OutcomeUnknown, ToolError
from tools.kit.params import Field
from tools.kit.results import Result, ResultFacts
from tools.kit.spec import Tool, tool

if TYPE_CHECKING:
    from mcp_agent.fleet.directory import Box
    from mcp_agent.fleet.gateway import Gateway

# A box that is started again goes on with the copy. So long neither of the two may be gone.
_PATIENCE_S = 60.0
_RETRY_S = 0.25
_PASSING = (BoxUnreachable.code, OutcomeUnknown.code)


class Copied(Result, frozen=True):
    """The file is on the other box. `resumed_from`: how much of it an earlier attempt had brought there."""

    from_box: str
    from_: str
    to_box: str
    to: str
    bytes: int
    sha256: str
    seconds: float
    resumed_from: int = 0
    unchanged: bool | None = None
    undo_id: str | None = None
    undoable: bool | None = None
    why: str | None = None

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(change_id=self.undo_id)

    def render(self) -> str:
        what = "is there already" if self.unchanged else f"copied in {self.seconds} s"
        notes = [f"{self.bytes} bytes", f"sha256 {self.sha256}"]
        if not self.unchanged:
            notes.append(undo_note(self.undo_id, self.why))
        return f"{self.from_box}:{self.from_} {what}: {self.to_box}:{self.to} · {' · '.join(notes)}"


def box_copy_tool(gateway: Gateway) -> Tool:
    @tool("fleet", effect="write", destructive=True, idempotent=True, deadline_s=DEADLINE_S)
    async def box_copy(
        ctx: ToolContext,
        *,
        from_box: Annotated[str, Field(audited=True)],
        from_: Annotated[str, Field.of_path("File there.", ())],
        to_box: Annotated[str, Field(audited=True)],
        to: Annotated[str, Field.of_path("Its path; a file there is replaced.", ())],
    ) -> Copied:
        """Copy a file from one box to another."""
        return await _Copying(gateway, ctx, gateway.find_box(from_box), from_, gateway.find_box(to_box), to).run()

    return box_copy


class _OnBox(ToolError):
    """An error of one of the two boxes."""

    def __init__(self, box: str, error: RemoteError) -> None:
        said = error.as_object()["error"]
        super().__init__(f"{box}: {said['message']}", hint=said.get("hint"))
        self.code = error.code
        self.rule = error.rule


class _Copying:
    """One copy, tried again while boxes, gateway or NATS come back."""

    def __init__(self, gateway: Gateway, ctx: ToolContext, from_box: Box, source: str, to_box: Box, to: str) -> None:
        self._gateway = gateway
        self._ctx = ctx
        self._from, self._source = from_box, source
        self._to, self._target = to_box, to
        self._id = new_call_id()
        self._most_done = 0.0
        self._moved_at = time.monotonic()
        # Kept while the receiver is away: the sender has room for so many.
        self._offer: dict[str, Any] | None = None

    async def run(self) -> Copied:
        began = time.perf_counter()
        is_begun = False
        while True:
            try:
                result = await self._attempt()
                break
            except ToolError as error:
                if not isinstance(error, BoxUnreachable):
                    self._offer = None
                elif not is_begun and not error.may_have_run:
                    # A box that is not there when the copy begins is no interruption of it.
                    raise
                is_begun = True
                if error.code not in _PASSING or time.monotonic() - self._moved_at > _PATIENCE_S:
                    raise
                self._ctx.log("notice", f"{error.message}; trying again")
            await asyncio.sleep(_RETRY_S)
        kept = ("bytes", "sha256", "resumed_from", "undo_id", "undoable", "why")
        return Copied(
            from_box=self._from.name,
            from_=result["source"],
            to_box=self._to.name,
            to=result["path"],
            seconds=round(time.perf_counter() - began, 3),
            unchanged=result.get("unchanged") or None,
            **{name: result[name] for name in kept if name in result},
        )

    async def _attempt(self) -> dict[str, Any]:
        offer = self._offer
        if offer is None:
            offered = {"path": self._source, "to_box": self._to.name}
            offer = self._offer = await self._call(self._from, SEND, offered)
        found = self._gateway.directory.boxes.get(self._from.name)
        asked = {
            "path": self._target,
            "from_box": self._from.name,
            "source": offer["path"],
            "boot": self._from.boot if found is None else found.boot,
            **{name: offer[name] for name in ("ticket", "size", "mode", "rev")},
            "copy": self._id,
        }
        return {**await self._call(self._to, RECEIVE, asked), "source": offer["path"]}

    async def _call(self, box: Box, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        # The box that was started again, if it was.
        found = self._gateway.directory.boxes.get(box.name)
        if found is None:
            raise BoxUnreachable(f"{box.name} has left the fleet", may_have_run=False)
        caller = self._gateway.caller_of(self._ctx)
        try:
            return await self._gateway.call_as_program(caller, found, name, NEEDS[name], arguments, self._report)
        except RemoteError as error:
            raise _OnBox(box.name, error) from None

    def _report(self, done: float, total: float | None, text: str | None) -> None:
        if done > self._most_done:
            self._most_done, self._moved_at = done, time.monotonic()
        self._ctx.progress(done, total, text)
