"""Keeps the results of the last calls in memory, each up to a bound, for the owner to look at on the Tools page."""

from __future__ import annotations

from collections import OrderedDict

from mcp_agent.calls.call import Blocks, Call, Compact, Outcome, Refusal, Written, written_form
from mcp_agent.calls.observers import CallObserver
from tools.kit.records import record
from tools.kit.results import Media

_MOST_RESULTS = 200
_MOST_BYTES = 16 * 1024


@record
class KeptResult:
    """The beginning of what went out, and its form (`written_form`), or `refused`."""

    form: str
    beginning: bytes | str
    is_cut: bool

    @property
    def text(self) -> str:
        return self.beginning if isinstance(self.beginning, str) else self.beginning.decode("utf-8", "replace")


class RecentResults(CallObserver):
    """The newest results by the id of their call."""

    def __init__(self) -> None:
        # A small result is kept as it was written; few are ever looked at.
        self._kept: OrderedDict[str, Written | KeptResult] = OrderedDict()

    def find(self, call_id: str) -> KeptResult | None:
        kept = self._kept.get(call_id)
        return kept if kept is None or isinstance(kept, KeptResult) else _beginning(kept)

    def observe(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        if outcome is None:
            return
        if isinstance(outcome, Refusal):
            self._kept[call.id] = KeptResult("refused", outcome.message[:_MOST_BYTES], False)
        elif result_bytes <= _MOST_BYTES:
            self._kept[call.id] = outcome.written
        else:
            self._kept[call.id] = _beginning(outcome.written)
        if len(self._kept) > _MOST_RESULTS:
            self._kept.popitem(last=False)


def _beginning(written: Written) -> KeptResult:
    form = written_form(written)
    if isinstance(written, Media):
        return KeptResult(form, f"{written.type}, {len(written.data)} bytes", False)
    whole = written.encoded if isinstance(written, Blocks | Compact) else written
    # A slice, so that a large result is not kept by its beginning.
    return KeptResult(form, whole[:_MOST_BYTES], len(whole) > _MOST_BYTES)
