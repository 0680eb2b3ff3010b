"""The focus question on tools that do not take it themselves: the host prunes the field that the tool declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tools.context import ToolContext
from tools.kit.focus import PruningMetadata
from tools.kit.records import record
from tools.kit.results import ArtifactRange, Block, Result
from tools.kit.spec import Tool


@record
class FocusedResult(Result):
    """A tool's own result with fewer lines in it, and what the pruner did. All that a result says of itself stays."""

    result: Result
    pruning: PruningMetadata

    def as_object(self) -> dict[str, Any]:
        return {**self.result.as_object(), "pruning": self.pruning.as_object()}

    def render(self) -> str:
        note = self.pruning.note
        return self.result.render() if note is None else f"[{note}]\n{self.result.render()}"

    def blocks(self) -> Sequence[Block] | None:
        blocks = self.result.blocks()
        if blocks is None or self.pruning.note is None:
            return blocks
        return [*blocks, {"type": "text", "text": f"[{self.pruning.note}]"}]

    def summary(self) -> str:
        return f"{self.result.summary()}{', pruned' if self.pruning.applied else ''}"

    @property
    def pruning_metadata(self) -> PruningMetadata:
        return self.pruning

    @property
    def exit_status(self) -> int | None:
        return self.result.exit_status

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
        """None, because the bytes that are kept are not the lines that are left."""
        return None

    @property
    def artifact_reference(self) -> str | None:
        return self.result.artifact_reference

    @property
    def is_text(self) -> bool:
        return self.result.is_text


async def prune(result: Result, question: str, tool: Tool, context: ToolContext) -> Result:
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
