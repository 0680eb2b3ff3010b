"""Unified diffs that cost no more than what they show.

Where the changed places are known (`Region`), only the lines around them are compared. What two texts have in common
at both ends is taken off first, and a middle that is still large is shown as removed and added as a whole: the
comparison of the standard library takes minutes on some inputs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

CONTEXT_LINES = 3
_COMPARED_LINES = 1_500
_LINE_CHARS = 2_000
# A diff that may be so long is to be whole: no line of it is cut.
WHOLE_CHARS = 1_000_000
_LEAST_WHOLE = WHOLE_CHARS // 2


class Region(Struct, frozen=True):
    """A changed place: `old_start` to `old_end` of the old text (from 0, half open), and where that is in the new one.

    Callers count in characters; within a hunk, lines are counted.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_texts(old: str, new: str, *, limit_chars: int, first_line: int = 1) -> str:
    """The unified diff of two texts, without file names, cut after whole hunks at about `limit_chars`."""
    return _compare(old, new, limit_chars, first_line, first_line)


def diff_regions(
    old: str,
    new: str,
    regions: Sequence[Region],
    *,
    first_old: int,
    first_new: int,
    limit_chars: int,
    context: int = CONTEXT_LINES,
) -> str:
    """The unified diff of the regions; lines count from `first_old` and `first_new`."""
    parts: list[str] = []
    size = 0
    old_at = new_at = 0
    groups = _with_context(old, regions, context)
    for index, group in enumerate(groups):
        if size > limit_chars:
            parts.append(f"… {len(groups) - index} more places changed\n")
            break
        first_old += old.count("\n", old_at, group.old_start)
        first_new += new.count("\n", new_at, group.new_start)
        old_at, new_at = group.old_start, group.new_start
        before, after = old[group.old_start : group.old_end], new[group.new_start : group.new_end]
        text = _compare(before, after, limit_chars - size, first_old, first_new, context)
        parts.append(text)
        size += len(text)
    return "".join(parts)


def _with_context(old: str, regions: Sequence[Region], context: int) -> list[Region]:
    """Regions with the lines around them; those that touch are one. What is around is the same before and after."""
    groups: list[Region] = []
    for region in regions:
        start = old.rfind("\n", 0, region.old_start) + 1
        for _ in range(context):
            start = old.rfind("\n", 0, max(start - 1, 0)) + 1
        end = region.old_end
        for _ in range(context + 1):
            found = old.find("\n", end)
            end = len(old) if found == -1 else found + 1
        new_start = region.new_start - (region.old_start - start)
        new_end = region.new_end + (end - region.old_end)
        if groups and start <= groups[-1].old_end:
            last = groups.pop()
            start, new_start = last.old_start, last.new_start
        groups.append(Region(start, end, new_start, new_end))
    return groups


def _compare(old: str, new: str, limit_chars: int, first_old: int, first_new: int, context: int = CONTEXT_LINES) -> str:
    """The hunks between two texts, whose lines count from `first_old` and `first_new`."""
    # A line ends at a line feed and nowhere else; str.splitlines also splits at other characters.
    before, after = list(io.StringIO(old, newline="\n")), list(io.StringIO(new, newline="\n"))
    hunks: list[list[Region]] = []
    for change in _changes(before, after):
        # Changes whose context would touch are one hunk.
        if not hunks or change.old_start - hunks[-1][-1].old_end > 2 * context:
            hunks.append([])
        hunks[-1].append(change)
    parts: list[str] = []
    size = 0
    for index, hunk in enumerate(hunks):
        if size > limit_chars:
            parts.append(f"… {len(hunks) - index} more places changed\n")
            break
        text = _write_hunk(before, after, hunk, first_old, first_new, limit_chars, context)
        parts.append(text)
        size += len(text)
    return "".join(parts)


def _changes(before: Sequence[str], after: Sequence[str]) -> list[Region]:
    head, tail = common_ends(before, after)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return []
    if len(old) > _COMPARED_LINES or len(new) > _COMPARED_LINES:
        return [Region(head, head + len(old), head, head + len(new))]
    found: list[Region] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=True).get_opcodes():
        if tag != "equal":
            found.append(Region(head + a, head + b, head + c, head + d))
    return found


def common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many elements are the same at the beginning, and of the rest, at the end."""
    head = tail = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, tail


def _write_hunk(
    before: Sequence[str],
    after: Sequence[str],
    group: list[Region],
    first_old: int,
    first_new: int,
    limit_chars: int,
    context: int,
) -> str:
    start, end = max(group[0].old_start - context, 0), min(group[-1].old_end + context, len(before))
    new_start = group[0].new_start - (group[0].old_start - start)
    new_end = group[-1].new_end + (end - group[-1].old_end)
    parts = [f"@@ -{_span(start + first_old, end - start)} +{_span(new_start + first_new, new_end - new_start)} @@\n"]
    at = start
    for change in group:
        parts += _sign(" ", before[at : change.old_start], None)
        parts += _sign("-", before[change.old_start : change.old_end], limit_chars)
        parts += _sign("+", after[change.new_start : change.new_end], limit_chars)
        at = change.old_end
    parts += _sign(" ", before[at:end], None)
    return "".join(parts)


def _sign(sign: str, lines: Sequence[str], limit_chars: int | None) -> list[str]:
    """The lines with their sign, as far as the limit, if there is one."""
    signed: list[str] = []
    size = 0
    for index, line in enumerate(lines):
        if limit_chars is not None and size > limit_chars:
            signed.append(f"… {len(lines) - index} more lines {'removed' if sign == '-' else 'added'}\n")
            break
        size += len(line)
        if len(line) > _LINE_CHARS and (limit_chars is None or limit_chars < _LEAST_WHOLE):
            line = f"{line[:_LINE_CHARS]}… ({len(line)} characters)\n"
        signed.append(f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n")
    return signed


def _span(start: int, count: int) -> str:
    if count == 1:
        return str(start)
    # An empty side is counted from the line before it.
    return f"{start if count else start - 1},{count}"
