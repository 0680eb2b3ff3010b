"""fs_read_range: some lines of a text file, however large it is."""

from __future__ import annotations

import codecs
import os
from typing import Annotated, Literal

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import disk, documents, utf8
from tools.files.lines import BLOCK_BYTES, LineIndex, block_of, extend
from tools.files.revisions import HASHED_BYTES, rev_of_open, short_rev
from tools.files.sources import open_source
from tools.files.text import (
    HEAD_BYTES,
    LOOK_AHEAD_BYTES,
    UTF_8,
    Encoding,
    binary,
    decode,
    detect_encoding,
    encode,
    refuse_later_binary,
)
from tools.kit.errors import InvalidParams, IoError, OutOfRange
from tools.kit.params import Field
from tools.kit.results import Body, Result, ResultFacts, ShownText, line_cut, short_path
from tools.kit.spec import tool

_MOST_BYTES = 400_000
# Counting to the end of a file of this size costs less than a round trip to ask how long it is.
_COUNTED_BYTES = 8 * 1024 * 1024


class LineRange(Result, frozen=True):
    path: str
    start_line: int
    end_line: int
    content: str
    total_lines: int | None = None
    truncated: bool | None = None
    # Where the lines begin if that is inside the first, and where to go on: the last two are inside a line, too.
    start_byte: int | None = None
    next_line: int | None = None
    next_byte: int | None = None
    encoding: str | None = None
    rev: str | None = None

    def render(self) -> str:
        return f"{self._header}\n{self.content}"

    @property
    def _header(self) -> str:
        total = f" of {self.total_lines}" if self.total_lines is not None else ""
        header = f"{self.path} lines {self.start_line}–{self.end_line}{total}"
        if self.start_byte:
            header += f" · from byte {self.start_byte}"
        if self.truncated:
            header += f" · cut; go on with {self._next_place}"
        notes = [note for note in (self.encoding, f"rev {short_rev(self.rev)}" if self.rev else None) if note]
        return " · ".join([header, *notes])

    def summary(self) -> str:
        total = f" of {self.total_lines:,}" if self.total_lines is not None else ""
        cut = "; the rest is too long for one answer" if self.truncated else ""
        return f"lines {self.start_line:,} to {self.end_line:,}{total} of {short_path(self.path)}{cut}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(next_call=f"fs_read_range {self._next_place}" if self.truncated else None)

    @property
    def body(self) -> Body:
        is_whole = not (self.truncated or self.start_byte or self.next_byte)
        shown = ShownText(self._header, self.content, self.path, self.start_line) if is_whole else None
        return Body("content", cut=self._cut, is_asked=True, shown=shown)

    def _cut(self, most: int) -> LineRange:
        # One character more than stays: it may be the end of the last line, which the content does not have.
        end = line_cut(self.content, most + 1)
        if end > 0 and self.content[end - 1] == "\n" and end < len(self.content):
            return self.up_to(self.content[: end - 1], is_whole=True)
        return self.up_to(self.content[: min(most, len(self.content))], is_whole=False)

    def up_to(self, content: str, *, is_whole: bool) -> LineRange:
        """The lines as far as `content` has them. If its last line `is_whole`, the next one is where to go on."""
        end_line = self.start_line + content.count("\n")
        if is_whole:
            return replace(
                self, content=content, end_line=end_line, truncated=True, next_line=end_line + 1, next_byte=None
            )
        shown = len(encode(content[content.rfind("\n") + 1 :], self.encoding))
        skipped = (self.start_byte or 0) if end_line == self.start_line else 0
        return replace(
            self, content=content, end_line=end_line, truncated=True, next_line=end_line, next_byte=skipped + shown
        )

    @property
    def _next_place(self) -> str:
        inside = "" if self.next_byte is None else f" start_byte={self.next_byte}"
        return f"start_line={self.next_line}{inside}"


@tool(
    "filesystem",
    effect="read",
    title="Read lines of a file",
    focus="allowed",
    known_as=("read_lines", "read_file_lines", "view_range"),
)
def fs_read_range(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("File, ax:// or undo:// reference.")],
    start_line: Annotated[int, Field(description="From 1; negative counts from the end.")],
    end_line: Annotated[int, Field(description="Inclusive; -1 is the last line.")],
    start_byte: Annotated[int, Field(description="Byte of start_line to begin at.", minimum=0)] = 0,
) -> LineRange:
    """Read some lines of a text file, however large it is."""
    return read_lines(ctx, path, start_line, end_line, start_byte)


def read_lines(ctx: ToolContext, path: str, start_line: int, end_line: int, start_byte: int = 0) -> LineRange:
    """The lines of a file or reference, as `fs_read_range` gives them. Raises ToolError."""
    _check_order(start_line, end_line)
    origin = ctx.source(path)
    with open_source(ctx.paths, origin) as file:
        descriptor = file.descriptor
        index = ctx.line_indexes.of(descriptor)
        size = index.identity[0]
        head = disk.read_up_to(descriptor, HEAD_BYTES, size)
        if not size and head:
            # A file of /proc: it has no size, no fixed content, and is never large.
            return _of_text(
                decode(os.pread(descriptor, HASHED_BYTES, 0), name=origin.shown, size=0, cut=False).text,
                origin.shown,
                start_line,
                end_line,
                start_byte,
            )
        if kind := documents.kind_of(origin.shown, head):
            text = ctx.documents.text(descriptor, kind, origin.shown, ctx.check)
            return replace(_of_text(text, origin.shown, start_line, end_line, start_byte), encoding=f"{kind} as text")
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
            if total is None:
                raise _shorter(origin.shown)
            first = max(total + 1 + first, 1) if first < 0 else first
            last = max(total + 1 + last, 0) if last < 0 else last
        last = last if total is None else min(last, total)
        start = _start_of(index, descriptor, encoding, first)
        if start is None:
            raise _shorter(origin.shown)
        if start_byte:
            start_byte = _place_in_line(descriptor, encoding, start, start_byte, f"line {first} of {origin.shown}")
        most = min(ctx.text_room.most_bytes if ctx.text_room else _MOST_BYTES, _MOST_BYTES)
        data, count, is_cut = _lines(start + start_byte, size, descriptor, encoding, last - first, most)
        if encoding.unit_bytes == 1 and b"\0" in data:
            raise binary(head, origin.shown, size, "binary data after a start that looks like text")
        rev, whole = (None, None) if origin.is_kept else rev_of_open(descriptor)
        if rev is not None and whole is not None:
            ctx.revs.hand_out(rev, whole, origin.shown)
    text, name = _decode(data, encoding, origin.shown, size, splits_line=is_cut == "byte")
    lines = LineRange(
        path=origin.shown,
        start_line=first,
        end_line=first + count - 1,
        content=text,
        total_lines=total,
        start_byte=start_byte or None,
        encoding=None if name == UTF_8.name else name,
        rev=rev,
    )
    return lines if is_cut is None else lines.up_to(text, is_whole=is_cut == "line")


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


def _lines(
    start: int, size: int, descriptor: int, encoding: Encoding, further: int, most: int
) -> tuple[bytes, int, Literal["line", "byte"] | None]:
    """The bytes of a line and `further` ones without the last one's ending, how many lines, and where they are cut.

    They are cut at about `most` bytes.
    """
    unit = encoding.unit_bytes
    data, at, count = b"", 0, 0
    end = 0
    while count <= further:
        found = encoding.find_newline(data, at)
        if found == -1:
            at = max(len(data) - unit + 1, 0) // unit * unit
            more = os.pread(descriptor, min(BLOCK_BYTES, size - start - len(data)), start + len(data))
            if not more or len(data) > most + BLOCK_BYTES:
                break
            data += more
            continue
        if found > most and count:
            return data[:end], count, "line"
        count, end, at = count + 1, found, found + unit
    else:
        return _without_return(data[:end], encoding), count, None
    rest = data[end + unit if count else 0 :]
    if len(data) > most + BLOCK_BYTES and not count:
        # One line that is longer than the limit: give its start.
        return data[: most // unit * unit], 1, "byte"
    if rest and (len(data) <= most or not count):
        return data, count + 1, None
    return data[:end], count, "line" if rest else None


def _place_in_line(descriptor: int, encoding: Encoding, start: int, byte: int, shown: str) -> int:
    """The byte of a line to begin at, which is never inside a character. Raises OutOfRange if the line is shorter."""
    at = 0
    while at < byte:
        data = os.pread(descriptor, min(BLOCK_BYTES, byte - at), start + at)
        found = encoding.find_newline(data)
        if found != -1 or not data:
            length = at + max(found, 0)
            raise OutOfRange(f"byte {byte} is past the end: {shown} has {length} bytes", fields={"line_bytes": length})
        at += len(data)
    if encoding.codec == "utf-8":
        return byte + utf8.orphan_bytes(os.pread(descriptor, LOOK_AHEAD_BYTES, start + byte))
    return byte // encoding.unit_bytes * encoding.unit_bytes


def _shorter(shown: str) -> IoError:
    return IoError(f"{shown} became shorter while it was read", hint="read it again")


def _start_of(index: LineIndex, descriptor: int, encoding: Encoding, line: int) -> int | None:
    """The offset at which a line begins; its block has been counted. None if the line is no longer there."""
    if line <= 1:
        return len(encoding.bom)
    offset, before = block_of(index, line - 1)
    block = os.pread(descriptor, BLOCK_BYTES, offset)
    at = 0
    for _ in range(line - 1 - before):
        at = encoding.find_newline(block, at)
        if at == -1:
            return None
        at += encoding.unit_bytes
    return offset + at


def _without_return(data: bytes, encoding: Encoding) -> bytes:
    """`data` without a carriage return at its end: it is half of the last line's ending."""
    carriage_return = "\r".encode(encoding.codec)
    return data[: -len(carriage_return)] if data.endswith(carriage_return) else data


def _decode(data: bytes, encoding: Encoding, shown: str, size: int, *, splits_line: bool) -> tuple[str, str]:
    try:
        if splits_line:
            # The character that the cut may have split is the decoder's unfinished tail.
            return codecs.getincrementaldecoder(encoding.codec)("strict").decode(data), encoding.name
        return data.decode(encoding.codec), encoding.name
    except UnicodeDecodeError:
        # The file begins with UTF-8 and has an older encoding here.
        decoded = decode(data, name=shown, size=size, cut=True)
        return decoded.text, decoded.encoding.name


def _of_text(text: str, shown: str, start_line: int, end_line: int, start_byte: int) -> LineRange:
    lines = text.removesuffix("\n").split("\n")
    total = len(lines)
    if start_line > total:
        raise OutOfRange(f"line {start_line} is past the end: {shown} has {total} lines", fields={"total_lines": total})
    first = max(total + 1 + start_line, 1) if start_line < 0 else start_line
    last = min(total + 1 + end_line if end_line < 0 else end_line, total)
    content = "\n".join(lines[first - 1 : last]).encode()[start_byte:].decode("utf-8", "replace")
    return LineRange(shown, first, last, content, total, start_byte=start_byte or None)
