"""The focus question on tools that have not heard of it: their output is pruned here, on its way to the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tools.kit.context import Pruner
from tools.kit.focus import PruningMetadata
from tools.kit.records import record
from tools.kit.results import Result

# Which field of a result is pruned: the first of these that has something in it.
_FIELDS = ("content", "output", "stdout", "stderr", "matches")


@record
class FocusedResult(Result):
    """A tool's own result with fewer lines in it, and what was done to it beside them."""

    result: Result
    pruning: PruningMetadata

    def as_object(self) -> dict[str, Any]:
        return {**self.result.as_object(), "pruning": self.pruning.as_object()}

    def render(self) -> str:
        note = self.pruning.note
        return self.result.render() if note is None else f"[{note}]\n{self.result.render()}"

    def summary(self) -> str:
        return f"{self.result.summary()}{', pruned' if self.pruning.applied else ''}"

    @property
    def succeeded(self) -> bool:
        return self.result.succeeded

    @property
    def listed(self) -> str | None:
        return self.result.listed

    @property
    def asked_text(self) -> str | None:
        return self.result.asked_text

    @property
    def kept_as(self) -> str | None:
        return self.result.kept_as

    @property
    def is_text(self) -> bool:
        return self.result.is_text


async def focused(
    result: Result, question: str, pruner: Pruner, *, tool: str, call_id: str, owner: str
) -> FocusedResult:
    """`result` with what the question needs of its text or of its matches."""
    name = next((name for name in _FIELDS if getattr(result, name, None)), None)
    value = "" if name is None else getattr(result, name)
    lines = None if isinstance(value, str) else [_line(match) for match in value]
    text = value if lines is None else "\n".join(lines)
    seen = await pruner.focus(
        text,
        question,
        tool=tool,
        call_id=call_id,
        owner=owner,
        markers=lines is None,
        is_line=None if lines is None else set(lines).__contains__,
    )
    if name is None or not seen.pruning.applied:
        return FocusedResult(result, seen.pruning)
    if lines is None:
        shown: Any = seen.text
    else:
        kept = seen.kept if seen.kept is not None else _places(lines, seen.text.split("\n"))
        shown = [value[index] for index in kept]
    # Every result of a tool with such a field is a dataclass with that field, which its type cannot say.
    changed: Result = replace(result, **{name: shown})
    return FocusedResult(changed, seen.pruning)


def _line(match: Mapping[str, Any]) -> str:
    around = [*match.get("before", ()), match["text"], *match.get("after", ())]
    return f"{match['path']}:{match['line']}:{' '.join(around)}".replace("\n", " ")


def _places(lines: Sequence[str], left: Sequence[str]) -> list[int]:
    """Where the lines that a service left stand in what it was sent."""
    wanted = set(left)
    return [index for index, line in enumerate(lines) if line in wanted]
