"""recover_text: lines of a text as it was before it was pruned, by the id that pruning gave."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from tools.context import ToolContext
from tools.kit.errors import NotFound, OutOfRange, TooLarge
from tools.kit.params import Field
from tools.kit.results import Body, Result, line_count, quantity
from tools.kit.spec import tool
from tools.pruning.prune_text import SMALL_CHARS

# The longest text that a client can send to be pruned. Ranges may overlap, so more could be asked for.
_MOST_CHARS = 16 * 1024 * 1024


class Range(Struct, frozen=True):
    # Told and not enforced: a line below 1 has an error number of its own.
    start_line: Annotated[int, Field(description="From 1.", minimum=1, is_enforced=False)]
    end_line: Annotated[int, Field(description="Inclusive.", minimum=1, is_enforced=False)]


class Recovered(Result, frozen=True):
    raw_text: str
    metadata: dict[str, Any]

    def render(self) -> str:
        return self.raw_text

    def summary(self) -> str:
        return f"{quantity(line_count(self.raw_text), 'line')} of {self.metadata['prune_id']} brought back"

    @property
    def body(self) -> Body:
        return Body("raw_text", cut=self._cut, refuse=self._refuse, is_asked=True)

    def _cut(self, most: int) -> Recovered:
        return replace(self, raw_text=self.raw_text[:most])

    def _refuse(self, part: Result | None) -> TooLarge:
        """Part of a range is of no use to a client that puts the answer in the place of a marker."""
        whole_lines = part.raw_text.count("\n") if isinstance(part, Recovered) else 0
        return _too_large(self.metadata["ranges"], whole_lines, len(self.raw_text.encode("utf-8", "replace")))


@tool(
    "pruning",
    effect="read",
    title="Bring pruned lines back",
    aliases=("recover_range",),
)
async def recover_text(
    ctx: ToolContext,
    *,
    prune_id: Annotated[str, Field(description="From a marker or a result.")],
    ranges: Annotated[list[Range], Field(description="Lines as a marker gives them.")],
    include_line_numbers: Annotated[bool, Field(description="Number the lines.")],
) -> Recovered:
    """Get lines back that pruning dropped, exactly as they were."""
    for index, each in enumerate(ranges):
        if each.start_line < 1 or each.end_line < each.start_line:
            message = f"ranges.{index} must begin at 1 or later and not end before it begins"
            raise OutOfRange(message, fields={"range": index})
    assert ctx.pruner is not None, "every host has a pruner"
    text = await ctx.pruner.find_text(ctx.owner, prune_id)
    if text is None:
        raise NotFound(
            f"no text is kept under {prune_id[:100]!r} for you",
            hint="it is unknown or too old: make the call again that gave it",
            fields={"prune_id": prune_id[:100]},
        )
    recover = partial(_recover, prune_id, text, ranges, include_line_numbers)
    return recover() if len(text) < SMALL_CHARS else await asyncio.to_thread(recover)


def _recover(prune_id: str, text: str, ranges: list[Range], include_line_numbers: bool) -> Recovered:
    lines_of_text = text.split("\n")
    if lines_of_text[-1] == "":
        lines_of_text.pop()
    total = len(lines_of_text)
    given: list[str] = []
    size = 0
    for index, each in enumerate(ranges):
        if each.start_line > total:
            message = f"ranges.{index} begins at line {each.start_line}, and the text has {total} lines"
            raise OutOfRange(message, fields={"range": index, "total_lines": total})
        chosen = enumerate(lines_of_text[each.start_line - 1 : each.end_line], start=each.start_line)
        for line in [f"{number}│ {line}" if include_line_numbers else line for number, line in chosen]:
            size += len(line) + 1
            if size > _MOST_CHARS:
                raise _too_large([asdict(each) for each in ranges], len(given), None)
            given.append(line)
    metadata = {
        "prune_id": prune_id,
        "ranges": [{"start_line": each.start_line, "end_line": min(each.end_line, total)} for each in ranges],
        "line_numbering": "original",
    }
    return Recovered("\n".join(given), metadata)


def _too_large(ranges: Sequence[Mapping[str, int]], fitting_lines: int, size: int | None) -> TooLarge:
    """The error for ranges of which the first `fitting_lines` fit: it names those that do, and where to go on."""
    have = (
        "the ranges have too much for one answer"
        if size is None
        else f"the ranges have {size} bytes, too much for one answer"
    )
    left = fitting_lines
    for index, each in enumerate(ranges):
        first, last = each["start_line"], each["end_line"]
        if left <= last - first:
            if not fitting_lines:
                return TooLarge(f"{have}: line {first} alone is too long for it")
            whole = f"the ranges before number {index + 1}" if index else ""
            part = f"lines {first} to {first + left - 1}" if left else ""
            fitting = " and ".join(filter(None, (whole, part)))
            return TooLarge(have, hint=f"what fits is {fitting}: ask for that, then go on from line {first + left}")
        left -= last - first + 1
    raise AssertionError("ranges that fit are no error")
