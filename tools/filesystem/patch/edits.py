"""Changes to a text by places: made, joined over several rounds, and shown as a diff."""

from __future__ import annotations

from collections.abc import Sequence

from tools.files.diffs import CONTEXT_LINES, compared, lines_of, written
from tools.kit.records import record


@record
class Edit:
    """What stands from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


@record
class Region:
    """A changed place: `old_start` to `old_end` of the text before all edits, and where that is now."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def applied(text: str, edits: Sequence[Edit]) -> str:
    """The edits are in order and do not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    pieces.append(text[at:])
    return "".join(pieces)


def joined(regions: Sequence[Region], edits: Sequence[Edit]) -> list[Region]:
    """The regions of earlier edits and of `edits`, which are about the text as it was after those."""
    # Both lists are about the text in the middle: (start, end, how much longer before it, how much longer after it).
    spans = [(r.new_start, r.new_end, (r.old_end - r.old_start) - (r.new_end - r.new_start), 0) for r in regions]
    spans += [(e.start, e.end, 0, len(e.text) - (e.end - e.start)) for e in edits]
    spans.sort()
    result: list[Region] = []
    back = ahead = 0
    index = 0
    while index < len(spans):
        start, end, grew_back, grew_ahead = spans[index]
        index += 1
        while index < len(spans) and spans[index][0] <= end:
            end = max(end, spans[index][1])
            grew_back += spans[index][2]
            grew_ahead += spans[index][3]
            index += 1
        result.append(Region(start + back, end + back + grew_back, start + ahead, end + ahead + grew_ahead))
        back += grew_back
        ahead += grew_ahead
    return result


def diff(old: str, new: str, regions: Sequence[Region], *, first_old: int, first_new: int, limit_chars: int) -> str:
    """The unified diff of the regions; lines count from `first_old` and `first_new`."""
    parts: list[str] = []
    size = 0
    old_at = new_at = 0
    groups = _grouped(old, regions)
    for index, (start, end, new_start, new_end) in enumerate(groups):
        if size > limit_chars:
            parts.append(f"… {len(groups) - index} more places changed\n")
            break
        first_old += old.count("\n", old_at, start)
        first_new += new.count("\n", new_at, new_start)
        old_at, new_at = start, new_start
        before, after = lines_of(old[start:end]), lines_of(new[new_start:new_end])
        text = written(
            before,
            after,
            compared(before, after),
            limit_chars=limit_chars - size,
            first_old=first_old,
            first_new=first_new,
        )
        parts.append(text)
        size += len(text)
    return "".join(parts)


def _grouped(old: str, regions: Sequence[Region]) -> list[tuple[int, int, int, int]]:
    """Regions with the lines around them; those that touch are one. What is around is the same before and after."""
    groups: list[tuple[int, int, int, int]] = []
    for region in regions:
        start = old.rfind("\n", 0, region.old_start) + 1
        for _ in range(CONTEXT_LINES):
            start = old.rfind("\n", 0, max(start - 1, 0)) + 1
        end = region.old_end
        for _ in range(CONTEXT_LINES + 1):
            found = old.find("\n", end)
            end = len(old) if found == -1 else found + 1
        new_start = region.new_start - (region.old_start - start)
        new_end = region.new_end + (end - region.old_end)
        if groups and start <= groups[-1][1]:
            start, _, new_start, _ = groups.pop()
        groups.append((start, end, new_start, new_end))
    return groups
