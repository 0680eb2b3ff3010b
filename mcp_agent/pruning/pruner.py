"""The pruner that tools are handed: decides which engine is asked, and lets the raw text through when none can be."""

from __future__ import annotations

import asyncio
import logging
import time

from mcp_agent import __version__
from mcp_agent.logs import event
from mcp_agent.pruning.recovery import Recovery
from mcp_agent.pruning.remote import MOST_INPUT_BYTES, PrunerFailed, RemotePruner
from mcp_agent.pruning.settings import PruningSettings
from mcp_agent.pruning.workers import Workers
from tools.pruning.engine import GaveUp, Selection, SourceType, render
from tools.pruning.metadata import ErrorCode, Focused, PruningMetadata

log = logging.getLogger(__name__)

# Of the output of a tool, 45 of a hundred lines stay, and what is as short as this stays whole.
FOCUS_PRUNE_RATIO = 0.55
FOCUS_KEEP_LINES = 40
# Below this many characters, a piece of work is over before a thread would have begun with it.
_SMALL_CHARS = 200_000


class HostPruner:
    """Prunes for every tool of a process. `url` decides: a service, the built-in engine, or nothing."""

    def __init__(self, settings: PruningSettings, recovery: Recovery) -> None:
        self._settings = settings
        self._recovery = recovery
        self.workers = Workers()
        self._remote = RemotePruner(settings.url, settings.timeout_s) if settings.url else None

    @property
    def version(self) -> str:
        return __version__

    @property
    def is_on(self) -> bool:
        return self._settings.url != ""

    @property
    def max_input_chars(self) -> int:
        return self._settings.max_input_chars

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
        return await self.workers.select(
            text,
            question,
            source_type=source_type,
            max_prune_ratio=max_prune_ratio,
            min_keep_lines=min_keep_lines,
            timeout_s=timeout_s,
        )

    async def keep(self, owner: str, text: str) -> str:
        return await asyncio.to_thread(self._recovery.keep, owner, text)

    async def kept(self, owner: str, prune_id: str) -> str | None:
        return await asyncio.to_thread(self._recovery.kept, owner, prune_id)

    async def focus(
        self,
        text: str,
        question: str | None,
        *,
        tool: str,
        call_id: str,
        owner: str,
        markers: bool = True,
        source_type: SourceType | None = None,
    ) -> Focused:
        raw_bytes = size_of(text)
        if question is None:
            return Focused(text, PruningMetadata.skipped("no_focus_question", raw_bytes))
        is_resting = self._remote is not None and self._remote.is_resting
        if not self.is_on or is_resting:
            return Focused(text, PruningMetadata.skipped("disabled_or_unconfigured", raw_bytes))
        if not text:
            return Focused(text, PruningMetadata.skipped("output_empty", raw_bytes))
        is_too_large = raw_bytes > MOST_INPUT_BYTES if self._remote else len(text) > self.max_input_chars
        if is_too_large:
            return Focused(text, PruningMetadata.skipped("too_large", raw_bytes))
        endpoint = self._settings.url or "built-in"
        event(
            log,
            logging.INFO,
            "pruner.call_start",
            request_id=call_id,
            endpoint=endpoint,
            tool=tool,
            input_bytes=raw_bytes,
        )
        began = time.perf_counter()
        try:
            if self._remote is not None:
                pruned, kept, prune_id = await self._remote.pruned(text, question.strip()), None, None
            else:
                pruned, kept, prune_id = await self._pruned_here(text, question.strip(), source_type, owner, markers)
        except PrunerFailed as error:
            return self._failed(error.code, error.message, text, tool, call_id, began, raw_bytes)
        except GaveUp as error:
            return self._failed("timeout", str(error), text, tool, call_id, began, raw_bytes)
        except (RuntimeError, OSError) as error:
            return self._failed("invalid_response", str(error), text, tool, call_id, began, raw_bytes)
        took_ms = _since(began)
        pruning = PruningMetadata(
            attempted=True,
            applied=True,
            fallback=False,
            raw_bytes=raw_bytes,
            pruned_bytes=size_of(pruned),
            pruner_duration_ms=took_ms,
            prune_id=prune_id,
        )
        event(
            log,
            logging.INFO,
            "pruner.call_ok",
            request_id=call_id,
            tool=tool,
            pruner_duration_ms=took_ms,
            pruned_bytes=pruning.pruned_bytes,
        )
        return Focused(pruned, pruning, kept)

    def close(self) -> None:
        self.workers.close()

    async def _pruned_here(
        self, text: str, question: str, source_type: SourceType | None, owner: str, markers: bool
    ) -> tuple[str, list[int] | None, str | None]:
        """The text as it is shown, the kept lines, from 0, where no markers tell them, and the id of the whole."""
        total = text.count("\n") + 1
        whole = text, None if markers else list(range(total)), None
        if total <= FOCUS_KEEP_LINES:
            return whole
        # Kept while it is read, since nearly every text that comes this far has lines that are not needed.
        keeping = asyncio.get_running_loop().run_in_executor(None, self._recovery.keep, owner, text)
        try:
            selection = await self.workers.select(
                text,
                question,
                source_type=source_type,
                max_prune_ratio=FOCUS_PRUNE_RATIO,
                min_keep_lines=FOCUS_KEEP_LINES,
                timeout_s=self._settings.timeout_s,
            )
        finally:
            prune_id = await keeping
        if not selection.dropped:
            return whole

        def written() -> tuple[str, list[int] | None]:
            rendered = render(text, selection, prune_id, include_markers=markers)
            return rendered.pruned_text, None if markers else [number - 1 for number in selection.kept()]

        pruned, kept = written() if len(text) < _SMALL_CHARS else await asyncio.to_thread(written)
        return pruned, kept, prune_id

    def _failed(
        self, code: ErrorCode, message: str, text: str, tool: str, call_id: str, began: float, raw_bytes: int
    ) -> Focused:
        took_ms = _since(began)
        name = "pruner.timeout" if code == "timeout" else f"pruner.{code}"
        event(log, logging.WARNING, name, request_id=call_id, tool=tool, message=message)
        event(
            log,
            logging.WARNING,
            "pruner.call_failed",
            request_id=call_id,
            tool=tool,
            reason=code,
            pruner_duration_ms=took_ms,
            message=message,
        )
        return Focused(text, PruningMetadata.failed(code, message, raw_bytes, took_ms))


def size_of(text: str) -> int:
    """Its length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)
