"""The focus question on tools that do not take it themselves: the host prunes the field that the tool declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mcp_agent.calls.wrapped_result import WrappedResult
from tools.context import ToolContext
from tools.kit.results import PruningMetadata, Result, ResultFacts
from tools.kit.spec import Tool


class FocusedResult(WrappedResult, frozen=True):
    """A tool's own result with fewer lines in it, and what the pruner did."""

    pruning: PruningMetadata

    def as_object(self) -> dict[str, Any]:
        return {**self.result.as_object(), "pruning": self.pruning.as_object()}

    @property
    def remarks(self) -> Sequence[str]:
        return () if self.pruning.note is None else (self.pruning.note,)

    @property
    def structured_content(self) -> Mapping[str, Any] | None:
        """None once lines are gone: it would bring them all back."""
        return None if self.pruning.applied else self.result.structured_content

    def cut(self, most: int) -> Result | None:
        """A list can still be cut. Places in a text cannot be counted any more once lines of it are gone."""
        return None if self.pruning.applied and self.list_field is None else WrappedResult.cut(self, most)

    def summary(self) -> str:
        applied = self.pruning.applied
        return f"{self.result.summary()}{f', pruned to {self.pruning.pruned_bytes:,} bytes' if applied else ''}"

    @property
    def line_counts(self) -> Mapping[str, int]:
        """Those of the output are not those of the lines that are left."""
        return {} if self.pruning.applied else self.result.line_counts

    @property
    def audit_facts(self) -> ResultFacts:
        return self.result.audit_facts._replace(saved_bytes=self.pruning.saved_bytes)

    @property
    def artifact_range(self) -> None:
        """None, because the bytes that are kept are not the lines that are left."""
        return


async def prune(result: Result, question: str, keep: float | None, tool: Tool, context: ToolContext) -> Result:
    """`result` with what the question needs of the field that `tool` declares; all of it where there is no pruner."""
    pruner = context.pruner
    if pruner is None:
        return result
    # What a tool declares in `focus` is a field of its results, which is a text or a list; their types cannot say so.
    name = next((name for name in tool.focus if getattr(result, name, None)), None)
    value: str | Sequence[Any] = "" if name is None else getattr(result, name)
    lines = None if isinstance(value, str) else [result.line(entry).replace("\n", " ") for entry in value]
    focused = await pruner.focus(
        value if isinstance(value, str) else "\n".join(lines or ()),
        question,
        tool=tool.name,
        call_id=context.call_id,
        owner=context.owner,
        markers=lines is None,
        source_type=result.reads_as,
        # What executes answers with what was printed; a list is none of that.
        is_output=tool.effect == "execute" and lines is None,
        keep=keep,
        is_line=None if lines is None else set(lines).__contains__,
    )
    if name is None or not focused.pruning.applied:
        return FocusedResult(result, focused.pruning)
    shown: Any = focused.text
    if lines is not None:
        kept = focused.kept if focused.kept is not None else _places(lines, focused.text.split("\n"))
        shown = [value[index] for index in kept]
    changed: Result = replace(result, **{name: shown})
    return FocusedResult(changed, focused.pruning)


def _places(lines: Sequence[str], left: Sequence[str]) -> list[int]:
    """The indexes of the lines that a service kept."""
    wanted = set(left)
    return [index for index, line in enumerate(lines) if line in wanted]
