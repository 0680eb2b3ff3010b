"""box_copy: a file from one box to another. The gateway reads it there and writes it here, piece by piece."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from mcp_agent.fleet.box_calls import CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.call_protocol import RemoteError
from mcp_agent.fleet.member_files import DEADLINE_S, NEEDS, RECEIVE, SEND
from mcp_agent.fleet.messages import FilePiece, FileQuestion, PieceWritten, ReadPiece, WritePiece
from tools.context import ToolContext
from tools.filesystem.changes import ChangeResult
from tools.kit.errors import BoxUnreachable, IoError, ToolError
from tools.kit.params import Field
from tools.kit.spec import Tool, tool

if TYPE_CHECKING:
    from mcp_agent.fleet.directory import Box
    from mcp_agent.fleet.gateway import Gateway

_PIECE_BYTES = 4 * 1024 * 1024
# Of a message, besides the bytes of the file.
_HEAD_BYTES = 1_000
# So long a box may be silent, and a receiver may take to begin.
_PATIENCE_S = 15.0
_RETRY_S = 0.02
_T = TypeVar("_T")


class Copied(ChangeResult, frozen=True):
    """The file is on the other box."""

    from_box: str
    from_: str
    to_box: str
    to: str
    bytes: int
    sha256: str
    seconds: float

    def render(self) -> str:
        notes = f"{self.bytes} bytes · sha256 {self.sha256} · {self.undo_note}"
        return f"{self.from_box}:{self.from_} copied in {self.seconds} s: {self.to_box}:{self.to} · {notes}"


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
        return await _Copying(gateway, ctx, gateway.find_box(from_box), gateway.find_box(to_box)).run(from_, to)

    return box_copy


class _OnBox(ToolError):
    """An error of one of the two boxes."""

    def __init__(self, box: str, error: RemoteError) -> None:
        said = error.as_object()["error"]
        super().__init__(f"{box}: {said['message']}", hint=said.get("hint"))
        self.code = error.code
        self.rule = error.rule


class _NotCopied(IoError):
    """A box has refused a piece."""

    def __init__(self, box: str, error: CannotRead) -> None:
        super().__init__(f"{box}: {error}; nothing was changed", hint="copy it again")
        self.is_gone = error.why == "gone"


class _Copying:
    """One copy."""

    def __init__(self, gateway: Gateway, ctx: ToolContext, source: Box, target: Box) -> None:
        self._gateway = gateway
        self._ctx = ctx
        self._source, self._target = source, target

    async def run(self, from_: str, to: str) -> Copied:
        began = time.perf_counter()
        # Before anything is read: a box that is gone is said to be so at once.
        offer = await self._call(self._source, SEND, {"path": from_, "to_box": self._target.name})
        ticket, size = secrets.token_urlsafe(24), offer["size"]
        asked = {"path": to, "from_box": self._source.name, "source": offer["path"], "ticket": ticket}
        receiving = asyncio.create_task(
            self._call(self._target, RECEIVE, {**asked, "size": size, "mode": offer["mode"]})
        )
        piping = asyncio.create_task(self._pipe(offer["ticket"], ticket, size))
        try:
            # An error of the receiver says more than that its ticket is gone.
            await asyncio.wait({receiving, piping}, return_when=asyncio.FIRST_EXCEPTION)
            if not receiving.done():
                await piping
            received = await receiving
        finally:
            for task in (piping, receiving):
                task.cancel()
            await asyncio.gather(piping, receiving, return_exceptions=True)
        return Copied(
            from_box=self._source.name,
            from_=offer["path"],
            to_box=self._target.name,
            to=received["path"],
            seconds=round(time.perf_counter() - began, 3),
            **{name: received[name] for name in ("bytes", "sha256", "undo_id", "undoable", "why") if name in received},
        )

    async def _pipe(self, offered: str, ticket: str, size: int) -> None:
        """Pass all pieces on, in order: the next one is read while one is written."""
        offset, piece = 0, None
        while offset < size or piece is not None:
            found, _ = await asyncio.gather(self._read(offered, offset, size), self._write(ticket, offset, piece, size))
            offset, piece = offset + len(found.data if found else b""), found

    async def _read(self, offered: str, offset: int, size: int) -> FilePiece | None:
        if offset == size:
            return None
        most = min(_PIECE_BYTES, self._gateway.bus.max_payload - _HEAD_BYTES, size - offset)
        return await self._ask(self._source, ReadPiece(offered, offset, most), FilePiece)

    async def _write(self, ticket: str, end: int, piece: FilePiece | None, size: int) -> None:
        """Write the piece that ends there."""
        if piece is None:
            return
        deadline = time.monotonic() + _PATIENCE_S
        question = WritePiece(ticket, end - len(piece.data), piece.data, piece.sha256)
        while True:
            try:
                await self._ask(self._target, question, PieceWritten)
                break
            except _NotCopied as error:
                # The call that makes the ticket may be on its way.
                if not error.is_gone or question.offset or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_S)
        self._ctx.progress(end, size, f"{end} of {size} bytes")

    async def _ask(self, box: Box, question: FileQuestion, kind: type[_T]) -> _T:
        """Ask until there is an answer. A piece that was asked for twice is written once."""
        try:
            return await self._gateway.calls.read(box.name, box.boot, question, kind, patience_s=_PATIENCE_S)
        except CannotRead as error:
            raise _NotCopied(box.name, error) from None
        except BusError as error:
            raise BoxUnreachable(
                f"{box.name} cannot be reached: {error}; the copy was given up", may_have_run=False
            ) from None

    async def _call(self, box: Box, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        caller = self._gateway.caller_of(self._ctx)
        try:
            return await self._gateway.call_as_program(caller, box, name, NEEDS[name], arguments)
        except RemoteError as error:
            raise _OnBox(box.name, error) from None
