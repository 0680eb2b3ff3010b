"""The endpoints behind the Activity view: lines of the audit log, one call with its result, and series for plots.

The series count calls by the minute over the last day: number, errors, duration, size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp_agent.calls.observers import Histogram, RecentResults
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.audit_reader import LineFilter, Trail

_MOST_LINES = 10_000
_SPANS = {"hour": (60, 60), "day": (1_800, 48)}
_KEPT_MINUTES = 24 * 60 + 30
# Bounds of 26 steps from 0.1 ms to about two minutes, each 1.75 times the one before.
_BOUNDS = tuple(0.1 * 1.75**step for step in range(26))
_BYTES_A_TOKEN = 4


class Activity:
    def __init__(self, trail: Trail, audit: AuditLog, results: RecentResults) -> None:
        self._trail = trail
        self._series = CallSeries(trail, audit)
        self._results = results

    @property
    def routes(self) -> Routes:
        return {
            ("GET", "activity"): self._newest,
            ("GET", "activity/series"): self._show_series,
            ("GET", "activity/results/<call>"): self._result,
        }

    async def _newest(self, request: ApiRequest) -> dict[str, Any]:
        limit = max(1, min(request.number_of_query("limit", 200), _MOST_LINES))
        return {"lines": await asyncio.to_thread(self._trail.last, limit, LineFilter())}

    async def _show_series(self, request: ApiRequest) -> dict[str, Any]:
        span = request.query.get("span", "hour")
        if span not in _SPANS:
            raise BadRequest(f"span must be one of {', '.join(_SPANS)}")
        step_s, count = _SPANS[span]
        return {"span": span, "step_s": step_s, "points": await self._series.points(step_s, count)}

    async def _result(self, request: ApiRequest) -> dict[str, Any]:
        found = self._results.find(request.named["call"])
        if found is None:
            raise BadRequest("the result was deleted: only those of the last calls are kept", status=404)
        return {"text": found.text, "form": found.form, "cut": found.is_cut}


class CallSeries:
    """Reads the log once, when somebody first asks, and then hears of each line as it is written."""

    def __init__(self, trail: Trail, audit: AuditLog) -> None:
        self._trail = trail
        self._audit = audit
        self._minutes: dict[int, _Minute] = {}
        self._loading: asyncio.Future[None] | None = None
        # Lines that came while the log was read; they may be among those that were read.
        self._early: list[Mapping[str, Any]] | None = None

    async def points(self, step_s: int, count: int) -> list[dict[str, Any]]:
        """The last `count` steps, oldest first."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            # The first time, or the last time the disk failed.
            self._loading = asyncio.ensure_future(self._load())
        await asyncio.shield(self._loading)
        per_step = step_s // 60
        last = int(time.time() // step_s)
        return [self._point(step, step_s, per_step) for step in range(last - count + 1, last + 1)]

    def _point(self, step: int, step_s: int, per_step: int) -> dict[str, Any]:
        first = step * per_step
        minutes = [found for minute in range(first, first + per_step) if (found := self._minutes.get(minute))]
        calls = sum(each.calls for each in minutes)
        return {
            "at": step * step_s,
            "calls": calls,
            "errors": sum(each.errors for each in minutes),
            "bytes": sum(each.sent_bytes for each in minutes),
            "saved_tokens": sum(each.saved_bytes for each in minutes) // _BYTES_A_TOKEN,
            "p50_ms": _quantile(minutes, calls, 0.5),
            "p95_ms": _quantile(minutes, calls, 0.95),
        }

    async def _load(self) -> None:
        self._early = []
        self._audit.listeners.add(self._hear)
        since = datetime.now(UTC) - timedelta(minutes=_KEPT_MINUTES)
        try:
            lines = await asyncio.to_thread(self._trail.last, None, LineFilter(tool="*", since=since))
        except OSError:
            self._audit.listeners.discard(self._hear)
            raise
        early, self._early = self._early, None
        known = {(line["boot"], line["seq"]) for line in early}
        for line in lines:
            if (line["boot"], line["seq"]) not in known:
                self._add(line, datetime.fromisoformat(line["ts"]))
        for heard in early:
            self._hear(heard)

    def _hear(self, line: Mapping[str, Any]) -> None:
        if "tool" not in line:
            return
        if self._early is not None:
            self._early.append(line)
            return
        self._add(line, line["ts"])

    def _add(self, line: Mapping[str, Any], at: datetime) -> None:
        number = int(at.timestamp() // 60)
        minute = self._minutes.get(number)
        if minute is None:
            minute = self._minutes[number] = _Minute()
            for old in [each for each in self._minutes if each < number - _KEPT_MINUTES]:
                del self._minutes[old]
        minute.add(line)


def _quantile(minutes: list[_Minute], calls: int, share: float) -> float | None:
    """The bound that this share of the calls did not exceed; None if there were none."""
    if not calls:
        return None
    wanted = share * calls
    for index, bound in enumerate(_BOUNDS):
        if sum(list(each.latencies.cumulative())[index][1] for each in minutes) >= wanted:
            return round(bound, 2)
    return round(_BOUNDS[-1], 2)


class _Minute:
    __slots__ = ("calls", "errors", "latencies", "saved_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.calls = self.errors = self.sent_bytes = self.saved_bytes = 0
        self.latencies = Histogram(_BOUNDS)

    def add(self, line: Mapping[str, Any]) -> None:
        self.calls += 1
        self.errors += line.get("outcome") != "ok"
        sent = int(line.get("bytes", 0))
        self.sent_bytes += sent
        self.saved_bytes += max(int(line.get("whole_bytes", 0)) - sent, 0) + int(line.get("pruned_bytes", 0))
        self.latencies.add(float(line.get("ms", 0)))
