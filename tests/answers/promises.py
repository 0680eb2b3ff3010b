"""What a short result promises, checked from outside: by the bytes on the wire and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MOST_BYTES = 8_000
# The tools that may fill a result with text that was asked for, and the field that has it.
ASKED = {
    "artifact_read": "content",
    "fs_read_range": "content",
    "recover_text": "raw_text",
    "prune_text": "pruned_text",
    "fs_read": "content",
}
_BUDGETS = {"list": 2_000, "text": 3_000, "status": 1_500}
# The tools that say how something went; a page of what was cut is text.
_STATUS = ("fs_write", "fs_delete", "fs_move", "fs_patch", "health")


def broken(result: bytes, tool: str) -> list[str]:
    """Every promise that the result of a `tools/call` breaks, in words; `result` is its JSON as it was sent."""
    return list(_broken(result, tool))


def shown(result: bytes) -> dict[str, Any]:
    """The object in a result."""
    (block,) = json.loads(result)["content"]
    value: dict[str, Any] = json.loads(block["text"])
    return value


def _broken(result: bytes, tool: str) -> Iterator[str]:
    if len(result) > MOST_BYTES:
        yield f"{len(result)} bytes"
    envelope = json.loads(result)
    if "structuredContent" in envelope or [block["type"] for block in envelope["content"]] != ["text"]:
        yield "not one text block alone"
    yield from broken_object(envelope["content"][0]["text"], tool, is_error=envelope["isError"])


def broken_object(text: str, tool: str, *, is_error: bool) -> Iterator[str]:
    """The same for the object alone, as the wires for programs send it."""
    value = json.loads(text)
    if not isinstance(value, dict):
        yield f"no object: {text[:60]}"
        return
    summary = value.get("summary")
    if not isinstance(summary, str) or not 0 < len(summary) <= 100 or "\n" in summary:
        yield f"no summary: {summary!r}"
    if not isinstance(value.get("success"), bool) or (is_error and value["success"]):
        yield f"success is {value.get('success')!r}"
    is_filled = isinstance(value.get(ASKED.get(tool, "")), str) and len(value[ASKED[tool]]) > 500
    is_status = tool in _STATUS and not is_error and "offset" not in value
    budget = _BUDGETS["list" if "items" in value else "status" if is_status else "text"]
    # What is passed on is never cut, so it may cost more than the budget has.
    handles = sum(len(json.dumps(each).encode()) for each in _handles(value) if len(each) > 50)
    if not is_filled and len(text.encode()) - handles > budget:
        yield f"over its budget: {len(text.encode())} bytes"
    yield from _deep(value, 1)
    yield from _long(value, ASKED.get(tool))
    yield from _cut(value)
    for item in value.get("items", ()):
        if set(item) != {"id", "label"} or len(item["label"]) > 50:
            yield f"no item: {item}"
    if value.get("nextCursor") is not None and value.get("hasMore") is not True:
        yield "a cursor, and hasMore is not true"
    if value.get("nextCursor") is not None and "with cursor: nextCursor" not in value.get("hint", ""):
        yield "a cursor, and no word on what to do with it"


def _deep(value: Any, level: int) -> Iterator[str]:
    """The root is level 1, and what is in something is one level below it, be it a number."""
    if level > 4:
        yield f"level {level}: {str(value)[:60]}"
        return
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _deep(below, level + 1)


def _long(value: Any, asked: str | None) -> Iterator[str]:
    match value:
        case str():
            if len(value) > 500:
                yield f"a text of {len(value)} characters"
            if value.count("\n") > 20:
                yield f"a text of {value.count(chr(10))} lines"
        case list():
            if len(value) > 10:
                yield f"a list of {len(value)}"
            for each in value:
                yield from _long(each, None)
        case dict():
            for key, each in value.items():
                yield from _long(key, None)
                if _is_handle(key) and isinstance(each, str):
                    if len(each) > 1_500 or each.endswith("..."):
                        yield f"{key} of {len(each)} characters: {each[-20:]}"
                elif key != asked or not isinstance(each, str):
                    yield from _long(each, None)


def _is_handle(key: str) -> bool:
    """Whether the value of that key is there to be passed on: then it is whole, or not there at all."""
    return key in ("id", "next", "path", "uri", "url", "ref", "cursor") or key.endswith(
        ("_id", "_path", "Id", "Ref", "Cursor")
    )


def _handles(value: Any) -> Iterator[str]:
    for each in _objects(value):
        yield from (text for key, text in each.items() if _is_handle(key) and isinstance(text, str))


def _cut(value: dict[str, Any]) -> Iterator[str]:
    """What is cut says how much there is, and has a reference, or the reason why there is none."""
    is_cut = value.get("hasMore") is True
    for each in _objects(value):
        total = each.get("totalCount")
        count = len(each.get("items", ())) + len(each.get("head", ())) + len(each.get("tail", ()))
        if isinstance(total, int) and "items" in each and each is not value and not (count < total and each["hasMore"]):
            yield f"totalCount {total} of {count}"
        is_cut = is_cut or each.get("hasMore") is True
    # A tool that stopped at a limit of its own has given all that it has; how to get more is in the hint.
    is_whole = value.get("truncated") is True and bool(value.get("hint"))
    if is_cut and "artifactRef" not in value and not is_whole and "could not be kept" not in value.get("hint", ""):
        yield "cut, with no reference"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(below)
