"""What a tool gives back: a frozen dataclass that is one JSON object, and renders as text for a model.

A result can be pruned by a focus question. Some tools take the question themselves (`read`, `bash`, `grep`). To those
that declare `@tool(focus=...)` the host adds the argument, and prunes the named field of their result.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct, StructMeta

from tools.kit.errors import ToolError
from tools.kit.params import Field
from tools.kit.summaries import Item, any_item

# The largest part that fits is searched for until it is known to half a percent.
_PRECISION = 200

# One piece of a result as MCP has it: text, image, audio, a link to a resource or a resource itself.
Block = Mapping[str, Any]


class Media(NamedTuple):
    """Bytes that are no text, and what they are."""

    type: str
    data: bytes


class ArtifactRange(NamedTuple):
    """A range of bytes of an artifact, in UTF-8."""

    reference: str
    start: int
    end: int


FOCUS = "context_focus_question"
FocusQuestion = Annotated[
    str | None,
    Field(
        description="Keep only the lines that answer this; gaps are marked.",
        min_length=1,
        max_length=1_000,
        is_trimmed=True,
    ),
]

KEEP = "keep"
KeepShare = Annotated[float | None, Field(description="Share of lines to keep.", minimum=0.1, maximum=1.0)]

Reason = Literal["disabled_or_unconfigured", "no_focus_question", "too_large", "output_empty", "pruner_error"]
ErrorCode = Literal["timeout", "http_error", "invalid_response"]
# More than the reason says: the output is short enough to be seen whole; the engine found nothing to go by, or nothing
# to leave out; the circuit breaker of the service is open; the output is that of a failed command, in `mcp-pruner`.
Detail = Literal[
    "short_output", "nothing_matched", "nothing_dropped", "circuit_open", "command_failed", "still_running"
]

_NOTES: dict[Detail | Reason, str] = {
    "nothing_matched": "no word of the question is in it",
    "nothing_dropped": "no line could be left out",
    "circuit_open": "the pruning service failed three times and is asked again half a minute later",
    "too_large": "it is too large",
    "still_running": "the command is still running",
}


class JsonObject(Struct, frozen=True):
    """A record that is one JSON object. A field that is None is absent from the object.

    A field whose name is a word of Python ends in an underscore here and not in the object. One whose name begins with
    an underscore is not in the object.
    """

    def as_object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute, name in _names(type(self)):
            value = getattr(self, attribute)
            if value is not None:
                found[name] = value.as_object() if isinstance(value, JsonObject) else value
        return found


class PruningMetadata(JsonObject, frozen=True):
    """`attempted`: an engine was asked. `applied`: some of the output was left out. If not, `reason` says why."""

    attempted: bool
    applied: bool
    fallback: bool
    raw_bytes: int
    reason: Reason | None = None
    detail: Detail | None = None
    pruned_bytes: int | None = None
    pruner_duration_ms: int | None = None
    error: dict[str, str] | None = None
    prune_id: str | None = None
    # What was left out, in words.
    left_out: str | None = None

    @classmethod
    def of_skip(cls, reason: Reason, raw_bytes: int, detail: Detail | None = None) -> PruningMetadata:
        """No engine was asked."""
        return cls(attempted=False, applied=False, fallback=False, raw_bytes=raw_bytes, reason=reason, detail=detail)

    @classmethod
    def of_whole(cls, detail: Detail, raw_bytes: int, duration_ms: int) -> PruningMetadata:
        """An engine was asked and left nothing out. Of the words for `reason`, that of a fallback is the only one."""
        return cls(
            attempted=True,
            applied=False,
            fallback=True,
            raw_bytes=raw_bytes,
            reason="pruner_error",
            detail=detail,
            pruner_duration_ms=duration_ms,
        )

    @classmethod
    def of_failure(cls, code: ErrorCode, message: str, raw_bytes: int, duration_ms: int) -> PruningMetadata:
        """An engine was asked and its answer cannot be used, so the output is the raw one."""
        return cls(
            attempted=True,
            applied=False,
            fallback=True,
            raw_bytes=raw_bytes,
            reason="pruner_error",
            pruner_duration_ms=duration_ms,
            error={"code": code, "message": message},
        )

    @property
    def saved_bytes(self) -> int | None:
        """How much shorter the output is; None if it was not pruned."""
        return max(self.raw_bytes - (self.pruned_bytes or 0), 0) if self.applied else None

    @property
    def note(self) -> str | None:
        """For the header of a rendering: how much was pruned, or why nothing was."""
        if self.applied and self.pruned_bytes == self.raw_bytes:
            # A service may send the text back as it was.
            return f"not pruned: {_NOTES['nothing_dropped']}"
        if self.applied:
            again = f"; recover_text prune_id={self.prune_id} brings lines back" if self.prune_id else ""
            return f"{self.left_out or f'pruned from {self.raw_bytes} to {self.pruned_bytes} bytes'}{again}"
        why = self.error["message"] if self.error else _NOTES.get(self.detail or self.reason or "no_focus_question")
        return f"not pruned: {why}" if why else None


class Focused(Struct, frozen=True):
    """A text after pruning. `kept` has the indexes of its lines in the original, if the engine gives them."""

    text: str
    pruning: PruningMetadata
    kept: Sequence[int] | None = None


class ResultFacts(NamedTuple):
    """What the audit log and the metrics keep of a result.

    The exit code of the command that the tool ran, once it has ended; the id that undoes what it did to a file, so
    that one knows who did it; how many bytes a focus question saved, if anything was pruned.
    """

    exit_status: int | None = None
    change_id: str | None = None
    saved_bytes: int | None = None


NO_FACTS = ResultFacts()


class _AbstractStruct(StructMeta, ABCMeta):
    """A struct that has abstract methods."""


class Result(JsonObject, frozen=True, metaclass=_AbstractStruct):
    """Base of every result."""

    @abstractmethod
    def render(self) -> str:
        """The result as a model reads it best: a one-line header, then the raw text, unescaped."""

    def blocks(self) -> Sequence[Block] | None:
        """What an MCP client is sent instead of the object or its rendering; None for a result that is one object.

        For results that no text can hold, such as images, and for those that another server wrote.
        """
        return None

    @property
    def structured_content(self) -> Mapping[str, Any] | None:
        """What a program is sent beside `blocks`, where the server that wrote them sent it, too."""
        return None

    @property
    def media(self) -> Media | None:
        """The image that the result is about, for a wire that sends bytes as they are."""
        return None

    @property
    def audit_facts(self) -> ResultFacts:
        """What the audit log and the metrics keep of the result."""
        return NO_FACTS

    @property
    def reads_as(self) -> Literal["code", "logs", "docs"] | None:
        """How a pruner reads its text; None: as what it looks like."""
        return None

    @classmethod
    def line(cls, entry: Any) -> str:
        """An element of a list as one line, for a pruner; its line breaks become spaces."""
        item = cls.item(entry)
        return f"{item.id} {item.label}".strip()

    @property
    def extent(self) -> int:
        """How much there is to `cut`: characters of a text, or elements of a list."""
        return 0

    def cut(self, most: int) -> Result | None:
        """The result with at most `most` of its extent, and with a `next` that is true for that part.

        None for a result that cannot be cut by itself.
        """
        return None

    @property
    def way_on(self) -> str | None:
        """What gives the rest of a result that is cut, such as "fs_read_range from line 12"; None if no tool does."""
        return None

    @property
    def is_cut(self) -> bool:
        """Whether there is more than the result has: then what it counts is a lower bound."""
        return bool(getattr(self, "truncated", None))

    @property
    def beyond(self) -> str:
        """How to get what the result itself does not have, in a sentence; empty if it has everything."""
        if not self.is_cut:
            return ""
        return "Ask for less at once: there is more." if self.way_on is None else f"Go on with {self.way_on}."

    def refusal(self, fits: Callable[[Result], bool]) -> ToolError | None:
        """For a result that does not fit and is of no use in part: the error, which says what fits."""
        return None

    # The rest serves compact mode, which keeps results short.

    def summary(self) -> str:
        """The outcome in one line of at most 100 characters; a longer one is cut."""
        return self.render().partition("\n")[0]

    @property
    def succeeded(self) -> bool:
        """False where the tool answered and the work failed, as for a command with a non-zero exit code."""
        return True

    @property
    def list_field(self) -> str | None:
        """The name of the field with the list, for a result that is a list."""
        return None

    @classmethod
    def item(cls, entry: Any) -> Item:
        """An element of that list in one line."""
        return any_item(entry)

    @property
    def line_counts(self) -> Mapping[str, int]:
        """How many lines a text has in truth, by the name of its field, where the result has less of it and knows."""
        return {}

    @property
    def text_field(self) -> str | None:
        """The name of the field with text that the caller asked for by name and place: it may fill the whole budget."""
        return None

    @property
    def artifact_range(self) -> ArtifactRange | None:
        """The artifact that this text is a part of, if it is one."""
        return None

    @property
    def artifact_reference(self) -> str | None:
        """The reference of the artifact with the whole result, if the tool has kept one itself."""
        return None

    @property
    def is_text(self) -> bool:
        """Whether the rendering holds all of the result. If so, the rendering is what an artifact of it keeps."""
        return False


def largest_part(result: Result, fits: Callable[[Result], bool], most: int) -> Result | None:
    """The largest part of a result that `fits`, to half a percent; None if there is none. `most` is an upper bound."""
    best: Result | None = None
    low, high = 0, min(result.extent, most) + 1
    while high - low > 1 + high // _PRECISION:
        middle = (low + high) // 2
        part = result.cut(middle)
        if part is not None and fits(part):
            low, best = middle, part
        else:
            high = middle
    return best


@cache
def _names(record_type: type[JsonObject]) -> tuple[tuple[str, str], ...]:
    names = record_type.__struct_fields__
    return tuple((name, name.removesuffix("_")) for name in names if not name.startswith("_"))
