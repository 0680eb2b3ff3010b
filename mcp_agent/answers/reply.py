"""What a call gives before it is fitted, a result or an error with what the host says beside it; and what goes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import orjson
from msgspec.structs import replace

from tools.kit.errors import ToolError
from tools.kit.results import NO_BODY, Block, Content, Media, PruningMetadata, Result, ResultFacts

_T = TypeVar("_T")
# The largest part that fits is searched for until it is known to half a percent.
_PRECISION = 200
_MOST_PARSED_CHARS = 4_000_000
# A shorter value says more than the name of its argument.
_FEWEST_VALUE_CHARS = 16
_MOST_ERROR_CHARS = 500
_QUOTED = re.compile(r"'([^'\n]{16,300})'|\"([^\"\n]{16,300})\"")
_MOST_VALUES = 100


class Blocks(NamedTuple):
    """The content of a result that is no single object, such as an image: a list of MCP's blocks, as JSON.

    `structured` is the object that goes beside them, if there is one.
    """

    encoded: bytes
    structured: bytes | None = None


class Compact(NamedTuple):
    """A result that was made short, as JSON: it goes out as text and nothing besides."""

    encoded: bytes


# What goes out: the object as JSON, its rendering, blocks, what was made short, or the bytes of an image.
Written = bytes | str | Blocks | Compact | Media


class Remarks(NamedTuple):
    """How the arguments were taken, where they did not fit as they were; and what the pruner did."""

    notes: Sequence[str] = ()
    pruning: PruningMetadata | None = None

    @property
    def lines(self) -> list[str]:
        """A line for each remark that a model should read, above a rendering or below the blocks."""
        pruned = None if self.pruning is None else self.pruning.note
        return [f"[{remark}]" for remark in ("; ".join(self.notes), pruned) if remark]


NO_REMARKS = Remarks()
_FAILED = ResultFacts(succeeded=False)


class ToolReply:
    """An answer with its remarks. `body` and `facts` are those of the result; an error has none."""

    def __init__(self, answer: Result | ToolError, remarks: Remarks = NO_REMARKS) -> None:
        self.answer = answer
        self.remarks = remarks
        if isinstance(answer, ToolError):
            self.facts, self.body = _FAILED, NO_BODY
        else:
            self.facts, self.body = answer.facts, answer.body
        if remarks.pruning is not None and remarks.pruning.applied and self.body.kind != "list":
            # Places in a text cannot be counted any more once lines of it are gone, and what a server sent beside the
            # text would bring all lines back.
            content = None if self.body.content is None else Content(self.body.content.blocks)
            self.body = self.body._replace(cut=None, artifact_range=None, line_counts={}, content=content)

    @property
    def is_text(self) -> bool:
        """Whether the rendering holds all of it."""
        return self.answer.is_text if isinstance(self.answer, ToolError) else self.body.is_text

    def as_object(self) -> dict[str, Any]:
        """The object of the answer, with the remarks in it."""
        found, (notes, pruning) = self.answer.as_object(), self.remarks
        if pruning is not None:
            found = {**found, "pruning": pruning.as_object()}
        return {**found, "notes": [*notes, *found.get("notes", ())]} if notes else found

    def render(self) -> str:
        return "\n".join([*self.remarks.lines, self.answer.render()])

    def summary(self) -> str:
        pruning = self.remarks.pruning
        if pruning is None or not pruning.applied:
            return self.answer.summary()
        return f"{self.answer.summary()}, pruned to {pruning.pruned_bytes:,} bytes"

    def blocks(self) -> list[Block]:
        """The content for a client of MCP; nothing for a result that is one object."""
        if self.body.content is None:
            return []
        return [*self.body.content.blocks, *({"type": "text", "text": line} for line in self.remarks.lines)]

    def largest_part(self, fits: Callable[[ToolReply], bool], most: int) -> ToolReply | None:
        """The largest part that `fits`; None if there is none. `most` is an upper bound."""
        cut = self.body.cut or self._cut_list

        def part(size: int) -> ToolReply | None:
            answer = cut(size)
            reply = None if answer is None else ToolReply(answer, self.remarks)
            return reply if reply is not None and fits(reply) else None

        return largest(part, most)

    def _cut_list(self, most: int) -> Result | None:
        """The result with the first elements of its list; None for one without a list, or without `truncated`."""
        answer, field = self.answer, self.body.field
        if self.body.kind != "list" or isinstance(answer, ToolError) or not hasattr(answer, "truncated"):
            return None
        return replace(answer, **{field: getattr(answer, field)[:most], "truncated": True})


def parse_json(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or the list that a text is; None if it is another text, or too long to look."""
    if text[:1] not in ("{", "[") or len(text) > _MOST_PARSED_CHARS:
        return None
    try:
        value: dict[str, Any] | list[Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value


def largest(make: Callable[[int], _T | None], most: int) -> _T | None:
    """What `make` gives for the largest size up to `most` for which it gives something; to half a percent."""
    best: _T | None = None
    low, high = 0, most + 1
    while high - low > 1 + high // _PRECISION:
        middle = (low + high) // 2
        made = make(middle)
        if made is None:
            high = middle
        else:
            low, best = middle, made
    return best


def text_of(blocks: Iterable[Block]) -> str:
    return "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")


def form_and_bytes(written: Written) -> tuple[Literal["json", "text", "compact", "blocks", "media"], int]:
    """How a result was written, and how much of it goes out, without what a wire puts around it."""
    if isinstance(written, bytes):
        return "json", len(written)
    if isinstance(written, str):
        return "text", len(written) if written.isascii() else len(written.encode("utf-8", "replace"))
    if isinstance(written, Compact):
        return "compact", len(written.encoded)
    if isinstance(written, Blocks):
        return "blocks", len(written.encoded) + len(written.structured or b"")
    return "media", len(written.data)


def shorten_error(text: str, arguments: Mapping[str, Any]) -> str:
    """The text of an error, short, for a client that shows its model all arguments of a failed call beside it.

    Names of arguments take the place of their values, and only the first and the last lines stay.
    """
    values = {}
    for name, value in _texts("", arguments):
        if len(value) >= _FEWEST_VALUE_CHARS:
            values[name] = repr(value[:300])[1:-1]
        if len(values) >= _MOST_VALUES:
            break

    def name_of(quoted: re.Match[str]) -> str:
        shown = (quoted[1] or quoted[2]).removesuffix("…")
        return next((name for name, value in values.items() if value.startswith(shown)), quoted[0])

    text = _QUOTED.sub(name_of, text)
    if len(text) <= _MOST_ERROR_CHARS:
        return text
    head = text.find("\n", _MOST_ERROR_CHARS // 2)
    tail = text.find("\n", len(text) - _MOST_ERROR_CHARS // 2)
    if not 0 <= head < tail:
        return f"{text[: _MOST_ERROR_CHARS - 1]}…"
    return f"{text[:head]}\n…{text[tail:]}"[: _MOST_ERROR_CHARS * 2]


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(f"{name}.{key}" if name else str(key), each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(f"{name}[{index}]", each)
