"""fs_read_range: some lines of a text file, however large it is."""

from __future__ import annotations

import os
from typing import Annotated

from tools.context import ToolContext
from tools.files.lines import BLOCK_BYTES, LineIndex, block_of, extend
from tools.files.revisions import HASHED_BYTES, rev_of_open
from tools.files.sources import open_source
from tools.files.text import HEAD_BYTES, UTF_8, Encoding, binary, decode, detect_encoding, refuse_later_binary
from tools.kit.errors import InvalidParams, OutOfRange
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.kit.summaries import short_path

_MOST_BYTES = 400_000
# Counting to the end of a file of this size costs less than a round trip to ask how long it is.
_COUNTED_BYTES = 8 * 1024 * 1024


@record
class Lines(Result):
    path: str
    start_line: int
    end_line: int
    content: str
    total_lines: int | None = None
    truncated: bool | None = None
    encoding: str | None = None
    rev: str | None = None

    def render(self) -> str:
        total = f" of {self.total_lines}" if self.total_lines is not None else ""
        header = f"{self.path} lines {self.start_line}–{self.end_line}{total}"
        if self.truncated:
            header += f" · cut; go on with start_line={self.end_line + 1}"
        notes = [note for note in (self.encoding, f"rev {self.rev}" if self.rev else None) if note]
        return f"{' · '.join([header, *notes])}\n{self.content}"

    def summary(self) -> str:
        total = f" of {self.total_lines:,}" if self.total_lines is not None else ""
        cut = "; the rest is too long for one answer" if self.truncated else ""
        return f"lines {self.start_line:,} to {self.end_line:,}{total} of {short_path(self.path)}{cut}"

    @property
    def text_field(self) -> str:
        return "content"


@tool("filesystem", effect="read", title="Read lines of a file", focus="content")
def fs_read_range(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="File, ax:// or undo:// reference.", audited=True)],
    start_line: Annotated[int, Field(description="From 1; negative counts from the end.")],
    end_line: Annotated[int, Field(description="Inclusive; -1 is the last line.")],
) -> Lines:
    """Read some lines of a text file, however large it is."""
    _check_order(start_line, end_line)
    origin = ctx.source(path)
    with open_source(ctx.paths, origin) as file:
        descriptor = file.descriptor
        index = ctx.line_indexes.of(descriptor)
        size = index.identity[0]
        head = os.pread(descriptor, HEAD_BYTES, 0)
        if not size and head:
            # A file of /proc: it has no size, no fixed content, and is never large.
            return _of_text(
                decode(os.pread(descriptor, HASHED_BYTES, 0), name=origin.shown, size=0, cut=False).text,
                origin.shown,
                start_line,
                end_line,
            )
        encoding = detect_encoding(head, name=origin.shown, size=size, cut=size > len(head))
        refuse_later_binary(descriptor, len(head), size, encoding, origin.shown)
        is_counted = size <= _COUNTED_BYTES or start_line < 0 or end_line < 0
        extend(index, descriptor, encoding, None if is_counted else start_line - 1, ctx.check)
        total = _total(index, descriptor, encoding)
        if total is not None and start_line > max(total, 1):
            raise OutOfRange(
                f"line {start_line} is past the end: {origin.shown} has {total} lines", fields={"total_lines": total}
            )
        first, last = start_line, end_line
        if first < 0 or last < 0:
            assert total is not None, "the whole file was counted"
            first = max(total + 1 + first, 1) if first < 0 else first
            last = max(total + 1 + last, 0) if last < 0 else last
        last = last if total is None else min(last, total)
        data, count, is_cut = _lines(index, descriptor, encoding, first, last)
        if encoding.unit_bytes == 1 and b"\0" in data:
            raise binary(head, origin.shown, size, "binary data after a start that looks like text")
        rev, whole = (None, None) if origin.is_kept else rev_of_open(descriptor)
        if rev is not None and whole is not None:
            ctx.revs.hand_out(rev, whole)
    text, name = _decode(data, encoding, origin.shown, size)
    return Lines(
        path=origin.shown,
        start_line=first,
        end_line=first + count - 1,
        content=text,
        total_lines=total,
        truncated=True if is_cut else None,
        encoding=None if name == UTF_8.name else name,
        rev=rev,
    )


def _check_order(start_line: int, end_line: int) -> None:
    problem = None
    if start_line == 0 or end_line == 0:
        name = "start_line" if start_line == 0 else "end_line"
        problem = (name, "too_small", f"{name} is 0: lines count from 1, and from -1 at the end")
    elif (start_line > 0) == (end_line > 0) and start_line > end_line:
        problem = ("end_line", "custom", f"end_line is {end_line} and must not be less than start_line, {start_line}")
    if problem is not None:
        path, code, message = problem
        raise InvalidParams(message, issues=[{"path": f"arguments.{path}", "code": code, "message": code}])


def _total(index: LineIndex, descriptor: int, encoding: Encoding) -> int | None:
    """How many lines the file has, if all of it has been counted."""
    size = index.identity[0]
    if index.end < size:
        return None
    unit = encoding.unit_bytes
    last = os.pread(descriptor, unit, size - unit) if size > len(encoding.bom) else encoding.newline
    return index.line_ends + (last != encoding.newline)


def _lines(index: LineIndex, descriptor: int, encoding: Encoding, first: int, last: int) -> tuple[bytes, int, bool]:
    """The bytes of the lines without the last one's ending, how many lines, and whether the limit cut them."""
    start = _start_of(index, descriptor, encoding, first)
    size, newline, unit = index.identity[0], encoding.newline, encoding.unit_bytes
    data, at, count = b"", 0, 0
    end = 0
    while count <= last - first:
        found = data.find(newline, at)
        while found != -1 and found % unit:
            found = data.find(newline, found + 1)
        if found == -1:
            at = max(len(data) - unit + 1, 0) // unit * unit
            more = os.pread(descriptor, min(BLOCK_BYTES, size - start - len(data)), start + len(data))
            if not more or len(data) > _MOST_BYTES + BLOCK_BYTES:
                break
            data += more
            continue
        if found > _MOST_BYTES and count:
            return data[:end], count, True
        count, end, at = count + 1, found, found + unit
    else:
        return _without_return(data[:end], encoding), count, False
    rest = data[end + unit if count else 0 :]
    if len(data) > _MOST_BYTES + BLOCK_BYTES and not count:
        # One line that is longer than the limit: give its start.
        return data[: _MOST_BYTES // unit * unit], 1, True
    if rest and (len(data) <= _MOST_BYTES or not count):
        return data, count + 1, False
    return data[:end], count, bool(rest)


def _start_of(index: LineIndex, descriptor: int, encoding: Encoding, line: int) -> int:
    """The offset at which a line begins. Its block has been counted."""
    if line <= 1:
        return len(encoding.bom)
    offset, before = block_of(index, line - 1)
    block = os.pread(descriptor, BLOCK_BYTES, offset)
    at, newline, unit = 0, encoding.newline, encoding.unit_bytes
    for _ in range(line - 1 - before):
        at = block.index(newline, at)
        while at % unit:
            at = block.index(newline, at + 1)
        at += unit
    return offset + at


def _without_return(data: bytes, encoding: Encoding) -> bytes:
    """`data` without a carriage return at its end: it is half of the last line's ending."""
    carriage_return = "\r".encode(encoding.codec)
    return data[: -len(carriage_return)] if data.endswith(carriage_return) else data


def _decode(data: bytes, encoding: Encoding, shown: str, size: int) -> tuple[str, str]:
    try:
        return data.decode(encoding.codec), encoding.name
    except UnicodeDecodeError:
        # The file begins with UTF-8 but has an older encoding here, or a character was cut.
        decoded = decode(data, name=shown, size=size, cut=True)
        return decoded.text, decoded.encoding.name


def _of_text(text: str, shown: str, start_line: int, end_line: int) -> Lines:
    lines = text.removesuffix("\n").split("\n")
    total = len(lines)
    if start_line > total:
        raise OutOfRange(f"line {start_line} is past the end: {shown} has {total} lines", fields={"total_lines": total})
    first = max(total + 1 + start_line, 1) if start_line < 0 else start_line
    last = min(total + 1 + end_line if end_line < 0 else end_line, total)
    return Lines(shown, first, last, "\n".join(lines[first - 1 : last]), total)
