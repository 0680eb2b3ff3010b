"""Unified diffs that cost no more than what they show.

Where the changed places are known they are simply written down. Where two texts must be compared, what they have in
common at both ends is taken off first, and a middle that is still large is shown as removed and added as a whole:
the comparison of the standard library takes minutes on some inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from tools.kit.records import record

CONTEXT_LINES = 3
_COMPARED_LINES = 1_500
_LINE_CHARS = 2_000


@record
class Change:
    """Lines `old_start` to `old_end` (from 0, half open) became lines `new_start` to `new_end`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def unified(old: str, new: str, *, limit_chars: int) -> str:
    """The unified diff of two texts, without file names, cut after whole hunks at about `limit_chars`."""
    before, after = lines_of(old), lines_of(new)
    return written(before, after, compared(before, after), limit_chars=limit_chars)


def lines_of(text: str) -> list[str]:
    """The lines of a text with their endings; a line ends at a line feed and nowhere else."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def compared(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    head = 0
    shorter = min(len(before), len(after))
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return []
    if len(old) > _COMPARED_LINES or len(new) > _COMPARED_LINES:
        return [Change(head, head + len(old), head, head + len(new))]
    opcodes = SequenceMatcher(None, old, new, autojunk=True).get_opcodes()
    return [Change(head + a, head + b, head + c, head + d) for tag, a, b, c, d in opcodes if tag != "equal"]


def written(
    before: Sequence[str],
    after: Sequence[str],
    changes: Sequence[Change],
    *,
    limit_chars: int,
    first_old: int = 1,
    first_new: int = 1,
) -> str:
    """The hunks of `changes`, the lines counted from `first_old` and `first_new`."""
    parts: list[str] = []
    size = 0
    hunks = list(_hunks(changes, len(before)))
    for index, hunk in enumerate(hunks):
        if size > limit_chars:
            parts.append(f"… {len(hunks) - index} more places changed\n")
            break
        text = "".join(_hunk(before, after, hunk, first_old, first_new, limit_chars))
        parts.append(text)
        size += len(text)
    return "".join(parts)


def _hunks(changes: Sequence[Change], count: int) -> Iterator[list[Change]]:
    """Changes whose context would touch, together."""
    group: list[Change] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(
    before: Sequence[str],
    after: Sequence[str],
    group: list[Change],
    first_old: int,
    first_new: int,
    limit_chars: int,
) -> Iterator[str]:
    start, end = max(group[0].old_start - CONTEXT_LINES, 0), min(group[-1].old_end + CONTEXT_LINES, len(before))
    new_start = group[0].new_start - (group[0].old_start - start)
    new_end = group[-1].new_end + (end - group[-1].old_end)
    yield f"@@ -{_span(start + first_old, end - start)} +{_span(new_start + first_new, new_end - new_start)} @@\n"
    at = start
    for change in group:
        yield from (_line(" ", line) for line in before[at : change.old_start])
        yield from _some("-", before[change.old_start : change.old_end], limit_chars)
        yield from _some("+", after[change.new_start : change.new_end], limit_chars)
        at = change.old_end
    yield from (_line(" ", line) for line in before[at:end])


def _some(sign: str, lines: Sequence[str], limit_chars: int) -> Iterator[str]:
    size = 0
    for index, line in enumerate(lines):
        if size > limit_chars:
            yield f"… {len(lines) - index} more lines {'removed' if sign == '-' else 'added'}\n"
            return
        size += len(line)
        yield _line(sign, line)


def _line(sign: str, line: str) -> str:
    if len(line) > _LINE_CHARS:
        line = f"{line[:_LINE_CHARS]}… ({len(line)} characters)\n"
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _span(start: int, count: int) -> str:
    if count == 1:
        return str(start)
    # An empty side is counted from the line before it.
    return f"{start if count else start - 1},{count}"
