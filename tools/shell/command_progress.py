"""Progress of a running command, for callers that asked for it: how much it has printed, and its last line."""

from __future__ import annotations

import time

from tools.context import REPORT_EVERY_S, ToolContext
from tools.kit.results import last_line, quantity
from tools.sessions.session import Session

# A command that prints nothing is reported so often: clients that hear nothing for a minute give up.
_QUIET_S = 5.0
# More than this between two reports is measured in bytes: counting its lines would cost more than it says.
_MOST_COUNTED_BYTES = 1024 * 1024
_MOST_LINE_CHARS = 200


class CommandProgress:
    """Waits for a command, and reports at most twice a second while it does."""

    def __init__(self, ctx: ToolContext, session: Session) -> None:
        self._ctx, self._session = ctx, session
        self._began = self._reported_at = time.monotonic()
        self._offset = self._lines = 0
        self._is_counted = True
        self._last = ""

    async def wait_for_exit(self, within_s: float) -> bool:
        """Wait for the exit. False if it did not come in time."""
        if not self._ctx.wants_progress:
            return await self._session.wait_for_exit(within_s)
        until = time.monotonic() + within_s
        while (left_s := until - time.monotonic()) > 0:
            if await self._session.wait_for_exit(min(left_s, REPORT_EVERY_S)):
                return True
            self.report()
        return not self._session.is_running

    def report(self) -> None:
        """Report new output, if there is any and the interval has passed."""
        if not self._ctx.wants_progress:
            return
        now, end = time.monotonic(), self._session.end
        since_s = now - self._reported_at
        if since_s < REPORT_EVERY_S * 0.9 or (end == self._offset and since_s < _QUIET_S):
            return
        self._reported_at = now
        if end > self._offset:
            start = max(self._offset, end - _MOST_COUNTED_BYTES)
            text, begin, self._offset = self._session.text(start, _MOST_COUNTED_BYTES)
            self._is_counted = self._is_counted and begin <= start and start < self._offset
            self._lines += text.count("\n")
            self._last = last_line(text) or self._last
        amount = quantity(self._lines, "line") if self._is_counted else f"{end / 1_000_000:.1f} MB"
        last = f": {self._last[:_MOST_LINE_CHARS]}" if self._last else ""
        self._ctx.progress(round(now - self._began, 1), None, f"{amount} printed{last}")
