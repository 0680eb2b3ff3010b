"""What a tool gives back: a frozen record that is one JSON object, and renders as text for a model.

A result is data. It says what the host must know (`facts`), and which of its fields is the long one (`body`). To make
it fit is the host's work: it prunes the body where a question was asked, and cuts it to the budget of the caller.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from msgspec import Struct, StructMeta

from tools.kit.errors import ToolError
from tools.kit.params import Field

# The keys of an object that usually name it, and those that usually say what it is.
_IDS = ("id", "path", "file_path", "uri", "url", "key", "name", "title")
_LABELS = ("label", "title", "name", "summary", "message", "text", "description", "path", "status")
_MOST_SEVERITY = 20
_BRIEF_CHARS = 40
_END_CHARS = 4_000

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
Detail = Literal["short_output", "nothing_matched", "nothing_dropped", "not_shorter", "circuit_open", "command_failed"]

_NOTES: dict[Detail | Reason, str] = {
    "nothing_matched": "no word of the question is in it",
    "nothing_dropped": "no line could be left out",
    "not_shorter": "the pruning service left nothing out",
    "too_large": "it is too large",
}


class JsonObject(Struct, frozen=True):
    """A record that is one JSON object. A field that is None is absent from the object.

    A field whose name is a word of Python ends in an underscore here and not in the object. One whose name begins with
    an underscore is not in the object.
    """

    def as_object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.__struct_fields__:
            value = None if name.startswith("_") else getattr(self, name)
            if value is not None:
                found[name.removesuffix("_")] = value.as_object() if isinstance(value, JsonObject) else value
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
    def of_fallback(
        cls, raw_bytes: int, duration_ms: int, detail: Detail | None = None, error: tuple[ErrorCode, str] | None = None
    ) -> PruningMetadata:
        """An engine was asked, and left nothing out or failed: the output is the raw one.

        Of the words for `reason`, there is only one that fits.
        """
        return cls(
            attempted=True,
            applied=False,
            fallback=True,
            raw_bytes=raw_bytes,
            reason="pruner_error",
            detail=detail,
            pruner_duration_ms=duration_ms,
            error=None if error is None else {"code": error[0], "message": error[1]},
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
    """A text after pruning, and a second one behind it.

    `kept` has the indexes of the lines in the original, if the engine gives them.
    """

    text: str
    pruning: PruningMetadata
    kept: Sequence[int] | None = None
    more: str = ""


class Item(NamedTuple):
    """One element of a list: its id and a label. `is_whole`: these have everything that the element has."""

    id: str
    label: str
    is_whole: bool = True
    # How bad it is, where it says so.
    severity: str = ""


class ResultFacts(NamedTuple):
    """What the host must know of a result besides its text.

    `exit_status` is that of the command that the tool ran, once it has ended. `change_id` undoes what the tool did to a
    file. `succeeded` is False where the tool answered and the work failed, as for a command with a non-zero exit code.
    `next_call` is the call that continues a part, such as "fs_read_range from line 12". `rest_hint` is a sentence on
    how to get what the result does not have, where that is not the next call. `artifact` is the reference of the whole
    result, if the tool itself has kept it.
    """

    exit_status: int | None = None
    change_id: str | None = None
    succeeded: bool = True
    next_call: str | None = None
    rest_hint: str = ""
    artifact: str | None = None

    @property
    def rest(self) -> str:
        """How to get what the result does not have, in a sentence; empty if it has everything."""
        return self.rest_hint or (f"Go on with {self.next_call}." if self.next_call else "")


NO_FACTS = ResultFacts()
ASK_FOR_LESS = "Ask for less at once: there is more."


class Content(NamedTuple):
    """What an MCP client is sent instead of the object or its rendering: blocks, for what no text can hold.

    `structured` is the object that another server sent beside them. `media` is the image itself, for a wire that sends
    bytes as they are.
    """

    blocks: Sequence[Block]
    structured: Mapping[str, Any] | None = None
    media: Media | None = None


class ShownText(NamedTuple):
    """A text that a result shows as it is: some lines of a file, all of it, or what a command printed."""

    header: str
    text: str
    # The file; empty for a command.
    name: str = ""
    # None for a command.
    first_line: int | None = None
    is_whole: bool = False


class Body(NamedTuple):
    """The one field of a result that may be shortened: its name, what it holds, and how it is cut.

    `cut` gives the result with at most so many characters or elements of the body, and with a `next` that is true for
    that part. It is for a tool that can go on from any place; the list of another is cut by the host. A text that
    `is_asked` was named by its place, and may fill all that a short result holds. `refuse` is for a result of which a
    part is of no use: given the largest part that fits, it makes the error that says what would.
    """

    field: str = ""
    # None: a text whose kind a pruner detects.
    kind: Literal["code", "logs", "docs", "list"] | None = None
    cut: Callable[[int], Result | None] | None = None
    refuse: Callable[[Result | None], ToolError] | None = None
    is_asked: bool = False
    artifact_range: ArtifactRange | None = None
    # Real line counts of truncated fields.
    line_counts: Mapping[str, int] = MappingProxyType({})
    # An element of a list as one line, for a pruner, and back from one that a pruning service has changed.
    line: Callable[[Any], str] | None = None
    parse: Callable[[str], Any] | None = None
    content: Content | None = None
    # The field of a second text, which a question prunes together with the first.
    more_field: str = ""
    # The text of a file or a command, where the result shows it whole.
    shown: ShownText | None = None

    @property
    def is_text(self) -> bool:
        """Whether the rendering holds all of the result. If so, the rendering is what an artifact of it keeps."""
        has_more = self.content is not None and any(block.get("type") != "text" for block in self.content.blocks)
        return bool(self.field) and self.kind != "list" and not self.is_asked and not has_more


NO_BODY = Body()


class _AbstractStruct(StructMeta, ABCMeta):
    """A struct that has abstract methods."""


class Result(JsonObject, frozen=True, metaclass=_AbstractStruct):
    """Base of every result."""

    @abstractmethod
    def render(self) -> str:
        """The result as a model reads it best: a one-line header, then the raw text, unescaped."""

    def summary(self) -> str:
        """The outcome in one line, for short results; more than 100 characters are cut."""
        return self.render().partition("\n")[0]

    @property
    def facts(self) -> ResultFacts:
        return NO_FACTS

    @property
    def body(self) -> Body:
        return NO_BODY

    @classmethod
    def item(cls, entry: Any) -> Item:
        """An element of the list that is the body, in one line. Pages of a kept list are made of these."""
        return any_item(entry)


def any_item(entry: Any) -> Item:
    """An item for any element of a list, made from the keys that usually name something."""
    if not isinstance(entry, Mapping):
        return Item("", entry if isinstance(entry, str) else orjson.dumps(entry, default=str).decode())
    identity = next((str(entry[key]) for key in _IDS if isinstance(entry.get(key), str | int)), "")
    label = next(
        (str(entry[key]) for key in _LABELS if isinstance(entry.get(key), str) and entry[key] != identity), None
    )
    if label is None:
        label = ", ".join(f"{key} {value}" for key, value in entry.items() if isinstance(value, str | int | float))
    severity = entry.get("severity")
    is_said = isinstance(severity, str | int) and len(str(severity)) <= _MOST_SEVERITY
    return Item(identity, label, is_whole=False, severity=str(severity) if is_said else "")


def quantity(number: int, noun: str, plural: str | None = None) -> str:
    """Such as "1 file" and "4,812 lines"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short_path(path: str) -> str:
    """A path for a summary. Of a long path the end stays, because it differs most from other paths."""
    line = path.replace("\n", " ")
    return line if len(line) <= _BRIEF_CHARS else f"...{line[3 - _BRIEF_CHARS :]}"


def line_count(text: str) -> int:
    """The number of lines; a final newline begins no further line."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def last_line(text: str) -> str:
    """The last line that is not empty."""
    end = text[-_END_CHARS:].rstrip()
    return end[end.rfind("\n") + 1 :].strip()


def line_cut(text: str | bytes, most: int) -> int:
    """Where to cut a text so that at most so much of it stays: behind a line end, unless a long line is there."""
    if most >= len(text):
        return len(text)
    newline = text.rfind("\n", most // 2, most) if isinstance(text, str) else text.rfind(b"\n", most // 2, most)
    return most if newline == -1 else newline + 1
