"""One client's offsets in the output of all sessions, and what it gets next, in order.

A cursor holds offsets, no bytes. Over several sessions it follows the numbers of the pieces, so that a client that has
seen a number has seen everything before it: one that comes back names the last number it saw and goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator

from tools.sessions.output_log import Exit, Lost, OutputLog, PieceSpan

# A client keeps taking if its socket took 256 KiB in the last 250 ms, or if it has nothing to take. That is judged
# over a longer time, at the same rate: a full socket tells of what it took a megabyte at a time, and seldom.
TAKING_BYTES_A_S = 1024 * 1024
TAKING_S = 0.25
_WINDOW_S = 1.0
# About how much a lossless client is sent at once.
AT_ONCE_BYTES = 128 * 1024

CursorItem = PieceSpan | Lost | Exit


class OutputCursor:
    """An offset for each session that is followed. One that was given to its end has none any more."""

    def __init__(self, only_sessions: Collection[str] | None = None) -> None:
        """With `only_sessions`, no other session is followed; None: all are."""
        self._only_sessions = only_sessions
        # Set by the owner: called when there is something to take, and when the client has read on in a session.
        self.wake: Callable[[], None] = lambda: None
        self.on_move: Callable[[OutputLog], None] = lambda log: None
        self.is_closed = False
        # Whether a child waits for this client to read on. Set by the owner.
        self.is_lossless = False
        # Until its client reads, a cursor may follow nothing and hold the number of the last event before it.
        self.resume_after: int | None = None
        self._places: dict[OutputLog, int] = {}
        # The sessions with something to take, in the order in which they got it.
        self.behind: dict[OutputLog, None] = {}
        self._behind_since = 0.0
        self._window_from = 0.0
        self._window_bytes = 0
        self._was_taking = False

    def add(self, log: OutputLog, offset: int) -> None:
        if self.resume_after is None and (self._only_sessions is None or log.session_id in self._only_sessions):
            self._places[log] = offset
            if offset < log.end or log.exit is not None:
                self.behind[log] = None
                self.wake()

    def notify(self, log: OutputLog) -> None:
        """Wake the client if it follows `log`, which has more output or has ended."""
        if log in self._places and log not in self.behind:
            self.behind[log] = None
            self.wake()

    def drop(self, log: OutputLog) -> None:
        self._places.pop(log, None)
        self.behind.pop(log, None)

    @property
    def is_following(self) -> bool:
        """Whether there is a session that may still have something for this client."""
        return bool(self._places)

    def place(self, log: OutputLog) -> int:
        return self._places[log]

    def move(self, log: OutputLog, offset: int) -> None:
        self._places[log] = offset
        stop = log.end if log.exit is None else log.exit.offset
        if offset >= stop and log.exit is None:
            self.behind.pop(log, None)
        self.on_move(log)

    def has_waiting(self, least_bytes: int) -> bool:
        """Whether at least that much is left to take."""
        return sum(log.end - self._places[log] for log in self.behind) >= least_bytes

    def skip(self, log: OutputLog) -> None:
        """Skip the present output of one session."""
        if log.exit is not None:
            self.drop(log)
        elif log in self._places:
            self.move(log, log.end)

    def skip_all(self) -> None:
        """Skip all present output."""
        for log in list(self.behind):
            self.skip(log)

    def skip_old(self, log: OutputLog, most_bytes: float, newest_bytes: int) -> Lost | None:
        """Leave out all but the newest of `log`, if more than `most_bytes` are there to take: it is worth most."""
        stop = log.end if log.exit is None else log.exit.offset
        place = self.place(log)
        if stop - place <= most_bytes or (newest := log.mark(stop - newest_bytes)) is None:
            return None
        to = newest.end if isinstance(newest, Lost) else newest.offset
        self.move(log, to)
        return Lost(place, to)

    def close(self) -> None:
        """Give the remaining output, and end."""
        self.is_closed = True
        self.wake()

    def revoke(self) -> None:
        """End now: the client may not hear any more of sessions."""
        self._places.clear()
        self.behind.clear()
        self.close()

    def take(self, most_bytes: float) -> Iterator[tuple[OutputLog, CursorItem]]:
        """The next output in order, about `most_bytes`; empty if none is left.

        The bytes of a piece can be read until the next one is asked for: then the spool may let them go.
        """
        size = 0
        while size < most_bytes and self.behind:
            log, before = self._next_log()
            # One session prints at a time, mostly: stay with it until another one's turn comes.
            while size < most_bytes:
                item = self._next_item(log)
                if item is None:
                    self.behind.pop(log, None)
                    break
                yield log, item
                if isinstance(item, Exit):
                    self.drop(log)
                    break
                self._places[log] = item.end
                size += item.end - item.offset if isinstance(item, PieceSpan) else 0
                if before is not None and self._number(log) > before:
                    break
            self.on_move(log)

    async def follow(
        self,
        woken: asyncio.Event,
        first: bytes,
        take: Callable[[], list[bytes]],
        is_over: Callable[[], bool] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Give `first`, then what `take` gives, several events at a time, until the cursor is closed, or `is_over`.

        `take` takes from this cursor, and may add events of its own. `woken` is set when there is more to take.
        """
        now = asyncio.get_running_loop().time
        if first:
            yield first
        while True:
            woken.clear()
            frames = take()
            if frames:
                body = b"".join(frames)
                yield body
                self.count_taken(len(body), now())
            elif self.is_closed if is_over is None else is_over():
                return
            else:
                self.note_caught_up(now())
                await woken.wait()
                self.note_caught_up(now())

    def count_taken(self, size: int, now: float) -> None:
        """The client's socket has taken `size` bytes more."""
        elapsed_s = now - self._window_from
        if elapsed_s > _WINDOW_S:
            self._was_taking = elapsed_s <= 2 * _WINDOW_S and self._window_bytes >= TAKING_BYTES_A_S * elapsed_s
            self._window_from, self._window_bytes = now, 0
        self._window_bytes += size

    def note_caught_up(self, now: float) -> None:
        """There is nothing to take at this moment."""
        self._behind_since = now

    def needs(self, log: OutputLog, to: int, now: float) -> bool:
        """Whether the client keeps taking and has yet to get bytes before `to`."""
        place = self._places.get(log)
        if place is None or place >= to:
            return False
        if now - self._behind_since <= _WINDOW_S:
            return True
        elapsed_s = now - self._window_from
        if elapsed_s > 2 * _WINDOW_S:
            return False
        return self._was_taking or self._window_bytes >= TAKING_BYTES_A_S * max(elapsed_s, TAKING_S)

    def _next_log(self) -> tuple[OutputLog, int | None]:
        """The session to go on with, and the number of the piece at which another one comes first."""
        if len(self.behind) == 1:
            return next(iter(self.behind)), None
        order = sorted((self._number(log), index, log) for index, log in enumerate(self.behind))
        return order[0][2], order[1][0]

    def _number(self, log: OutputLog) -> int:
        place = self._places[log]
        if log.exit is not None and place >= log.exit.offset:
            return log.exit.number
        # At its end there is nothing to give: then this session comes first and is found to have nothing.
        return log.next_number(place) if place < log.end else 0

    def _next_item(self, log: OutputLog) -> CursorItem | None:
        place = self._places[log]
        if log.exit is not None and place >= log.exit.offset:
            return log.exit
        return log.mark(place)
