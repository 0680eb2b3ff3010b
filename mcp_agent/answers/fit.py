"""The one place that makes an answer fit. For every budget, it stores what it leaves out and says how to get it.

Where the tool itself can go on, a part says how. Any other answer is stored whole first. Then its
text is shown by both ends, its object with the longest fields cut, or all of it as a short result.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec.structs import replace

from mcp_agent.answers.budget import (
    MESSAGE,
    MOST_RESULT_BYTES,
    Budget,
    TextLimit,
    choose_form,
    echoes_arguments,
    shows_images,
    text_limit,
    utf8,
)
from mcp_agent.answers.compact import Short
from mcp_agent.answers.pages import Object, Pages, Place, digest_of, next_page_hint, shorten
from mcp_agent.answers.reply import Blocks, Compact, ToolReply, Written, largest, shorten_error, text_of
from mcp_agent.storage.artifact_store import SCHEME, ArtifactStore
from registry.gate import Access, Shape
from tools.kit.errors import ToolError
from tools.kit.results import Block, line_cut, quantity
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from mcp_agent.calls.call import Call, Caller

# To write a longer text or list takes longer than to hand it to a thread, and would hold up the event loop.
_LARGE_CHARS = 250_000
_LARGE_LIST = 1_000
_SAMPLE = 1_000
_ASK_FOR_LESS = "Ask for less at once."
# Room for the sentence that replaces blocks that do not fit, and for the sentence on where the whole is.
_NOTE_BYTES = 1_000
_KEPT_NOTE_BYTES = 200
_PART_CHARS = 256 * 1024
# The most lines that a stored list is written on: a search in it finds lines.
_MOST_LINES = 1_000
_LINES_AT_ONCE = 50


class Fitted(NamedTuple):
    """An answer as it goes out, and how large it is where not all of it does."""

    written: Written
    whole_bytes: int | None = None


class Kept(NamedTuple):
    """Where the whole answer is stored, or why it is not."""

    reference: str | None
    problem: str = ""

    @property
    def loss(self) -> str:
        return f"could not be kept: {shorten(self.problem, 120)}"


class Answers:
    """Fits answers to their budgets, and gives further pages of them. May be used from any thread.

    `text_bytes` is the most that a text for a model has unless its call names a size; None for no such limit. `visible`
    gives the tools that a caller may use: nobody is told to use another. `box` is the name of this machine in a fleet.
    Without `keeps` nothing is kept: no caller could read it.
    """

    def __init__(
        self,
        store: ArtifactStore,
        visible: Callable[[Access], Iterable[Tool]],
        *,
        text_bytes: int | None = None,
        box: str = "",
        keeps: bool = True,
    ) -> None:
        self._store = store
        self._keeps = keeps
        self._visible = visible
        self._text_bytes = text_bytes
        self._pages = Pages(store, box)

    def budget(self, call: Call, tool: Tool | None, shape: Shape, *, is_never_cut: bool = False) -> Budget:
        form = choose_form(shape, call.caller)
        limit = text_limit(call, tool, self._text_bytes) if form == "text" else MESSAGE
        return Budget(call, tool, form, limit, is_never_cut)

    def page(self, cursor: str, tool: Tool, call: Call) -> Compact:
        """The page of an earlier result that a cursor leads to. Raises InvalidParams, NotFound."""
        return Compact(orjson.dumps(self._pages.at(cursor, tool, call.arguments, call.caller.owner)))

    def fit(self, reply: ToolReply, budget: Budget) -> Fitted | Callable[[], Fitted]:
        """The answer as it goes out, or the work that is left where that takes long or touches the disk.

        That work belongs in a thread. It raises ToolError if the answer is too large and a part would be of no use.
        """
        value = reply.as_object()
        work = partial(self._fit_short if budget.form == "compact" else self._fit_whole, reply, value, budget)
        for each in value.values():
            kind = type(each)
            if (kind is str and len(each) > _LARGE_CHARS) or (kind is list and len(each) > _LARGE_LIST):
                return partial(_finish, work)
        return work()

    def _fit_whole(self, reply: ToolReply, value: Object, budget: Budget) -> Fitted | Callable[[], Fitted]:
        whole, fits = _write(reply, value, budget)
        return Fitted(whole) if fits else partial(self._cut, reply, value, whole, budget)

    def _cut(self, reply: ToolReply, value: Object, whole: Written, budget: Budget) -> Fitted:
        if isinstance(whole, Blocks):
            return Fitted(Blocks(self._cut_blocks(reply, budget)), len(whole.encoded))
        if isinstance(whole, str):
            return Fitted(self._cut_text(reply, whole, budget), len(utf8(whole)))
        assert isinstance(whole, bytes), "what is compact was cut before, and an image is never cut"
        return Fitted(self._cut_object(reply, value, whole, budget), len(whole))

    def _cut_text(self, reply: ToolReply, whole: str, budget: Budget) -> str:
        """A part of the rendering. Raises ToolError where a part would be of no use."""
        # An answer that does not even fit into a message says where the whole is.
        limit, room = budget.text, _KEPT_NOTE_BYTES if budget.text.is_message else 0
        own = limit._replace(most_bytes=limit.most_bytes - room)
        part = reply.largest_part(lambda part: own.holds(part.render()), own.most_bytes)
        _refuse(reply, part)
        if part is not None and part.facts.next_call is not None and not room:
            return part.render()
        kept = self._keep(reply, budget, [utf8(whole)])
        if part is None or part.facts.next_call is None:
            return _both_ends(whole, limit, lambda head, tail: self._gap(reply, whole, head, tail, kept, budget))
        header, newline, text = part.render().partition("\n")
        note = "" if kept.reference is None else f" · all of it in {kept.reference}"
        return f"{header}{note}{newline}{text}"

    def _cut_object(self, reply: ToolReply, value: Object, encoded: bytes, budget: Budget) -> bytes:
        """A part of the object as JSON. Raises ToolError where a part would be of no use."""

        def fits(written: bytes) -> bool:
            return _message_bytes(written, budget.call.caller) <= MOST_RESULT_BYTES

        if reply.body.refuse is not None:
            _refuse(reply, reply.largest_part(lambda part: fits(orjson.dumps(part.as_object())), MOST_RESULT_BYTES))
        kept = self._keep_whole(reply, value, budget)
        facts: Object = {"truncated": True, "result_bytes": len(encoded)}
        if kept.reference is not None:
            facts["artifactRef"] = kept.reference
        hint = self._way(kept, budget, is_all=not reply.facts.rest)

        def write(part: ToolReply) -> bytes:
            go_on = f"Go on with {part.facts.next_call}. " if part.facts.next_call else ""
            return orjson.dumps({**part.as_object(), **facts, "hint": go_on + hint})

        part = reply.largest_part(lambda part: fits(write(part)), MOST_RESULT_BYTES)
        return write(part) if part is not None else _cut_fields(value, {**facts, "hint": hint}, fits)

    def _cut_blocks(self, reply: ToolReply, budget: Budget) -> bytes:
        """The blocks of a result: both ends of its text, and the other blocks that fit. What does not is kept."""
        every = _blocks(reply, budget)
        text = text_of(every)
        others = [block for block in every if block.get("type") != "text"]
        limit = budget.text
        if others:
            limit = TextLimit(min(limit.most_bytes, MOST_RESULT_BYTES // 2))
        if not limit.holds(text):
            kept = self._keep(reply, budget, [utf8(text)])
            text = _both_ends(text, limit, lambda head, tail: self._gap(reply, text, head, tail, kept, budget))
        shown: list[Block] = [{"type": "text", "text": text}] if text or not others else []
        left = MOST_RESULT_BYTES - _NOTE_BYTES - len(orjson.dumps(shown))
        for index, block in enumerate(others):
            left -= len(orjson.dumps(block)) + 1
            if left < 0:
                shown.append({"type": "text", "text": self._note_rest(reply, others[index:], budget)})
                break
            shown.append(block)
        return orjson.dumps(shown)

    def _note_rest(self, reply: ToolReply, rest: Sequence[Block], budget: Budget) -> str:
        """Store blocks that do not fit, and say where they are. A single image is stored as an image file."""
        data, media_type = orjson.dumps(rest), "application/json"
        if len(rest) == 1 and isinstance(rest[0].get("data"), str):
            with contextlib.suppress(ValueError):
                data = base64.b64decode(rest[0]["data"], validate=True)
                media_type = str(rest[0].get("mimeType") or "application/octet-stream")
        kinds = ", ".join(sorted({str(block.get("type")) for block in rest}))
        kept = self._keep(reply, budget, [data], media_type)
        where = f"in {kept.reference}" if kept.reference else f"lost, because it {kept.loss}"
        return f"[{quantity(len(rest), 'block')} ({kinds[:100]}), {len(data):,} bytes, did not fit: {where}]"

    def _fit_short(self, reply: ToolReply, value: Object, budget: Budget) -> Fitted | Callable[[], Fitted]:
        if reply.body.artifact_range is not None:
            return partial(self._page_of_artifact, reply, budget)
        short = Short(reply, value, budget)
        encoded = short.whole()
        return Fitted(Compact(encoded)) if encoded is not None else partial(self._cut_short, reply, short, budget)

    def _page_of_artifact(self, reply: ToolReply, budget: Budget) -> Fitted:
        shown = reply.body.artifact_range
        assert shown is not None, "it was looked at before"
        place = replace(_place(budget), reference=shown.reference, offset=shown.start, fills=True)
        page = self._pages.of_bytes(place, budget.call.caller.owner, shown.end)
        return Fitted(Compact(orjson.dumps(page)), shown.end - shown.start)

    def _cut_short(self, reply: ToolReply, short: Short, budget: Budget) -> Fitted:
        """The result with what it has room for. Its whole is kept first."""
        text = reply.render() if reply.is_text and reply.facts.artifact is None else ""
        parts = _text_parts(text) if text else object_parts(short.value, short.list_field)
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for part in parts:
                size += len(part)
                yield part

        kept = self._keep(reply, budget, counted(), "text/plain" if text else "application/json")
        # The store may have refused the rest: count that as well.
        size += sum(map(len, parts))
        place = replace(_place(budget), reference=kept.reference or "", rest=reply.facts.rest)
        encoded = short.part(place, partial(self._footer, kept, place), text)
        return Fitted(Compact(encoded), size)

    def _footer(self, kept: Kept, place: Place, following: Place | None) -> Object:
        """What a reader of a short result needs to go on at `following`."""
        if kept.reference is None:
            return {"hasMore": True, "hint": f"The rest is lost, because it {kept.loss}. Ask for less at once."}
        what = "All of this answer" if place.rest else "All of it"
        ways = [next_page_hint(place.tool)] if following is not None else []
        ways.append(f'{what}: artifact_read {{"ref": "{kept.reference}"}}. Search it: fs_grep with base: the same ref.')
        if place.rest:
            is_last = following is None
            ways.append(f"It is a part. {place.rest}" if is_last else "It is a part; its last page says more.")
        return {**self._pages.footer(place, following), "hint": " ".join(ways)}

    def _gap(self, reply: ToolReply, whole: str, head: int, tail: int, kept: Kept, budget: Budget) -> str:
        """The line that replaces what is left out: how much it is, and how to get it."""
        left_out = f"{len(utf8(whole[head:tail])):,} bytes left out"
        reference, tools = kept.reference, self._tools_for(budget)
        if reference is None or "fs_read_range" not in tools:
            return f"[… {left_out}. {self._way(kept, budget, is_all=True)}]"
        if reference == reply.facts.artifact:
            first = self._lines_shared(whole[:head], reference, budget.call.caller) + 1
            way = f"fs_read_range path={reference} start_line={first} end_line=-1"
        else:
            first, last = whole.count("\n", 0, head) + 1, whole.count("\n", 0, tail - 1) + 1
            behind = len(utf8(whole[whole.rfind("\n", 0, head) + 1 : head]))
            start = f"start_line={first}" + (f" start_byte={behind}" if behind else "")
            way = f"fs_read_range path={reference} {start} end_line={last}"
        search = f"; search it: fs_grep base={reference}" if "fs_grep" in tools else ""
        return f"[… {left_out}; go on with {way}{search}]"

    def _lines_shared(self, shown: str, reference: str, caller: Caller) -> int:
        """How many leading lines `shown` shares with the stored artifact, without its header."""
        text = utf8(shown.partition("\n")[2])
        with self._store.of(caller.owner).path_of(reference).open("rb") as file:
            return text.count(b"\n") if file.read(len(text)) == text else 0

    def _way(self, kept: Kept, budget: Budget, *, is_all: bool) -> str:
        """How the caller gets the whole: with a tool that it may use, by URL if it is a program on HTTP."""
        reference, tools, caller = kept.reference, self._tools_for(budget), budget.call.caller
        if reference is None:
            return f"The rest is lost, because it {kept.loss}. {_ASK_FOR_LESS}" if kept.problem else _ASK_FOR_LESS
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
        return " ".join(ways) or _ASK_FOR_LESS

    def _tools_for(self, budget: Budget) -> Collection[str]:
        return {tool.name for tool in self._visible(budget.call.caller.access)}

    def _keep_whole(self, reply: ToolReply, value: Object, budget: Budget) -> Kept:
        """Keep the rendering where that says it all, else the object."""
        if reply.is_text:
            return self._keep(reply, budget, [utf8(reply.render())])
        listed = reply.body.field if reply.body.kind == "list" else None
        return self._keep(reply, budget, object_parts(value, listed), "application/json")

    def _keep(self, reply: ToolReply, budget: Budget, parts: Iterable[bytes], media_type: str = "text/plain") -> Kept:
        """Store the whole, unless the tool has stored it already."""
        if not self._keeps:
            return Kept(None)
        if reply.facts.artifact is not None:
            return Kept(reply.facts.artifact)
        is_error = budget.tool is None or isinstance(reply.answer, ToolError)
        domain = "errors" if is_error or budget.tool is None else budget.tool.category
        try:
            return Kept(self._store.of(budget.call.caller.owner).keep(domain, parts, media_type=media_type))
        except OSError as error:
            return Kept(None, (error.strerror or str(error)).lower())


def _finish(work: Callable[[], Fitted | Callable[[], Fitted]]) -> Fitted:
    found = work()
    return found if isinstance(found, Fitted) else found()


def _write(reply: ToolReply, value: Object, budget: Budget) -> tuple[Written, bool]:
    """The whole answer as it would be sent, and whether it fits. Its length nearly always decides."""
    caller, content = budget.call.caller, reply.body.content
    if content is not None and caller.is_on_mcp:
        blocks = _blocks(reply, budget)
        structured = content.structured if budget.form == "json" else None
        written = Blocks(orjson.dumps(blocks), None if structured is None else orjson.dumps(structured))
        fits = len(written.encoded) + len(written.structured or b"") <= MOST_RESULT_BYTES
        return written, fits and (budget.form == "json" or budget.text.holds(text_of(blocks)))
    if content is not None and content.media is not None and caller.takes_media:
        return content.media, True
    if budget.form == "text":
        text = reply.render()
        if isinstance(reply.answer, ToolError) and echoes_arguments(caller.client):
            text = shorten_error(text, budget.call.arguments)
        return text, budget.text.holds(text)
    encoded = orjson.dumps(value)
    if len(encoded) * 3 <= MOST_RESULT_BYTES or budget.is_never_cut:
        return encoded, True
    return encoded, len(encoded) <= MOST_RESULT_BYTES and _message_bytes(encoded, caller) <= MOST_RESULT_BYTES


def _blocks(reply: ToolReply, budget: Budget) -> list[Block]:
    """The content of a result; in the place of an image a sentence, where the model would be given its bytes."""
    if shows_images(budget.call.caller.client):
        return reply.blocks()
    return [_in_words(block) for block in reply.blocks()]


def _in_words(block: Block) -> Block:
    if block.get("type") not in ("image", "audio"):
        return block
    data = str(block.get("data"))
    what = str(block.get("mimeType") or block["type"])[:100]
    size = len(data) * 3 // 4 - data[-2:].count("=")
    text = f"[{what}, {size:,} bytes, is left out: this client shows its model text alone]"
    return {"type": "text", "text": text}


def _message_bytes(encoded: bytes, caller: Caller) -> int:
    """The size of an object on the wire: /tools sends it as it is, all others also as text, with its quotes escaped."""
    return len(encoded) if caller.takes_media else len(encoded) + len(orjson.dumps(encoded.decode()))


def _refuse(reply: ToolReply, part: ToolReply | None) -> None:
    """Raise the error of a result that is useless in parts."""
    if reply.body.refuse is not None:
        raise reply.body.refuse(None if part is None or isinstance(part.answer, ToolError) else part.answer)


def _place(budget: Budget) -> Place:
    name = budget.call.tool if budget.tool is None else budget.tool.name
    return Place(name, digest_of(budget.call.arguments))


def _both_ends(whole: str, limit: TextLimit, gap: Callable[[int, int], str]) -> str:
    """The beginning and the end of a text, cut at lines, with a line between them that `gap` writes.

    An end that is one long line is not shown, and a beginning that is one is cut in the line.
    """

    def shown(size: int) -> str | None:
        tail = whole.find("\n", len(whole) - size // 2, len(whole) - 1) + 1 or len(whole)
        head = line_cut(whole, size - (len(whole) - tail))
        between = "" if whole[head - 1] == "\n" else "\n"
        text = f"{whole[:head]}{between}{gap(head, tail)}\n{whole[tail:]}"
        return text if limit.holds(text) else None

    return largest(shown, min(len(whole), limit.most_bytes) - 1) or gap(0, len(whole))


def _cut_fields(value: Mapping[str, Any], facts: Mapping[str, Any], fits: Callable[[bytes], bool]) -> bytes:
    """The object with its longest lists and texts cut until it fits, and `facts` beside it."""
    shown = dict(value)
    while shown:
        key = max(shown, key=lambda key: _length(shown[key]))
        whole = shown.pop(key)
        if isinstance(whole, str | list) and (encoded := _cut_field(key, whole, {**shown, **facts}, fits)) is not None:
            return encoded
    return orjson.dumps(facts)


def _cut_field(
    key: str, whole: str | list[Any], others: Mapping[str, Any], fits: Callable[[bytes], bool]
) -> bytes | None:
    def cut(size: int) -> bytes | None:
        shown = whole[: line_cut(whole, size) if isinstance(whole, str) else size]
        encoded = orjson.dumps({key: shown, **others})
        return encoded if fits(encoded) else None

    return largest(cut, min(len(whole), MOST_RESULT_BYTES)) or cut(0)


def _length(value: Any) -> int:
    """The size of a value in bytes; that of a long list is estimated from its beginning."""
    if isinstance(value, list) and len(value) > _SAMPLE:
        return len(orjson.dumps(value[:_SAMPLE])) * len(value) // _SAMPLE
    return len(orjson.dumps(value))


def _text_parts(text: str) -> Iterator[bytes]:
    return (utf8(text[start : start + _PART_CHARS]) for start in range(0, len(text), _PART_CHARS))


def object_parts(value: Mapping[str, Any], listed: str | None) -> Iterator[bytes]:
    """An object as JSON, in pieces because it may be large. The elements of its list stand on lines of their own."""
    if listed is None:
        yield orjson.dumps(value)
        return
    entries: Sequence[Any] = value[listed]
    others = orjson.dumps({key: each for key, each in value.items() if key != listed})
    yield others[:-1] + (b"," if len(others) > 2 else b"") + orjson.dumps(listed) + b":[\n"
    count = 1 + len(entries) // _MOST_LINES
    lines: list[memoryview | bytes] = []
    for start in range(0, len(entries), count):
        # Without its brackets, and without another copy of it.
        lines.append(memoryview(orjson.dumps(entries[start : start + count]))[1:-1])
        if len(lines) == _LINES_AT_ONCE and start + count < len(entries):
            yield b",\n".join((*lines, b""))
            lines = []
    yield b",\n".join(lines) + b"\n]}"
