"""The pruner of the host: asks the remote service or the built-in engine, and falls back to the raw text."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from mcp_agent import __version__
from mcp_agent.logs import event
from mcp_agent.pruning_service.kept_texts import KeptTexts
from mcp_agent.pruning_service.remote import MOST_INPUT_BYTES, PrunerFailed, RemotePruner
from mcp_agent.pruning_service.worker_pool import WorkerPool
from tools.kit.focus import ErrorCode, Focused, PruningMetadata, Reason
from tools.pruning.engine import GaveUp, Selection, SourceType, render_text

log = logging.getLogger(__name__)

# At least 45 percent of the lines of a tool's output are kept, and an output of up to 40 lines is kept whole.
FOCUS_PRUNE_RATIO = 0.55
FOCUS_KEEP_LINES = 40


class HostPruner:
    """Prunes for every tool of a process.

    `url` decides how: a service, the built-in engine (None), or not at all (the empty string).
    """

    def __init__(self, recovery: KeptTexts, *, url: str | None, timeout_s: float, max_input_chars: int) -> None:
        self._recovery = recovery
        self._timeout_s = timeout_s
        self.is_on = url != ""
        self.max_input_chars = max_input_chars
        self.workers = WorkerPool()
        self._remote = RemotePruner(url, timeout_s) if url else None

    @property
    def version(self) -> str:
        return __version__

    async def select(
        self,
        text: str,
        question: str,
        *,
        source_type: SourceType | None,
        max_prune_ratio: float,
        min_keep_lines: int,
        timeout_s: float,
    ) -> Selection:
        def ask_worker() -> Selection:
            with self.workers.borrow() as worker:
                worker.ask(
                    text,
                    question,
                    source_type=source_type,
                    max_prune_ratio=max_prune_ratio,
                    min_keep_lines=min_keep_lines,
                    timeout_s=timeout_s,
                )
                return worker.answer()

        return await self.workers.run(ask_worker)

    async def keep(self, owner: str, text: str) -> str:
        return await asyncio.to_thread(self._recovery.keep, owner, text)

    async def find_text(self, owner: str, prune_id: str) -> str | None:
        return await asyncio.to_thread(self._recovery.find_text, owner, prune_id)

    async def focus(
        self,
        text: str | Callable[[], str],
        question: str | None,
        *,
        tool: str,
        call_id: str,
        owner: str,
        markers: bool = True,
        source_type: SourceType | None = None,
        is_line: Callable[[str], bool] | None = None,
    ) -> Focused:
        if question is None:
            return _skip(await _read(text), "no_focus_question")
        if not self.is_on or (self._remote is not None and self._remote.is_breaker_open):
            return _skip(await _read(text), "disabled_or_unconfigured")
        question = question.strip()
        if self._remote is not None:
            whole = await _read(text)
            return await self._focus_remotely(whole, question, self._remote, is_line, tool=tool, call_id=call_id)
        focused = partial(
            self._focus_locally,
            text,
            question,
            tool=tool,
            call_id=call_id,
            owner=owner,
            markers=markers,
            source_type=source_type,
        )
        return focused() if isinstance(text, str) and _is_short(text) else await self.workers.run(focused)

    def close(self) -> None:
        self.workers.close()
        if self._remote is not None:
            self._remote.close()

    async def _focus_remotely(
        self,
        text: str,
        question: str,
        remote: RemotePruner,
        is_line: Callable[[str], bool] | None,
        *,
        tool: str,
        call_id: str,
    ) -> Focused:
        if not text:
            return _skip(text, "output_empty")
        if _size(text) > MOST_INPUT_BYTES:
            return _skip(text, "too_large")
        attempt = _Attempt(text, tool=tool, call_id=call_id, endpoint=remote.url)
        try:
            return attempt.succeed(await remote.prune(text, question, is_line))
        except PrunerFailed as error:
            return attempt.fail(error.code, error.message)

    def _focus_locally(
        self,
        source: str | Callable[[], str],
        question: str,
        *,
        tool: str,
        call_id: str,
        owner: str,
        markers: bool,
        source_type: SourceType | None,
    ) -> Focused:
        """Read the text and prune it with a worker, in the calling thread."""
        text = source if isinstance(source, str) else source()
        if not text:
            return _skip(text, "output_empty")
        if len(text) > self.max_input_chars:
            return _skip(text, "too_large")
        attempt = _Attempt(text, tool=tool, call_id=call_id, endpoint="built-in")
        # Without markers, the caller needs the numbers of the kept lines, from 0.
        every = None if markers else range(text.count("\n") + 1)
        if _is_short(text):
            return attempt.succeed(text, every)
        try:
            with self.workers.borrow() as worker:
                worker.ask(
                    text,
                    question,
                    source_type=source_type,
                    max_prune_ratio=FOCUS_PRUNE_RATIO,
                    min_keep_lines=FOCUS_KEEP_LINES,
                    timeout_s=self._timeout_s,
                )
                # Store the text while the worker computes: nearly always some lines will be dropped.
                prune_id = self._recovery.keep(owner, text)
                selection = worker.answer()
        except GaveUp as error:
            return attempt.fail("timeout", str(error))
        except (RuntimeError, OSError) as error:
            return attempt.fail("invalid_response", str(error))
        if not selection.dropped:
            return attempt.succeed(text, every)
        pruned = render_text(text, selection, prune_id, include_markers=markers)
        kept = None if markers else [number - 1 for number in selection.kept()]
        return attempt.succeed(pruned, kept, prune_id)


class _Attempt:
    """One request to an engine: its log events, and the metadata of its result. It ends with `succeed` or `fail`."""

    def __init__(self, text: str, *, tool: str, call_id: str, endpoint: str) -> None:
        self._text = text
        self._tool = tool
        self._call_id = call_id
        self._raw_bytes = _size(text)
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
            pruned_bytes=_size(pruned),
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


async def _read(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else await asyncio.to_thread(text)


def _skip(text: str, reason: Reason) -> Focused:
    return Focused(text, PruningMetadata.of_skip(reason, _size(text)))


def _is_short(text: str) -> bool:
    # Splitting at the first newlines only is faster than counting all of them.
    return len(text.split("\n", FOCUS_KEEP_LINES)) <= FOCUS_KEEP_LINES


def _size(text: str) -> int:
    """The size of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
