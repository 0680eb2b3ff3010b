"""A tool's own result with something that the host says of it. All that the result says of itself stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from tools.kit.errors import ToolError
from tools.kit.results import ArtifactRange, Block, Media, Result, ResultFacts


class WrappedResult(Result, frozen=True):
    result: Result

    @property
    def remarks(self) -> Sequence[str]:
        """What the host says: a line before the rendering, and a block behind the blocks."""
        return ()

    def as_object(self) -> dict[str, Any]:
        return self.result.as_object()

    def render(self) -> str:
        return "\n".join([*(f"[{remark}]" for remark in self.remarks), self.result.render()])

    def blocks(self) -> Sequence[Block] | None:
        blocks = self.result.blocks()
        if blocks is None:
            return None
        return [*blocks, *({"type": "text", "text": f"[{remark}]"} for remark in self.remarks)]

    @property
    def structured_content(self) -> Mapping[str, Any] | None:
        return self.result.structured_content

    @property
    def media(self) -> Media | None:
        return self.result.media

    @property
    def reads_as(self) -> Literal["code", "logs", "docs"] | None:
        return self.result.reads_as

    @property
    def extent(self) -> int:
        return self.result.extent

    def cut(self, most: int) -> Result | None:
        part = self.result.cut(most)
        return None if part is None else replace(self, result=part)

    @property
    def way_on(self) -> str | None:
        return self.result.way_on

    @property
    def is_cut(self) -> bool:
        return self.result.is_cut

    @property
    def beyond(self) -> str:
        return self.result.beyond

    @property
    def line_counts(self) -> Mapping[str, int]:
        return self.result.line_counts

    def refusal(self, fits: Callable[[Result], bool]) -> ToolError | None:
        return self.result.refusal(lambda part: fits(replace(self, result=part)))

    def summary(self) -> str:
        return self.result.summary()

    @property
    def audit_facts(self) -> ResultFacts:
        return self.result.audit_facts

    @property
    def succeeded(self) -> bool:
        return self.result.succeeded

    @property
    def list_field(self) -> str | None:
        return self.result.list_field

    @property
    def text_field(self) -> str | None:
        return self.result.text_field

    @property
    def artifact_range(self) -> ArtifactRange | None:
        return self.result.artifact_range

    @property
    def artifact_reference(self) -> str | None:
        return self.result.artifact_reference

    @property
    def is_text(self) -> bool:
        return self.result.is_text


class NotedResult(WrappedResult, frozen=True):
    """A result of a call whose arguments did not fit, and were taken in the one way that they can be meant."""

    notes: Sequence[str]

    def as_object(self) -> dict[str, Any]:
        own = self.result.as_object()
        return {**own, "notes": [*self.notes, *own.get("notes", ())]}

    @property
    def remarks(self) -> Sequence[str]:
        return ("; ".join(self.notes),)
