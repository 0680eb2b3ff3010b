"""What a call gives before it is fitted, a result or an error with what the host says beside it; and what goes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tools.kit.errors import ToolError
from tools.kit.results import NO_BODY, Block, Body, Content, Facts, Media, PruningMetadata, Result

# The largest part that fits is searched for until it is known to half a percent.
_PRECISION = 200


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

    def beside(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The object of an answer, with the remarks in it."""
        found = dict(value)
        if self.pruning is not None:
            found["pruning"] = self.pruning.as_object()
        if self.notes:
            found["notes"] = [*self.notes, *found.get("notes", ())]
        return found

    @property
    def lines(self) -> list[str]:
        """A line for each remark that a model should read, above a rendering or below the blocks."""
        pruned = None if self.pruning is None else self.pruning.note
        return [f"[{remark}]" for remark in ("; ".join(self.notes), pruned) if remark]


NO_REMARKS = Remarks()


class Reply:
    """An answer with its remarks. `body` and `facts` are those of the result; an error has none."""

    def __init__(self, answer: Result | ToolError, remarks: Remarks = NO_REMARKS) -> None:
        self.answer = answer
        self.remarks = remarks
        if isinstance(answer, ToolError):
            self.facts, self.body = Facts(succeeded=False), NO_BODY
            is_text = answer.is_text
        else:
            self.facts, self.body = answer.facts, _pruned(answer.body, remarks)
            is_text = self.body.is_text
        # Whether the rendering holds all of it.
        self.is_text = is_text

    def as_object(self) -> dict[str, Any]:
        return self.remarks.beside(self.answer.as_object())

    def render(self) -> str:
        return "\n".join([*self.remarks.lines, self.answer.render()])

    def summary(self) -> str:
        pruning = self.remarks.pruning
        if pruning is None or not pruning.applied:
            return self.answer.summary()
        return f"{self.answer.summary()}, pruned to {pruning.pruned_bytes:,} bytes"

    def blocks(self) -> list[Block] | None:
        """The content for a client of MCP, if the result is no single object."""
        if self.body.content is None:
            return None
        return [*self.body.content.blocks, *({"type": "text", "text": line} for line in self.remarks.lines)]

    def largest_part(self, fits: Callable[[Reply], bool], most: int) -> Reply | None:
        """The largest part that `fits`, to half a percent; None if there is none. `most` is an upper bound."""
        best: Reply | None = None
        low, high = 0, most + 1 if self.body.cut is not None else 0
        while self.body.cut is not None and high - low > 1 + high // _PRECISION:
            middle = (low + high) // 2
            cut = self.body.cut(middle)
            part = None if cut is None else Reply(cut, self.remarks)
            if part is not None and fits(part):
                low, best = middle, part
            else:
                high = middle
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


def _pruned(body: Body, remarks: Remarks) -> Body:
    """The body once lines of it are gone: places in a text cannot be counted any more, as those in a list can.

    What a server sent beside its text goes, because it would bring all lines back.
    """
    if remarks.pruning is None or not remarks.pruning.applied or body.kind == "list":
        return body
    content = None if body.content is None else Content(body.content.blocks)
    return body._replace(cut=None, artifact_range=None, line_counts={}, content=content)
