"""What a result says of the files that a command has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.files.paths import on_one_line, to_wire
from tools.kit.results import JsonObject, quantity

# A line for a model has so many paths.
_SHOWN_PATHS = 8


class Effects(JsonObject, frozen=True):
    """Counts of files, and the first of their paths: what was changed, then what was created, then what was deleted."""

    created: int | None = None
    changed: int | None = None
    deleted: int | None = None
    paths: list[str] | None = None
    more: int | None = None
    # Why an undo does not bring a path back.
    not_undoable: dict[str, str] | None = None
    # What another command may have changed, which ran at the same time.
    shared: list[str] | None = None
    # Why nothing is known; then there is nothing else.
    unknown: str | None = None
    _root: str = ""
    # Whether a model has read the same sentence before.
    _is_known: bool = False

    @property
    def line(self) -> str:
        """For a model: one short line."""
        if self.unknown is not None:
            return "" if self._is_known else f"effects: unknown, {self.unknown}"
        left = iter((self.paths or [])[:_SHOWN_PATHS])
        parts = []
        for word, count in (("changed", self.changed), ("created", self.created), ("deleted", self.deleted)):
            if count:
                names = [self._relative(path) for _, path in zip(range(count), left, strict=False)]
                rest = ", …" if names and len(names) < count else ""
                what = f": {', '.join(names)}{rest}" if names else ""
                parts.append(f"{word} {quantity(count, 'file')}{what}")
        if self.not_undoable:
            first = next(iter(self.not_undoable.items()))
            more = len(self.not_undoable) - 1
            parts.append(f"undo leaves {self._relative(first[0])} ({first[1]})" + (f" and {more} more" if more else ""))
        return "; ".join(parts)

    def _relative(self, path: str) -> str:
        return on_one_line(path.removeprefix(f"{self._root}/"))


def effects_note(effects: Effects | None, undo_id: str | None) -> str:
    """What follows the header of a command's text; nothing where nothing was changed."""
    if effects is None or not (line := effects.line):
        return ""
    return f"\n[{line}{f' · undo://{undo_id}' if undo_id else ''}]"


def effects_of(root: str, answer: Mapping[str, Any]) -> Effects | None:
    """What the helper has answered, with whole paths; None if nothing was changed."""

    def whole(path: str) -> str:
        return to_wire(f"{root}/{path}" if path else root)

    lost = dict(list(answer["not_undoable"].items())[:_SHOWN_PATHS])
    if not any(answer[kind] for kind in ("created", "changed", "deleted")) and not lost:
        return None
    return Effects(
        created=answer["created"],
        changed=answer["changed"],
        deleted=answer["deleted"],
        paths=[whole(path) for path in answer["paths"]],
        more=answer["more"] or None,
        not_undoable={whole(path): why for path, why in lost.items()} or None,
        shared=[whole(path) for path in answer.get("shared", ())] or None,
        _root=to_wire(root),
    )
