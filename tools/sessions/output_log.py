"""The output of a session: the bytes of both streams in order of arrival, addressed by offset, and cut into pieces.

A piece is the result of one read from the child. It belongs to one stream and never ends inside a character, so it can
be decoded by itself. The hub numbers the pieces of all sessions in one sequence. The newest pieces are in memory; all
of them are in the spool until it frees them. A reader has an offset and asks for the piece there; the log does not
know its readers.
"""

from __future__ import annotations

import errno
import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from tools.files import disk, utf8
from tools.kit.log_events import event
from tools.sessions.origin import EndedBy
from tools.sessions.spool import HEAD_BYTES, Spool

log = logging.getLogger(__name__)

Stream = Literal["stdout", "stderr"]

RECENT_BYTES = 1024 * 1024
# What a piece in memory costs besides its bytes. A program may print one byte at a time.
_ENTRY_BYTES = 160
# Output up to this size stays in memory, so that a short command needs no file.
UNSPOOLED_BYTES = 256 * 1024
MOST_PIECES = 256 * 1024
_READ_BYTES = 256 * 1024
# The pieces of output that was stored by an earlier daemon.
_PIECE_BYTES = 64 * 1024


class Piece(NamedTuple):
    """Some output of one stream. `number` is its position in the sequence of all sessions."""

    number: int
    offset: int
    stream: Stream
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class PieceSpan(NamedTuple):
    """The position of a piece, without its bytes. A reader that has the bytes already need not read them again."""

    number: int
    offset: int
    end: int
    stream: Stream


class Lost(NamedTuple):
    """Bytes that were printed and are no longer stored."""

    offset: int
    end: int


class Exit(Struct, frozen=True):
    """How the leader ended, and the offset of its last output. Later output is stored but not sent as events."""

    number: int
    offset: int
    exit_code: int
    signal: str | None
    ended_by: EndedBy | None = None


class OutputLog:
    """The output of one session. Its pieces have numbers once it is published."""

    def __init__(
        self, session_id: str, path: Path, most_bytes: int, whole_bytes: int = 0, *, frees_in_place: bool = True
    ) -> None:
        """Store `most_bytes` of a published session; before that, everything up to `whole_bytes`."""
        self.session_id = session_id
        self.path = path
        self.end = 0
        self.exit: Exit | None = None
        self.spool: Spool | None = None
        self._most_bytes = most_bytes
        self._whole_bytes = whole_bytes
        self._frees_in_place = frees_in_place
        self._has_no_file = False
        self._take_number: Callable[[], int] | None = None
        # One entry for each piece: its offset, its number, and whether it is of stderr. Arrays: there may be many, and
        # so a piece costs 17 bytes, where a tuple of three costs 128.
        self._starts = array("Q")
        self._numbers = array("Q")
        self._errors = bytearray()
        # The number of entries of the head. It is 0 until bytes after the head are freed.
        self._head_pieces = 0
        self._head_end = 0
        self._lost_to = 0
        # For each freed range: its last number and its end. So a reader whose position was in that range learns how
        # much it has missed, to within a block.
        self._gone: list[tuple[int, int]] = []
        self._recent: dict[int, bytes] = {}
        self._recent_bytes = 0

    @classmethod
    def reopen(cls, session_id: str, path: Path) -> OutputLog:
        """The output that an earlier daemon has stored. Of which stream a byte was is not known. Raises OSError."""
        log = cls(session_id, path, 0)
        spool = log.spool = Spool.reopen(path)
        head_end, rest = spool.gap or (spool.written, spool.written)
        log._add_pieces(0, head_end)
        if rest < spool.written:
            log._head_pieces, log._head_end = len(log._starts), head_end
            log._lost_to = rest + utf8.orphan_bytes(spool.read(rest, 4))
            log._add_pieces(log._lost_to, spool.written)
        log.end = spool.written
        return log

    def _add_pieces(self, start: int, end: int) -> None:
        """Cut stored output into pieces, none of which ends inside a character."""
        assert self.spool is not None, "it is stored"
        while start < end:
            self._starts.append(start)
            self._numbers.append(0)
            self._errors.append(False)
            start += _PIECE_BYTES
            start += utf8.orphan_bytes(self.spool.read(start, 4)) if start < end else 0

    @property
    def kept_from(self) -> int:
        """The start of the stored output after the head; 0 while nothing is freed."""
        return self._lost_to

    @property
    def kept_bytes(self) -> int:
        """The size of the output on disk."""
        return 0 if self.spool is None else self.spool.kept_bytes

    def append(self, stream: Stream, data: bytes) -> None:
        self._starts.append(self.end)
        self._numbers.append(self._take_number() if self._take_number is not None else 0)
        self._errors.append(stream == "stderr")
        self._recent[self.end] = data
        self._recent_bytes += len(data) + _ENTRY_BYTES
        self.end += len(data)
        if self.spool is not None:
            self.spool.append(data)
        elif self._recent_bytes > UNSPOOLED_BYTES:
            self.start_spool()
        if self._recent_bytes > RECENT_BYTES:
            self._evict_recent()
        if len(self._starts) > MOST_PIECES:
            self._drop_pieces()

    def start_spool(self) -> None:
        """Store the output in a file, including earlier output. If no file can be created, memory is used."""
        if self.spool is not None or self._has_no_file:
            return
        try:
            self.spool = Spool(self.path, self._most_bytes, self._whole_bytes, frees_in_place=self._frees_in_place)
        except OSError as error:
            self._has_no_file = True
            event(log, logging.WARNING, "spool.not_made", path=str(self.path), message=str(error))
            return
        self.spool.append(b"".join(self._recent.values()))

    def publish(self, take_number: Callable[[], int]) -> None:
        """Number all pieces, those to come too. From now on the limit of published sessions applies."""
        self._take_number = take_number
        self._whole_bytes = 0
        if self.spool is not None:
            self.spool.whole_bytes = 0
        self._numbers = array("Q", [take_number() for _ in self._numbers])

    def absolute(self, offset: int) -> int:
        """An offset that a client gave, within the output: a negative one counts from the end."""
        return min(offset if offset >= 0 else max(0, self.end + offset), self.end)

    def excess(self) -> int:
        """The offset up to which old output must be freed before more is accepted; 0 if there is room."""
        return 0 if self.spool is None else self.spool.excess()

    def free(self, to: int) -> None:
        """Free the output between the head and `to`, in whole pieces."""
        assert self.spool is not None, "only a file can be over its limit"
        head = self._fix_head()
        last = bisect_right(self._starts, to) - 1
        if last <= head:
            return
        self._drop(head, last)
        self.spool.free(self._lost_to)

    def mark(self, offset: int) -> PieceSpan | Lost | None:
        """The position of the piece that covers `offset`, from there on. None at the end; Lost if it is not stored."""
        if offset >= self.end:
            return None
        index = bisect_right(self._starts, offset) - 1
        following = index + 1
        end = self._starts[following] if following < len(self._starts) else self.end
        if self._head_pieces and following == self._head_pieces:
            # The last piece of the head: the next entry begins after the freed range.
            end = self._head_end
            if offset >= end:
                return Lost(offset, self._lost_to)
        if (self.spool is None or end > self.spool.written) and self._starts[index] not in self._recent:
            # The file is full, and the piece was evicted from memory.
            return Lost(offset, min(next(iter(self._recent), self.end), self.end))
        return PieceSpan(self._numbers[index], offset, end, "stderr" if self._errors[index] else "stdout")

    def data(self, mark: PieceSpan) -> bytes:
        """The bytes of a piece; fewer if the file was deleted from outside."""
        recent = self._recent.get(mark.offset)
        if recent is not None:
            return recent
        start = self._starts[bisect_right(self._starts, mark.offset) - 1]
        recent = self._recent.get(start)
        if recent is not None:
            return recent[mark.offset - start :]
        return b"" if self.spool is None else self.spool.read(mark.offset, mark.end - mark.offset)

    def piece_at(self, offset: int) -> Piece | Lost | None:
        """As `mark`, with the bytes."""
        mark = self.mark(offset)
        if mark is None or isinstance(mark, Lost):
            return mark
        data = self.data(mark)
        if len(data) < mark.end - offset:
            return Lost(offset, mark.end)
        return Piece(mark.number, offset, mark.stream, data)

    def next_number(self, offset: int) -> int:
        """The number of the piece at `offset`, which must be before the end."""
        return self._numbers[bisect_right(self._starts, offset) - 1]

    def offset_after(self, number: int) -> int:
        """The offset after the last piece whose number is at most `number`."""
        index = bisect_right(self._numbers, number)
        if index == len(self._numbers):
            return self.end
        if self._head_pieces and index == self._head_pieces:
            # The position was in the freed range, or at the end of the head.
            passed = [end for last, end in self._gone if last <= number]
            return passed[-1] if passed else self._head_end
        return self._starts[index]

    def text(self, offset: int, most_bytes: int) -> tuple[str, int, int]:
        """As `read`, decoded."""
        data, start, end = self.read(offset, most_bytes)
        return data.decode("utf-8", "replace"), start, end

    def read(self, offset: int, most_bytes: int) -> tuple[bytes, int, int]:
        """Output from `offset` on: the bytes, their start (later than `offset` if that part is lost) and their end."""
        at = offset
        parts: list[bytes] = []
        size = 0
        while size < most_bytes and (found := self.piece_at(at)) is not None:
            if isinstance(found, Lost):
                if parts:
                    break
                offset = at = found.end
                continue
            data = found.data
            if size + len(data) > most_bytes:
                data = data[: utf8.boundary(data, most_bytes - size)]
                parts.append(data)
                at += len(data)
                break
            parts.append(data)
            size += len(data)
            at = found.end
        return b"".join(parts), offset, at

    def stored_output(self) -> Iterator[bytes]:
        """What is stored now, with a note where bytes are lost. Any thread may iterate. Raises OSError, also then."""
        self.start_spool()
        if self.spool is None:
            raise OSError(errno.ENOENT, "there is no file for it")
        end = self.spool.written
        unspooled = self._rest_in_memory(end)
        if not self._lost_to or self.spool.sole_file is not None:
            return chain(_bytes(list(self.spool.stretches(0, end))), unspooled)
        gone = _gone_note(self._lost_to - self._head_end)
        head = list(self.spool.stretches(0, self._head_end))
        return chain(_bytes(head), [gone], _bytes(list(self.spool.stretches(self._lost_to, end))), unspooled)

    def _rest_in_memory(self, offset: int) -> list[bytes]:
        """What the file did not take, from `offset` on, with a note where memory has lost it too."""
        parts: list[bytes] = []
        while (found := self.piece_at(offset)) is not None:
            parts.append(found.data if isinstance(found, Piece) else _gone_note(found.end - offset))
            offset = found.end
        return parts

    def complete_file(self) -> Path | None:
        """The file with all of the output, closed for writing; None if some is lost or in another file."""
        self.start_spool()
        if self.spool is None or self.spool.sole_file is None:
            return None
        self.seal()
        return self.spool.sole_file

    def seal(self) -> None:
        """No more output comes: close the descriptors, and free the memory of what the file has."""
        if self.spool is not None:
            self.spool.seal()
            if not self.spool.is_full:
                self._evict_recent(keep=0)

    def remove(self) -> None:
        if self.spool is not None:
            self.spool.remove()

    def _evict_recent(self, keep: int = RECENT_BYTES) -> None:
        while self._recent_bytes > keep and self._recent:
            self._recent_bytes -= len(self._recent.pop(next(iter(self._recent)))) + _ENTRY_BYTES

    def _fix_head(self) -> int:
        """The number of pieces in the head. It is fixed when the first bytes after the head are freed."""
        if not self._head_pieces:
            self._head_pieces = max(1, bisect_right(self._starts, HEAD_BYTES - 1))
            self._head_end = self._starts[self._head_pieces]
        return self._head_pieces

    def _drop_pieces(self) -> None:
        """There are too many small pieces to index: forget the oldest after the head, as if the file were full."""
        if not self._head_pieces:
            self._head_pieces = min(max(1, bisect_right(self._starts, HEAD_BYTES - 1)), MOST_PIECES // 8)
            self._head_end = self._starts[self._head_pieces]
        self._drop(self._head_pieces, self._head_pieces + MOST_PIECES // 8)

    def _drop(self, head: int, to: int) -> None:
        self._lost_to = self._starts[to]
        self._gone.append((self._numbers[to - 1], self._lost_to))
        if len(self._gone) > 1_000:
            del self._gone[: len(self._gone) // 2]
        for entries in (self._starts, self._numbers, self._errors):
            del entries[head:to]


def _gone_note(count: int) -> bytes:
    return f"\n[… {count} bytes are gone …]\n".encode()


def _bytes(stretches: list[tuple[Path, int, int]]) -> Iterator[bytes]:
    for path, start, left in stretches:
        with open(disk.open_regular(path), "rb") as file:
            file.seek(start)
            while left > 0 and (data := file.read(min(_READ_BYTES, left))):
                left -= len(data)
                yield data
