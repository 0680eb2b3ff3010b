"""The focus question: the argument that asks for pruned output, and what a result says about its own pruning.

Some tools take the question themselves (`read`, `bash`, `grep`). To those that declare `@tool(focus=...)` the host
adds the argument and prunes the named field of their result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal

from tools.kit.params import Field
from tools.kit.records import record

FOCUS = "context_focus_question"
FocusQuestion = Annotated[
    str | None,
    Field(
        description="Keep only the lines that answer this; gaps are marked.",
        min_length=1,
        max_length=1_000,
        is_trimmed=True,
    ),
]

Reason = Literal["disabled_or_unconfigured", "no_focus_question", "too_large", "output_empty", "pruner_error"]
ErrorCode = Literal["timeout", "http_error", "invalid_response"]


@record
class PruningMetadata:
    """`attempted`: an engine was asked. `reason` is set exactly when the output was not pruned."""

    attempted: bool
    applied: bool
    fallback: bool
    raw_bytes: int
    reason: Reason | None = None
    pruned_bytes: int | None = None
    pruner_duration_ms: int | None = None
    error: dict[str, str] | None = None
    prune_id: str | None = None

    @classmethod
    def of_skip(cls, reason: Reason, raw_bytes: int) -> PruningMetadata:
        """No engine was asked."""
        return cls(attempted=False, applied=False, fallback=False, raw_bytes=raw_bytes, reason=reason)

    @classmethod
    def of_failure(cls, code: ErrorCode, message: str, raw_bytes: int, duration_ms: int) -> PruningMetadata:
        """An engine was asked and its answer cannot be used, so the output is the raw one."""
        return cls(
            attempted=True,
            applied=False,
            fallback=True,
            raw_bytes=raw_bytes,
            reason="pruner_error",
            pruner_duration_ms=duration_ms,
            error={"code": code, "message": message},
        )

    def as_object(self) -> dict[str, Any]:
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}

    @property
    def note(self) -> str | None:
        """For the header of a rendering: how much was pruned, or why nothing was."""
        if self.applied:
            again = f"; recover_text prune_id={self.prune_id} brings lines back" if self.prune_id else ""
            return f"pruned from {self.raw_bytes} to {self.pruned_bytes} bytes{again}"
        return f"not pruned: {self.error['message']}" if self.error else None


@record
class Focused:
    """A text after pruning. `kept` has the indexes of its lines in the original, if the engine gives them."""

    text: str
    pruning: PruningMetadata
    kept: Sequence[int] | None = None
