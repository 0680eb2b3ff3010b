"""One client's places in the output of all sessions, and the next thing to tell it, in order.

A reader holds offsets, no bytes. Over several sessions it goes by the numbers of the pieces, so that what it has
told up to some number is everything up to that number: a client that comes back names the last number it saw and
goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mcp_agent.sessions.output_log import Exit, Lost, Mark, OutputLog

# A client keeps taking if its socket took 256 KiB in the last 250 ms, or if it has nothing to take. That is judged
# over a longer time, at the same rate: a full socket tells of what it took a megabyte at a time, and seldom.
TAKING_BYTES_A_S = 1024 * 1024
TAKING_S = 0.25
_WINDOW_S = 1.0

Told = Mark | Lost | Exit


def _unheard(log: OutputLog) -> None:
    pass


def _asleep() -> None:
    pass


class Reader:
    """The places. A session that has been told to its end, or is not followed, has none."""

    def __init__(self, only: str | None = None) -> None:
        self.only = only
        self.woken: Callable[[], None] = _asleep
        self.moved: Callable[[OutputLog], None] = _unheard
        self.is_closed = False
        self._places: dict[OutputLog, int] = {}
        self._behind: dict[OutputLog, None] = {}
        self._behind_since = 0.0
        self._window_from = 0.0
        self._window_bytes = 0
        self._was_taking = False

    @property
    def is_behind(self) -> bool:
        return bool(self._behind)

    def add(self, log: OutputLog, offset: int) -> None:
        if self.only is None or self.only == log.session_id:
            self._places[log] = offset
            if offset < log.end or log.exit is not None:
                self._behind[log] = None
                self.woken()

    def stir(self, log: OutputLog) -> None:
        """There is more of `log`."""
        if log in self._places and log not in self._behind:
            self._behind[log] = None
            self.woken()

    def drop(self, log: OutputLog) -> None:
        self._places.pop(log, None)
        self._behind.pop(log, None)

    def behind(self) -> list[OutputLog]:
        return list(self._behind)

    def place(self, log: OutputLog) -> int:
        return self._places[log]

    def move(self, log: OutputLog, offset: int) -> None:
        self._places[log] = offset
        stop = log.end if log.exit is None else log.exit.offset
        if offset >= stop and log.exit is None:
            self._behind.pop(log, None)
        self.moved(log)

    def skip_all(self) -> None:
        """Leave out all that is there now."""
        for log in list(self._behind):
            if log.exit is None:
                self.move(log, log.end)
            else:
                self.drop(log)

    def wake(self) -> None:
        self.woken()

    def close(self) -> None:
        self.is_closed = True
        self.woken()

    def take(self, most_bytes: int) -> Iterator[tuple[OutputLog, Told]]:
        """What comes next, in order, until it is about so many bytes; nothing if nothing is left.

        The bytes of a piece are there until the next one is asked for: then its place may be given back to the disk.
        """
        size = 0
        while size < most_bytes and self._behind:
            log, before = self._first()
            # One session prints at a time, mostly: stay with it until another one's turn comes.
            while size < most_bytes:
                told = self._next(log)
                if told is None:
                    self._behind.pop(log, None)
                    break
                yield log, told
                if isinstance(told, Exit):
                    self.drop(log)
                    break
                self._places[log] = told.end
                size += told.end - told.offset if isinstance(told, Mark) else 0
                if before is not None and self._number(log) > before:
                    break
            self.moved(log)

    def took(self, size: int, now: float) -> None:
        """The client's socket has taken so many bytes."""
        elapsed_s = now - self._window_from
        if elapsed_s > _WINDOW_S:
            self._was_taking = elapsed_s <= 2 * _WINDOW_S and self._window_bytes >= TAKING_BYTES_A_S * elapsed_s
            self._window_from, self._window_bytes = now, 0
        self._window_bytes += size

    def caught_up(self, now: float) -> None:
        """There is nothing to take at this moment."""
        self._behind_since = now

    def needs(self, log: OutputLog, to: int, now: float) -> bool:
        """Whether the bytes before `to` are still to be told to a client that keeps taking."""
        place = self._places.get(log)
        if place is None or place >= to:
            return False
        if now - self._behind_since <= _WINDOW_S:
            return True
        elapsed_s = now - self._window_from
        if elapsed_s > 2 * _WINDOW_S:
            return False
        return self._was_taking or self._window_bytes >= TAKING_BYTES_A_S * max(elapsed_s, TAKING_S)

    def _first(self) -> tuple[OutputLog, int | None]:
        """The session whose turn it is, and the number at which it is another one's."""
        if len(self._behind) == 1:
            return next(iter(self._behind)), None
        order = sorted((self._number(log), index, log) for index, log in enumerate(self._behind))
        return order[0][2], order[1][0]

    def _number(self, log: OutputLog) -> int:
        place = self._places[log]
        if log.exit is not None and place >= log.exit.offset:
            return log.exit.number
        # At the end there is nothing to tell: then it is nobody's turn less than this one's.
        return log.next_number(place) if place < log.end else 0

    def _next(self, log: OutputLog) -> Told | None:
        place = self._places[log]
        if log.exit is not None and place >= log.exit.offset:
            return log.exit
        return log.mark(place)
