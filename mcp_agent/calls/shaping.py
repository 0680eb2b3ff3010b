"""How a result is written, and what happens when it is too large for one message.

A message has at most 1,000,000 bytes. A larger result is kept whole as an artifact, and what is sent is its
beginning with the reference and the call that fetches the rest. If it cannot be kept, as much as fits is sent.
Where a profile keeps results short, the compactor writes all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

from mcp_agent.calls.call import Blocks, Call, Caller, Compact, Written
from mcp_agent.compact.compactor import Compactor
from mcp_agent.compact.cursors import Origin
from mcp_agent.storage.artifact_store import SCHEME, ArtifactStore
from registry.catalog import Catalog
from registry.gate import Shape
from tools.kit.errors import ToolError
from tools.kit.results import Result
from tools.kit.spec import Tool

MOST_MESSAGE_BYTES = 1_000_000
# Room for the envelope around a result: the id, the era's fields and the framing of an event.
_ENVELOPE_BYTES = 4_096
MOST_RESULT_BYTES = MOST_MESSAGE_BYTES - _ENVELOPE_BYTES
# What is sent of a result whose whole is kept: a model that wants more can have it.
_PREVIEW_BYTES = 100_000
_SAMPLE = 1_000
# A longer text or list is written in a thread, so that it does not hold up the event loop.
_LARGE_CHARS = 250_000
_LARGE_LIST = 1_000

# Programs that put a result before a model as it is, by the name in their `clientInfo`.
TEXT_CLIENTS = (
    "claude-code",
    "claude-ai",
    "codex-mcp-client",
    "gemini-cli-mcp-client",
    "Visual Studio Code",
    "github-copilot-developer",
    "cursor-vscode",
    "Zed",
    "opencode",
    "goose",
)
_TEXT_CLIENTS = frozenset(name.lower() for name in TEXT_CLIENTS)


class Shaped(NamedTuple):
    """A result or an error as it goes out, and how large it is where not all of it does."""

    written: Written
    whole_bytes: int | None = None


class Shaper:
    """Writes results and errors. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore, compactor: Compactor, catalog: Catalog) -> None:
        self._artifacts = artifacts
        self._compactor = compactor
        self._has_reader = "artifact_read" in catalog.by_name

    def shape_small(self, answer: Result | ToolError, call: Call, shape: Shape, tool: Tool | None) -> Shaped | None:
        """`answer` as it goes out, if that is quick and touches no disk, else None: then `shape` it in a thread."""
        value = answer.as_object()
        if _is_large(value):
            return None
        form = choose_form(shape, call.caller)
        if form == "compact":
            short = self._compactor.fit_whole(answer, tool)
            return None if short is None else Shaped(Compact(short.encoded))
        whole, fits = _write_whole(answer, value, call.caller, form)
        return Shaped(whole) if fits else None

    def shape(self, answer: Result | ToolError, call: Call, shape: Shape, tool: Tool | None) -> Shaped:
        """`answer` as it goes out, small enough for one message. Touches the disk only if it is not by itself."""
        domain = "errors" if tool is None else tool.category
        form = choose_form(shape, call.caller)
        if form == "compact":
            short = self._compactor.shorten(answer, tool, _origin(call, tool), domain)
            return Shaped(Compact(short.encoded), short.whole_bytes)
        value = answer.as_object()
        whole, fits = _write_whole(answer, value, call.caller, form)
        if fits:
            return Shaped(whole)
        if form == "text":
            data = (whole if isinstance(whole, str) else answer.render()).encode("utf-8", "replace")
            return Shaped(self._spill_text(data, call.caller, domain), len(data))
        encoded = whole if isinstance(whole, bytes) else orjson.dumps(value)
        return Shaped(self._spill_object(value, encoded, call.caller, domain), len(encoded))

    def page(self, cursor: str, tool: Tool, call: Call) -> Compact:
        """The page of an earlier result that a cursor leads to. Raises InvalidParams, NotFound."""
        return Compact(self._compactor.page(cursor, tool, _origin(call, tool)))

    def _spill_text(self, whole: bytes, caller: Caller, domain: str) -> str:
        text = whole.decode()
        reference, problem = self._keep(whole, "text/plain", caller, domain)
        note = f"\n… cut: the whole has {len(whole)} bytes. {self._advice(reference, problem, caller)}"
        size = _PREVIEW_BYTES if reference is not None else MOST_RESULT_BYTES - len(note) * 6
        shown = text[:size]
        while _text_bytes(shown) > size:
            shown = shown[: len(shown) * 3 // 4]
        return shown + note

    def _spill_object(self, value: dict[str, Any], encoded: bytes, caller: Caller, domain: str) -> bytes:
        reference, problem = self._keep(encoded, "application/json", caller, domain)
        room = _PREVIEW_BYTES if reference is not None else MOST_RESULT_BYTES
        facts: dict[str, Any] = {"truncated": True, "result_bytes": len(encoded)}
        if reference is not None:
            facts["artifactRef"] = reference
        facts["hint"] = self._advice(reference, problem, caller)
        return _fit(value, facts, room, len(encoded))

    def _advice(self, reference: str | None, problem: str, caller: Caller) -> str:
        """How the caller gets the whole: with a tool if this host has it, by URL if the caller is on HTTP."""
        if reference is None:
            return f"The rest is lost, because it could not be kept: {problem}. Ask for less at once."
        ways = []
        if not caller.is_on_mcp or (not self._has_reader and caller.transport != "stdio"):
            ways.append(f"Get all of it with GET /artifacts/{reference.removeprefix(SCHEME)}.")
        if self._has_reader:
            ref = f'{{"ref": "{reference}"}}'
            ways.append(f"Read all of it with artifact_read {ref}, or search it with fs_grep, base: the same ref.")
        return " ".join(ways) or "Ask for less at once."

    def _keep(self, whole: bytes, media_type: str, caller: Caller, domain: str) -> tuple[str | None, str]:
        try:
            return self._artifacts.of(caller.name).keep(domain, [whole], media_type=media_type), ""
        except OSError as error:
            return None, (error.strerror or str(error)).lower()


def choose_form(shape: Shape, caller: Caller) -> Literal["json", "text", "compact"]:
    """Compact if the profile says so; else what the connection asks for, the profile's form, or that of the client."""
    if shape == "compact":
        return shape
    form = shape if caller.form == "auto" else caller.form
    if form != "auto":
        return form
    return "text" if caller.client.lower() in _TEXT_CLIENTS else "json"


def _origin(call: Call, tool: Tool | None) -> Origin:
    return Origin.of(call.tool if tool is None else tool.name, call.caller.name, call.arguments)


def _is_large(value: Mapping[str, Any]) -> bool:
    """Whether writing it would take longer than handing it to a thread."""
    for each in value.values():
        kind = type(each)
        if kind is str:
            if len(each) > _LARGE_CHARS:
                return True
        elif kind is list and len(each) > _LARGE_LIST:
            return True
    return False


def _write_whole(
    answer: Result | ToolError, value: dict[str, Any], caller: Caller, form: Literal["json", "text"]
) -> tuple[Written, bool]:
    """The whole answer as it would be sent, and whether it fits into one message. Its length nearly always decides."""
    if caller.is_on_mcp and not isinstance(answer, ToolError) and (blocks := answer.blocks()) is not None:
        content = Blocks(orjson.dumps(blocks))
        return content, len(content.encoded) <= MOST_RESULT_BYTES
    if form == "text":
        text = answer.render()
        return text, len(text) * 6 <= MOST_RESULT_BYTES or _text_bytes(text) <= MOST_RESULT_BYTES
    encoded = orjson.dumps(value)
    size = len(encoded)
    return encoded, size * 3 <= MOST_RESULT_BYTES or (
        size * 2 <= MOST_RESULT_BYTES and _json_bytes(encoded) <= MOST_RESULT_BYTES
    )


def _fit(value: dict[str, Any], facts: dict[str, Any], room: int, whole_bytes: int) -> bytes:
    """The object with its longest list or text cut until it fits, and `facts` beside it."""
    shown = dict(value)
    # What is many times too large is cut roughly, by its bytes, before it is cut with care.
    is_cut = whole_bytes <= room or _cut(shown, room / whole_bytes)
    while is_cut:
        encoded = orjson.dumps({**shown, **facts})
        size = _json_bytes(encoded)
        if size <= room:
            return encoded
        is_cut = _cut(shown, min(room / size, 0.75))
    return orjson.dumps(facts)


def _cut(shown: dict[str, Any], share: float) -> bool:
    """Leave only this share of the longest list or text; what is longest and neither goes. False if nothing is left."""
    key = max(shown, key=lambda key: _length(shown[key]), default=None)
    if key is None or _length(shown[key]) <= len("null"):
        return False
    whole = shown[key]
    shown[key] = whole[: int(len(whole) * share)] if isinstance(whole, str | list) else None
    return True


def _length(value: Any) -> int:
    """How much there is to cut, in bytes; a long list is judged by its beginning."""
    if isinstance(value, list) and len(value) > _SAMPLE:
        return len(orjson.dumps(value[:_SAMPLE])) * len(value) // _SAMPLE
    return len(orjson.dumps(value))


def _text_bytes(text: str) -> int:
    return len(orjson.dumps(text.encode("utf-8", "replace").decode()))


def _json_bytes(encoded: bytes) -> int:
    """An object goes out twice: once as it is, once as the text of it, with its quotes escaped."""
    return len(encoded) + len(orjson.dumps(encoded.decode()))
