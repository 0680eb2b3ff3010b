"""What pruning decides, and the pruned text: kept lines as they were, and a marker where lines are missing.

This module does not need numpy, so that every program can import it at no cost.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

SourceType = Literal["code", "logs", "docs"]
WarningCode = Literal["constraints_unmet"]
Language = Literal["fr", "en"]
DropReason = Literal["accessory", "routine"]

_REASONS: dict[tuple[DropReason, Language], str] = {
    ("accessory", "fr"): "accessoire",
    ("accessory", "en"): "accessory",
    ("routine", "fr"): "routine",
    ("routine", "en"): "routine",
}


class GaveUp(Exception):
    """The deadline passed before a selection was reached. The caller lets the whole text through."""


class DroppedBlock(Struct, frozen=True):
    """Lines `start` to `end`, both included and counted from 1, with a reason of one word: every marker costs tokens.

    They are `text[start_char:end_char]`, each with its newline.
    """

    start: int
    end: int
    reason: DropReason
    start_char: int
    end_char: int
    # What is in it that a reader may miss, in words.
    note: str = ""

    @property
    def line_count(self) -> int:
        return self.end - self.start + 1


class SelectionRequest(Struct, frozen=True, kw_only=True):
    """What is asked of a text, with the arguments of `prune`, as it is sent to the process of the engine."""

    question: str
    source_type: SourceType | None
    max_prune_ratio: float | None
    min_keep_lines: int
    is_output: bool = False
    collapses: bool = False
    timeout_s: float


class Selection(Struct, frozen=True):
    """The blocks to drop, in order; at least one kept line is between two of them. Lines are of `text.split("\\n")`."""

    dropped: tuple[DroppedBlock, ...]
    total_lines: int
    source_type: SourceType
    warnings: tuple[WarningCode, ...] = ()
    # False if no word of the question is in the text, and nothing was dropped for that.
    has_matched: bool = True

    @property
    def dropped_lines(self) -> int:
        return sum(block.line_count for block in self.dropped)

    def kept(self) -> Iterator[int]:
        """The numbers of the kept lines, from 1, in order."""
        firsts = [1, *(block.end + 1 for block in self.dropped)]
        ends = [*(block.start for block in self.dropped), self.total_lines + 1]
        return chain.from_iterable(map(range, firsts, ends))


class Annotation(Struct, frozen=True):
    """One dropped block and its marker, whether or not the marker is in the text."""

    original_start_line: int
    original_end_line: int
    pruned_line_count: int
    reason: str
    marker: str
    kind: str = "pruned_block"


class Rendered(Struct, frozen=True):
    pruned_text: str
    annotations: tuple[Annotation, ...]


def render(
    text: str,
    selection: Selection,
    prune_id: str,
    *,
    annotate_lines: bool = False,
    include_markers: bool = True,
    language: Language = "fr",
) -> Rendered:
    """Write the pruned text as `render_text` does, with one annotation per dropped block."""
    pruned = render_text(
        text,
        selection,
        prune_id,
        annotate_lines=annotate_lines,
        include_markers=include_markers,
        language=language,
    )
    return Rendered(pruned, tuple(_annotation(block, prune_id, language) for block in selection.dropped))


def render_text(
    text: str,
    selection: Selection,
    prune_id: str,
    *,
    annotate_lines: bool = False,
    include_markers: bool = True,
    language: Language = "fr",
    first: int = 1,
    is_brief: bool = False,
) -> str:
    """Write the kept lines of the text, which begins with line `first`. With `annotate_lines` each begins with its
    number: `N│ `. With `is_brief` the markers say the lines alone: where the answer says the id, once.

    With nothing dropped and no annotation the text comes back unchanged. The empty string after a final newline gets
    no number, because a reader does not see it as a line. Raises ValueError if the selection is of another text.
    """
    if selection.dropped and selection.dropped[-1].end_char > len(text):
        raise ValueError("the selection is of another text")
    pieces: list[str] = []
    line, place = first, 0
    for block in selection.dropped:
        if block.start > line:
            # Without the newline before the block: joining the pieces adds it again.
            kept = text[place : block.start_char - 1]
            pieces.append(_number_lines(kept, line) if annotate_lines else kept)
        if include_markers:
            pieces.append(_brief_marker(block, language) if is_brief else _marker(block, prune_id, language))
        line, place = block.end + 1, block.end_char
    if line <= selection.total_lines:
        pieces.append(_number_lines(text[place:], line, ends_text=True) if annotate_lines else text[place:])
    return "\n".join(pieces)


def divide(text: str, selection: Selection, at: int) -> tuple[Selection, Selection, int]:
    """The selections of `text[:at]` and of `text[at:]`, and the number of the line that begins at that offset.

    A block across it becomes two. Lines keep their numbers, which are those of the whole text.
    """
    line = text.count("\n", 0, at) + 1
    before = [replace(block, end=line - 1, end_char=at) if block.end >= line else block for block in selection.dropped]
    after = [replace(block, start=line, start_char=at) if block.start < line else block for block in selection.dropped]
    return (
        replace(
            selection,
            dropped=tuple(block for block in before if block.start < line),
            # A newline at the end of the first part begins no line of it.
            total_lines=line - 1,
        ),
        replace(
            selection,
            dropped=tuple(
                replace(block, start_char=block.start_char - at, end_char=block.end_char - at)
                for block in after
                if block.end >= line
            ),
        ),
        line,
    )


def _number_lines(text: str, first: int, *, ends_text: bool = False) -> str:
    lines = text.split("\n")
    unnumbered = [lines.pop()] if ends_text and lines[-1] == "" else []
    return "\n".join([f"{number}│ {line}" for number, line in enumerate(lines, start=first)] + unnumbered)


def _annotation(block: DroppedBlock, prune_id: str, language: Language) -> Annotation:
    return Annotation(
        original_start_line=block.start,
        original_end_line=block.end,
        pruned_line_count=block.line_count,
        reason=_REASONS[block.reason, language],
        marker=_marker(block, prune_id, language),
    )


def _marker(block: DroppedBlock, prune_id: str, language: Language) -> str:
    span = f"{block.start}-{block.end} ({block.line_count})"
    reason = _REASONS[block.reason, language]
    if language == "en":
        note = f" · {block.note}" if block.note else ""
        return f"⟦PRUNED: prune_id={prune_id} lines {span} reason={reason}{note}⟧"
    return f"⟦PRUNÉ: prune_id={prune_id} lignes {span} raison={reason}⟧"


def _brief_marker(block: DroppedBlock, language: Language) -> str:
    if language == "fr":
        return f"⟦PRUNÉ: lignes {block.start}-{block.end}⟧"
    note = f" · {block.note}" if block.note else ""
    return f"⟦PRUNED: lines {block.start}-{block.end}{note}⟧"
