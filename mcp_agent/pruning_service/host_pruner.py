"""The pruner that tools are handed: decides which engine is asked, and lets the raw text through when none can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from mcp_agent import __version__
from mcp_agent.pruning_service.attempt import Attempt, size_of
from mcp_agent.pruning_service.kept_texts import Recovery
from mcp_agent.pruning_service.remote import MOST_INPUT_BYTES, PrunerFailed, RemotePruner
from mcp_agent.pruning_service.worker_pool import Workers
from tools.kit.focus import Focused, PruningMetadata, Reason
from tools.pruning.engine import GaveUp, Selection, SourceType, render_text

# Of the output of a tool, 45 of a hundred lines stay, and what is as short as this stays whole.
FOCUS_PRUNE_RATIO = 0.55
FOCUS_KEEP_LINES = 40


class HostPruner:
    """Prunes for every tool of a process.

    `url` decides how: a service, the built-in engine (None), or not at all (the empty string).
    """

    def __init__(self, recovery: Recovery, *, url: str | None, timeout_s: float, max_input_chars: int) -> None:
        self._recovery = recovery
        self._timeout_s = timeout_s
        self.is_on = url != ""
        self.max_input_chars = max_input_chars
        self.workers = Workers()
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
        def selected() -> Selection:
            with self.workers.lent() as worker:
                worker.ask(
                    text,
                    question,
                    source_type=source_type,
                    max_prune_ratio=max_prune_ratio,
                    min_keep_lines=min_keep_lines,
                    timeout_s=timeout_s,
                )
                return worker.answer()

        return await self.workers.run(selected)

    async def keep(self, owner: str, text: str) -> str:
        return await asyncio.to_thread(self._recovery.keep, owner, text)

    async def kept(self, owner: str, prune_id: str) -> str | None:
        return await asyncio.to_thread(self._recovery.kept, owner, prune_id)

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
            return _skipped(await _whole(text), "no_focus_question")
        if not self.is_on or (self._remote is not None and self._remote.is_breaker_open):
            return _skipped(await _whole(text), "disabled_or_unconfigured")
        question = question.strip()
        if self._remote is not None:
            whole = await _whole(text)
            return await self._focused_there(whole, question, self._remote, is_line, tool=tool, call_id=call_id)
        focused = partial(
            self._focused_here,
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

    async def _focused_there(
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
            return _skipped(text, "output_empty")
        if size_of(text) > MOST_INPUT_BYTES:
            return _skipped(text, "too_large")
        attempt = Attempt(text, tool=tool, call_id=call_id, endpoint=remote.url)
        try:
            return attempt.answered(await remote.prune(text, question, is_line))
        except PrunerFailed as error:
            return attempt.failed(error.code, error.message)

    def _focused_here(
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
        """Get the text and have it pruned, all in the thread that calls."""
        text = source if isinstance(source, str) else source()
        if not text:
            return _skipped(text, "output_empty")
        if len(text) > self.max_input_chars:
            return _skipped(text, "too_large")
        attempt = Attempt(text, tool=tool, call_id=call_id, endpoint="built-in")
        # Kept lines are counted from 0, and only where no markers tell them.
        every = None if markers else range(text.count("\n") + 1)
        if _is_short(text):
            return attempt.answered(text, every)
        try:
            with self.workers.lent() as worker:
                worker.ask(
                    text,
                    question,
                    source_type=source_type,
                    max_prune_ratio=FOCUS_PRUNE_RATIO,
                    min_keep_lines=FOCUS_KEEP_LINES,
                    timeout_s=self._timeout_s,
                )
                # Kept while it is read, since nearly every text that comes this far has lines that are not needed.
                prune_id = self._recovery.keep(owner, text)
                selection = worker.answer()
        except GaveUp as error:
            return attempt.failed("timeout", str(error))
        except (RuntimeError, OSError) as error:
            return attempt.failed("invalid_response", str(error))
        if not selection.dropped:
            return attempt.answered(text, every)
        pruned = render_text(text, selection, prune_id, include_markers=markers)
        kept = None if markers else [number - 1 for number in selection.kept()]
        return attempt.answered(pruned, kept, prune_id)


async def _whole(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else await asyncio.to_thread(text)


def _skipped(text: str, reason: Reason) -> Focused:
    return Focused(text, PruningMetadata.skipped(reason, size_of(text)))


def _is_short(text: str) -> bool:
    # To count all lines of a long text takes longer.
    return len(text.split("\n", FOCUS_KEEP_LINES)) <= FOCUS_KEEP_LINES
