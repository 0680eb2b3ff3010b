"""Where edits have changed a text: as regions of characters, and as lines in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tools.files.diffs import Region, common_ends
from tools.filesystem.patch.operations import TextEdit

_LISTED_PLACES = 5


class LineChange(NamedTuple):
    """A changed place: its first line in the new text, and how many lines it had and has."""

    line: int
    old_count: int
    new_count: int

    def render(self) -> str:
        first, old, new = self
        if not new:
            return f"{old} lines removed at {first}" if old > 1 else f"line {first} removed"
        where = f"line {first}" if new == 1 else f"lines {first}-{first + new - 1}"
        return f"{where} added" if not old else f"{where} changed" + (f" ({new - old:+})" if new != old else "")


def render_changes(changes: Sequence[LineChange]) -> str:
    """Where a text was changed, in a few words."""
    merged: list[LineChange] = []
    for change in changes:
        last = merged[-1] if merged else None
        if last is not None and change.line == last.line + last.new_count:
            merged[-1] = LineChange(last.line, last.old_count + change.old_count, last.new_count + change.new_count)
        else:
            merged.append(change)
    listed = ", ".join(change.render() for change in merged[:_LISTED_PLACES])
    rest = len(merged) - _LISTED_PLACES
    return listed + (f" and {rest} more places" if rest > 0 else "")


def changed_places(old: str, new: str, regions: Sequence[Region], first_line: int = 1) -> list[LineChange]:
    """Where the regions differ, in lines of the new text, which count from `first_line`."""
    found: list[LineChange] = []
    line, at = first_line, 0
    for region in regions:
        line += new.count("\n", at, region.new_start)
        at = region.new_start
        if (change := _changed_lines(old, new, region)) is not None:
            found.append(change._replace(line=line + change.line))
    return found


def merge_regions(regions: Sequence[Region], edits: Sequence[TextEdit]) -> list[Region]:
    """The regions of earlier edits and of `edits`, which are about the text as it was after those."""
    # Both lists are about the text in the middle: (start, end, how much longer before it, how much longer after it).
    spans: list[tuple[int, int, int, int]] = []
    for region in regions:
        grew_back = (region.old_end - region.old_start) - (region.new_end - region.new_start)
        spans.append((region.new_start, region.new_end, grew_back, 0))
    for edit in edits:
        spans.append((edit.start, edit.end, 0, len(edit.text) - (edit.end - edit.start)))
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


def _changed_lines(old: str, new: str, region: Region) -> LineChange | None:
    """The lines in which a region differs; the first one counts from that in which the region begins. None if it
    does not."""
    before_it = region.old_start - (old.rfind("\n", 0, region.old_start) + 1)
    first_old, first_new = region.old_start - before_it, region.new_start - before_it
    end_old, end_new = region.old_end, region.new_end
    if not (_begins_line(old, end_old) and _begins_line(new, end_new)):
        ending = old.find("\n", end_old)
        behind = (len(old) if ending == -1 else ending + 1) - end_old
        end_old, end_new = end_old + behind, end_new + behind
    before, after = old[first_old:end_old].split("\n"), new[first_new:end_new].split("\n")
    if not before[-1] and not after[-1]:
        del before[-1], after[-1]
    head, tail = common_ends(before, after)
    if head + tail >= max(len(before), len(after)):
        return None
    return LineChange(head, len(before) - head - tail, len(after) - head - tail)


def _begins_line(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"
