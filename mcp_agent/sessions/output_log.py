"""What a session has printed: bytes in order of arrival, one space of offsets, and where each piece of it begins.

A piece is what one read of the child gave: of one stream, never ending inside a character, so it can be decoded on
its own. Pieces carry numbers from the hub, which order them among all sessions. The newest pieces are kept in
memory, all of them in the spool until that lets them go. Readers have a place (an offset) and ask for the piece
there; the log knows nothing of them.
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

from mcp_agent.logs import event
from mcp_agent.sessions.spool import HEAD_BYTES, Spool
from tools.files import utf8
from tools.kit.records import record

log = logging.getLogger(__name__)

Stream = Literal["stdout", "stderr"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

RECENT_BYTES = 1024 * 1024
# A command that is over soon needs no file: until then all of its output is in memory.
UNSPOOLED_BYTES = 256 * 1024
MOST_PIECES = 256 * 1024
_READ_BYTES = 256 * 1024


class Piece(NamedTuple):
    """Some output of one stream. `number` is its place among the pieces of all sessions."""

    number: int
    offset: int
    stream: Stream
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Mark(NamedTuple):
    """Where a piece is, without its bytes: whoever has them already need not read them again."""

    number: int
    offset: int
    end: int
    stream: Stream


class Lost(NamedTuple):
    """Bytes that were printed and are not kept any more."""

    offset: int
    end: int


@record
class Exit:
    """How a session's leader ended, and where its output ended then. What comes later is spooled, not sent."""

    number: int
    offset: int
    exit_code: int
    signal: str | None


class OutputLog:
    """The output of one session. `take_number` gives the next number once the session is known to the hub."""

    def __init__(
        self, session_id: str, path: Path, most_bytes: int, whole_bytes: int = 0, *, frees_in_place: bool = True
    ) -> None:
        """Of a published session `most_bytes` are kept; until it is published, all of it up to `whole_bytes`."""
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
        # One entry a piece: its offset doubled, plus one for stderr; and its number.
        self._starts = array("Q")
        self._numbers = array("Q")
        # How many entries describe the head; those behind it go as the spool lets their bytes go.
        self._head_pieces = 0
        self._head_end = 0
        self._lost_to = 0
        # For each stretch that is gone: the last number in it and where it ended, so a reader that was somewhere
        # in it can be told what it has missed, to within a block.
        self._gone: list[tuple[int, int]] = []
        self._recent: dict[int, bytes] = {}
        self._recent_bytes = 0

    @property
    def kept_from(self) -> int:
        """Where the newest kept stretch begins; 0 while nothing is gone."""
        return self._lost_to

    @property
    def kept_bytes(self) -> int:
        """How much of it is kept on disk."""
        return 0 if self.spool is None else self.spool.kept_bytes

    def append(self, stream: Stream, data: bytes) -> None:
        offset = self.end
        self._starts.append(offset << 1 | (stream == "stderr"))
        self._numbers.append(self._take_number() if self._take_number is not None else 0)
        self._recent[offset] = data
        self._recent_bytes += len(data)
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
        """Keep the output in a file from here on, with what there is already. If there can be none, memory is all."""
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
        """Number every piece there is and every one to come."""
        self._take_number = take_number
        self._whole_bytes = 0
        if self.spool is not None:
            self.spool.whole_bytes = 0
        self._numbers = array("Q", [take_number() for _ in self._numbers])

    def excess(self) -> int:
        """Up to which offset old output must go before more is taken; 0 if there is room."""
        return 0 if self.spool is None else self.spool.excess()

    def free(self, to: int) -> None:
        """Let the output between the head and `to` go."""
        assert self.spool is not None, "only a file can be over its limit"
        # Whole pieces: one that straddles an edge of the hole is gone with it.
        head = self._fix_head()
        last = bisect_right(self._starts, to << 1 | 1) - 1
        if last <= head:
            return
        self._drop(head, last)
        self.spool.free(self._lost_to)

    def mark(self, offset: int) -> Mark | Lost | None:
        """Where the piece is that covers `offset`, from there on; None at the end. Lost if that part is gone."""
        if offset >= self.end:
            return None
        index = bisect_right(self._starts, offset << 1 | 1) - 1
        entry = self._starts[index]
        following = index + 1
        end = self._starts[following] >> 1 if following < len(self._starts) else self.end
        if self._head_pieces and following == self._head_pieces:
            # The last piece before the hole: the next entry begins behind it.
            end = self._head_end
            if offset >= end:
                return Lost(offset, self._lost_to)
        if (self.spool is None or end > self.spool.written) and entry >> 1 not in self._recent:
            # The file would take no more, and memory has moved on.
            return Lost(offset, min(next(iter(self._recent), self.end), self.end))
        return Mark(self._numbers[index], offset, end, _STREAMS[entry & 1])

    def data(self, mark: Mark) -> bytes:
        """The bytes of a piece; fewer if somebody has deleted the file meanwhile."""
        recent = self._recent.get(mark.offset)
        if recent is not None:
            return recent
        start = self._starts[bisect_right(self._starts, mark.offset << 1 | 1) - 1] >> 1
        recent = self._recent.get(start)
        if recent is not None:
            return recent[mark.offset - start :]
        return b"" if self.spool is None else self.spool.read(mark.offset, mark.end - mark.offset)

    def piece_at(self, offset: int) -> Piece | Lost | None:
        """The piece that covers `offset`, from there on, with its bytes."""
        mark = self.mark(offset)
        if mark is None or isinstance(mark, Lost):
            return mark
        data = self.data(mark)
        if len(data) < mark.end - offset:
            return Lost(offset, mark.end)
        return Piece(mark.number, offset, mark.stream, data)

    def next_number(self, offset: int) -> int:
        """The number of the piece at `offset`, which must be before the end."""
        return self._numbers[bisect_right(self._starts, offset << 1 | 1) - 1]

    def offset_after(self, number: int) -> int:
        """The offset behind the last piece whose number is not above `number`."""
        index = bisect_right(self._numbers, number)
        if index == len(self._numbers):
            return self.end
        if self._head_pieces and index == self._head_pieces:
            # It was reading in what is gone now, or at the end of the head.
            passed = [end for last, end in self._gone if last <= number]
            return passed[-1] if passed else self._head_end
        return self._starts[index] >> 1

    def text(self, offset: int, most_bytes: int) -> tuple[str, int, int]:
        """Output from `offset` on: the text, where it really begins (later, if that part is gone) and where it ends."""
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
        return b"".join(parts).decode("utf-8", "replace"), offset, at

    def stored_output(self) -> Iterator[bytes]:
        """What is in files now, with a note where something is gone. Any thread may read it. Raises OSError."""
        self.start_spool()
        if self.spool is None:
            raise OSError(errno.ENOENT, "there is no file for it")
        end = self.spool.written
        if not self._lost_to or self.spool.sole_file is not None:
            return _bytes(list(self.spool.stretches(0, end)))
        gone = f"\n[… {self._lost_to - self._head_end} bytes are gone …]\n".encode()
        head = list(self.spool.stretches(0, self._head_end))
        return chain(_bytes(head), [gone], _bytes(list(self.spool.stretches(self._lost_to, end))))

    def complete_file(self) -> Path | None:
        """The one file with all of the output, closed, to which nothing is added any more; None if there is none."""
        self.start_spool()
        if self.spool is None or self.spool.sole_file is None:
            return None
        self.seal()
        return self.spool.sole_file

    def seal(self) -> None:
        """No more will come: give up what costs a descriptor or memory and can be read from the file."""
        if self.spool is not None:
            self.spool.seal()
            if not self.spool.is_full:
                self._evict_recent(keep=0)

    def remove(self) -> None:
        if self.spool is not None:
            self.spool.remove()

    def _evict_recent(self, keep: int = RECENT_BYTES) -> None:
        while self._recent_bytes > keep and self._recent:
            self._recent_bytes -= len(self._recent.pop(next(iter(self._recent))))

    def _fix_head(self) -> int:
        """How many pieces are in the head, fixed when the first bytes behind it go."""
        if not self._head_pieces:
            self._head_pieces = max(1, bisect_right(self._starts, (HEAD_BYTES - 1) << 1 | 1))
            self._head_end = self._starts[self._head_pieces] >> 1
        return self._head_pieces

    def _drop_pieces(self) -> None:
        """So many small pieces that describing them costs too much: the oldest go, as if the file were full."""
        if not self._head_pieces:
            self._head_pieces = min(max(1, bisect_right(self._starts, (HEAD_BYTES - 1) << 1 | 1)), MOST_PIECES // 8)
            self._head_end = self._starts[self._head_pieces] >> 1
        self._drop(self._head_pieces, self._head_pieces + MOST_PIECES // 8)

    def _drop(self, head: int, to: int) -> None:
        self._lost_to = self._starts[to] >> 1
        self._gone.append((self._numbers[to - 1], self._lost_to))
        if len(self._gone) > 1_000:
            del self._gone[: len(self._gone) // 2]
        del self._starts[head:to]
        del self._numbers[head:to]


def _bytes(stretches: list[tuple[Path, int, int]]) -> Iterator[bytes]:
    for path, start, left in stretches:
        with path.open("rb") as file:
            file.seek(start)
            while left > 0 and (data := file.read(min(_READ_BYTES, left))):
                left -= len(data)
                yield data
