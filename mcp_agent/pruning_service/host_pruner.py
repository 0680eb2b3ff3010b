"""The pruner of the host: asks the remote service or the built-in engine, and falls back to the raw text."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from mcp_agent import __version__
from mcp_agent.process.logs import event
from mcp_agent.pruning_service.remote import MOST_INPUT_BYTES, PrunerFailed, RemotePruner, shown_url
from mcp_agent.pruning_service.worker_pool import WorkerPool
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.context import FocusRequest
from tools.kit.results import Detail, ErrorCode, Focused, PruningMetadata, Reason
from tools.pruning.engine import GaveUp, Language, Selection, SelectionRequest, divide, render_text

log = logging.getLogger(__name__)

# An output of up to so many lines is kept whole.
FOCUS_KEEP_LINES = 40
# How often a text that does not fit is pruned again, and how much smaller than its room it is to be: lines differ.
_MOST_ATTEMPTS = 4
_SPARE = 0.9
# What the engine keeps at least of code and documents where nobody says more.
_FIRST_SHARE = 0.3


class HostPruner:
    """Prunes for every tool of a process.

    `url` decides how: a service, the built-in engine (None), or not at all (the empty string). With `must_shorten` the
    answer of a service is left aside that is not shorter than the text.
    """

    def __init__(
        self,
        store: ArtifactStore,
        *,
        url: str | None,
        timeout_s: float,
        max_input_chars: int,
        markers: Language = "en",
        prunes_failures: bool = True,
        must_shorten: bool = True,
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self.is_on = url != ""
        self.prunes_failures = prunes_failures
        self._must_shorten = must_shorten
        self.max_input_chars = max_input_chars
        self.language: Language = markers
        self.workers = WorkerPool()
        self._remote = RemotePruner(url, timeout_s) if url else None

    @property
    def version(self) -> str:
        return __version__

    async def select(self, text: str, request: SelectionRequest) -> Selection:
        def ask_worker() -> Selection:
            with self.workers.borrow() as worker:
                worker.ask(text, request)
                return worker.answer()

        return await self.workers.run(ask_worker)

    async def keep(self, owner: str, text: str) -> str:
        return await asyncio.to_thread(self._store.keep_text, owner, text)

    async def find_text(self, owner: str, prune_id: str) -> str | None:
        return await asyncio.to_thread(self._store.find_text, owner, prune_id)

    async def focus(self, request: FocusRequest) -> Focused:
        if request.question is None:
            return _skip(request.text, "no_focus_question")
        if not self.is_on:
            return _skip(request.text, "disabled_or_unconfigured")
        if not request.text:
            return _skip(request.text, "output_empty")
        question = request.question.strip()
        if self._remote is not None:
            pruned = await self._focus_remotely(request, question, self._remote)
            return replace(pruned, more=request.more)
        joined = _Joined(request.text, request.more)
        focused = partial(self._focus_locally, joined, request, question)
        return focused() if _is_short(joined.text) else await self.workers.run(focused)

    def close(self) -> None:
        self.workers.close()
        if self._remote is not None:
            self._remote.close()

    async def _focus_remotely(self, request: FocusRequest, question: str, remote: RemotePruner) -> Focused:
        text = request.text
        if _size(text) > MOST_INPUT_BYTES:
            return _skip(text, "too_large")
        if (resting := remote.open_breaker) is not None:
            failure = PruningMetadata.of_fallback(_size(text), 0, "circuit_open", (resting.code, resting.message))
            return Focused(text, failure)
        attempt = _Attempt(request, text, url=remote.url)
        try:
            pruned = await remote.prune(text, question, request.is_line)
        except PrunerFailed as error:
            return attempt.fail(error.code, error.message)
        if self._must_shorten and len(pruned) >= len(text):
            return attempt.keep_all("not_shorter")
        return attempt.succeed(pruned)

    def _focus_locally(self, joined: _Joined, request: FocusRequest, question: str) -> Focused:
        """Prune the text with a worker, in the calling thread."""
        text = joined.text
        if len(text) > self.max_input_chars:
            return _skip(text, "too_large")
        if _is_short(text):
            return _skip(text, "disabled_or_unconfigured", "short_output")
        attempt = _Attempt(request, text)
        # `pruning` and the note above have the id; by the contract of the pruning tools each marker has it.
        write = partial(
            joined.render, include_markers=request.markers, language=self.language, is_brief=request.collapses
        )
        selecting = SelectionRequest(
            question=question,
            source_type=request.source_type,
            max_prune_ratio=None if request.keep is None else 1.0 - request.keep,
            min_keep_lines=FOCUS_KEEP_LINES,
            is_output=request.is_output,
            collapses=request.collapses,
            timeout_s=self._timeout_s,
        )
        try:
            with self.workers.borrow() as worker:
                worker.ask(text, selecting)
                # Store the text while the worker computes: nearly always some lines will be dropped.
                prune_id, problem = self._keep(request.owner, text)
                selection = worker.answer()
                share = _FIRST_SHARE
                for _ in range(_MOST_ATTEMPTS):
                    if request.keep is not None or not request.room_bytes or not selection.has_matched:
                        break
                    filled = sum(map(_size, write(selection, prune_id))) / request.room_bytes
                    if filled <= 1:
                        break
                    share *= _SPARE / filled
                    worker.ask(text, replace(selecting, max_prune_ratio=1.0 - share, min_keep_lines=0))
                    selection = worker.answer()
        except GaveUp as error:
            return attempt.fail("timeout", str(error))
        except (RuntimeError, OSError) as error:
            return attempt.fail("invalid_response", str(error))
        if not selection.dropped:
            return attempt.keep_all("nothing_dropped" if selection.has_matched else "nothing_matched")
        if problem is not None:
            return attempt.fail("invalid_response", problem)
        pruned, more = write(selection, prune_id)
        # Without markers, the caller needs the numbers of the kept lines, from 0.
        kept = None if request.markers else [number - 1 for number in selection.kept()]
        # What stands behind the last newline is no line.
        lines = selection.total_lines - text.endswith("\n")
        left_out = f"{selection.dropped_lines:,} of {lines:,} lines left out"
        return attempt.succeed(pruned, more, kept, prune_id, left_out)

    def _keep(self, owner: str, text: str) -> tuple[str, str | None]:
        """The id by which the whole text can be recovered, or why it cannot be kept. Then nothing may be left out."""
        try:
            return self._store.keep_text(owner, text), None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            return "", f"the whole text cannot be kept for recover_text: {reason}"


class _Joined:
    """Two texts as one: the lines of the second go on behind those of the first."""

    def __init__(self, first: str, second: str) -> None:
        self._first, self._second = first, second
        self._newline = "\n" if second and not first.endswith("\n") else ""
        self.text = f"{first}{self._newline}{second}"

    def render(
        self, selection: Selection, prune_id: str, *, include_markers: bool, language: Language, is_brief: bool
    ) -> tuple[str, str]:
        """What is left of both."""
        write = partial(
            render_text, prune_id=prune_id, include_markers=include_markers, language=language, is_brief=is_brief
        )
        if not self._second:
            return write(self.text, selection), ""
        at = len(self.text) - len(self._second)
        before, after, line = divide(self.text, selection, at)
        first = write(self.text[:at], before).removesuffix("\n") + ("" if self._newline else "\n")
        return first, write(self._second, after, first=line)


class _Attempt:
    """One request to an engine: its log events, and the metadata of its result.

    It ends with `succeed`, `keep_all` or `fail`. `url` is that of a service, which is logged at INFO; the built-in
    engine (None) is logged at DEBUG, as the steps of a call are.
    """

    def __init__(self, request: FocusRequest, text: str, *, url: str | None = None) -> None:
        self._text = text
        self._tool = request.tool
        self._call_id = request.call_id
        self._raw_bytes = _size(text)
        self._level = logging.DEBUG if url is None else logging.INFO
        self._log(
            self._level,
            "pruner.call_start",
            endpoint="built-in" if url is None else shown_url(url),
            input_bytes=self._raw_bytes,
        )
        self._began = time.perf_counter()

    def succeed(
        self,
        pruned: str,
        more: str = "",
        kept: Sequence[int] | None = None,
        prune_id: str | None = None,
        left_out: str | None = None,
    ) -> Focused:
        pruned_bytes = _size(pruned) + _size(more)
        pruning = PruningMetadata(
            attempted=True,
            applied=True,
            fallback=False,
            raw_bytes=self._raw_bytes,
            pruned_bytes=pruned_bytes,
            pruner_duration_ms=self._log_end(self._level, "pruner.call_ok", pruned_bytes=pruned_bytes),
            prune_id=prune_id,
            left_out=left_out,
        )
        return Focused(pruned, pruning, kept, more)

    def keep_all(self, detail: Detail) -> Focused:
        """Give the raw text back: the engine answered, and left nothing out."""
        took_ms = self._log_end(self._level, "pruner.call_ok", pruned_bytes=self._raw_bytes)
        return Focused(self._text, PruningMetadata.of_fallback(self._raw_bytes, took_ms, detail))

    def fail(self, code: ErrorCode, message: str) -> Focused:
        """Give the raw text back, with the reason in its metadata."""
        self._log(logging.WARNING, f"pruner.{code}", message=message)
        took_ms = self._log_end(logging.WARNING, "pruner.call_failed", reason=code, message=message)
        return Focused(self._text, PruningMetadata.of_fallback(self._raw_bytes, took_ms, error=(code, message)))

    def _log(self, level: int, name: str, **facts: Any) -> None:
        if log.isEnabledFor(level):
            event(log, level, name, request_id=self._call_id, tool=self._tool, **facts)

    def _log_end(self, level: int, name: str, **facts: Any) -> int:
        """Log how it ended, and return the milliseconds that it took."""
        took_ms = round((time.perf_counter() - self._began) * 1000)
        self._log(level, name, pruner_duration_ms=took_ms, **facts)
        return took_ms


def _skip(text: str, reason: Reason, detail: Detail | None = None) -> Focused:
    return Focused(text, PruningMetadata.of_skip(reason, _size(text), detail))


def _is_short(text: str) -> bool:
    # Splitting at the first newlines only is faster than counting all of them.
    return len(text.split("\n", FOCUS_KEEP_LINES)) <= FOCUS_KEEP_LINES


def _size(text: str) -> int:
    """The size of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
