"""What pruning decides: the blocks of lines to leave out, and why."""

from collections.abc import Iterator
from itertools import chain
from typing import Literal

from tools.kit.records import record

SourceType = Literal["code", "logs", "docs"]
WarningCode = Literal["constraints_unmet"]


class GaveUp(Exception):
    """The deadline passed before a selection was reached. The caller lets the whole text through."""


@record
class DroppedBlock:
    """Lines `start` to `end`, both included and counted from 1, with a short reason in French.

    They are `text[start_char:end_char]`, each with its newline.
    """

    start: int
    end: int
    reason: str
    start_char: int
    end_char: int

    @property
    def line_count(self) -> int:
        return self.end - self.start + 1


@record
class Selection:
    """Blocks to drop, in order and apart. Lines are those of `text.split("\\n")`."""

    dropped: tuple[DroppedBlock, ...]
    total_lines: int
    source_type: SourceType
    warnings: tuple[WarningCode, ...] = ()

    @property
    def dropped_lines(self) -> int:
        return sum(block.line_count for block in self.dropped)

    def kept(self) -> Iterator[int]:
        """Give the numbers of the kept lines, from 1, in order."""
        firsts = [1, *(block.end + 1 for block in self.dropped)]
        ends = [*(block.start for block in self.dropped), self.total_lines + 1]
        return chain.from_iterable(map(range, firsts, ends))
