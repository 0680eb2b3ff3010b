"""How a result is written: as an object, as text for a model, or short.

A message has at most 1,000,000 bytes, and text for a model has less unless its caller names a size. What is larger is
cut in `parts`. Where a profile keeps results short, the compactor writes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from mcp_agent.calls.call import MEDIA_WIRES, Blocks, Call, Caller, Compact, Written
from mcp_agent.calls.contract import is_never_cut
from mcp_agent.calls.parts import MOST_RESULT_BYTES, Parts, Reader, Room, text_of, wire_bytes
from mcp_agent.calls.text_clients import text_client
from mcp_agent.compact.compactor import Compactor
from mcp_agent.compact.cursors import Origin
from mcp_agent.storage.artifact_store import ArtifactStore
from registry.catalog import Catalog
from registry.gate import Access, Shape
from tools.kit.errors import ToolError
from tools.kit.results import FOCUS, Block, Result
from tools.kit.spec import Tool

# A longer text or list is written in a thread, so that it does not hold up the event loop.
_LARGE_CHARS = 250_000
_LARGE_LIST = 1_000
# The header of a page of output.
_HEADER_BYTES = 400


# How a result is written for its caller.
WrittenForm = Literal["json", "text", "compact"]


class Shaped(NamedTuple):
    """A result or an error as it goes out, and how large it is where not all of it does."""

    written: Written
    whole_bytes: int | None = None


class Shaper:
    """Writes results and errors. May be used from any thread.

    `text_bytes` is the most that a text for a model has unless its caller names a size; None for no such limit.
    `visible` gives the tools that a caller may use: nobody is told to use another.
    """

    def __init__(
        self,
        artifacts: ArtifactStore,
        compactor: Compactor,
        catalog: Catalog,
        *,
        text_bytes: int | None = None,
        visible: Callable[[Access], Iterable[Tool]] | None = None,
    ) -> None:
        self._parts = Parts(artifacts)
        self._compactor = compactor
        self._text_bytes = text_bytes
        self._visible = visible or (lambda _: catalog.tools)

    def shape_small(
        self, answer: Result | ToolError, call: Call, form: WrittenForm, tool: Tool | None
    ) -> Shaped | None:
        """`answer` as it goes out, if that is quick and touches no disk, else None: then `shape` it in a thread."""
        takes_blocks = form != "compact" and call.caller.is_on_mcp
        value = answer.as_object()
        for each in value.values():
            kind = type(each)
            if (kind is str and len(each) > _LARGE_CHARS) or (kind is list and len(each) > _LARGE_LIST):
                # Writing it would take longer than handing it to a thread.
                return None
        blocks = answer.blocks() if takes_blocks and isinstance(answer, Result) else None
        if form == "compact":
            short = self._compactor.fit_whole(answer, tool)
            return None if short is None else Shaped(Compact(short.encoded))
        whole, fits = self._write_whole(answer, value, blocks, call, form, tool)
        return Shaped(whole) if fits else None

    def shape(self, answer: Result | ToolError, call: Call, form: WrittenForm, tool: Tool | None) -> Shaped:
        """`answer` as it goes out, small enough for one message. Touches the disk only if it is not by itself.

        Raises ToolError if it is too large and a part would be of no use.
        """
        domain = "errors" if tool is None else tool.category
        if form == "compact":
            question = call.arguments.get(FOCUS)
            asked = question if isinstance(question, str) and question.strip() else None
            short = self._compactor.shorten(answer, tool, _origin(call, tool), domain, asked)
            return Shaped(Compact(short.encoded), short.whole_bytes)
        value = answer.as_object()
        blocks = answer.blocks() if call.caller.is_on_mcp and isinstance(answer, Result) else None
        whole, fits = self._write_whole(answer, value, blocks, call, form, tool)
        if fits:
            return Shaped(whole)
        reader = Reader(call.caller, frozenset(tool.name for tool in self._visible(call.caller.access)))
        if isinstance(whole, Blocks) and isinstance(answer, Result):
            room = self._room(call, tool) if form == "text" else Room()
            return Shaped(Blocks(self._parts.blocks(answer, room, reader, domain)), len(whole.encoded))
        if form == "text":
            text = whole if isinstance(whole, str) else answer.render()
            part = self._parts.text(answer, text, self._room(call, tool), reader, domain)
            return Shaped(part, len(text.encode("utf-8", "replace")))
        encoded = whole if isinstance(whole, bytes) else orjson.dumps(value)
        return Shaped(self._parts.object(answer, value, encoded, reader, domain), len(encoded))

    def page(self, cursor: str, tool: Tool, call: Call) -> Compact:
        """The page of an earlier result that a cursor leads to. Raises InvalidParams, NotFound."""
        return Compact(self._compactor.page(cursor, tool, _origin(call, tool)))

    def text_room(self, call: Call, tool: Tool) -> Room | None:
        """How much text a result of this call has room for below its header; None if only a message limits it."""
        room = self._room(call, tool)
        if room.is_message:
            return None
        most_lines = None if room.most_lines is None else room.most_lines - 1
        return room._replace(most_bytes=room.most_bytes - _HEADER_BYTES, most_lines=most_lines)

    def _write_whole(
        self,
        answer: Result | ToolError,
        value: dict[str, Any],
        blocks: Sequence[Block] | None,
        call: Call,
        form: Literal["json", "text"],
        tool: Tool | None,
    ) -> tuple[Written, bool]:
        """The whole answer as it would be sent, and whether it may be. Its length nearly always decides."""
        caller = call.caller
        if not isinstance(answer, ToolError):
            if blocks is not None:
                structured = answer.structured_content if form == "json" else None
                content = Blocks(orjson.dumps(blocks), None if structured is None else orjson.dumps(structured))
                fits = len(content.encoded) + len(content.structured or b"") <= MOST_RESULT_BYTES
                return content, fits and (form == "json" or self._room(call, tool).holds(text_of(blocks)))
            if caller.transport in MEDIA_WIRES and (media := answer.media) is not None:
                return media, True
        if form == "text":
            text = answer.render()
            return text, self._room(call, tool).holds(text)
        encoded = orjson.dumps(value)
        if len(encoded) * 3 <= MOST_RESULT_BYTES or is_never_cut(tool, caller):
            return encoded, True
        return encoded, len(encoded) <= MOST_RESULT_BYTES and wire_bytes(encoded, caller) <= MOST_RESULT_BYTES

    def _room(self, call: Call, tool: Tool | None) -> Room:
        """All that a message holds if the caller names a size, else as much as a model is to be given."""
        if self._text_bytes is None or (
            tool is not None and any(call.arguments.get(name) is not None for name in tool.size_arguments)
        ):
            return Room()
        client = text_client(call.caller.client)
        if client is None:
            return Room(self._text_bytes)
        own = self._text_bytes if client.most_bytes is None else min(self._text_bytes, client.most_bytes)
        return Room(own, client.most_lines, client.shows_json)


def choose_form(shape: Shape, caller: Caller) -> WrittenForm:
    """Compact if the profile says so; else what the connection asks for, the profile's form, or that of the client."""
    if shape == "compact":
        return shape
    form = shape if caller.form == "auto" else caller.form
    if form != "auto":
        return form
    return "json" if text_client(caller.client) is None else "text"


def _origin(call: Call, tool: Tool | None) -> Origin:
    return Origin.of(call.tool if tool is None else tool.name, call.caller.name, call.arguments)
