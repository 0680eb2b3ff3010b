"""What is sent of a result that is too large: as much as fits, and how to get the rest.

Where the tool itself can go on, the part says how. The whole of any other result is kept as an artifact first, and its
text is shown by both ends.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from mcp_agent.calls.call import MEDIA_WIRES, Caller
from mcp_agent.storage.artifact_store import SCHEME, ArtifactStore
from tools.kit.errors import ToolError
from tools.kit.results import Block, Result, largest_part
from tools.kit.summaries import line_cut, quantity

MOST_MESSAGE_BYTES = 1_000_000
# Room for the envelope around a result: the id, the era's fields and the framing of an event.
_ENVELOPE_BYTES = 4_096
MOST_RESULT_BYTES = MOST_MESSAGE_BYTES - _ENVELOPE_BYTES
_SAMPLE = 1_000
# Room for the sentence that stands for blocks which do not fit.
_NOTE_BYTES = 1_000
# The largest part that fits is searched for until it is known to half a percent.
_PRECISION = 200


class Room(NamedTuple):
    """How much text may go out: its bytes, or those of it as JSON, and lines. No text may be larger than a message."""

    most_bytes: int = MOST_RESULT_BYTES
    most_lines: int | None = None
    counts_json: bool = False

    @property
    def is_message(self) -> bool:
        return self.most_bytes >= MOST_RESULT_BYTES

    def holds(self, text: str) -> bool:
        # A character is at most 4 bytes, and at most 6 as JSON.
        if len(text) * 4 > self.most_bytes and len(_utf8(text)) > self.most_bytes:
            return False
        if self.most_lines is not None and text.count("\n") >= self.most_lines:
            return False
        if self.counts_json and len(orjson.dumps(_utf8(text).decode())) > self.most_bytes:
            return False
        return len(text) * 6 <= MOST_RESULT_BYTES or len(orjson.dumps(_utf8(text).decode())) <= MOST_RESULT_BYTES


class Reader(NamedTuple):
    """Who gets the part, and the names of the tools that it may use."""

    caller: Caller
    tools: Collection[str]


class Kept(NamedTuple):
    """Where the whole is kept, or why it is not."""

    reference: str | None
    problem: str = ""


class Parts:
    """Cuts results and keeps their wholes. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    def text(self, answer: Result | ToolError, whole: str, room: Room, reader: Reader, domain: str) -> str:
        """A part of the rendering. Raises ToolError where a part would be of no use."""
        if isinstance(answer, Result):
            refuse_part(answer, lambda part: room.holds(part.render()))
            part = largest_part(answer, lambda part: room.holds(part.render()), room.most_bytes)
            if part is not None and part.way_on is not None:
                if not room.is_message:
                    return part.render()
                # What does not even fit into a message is kept, too.
                kept = self._keep(answer, whole, reader.caller, domain)
                note = "" if kept.reference is None else f" · all of it in {kept.reference}"
                part = largest_part(answer, lambda part: room.holds(_add_note(part, note)), room.most_bytes)
                if part is not None:
                    return _add_note(part, note)
        kept = self._keep(answer, whole, reader.caller, domain)
        return _both_ends(whole, room, lambda head, tail: self._gap(answer, whole, head, tail, kept, reader))

    def object(
        self, answer: Result | ToolError, value: dict[str, Any], encoded: bytes, reader: Reader, domain: str
    ) -> bytes:
        """A part of the object as JSON. Raises ToolError where a part would be of no use."""
        caller = reader.caller

        def fits(written: bytes) -> bool:
            return wire_bytes(written, caller) <= MOST_RESULT_BYTES

        if isinstance(answer, Result):
            refuse_part(answer, lambda part: fits(orjson.dumps(part.as_object())))
        whole = answer.render() if answer.is_text else None
        kept = self._keep(answer, whole or encoded.decode(), caller, domain, is_text=whole is not None)
        facts: dict[str, Any] = {"truncated": True, "result_bytes": len(encoded)}
        if kept.reference is not None:
            facts["artifactRef"] = kept.reference
        hint = _advice(kept, reader, is_all=not (isinstance(answer, Result) and answer.is_cut))

        def write(part: Result) -> bytes:
            go_on = "" if part.way_on is None else f"Go on with {part.way_on}. "
            return orjson.dumps({**part.as_object(), **facts, "hint": go_on + hint})

        if isinstance(answer, Result):
            part = largest_part(answer, lambda part: fits(write(part)), MOST_RESULT_BYTES)
            if part is not None:
                return write(part)
        return _fit(value, {**facts, "hint": hint}, fits)

    def blocks(self, answer: Result, room: Room, reader: Reader, domain: str) -> bytes:
        """The blocks of a result: both ends of its text, and the other blocks that fit. What does not is kept."""
        every = answer.blocks() or ()
        text = text_of(every)
        others = [block for block in every if block.get("type") != "text"]
        if others:
            room = Room(min(room.most_bytes, MOST_RESULT_BYTES // 2))
        if not room.holds(text):
            kept = self._keep(answer, text, reader.caller, domain)
            text = _both_ends(text, room, lambda head, tail: self._gap(answer, text, head, tail, kept, reader))
        shown: list[Block] = [{"type": "text", "text": text}] if text or not others else []
        left = MOST_RESULT_BYTES - _NOTE_BYTES - len(orjson.dumps(shown))
        for index, block in enumerate(others):
            left -= len(orjson.dumps(block)) + 1
            if left < 0:
                shown.append(self._note_rest(others[index:], reader, domain))
                break
            shown.append(block)
        return orjson.dumps(shown)

    def _note_rest(self, rest: Sequence[Block], reader: Reader, domain: str) -> Block:
        """Keep blocks that do not fit, and say where they are. One that is an image is kept as that."""
        data, media_type = orjson.dumps(rest), "application/json"
        if len(rest) == 1 and isinstance(rest[0].get("data"), str):
            with contextlib.suppress(ValueError):
                data = base64.b64decode(rest[0]["data"], validate=True)
                media_type = str(rest[0].get("mimeType") or "application/octet-stream")
        kinds = ", ".join(sorted({str(block.get("type")) for block in rest}))
        try:
            where = f"in {self._artifacts.of(reader.caller.name).keep(domain, [data], media_type=media_type)}"
        except OSError as error:
            where = f"lost, because it could not be kept: {(error.strerror or str(error)).lower()}"
        what = f"{quantity(len(rest), 'block')} ({kinds[:100]}), {len(data):,} bytes, did not fit"
        return {"type": "text", "text": f"[{what}: {where}]"}

    def _gap(self, answer: Result | ToolError, whole: str, head: int, tail: int, kept: Kept, reader: Reader) -> str:
        """What stands in the place of what is left out: how much it is, and how to get it."""
        missing = len(_utf8(whole[head:tail]))
        left_out = f"{missing:,} bytes left out"
        reference = kept.reference
        if reference is None or "fs_read_range" not in reader.tools:
            return f"[… {left_out}. {_advice(kept, reader, is_all=True)}]"
        if isinstance(answer, Result) and reference == answer.artifact_reference:
            first = self._lines_shared(whole[:head], reference, reader.caller) + 1
            way = f"fs_read_range path={reference} start_line={first} end_line=-1"
        else:
            first, last = whole.count("\n", 0, head) + 1, whole.count("\n", 0, tail - 1) + 1
            behind = len(_utf8(whole[whole.rfind("\n", 0, head) + 1 : head]))
            start = f"start_line={first}" + (f" start_byte={behind}" if behind else "")
            way = f"fs_read_range path={reference} {start} end_line={last}"
        search = f"; search it: fs_grep base={reference}" if "fs_grep" in reader.tools else ""
        return f"[… {left_out}; go on with {way}{search}]"

    def _lines_shared(self, shown: str, reference: str, caller: Caller) -> int:
        """With how many lines of `shown`, without its header, an artifact begins that the tool itself has kept."""
        text = _utf8(shown.partition("\n")[2])
        with self._artifacts.of(caller.name).path_of(reference).open("rb") as file:
            return text.count(b"\n") if file.read(len(text)) == text else 0

    def _keep(
        self, answer: Result | ToolError, whole: str, caller: Caller, domain: str, *, is_text: bool = True
    ) -> Kept:
        if isinstance(answer, Result) and answer.artifact_reference is not None:
            return Kept(answer.artifact_reference)
        media_type = "text/plain" if is_text else "application/json"
        try:
            return Kept(self._artifacts.of(caller.name).keep(domain, [_utf8(whole)], media_type=media_type))
        except OSError as error:
            return Kept(None, (error.strerror or str(error)).lower())


def text_of(blocks: Iterable[Block]) -> str:
    return "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")


def wire_bytes(encoded: bytes, caller: Caller) -> int:
    """The size of an object on the wire: /tools sends it as it is, all others also as text, with its quotes escaped."""
    return len(encoded) if caller.transport in MEDIA_WIRES else len(encoded) + len(orjson.dumps(encoded.decode()))


def refuse_part(answer: Result, fits: Callable[[Result], bool]) -> None:
    error = answer.refusal(fits)
    if error is not None:
        raise error


def _advice(kept: Kept, reader: Reader, *, is_all: bool) -> str:
    """How the caller gets the whole: with a tool that it may use, by URL if it is a program on HTTP."""
    reference, tools, caller = kept.reference, reader.tools, reader.caller
    if reference is None:
        return f"The rest is lost, because it could not be kept: {kept.problem}. Ask for less at once."
    what = "all of it" if is_all else "all of this answer"
    has_reader = "artifact_read" in tools or "fs_read_range" in tools
    ways = []
    if not caller.is_on_mcp or (not has_reader and caller.transport != "stdio"):
        ways.append(f"Get {what} with GET /artifacts/{reference.removeprefix(SCHEME)}.")
    search = ", or search it with fs_grep, base: the same ref" if "fs_grep" in tools else ""
    if "artifact_read" in tools:
        ways.append(f'Read {what} with artifact_read {{"ref": "{reference}"}}{search}.')
    elif "fs_read_range" in tools:
        ways.append(f'Read {what} with fs_read_range, path: "{reference}"{search}.')
    return " ".join(ways) or "Ask for less at once."


def _add_note(part: Result, note: str) -> str:
    header, newline, text = part.render().partition("\n")
    return f"{header}{note}{newline}{text}"


def _both_ends(whole: str, room: Room, gap: Callable[[int, int], str]) -> str:
    """The beginning and the end of a text, cut at lines, with a line between them that `gap` writes.

    An end that is one long line is not shown, and a beginning that is one is cut in the line.
    """
    best = gap(0, len(whole))
    low, high = 0, min(len(whole), room.most_bytes)
    while high - low > 1 + high // _PRECISION:
        middle = (low + high) // 2
        tail = whole.find("\n", len(whole) - middle // 2, len(whole) - 1) + 1 or len(whole)
        head = line_cut(whole, middle - (len(whole) - tail))
        between = "" if whole[head - 1] == "\n" else "\n"
        shown = f"{whole[:head]}{between}{gap(head, tail)}\n{whole[tail:]}"
        if room.holds(shown):
            low, best = middle, shown
        else:
            high = middle
    return best


def _fit(value: dict[str, Any], facts: dict[str, Any], fits: Callable[[bytes], bool]) -> bytes:
    """The object with its longest lists and texts cut until it fits, and `facts` beside it."""
    shown = dict(value)
    while shown:
        key = max(shown, key=lambda key: _length(shown[key]))
        whole = shown[key]
        if not isinstance(whole, str | list) or not whole:
            del shown[key]
            continue
        low, high = 0, min(len(whole), MOST_RESULT_BYTES) + 1
        while high - low > 1 + high // _PRECISION:
            middle = (low + high) // 2
            shown[key] = whole[: line_cut(whole, middle) if isinstance(whole, str) else middle]
            if fits(orjson.dumps({**shown, **facts})):
                low = middle
            else:
                high = middle
        shown[key] = whole[: line_cut(whole, low) if isinstance(whole, str) else low]
        encoded = orjson.dumps({**shown, **facts})
        if fits(encoded):
            return encoded
    return orjson.dumps(facts)


def _length(value: Any) -> int:
    """How much there is to cut, in bytes; a long list is judged by its beginning."""
    if isinstance(value, list) and len(value) > _SAMPLE:
        return len(orjson.dumps(value[:_SAMPLE])) * len(value) // _SAMPLE
    return len(orjson.dumps(value))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
