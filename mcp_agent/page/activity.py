"""The endpoints behind the Activity view: lines of the audit log, one call with its result, and series for plots."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_agent.calls.observers import RecentResults
from mcp_agent.page.call_series import CallSeries
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from mcp_agent.storage.audit_reader import LineFilter, Trail

_MOST_LINES = 10_000
_SPANS = {"hour": (60, 60), "day": (1_800, 48)}


class Activity:
    def __init__(self, trail: Trail, series: CallSeries, results: RecentResults) -> None:
        self._trail = trail
        self._series = series
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
            raise BadRequest("the result is not kept any more: only those of the last calls are", status=404)
        return {"text": found.text, "form": found.form, "cut": found.is_cut}
