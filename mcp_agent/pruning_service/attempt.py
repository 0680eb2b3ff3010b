"""One attempt to prune: writes its log events and makes the metadata of its result."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from mcp_agent.logs import event
from tools.kit.focus import ErrorCode, Focused, PruningMetadata

log = logging.getLogger(__name__)


class Attempt:
    """The attempt starts with the constructor and ends with `succeed` or `fail`."""

    def __init__(self, text: str, *, tool: str, call_id: str, endpoint: str) -> None:
        self._text = text
        self._tool = tool
        self._call_id = call_id
        self._raw_bytes = size_of(text)
        event(
            log,
            logging.INFO,
            "pruner.call_start",
            request_id=call_id,
            endpoint=endpoint,
            tool=tool,
            input_bytes=self._raw_bytes,
        )
        self._began = time.perf_counter()

    def succeed(self, pruned: str, kept: Sequence[int] | None = None, prune_id: str | None = None) -> Focused:
        took_ms = self._duration_ms()
        pruning = PruningMetadata(
            attempted=True,
            applied=True,
            fallback=False,
            raw_bytes=self._raw_bytes,
            pruned_bytes=size_of(pruned),
            pruner_duration_ms=took_ms,
            prune_id=prune_id,
        )
        event(
            log,
            logging.INFO,
            "pruner.call_ok",
            request_id=self._call_id,
            tool=self._tool,
            pruner_duration_ms=took_ms,
            pruned_bytes=pruning.pruned_bytes,
        )
        return Focused(pruned, pruning, kept)

    def fail(self, code: ErrorCode, message: str) -> Focused:
        """Give the raw text back, with the reason in its metadata."""
        took_ms = self._duration_ms()
        event(log, logging.WARNING, f"pruner.{code}", request_id=self._call_id, tool=self._tool, message=message)
        event(
            log,
            logging.WARNING,
            "pruner.call_failed",
            request_id=self._call_id,
            tool=self._tool,
            reason=code,
            pruner_duration_ms=took_ms,
            message=message,
        )
        return Focused(self._text, PruningMetadata.of_failure(code, message, self._raw_bytes, took_ms))

    def _duration_ms(self) -> int:
        return round((time.perf_counter() - self._began) * 1000)


def size_of(text: str) -> int:
    """The size of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
