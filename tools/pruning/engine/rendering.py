"""The pruned text as a reader sees it: kept lines as they were, and a marker where lines are missing."""

from tools.kit.records import record
from tools.pruning.engine.selection import DroppedBlock, Selection


@record
class Annotation:
    """One dropped block and the marker that stands for it, whether or not the marker is in the text."""

    original_start_line: int
    original_end_line: int
    pruned_line_count: int
    reason: str
    marker: str
    kind: str = "pruned_block"


@record
class Rendered:
    pruned_text: str
    annotations: tuple[Annotation, ...]


def render(
    text: str, selection: Selection, prune_id: str, *, annotate_lines: bool = False, include_markers: bool = True
) -> Rendered:
    """Write the kept lines as `written` does, and say what is missing."""
    pruned = written(text, selection, prune_id, annotate_lines=annotate_lines, include_markers=include_markers)
    return Rendered(pruned, tuple(_annotation(block, prune_id) for block in selection.dropped))


def written(
    text: str, selection: Selection, prune_id: str, *, annotate_lines: bool = False, include_markers: bool = True
) -> str:
    """Write the kept lines of the text the selection was made from. With `annotate_lines` each begins with `N│ `.

    With nothing dropped and no annotation the text comes back as it is, character for character. The empty string
    after a final newline is no line to a reader, so it gets no number.
    """
    if selection.dropped and selection.dropped[-1].end_char > len(text):
        raise ValueError("the selection is of another text")
    pieces: list[str] = []
    line, place = 1, 0
    for block in selection.dropped:
        if block.start > line:
            # Without the newline before the block: every piece gets one when they are joined.
            kept = text[place : block.start_char - 1]
            pieces.append(_numbered(kept, line) if annotate_lines else kept)
        if include_markers:
            pieces.append(_marker(block, prune_id))
        line, place = block.end + 1, block.end_char
    if line <= selection.total_lines:
        pieces.append(_numbered(text[place:], line, ends_text=True) if annotate_lines else text[place:])
    return "\n".join(pieces)


def _numbered(text: str, first: int, *, ends_text: bool = False) -> str:
    lines = text.split("\n")
    unnumbered = [lines.pop()] if ends_text and lines[-1] == "" else []
    return "\n".join([f"{number}│ {line}" for number, line in enumerate(lines, start=first)] + unnumbered)


def _annotation(block: DroppedBlock, prune_id: str) -> Annotation:
    return Annotation(
        original_start_line=block.start,
        original_end_line=block.end,
        pruned_line_count=block.line_count,
        reason=block.reason,
        marker=_marker(block, prune_id),
    )


def _marker(block: DroppedBlock, prune_id: str) -> str:
    span = f"lignes {block.start}-{block.end} ({block.line_count})"
    return f"⟦PRUNÉ: prune_id={prune_id} {span} raison={block.reason}⟧"
