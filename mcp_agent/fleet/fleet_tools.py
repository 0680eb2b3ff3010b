"""The gateway's own tools: which boxes there are, which one is meant, and one command on many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp_agent.fleet.box_copy import box_copy_tool
from mcp_agent.fleet.directory import Box, Directory, invalid, list_names, parse_labels
from tools.context import ToolContext
from tools.kit.errors import NotFound
from tools.kit.params import Field
from tools.kit.results import Body, Item, Result, quantity
from tools.kit.spec import Tool, tool

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway

_CATEGORY = "fleet"
_PAGE = 50
_MOST_RUN = 500
_MOST_WIDTH = 50
_MOST_KEYS = 20


class Boxes(Result, frozen=True):
    """A page of boxes, or of groups of them."""

    boxes: Sequence[Mapping[str, Any]]
    total: int
    next_offset: int | None = None
    hint: str | None = None

    def render(self) -> str:
        lines = [quantity(self.total, "box", "boxes"), *(_line(each) for each in self.boxes)]
        if self.hint is not None:
            lines.append(self.hint)
        if self.next_offset is not None:
            lines.append(f"[more: offset {self.next_offset}]")
        return "\n".join(lines)

    @property
    def body(self) -> Body:
        return Body("boxes", "list")

    @classmethod
    def item(cls, entry: Any) -> Item:
        return Item(str(entry.get("box") or entry.get("group")), _line(entry))


class BoxUse(Result, frozen=True):
    """The default box from now on."""

    box: str | None
    of: Literal["conversation", "token"]

    def render(self) -> str:
        if self.box is None:
            return f"this {self.of} has no default box any more"
        return f"{self.box} is the default box of this {self.of}"


class BoxRows(Result, frozen=True):
    """What a command did on each box."""

    rows: Sequence[Mapping[str, Any]]
    failed: int

    def render(self) -> str:
        lines = [f"{quantity(len(self.rows), 'box', 'boxes')}, {self.failed} failed"]
        for row in self.rows:
            lines += [f"== {row['box']}: {_outcome(row)}", *([row["output"].rstrip()] if row.get("output") else [])]
        return "\n".join(lines)

    @property
    def body(self) -> Body:
        return Body("rows", "list")

    @classmethod
    def item(cls, entry: Any) -> Item:
        return Item(str(entry["box"]), _outcome(entry), is_whole=not (entry.get("output") or "error" in entry))


def fleet_tools(gateway: Gateway) -> tuple[Tool, ...]:
    directory = gateway.directory

    @tool(_CATEGORY, effect="read", deadline_s=10.0)
    async def boxes(
        ctx: ToolContext,
        *,
        filter: Annotated[
            str | None, Field(description="Labels (gpu=1,zone=eu) or globs of names.", audited=True)
        ] = None,
        group_by: Annotated[str | None, Field(description="A label to count by.", audited=True)] = None,
        offset: Annotated[int, Field(minimum=0)] = 0,
    ) -> Boxes:
        """List the machines that tools run on: labels, load, and what is different there."""
        found = _find_boxes(directory, filter)
        if group_by is not None:
            groups: dict[str, list[Box]] = {}
            for box in found:
                groups.setdefault(box.labels.get(group_by, ""), []).append(box)
            rows = [{"group": key, "boxes": len(each), "examples": [box.name for box in each[:3]]}
                    for key, each in sorted(groups.items())]  # fmt: skip
        else:
            usual = _usual(directory)
            rows = [_row(directory, box, usual) for box in found[offset : offset + _PAGE]]
            hint = None if found else _empty_hint(directory, filter)
            return Boxes(rows, len(found), offset + _PAGE if offset + _PAGE < len(found) else None, hint)
        return Boxes(rows[offset : offset + _PAGE], len(found), offset + _PAGE if offset + _PAGE < len(rows) else None)

    @tool(_CATEGORY, effect="write", idempotent=True, deadline_s=10.0)
    async def box_use(
        ctx: ToolContext,
        *,
        box: Annotated[
            str,
            Field(
                description="Box name, or labels that match exactly one box. Empty clears the default.", audited=True
            ),
        ],
    ) -> BoxUse:
        """Choose the box that calls without `box` go to."""
        caller = gateway.caller_of(ctx)
        name = gateway.find_box(box).name if box else None
        return BoxUse(name, gateway.set_default(caller, name))

    @tool(_CATEGORY, effect="execute", destructive=True, deadline_s=3_600.0)
    async def box_run(
        ctx: ToolContext,
        *,
        command: Annotated[str, Field(is_command=True, min_length=1)],
        filter: Annotated[str, Field(description="As for boxes; * for all.", min_length=1, audited=True)],
        timeout_seconds: Annotated[float, Field(minimum=1, maximum=3_600)] = 60,
        width: Annotated[
            int, Field(description="How many boxes run it in parallel.", minimum=1, maximum=_MOST_WIDTH)
        ] = 10,
    ) -> BoxRows:
        """Run a command on many boxes, one row for each."""
        caller = gateway.caller_of(ctx)
        found = _find_boxes(directory, filter)
        if not found:
            raise NotFound(f"no box fits {filter[:200]!r}", hint=_empty_hint(directory, filter))
        if len(found) > _MOST_RUN:
            raise invalid("filter", f"{len(found)} boxes fit, and one call may run on {_MOST_RUN}")
        places = asyncio.Semaphore(width)
        done = 0

        async def run(box: Box) -> dict[str, Any]:
            nonlocal done
            async with places:
                row = await gateway.run_command(caller, box, command, timeout_seconds)
            done += 1
            ctx.progress(done, len(found), box.name)
            return row

        rows = await asyncio.gather(*(run(box) for box in found))
        return BoxRows(rows, sum("error" in row or bool(row.get("exit_code")) for row in rows))

    return boxes, box_use, box_run, box_copy_tool(gateway)


def _find_boxes(directory: Directory, text: str | None) -> Sequence[Box]:
    if not text:
        return directory.find()
    return directory.find(labels=parse_labels(text, "filter")) if "=" in text else directory.find(names=text)


def _empty_hint(directory: Directory, text: str | None) -> str:
    """What a caller can mend whose filter fits no box."""
    if not directory.boxes:
        return "no box is there"
    keys = sorted({key for box in directory.boxes.values() for key in box.labels})
    if text is not None and "=" in text:
        unknown = [key for key in parse_labels(text, "filter") if key not in keys]
        if unknown:
            known = f"there are {', '.join(keys[:_MOST_KEYS])}" if keys else "no box has any"
            return f"no box has a label {unknown[0][:60]}; {known}"
    return f"there are {list_names(directory.find())}"


def _usual(directory: Directory) -> tuple[str, set[str]]:
    """The digest and the names of the tools that most boxes have."""
    counted = directory.counted_sets()
    if not counted:
        return "", set()
    tools = counted[0][0]
    return next(key for key, each in directory.tool_sets.items() if each is tools), {each.name for each in tools}


def _row(directory: Directory, box: Box, usual: tuple[str, set[str]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "box": box.name,
        "labels": dict(box.labels),
        "load": box.load,
        "sessions": box.sessions,
        "directory": box.directory,
        "version": box.version,
    }
    if directory.is_away(box):
        row["away"] = f"not heard of for {directory.silence(box)}"
    if box.tools != usual[0]:
        names = {each.name for each in directory.tool_sets.get(box.tools, ())}
        differences = {"more_tools": sorted(names - usual[1]), "lacks_tools": sorted(usual[1] - names)}
        row |= {key: value for key, value in differences.items() if value}
    return row


def _outcome(row: Mapping[str, Any]) -> str:
    """How a command ended on a box, and where all of its output is if the row has a part."""
    if "error" in row:
        return str(row["error"]["message"])
    ended = f"exit {row.get('exit_code')}{', timed out' if row.get('timed_out') else ''}"
    return f"{ended}; all of it in {row['artifactRef']}" if row.get("artifactRef") else ended


def _line(row: Mapping[str, Any]) -> str:
    if "group" in row:
        count, examples = quantity(row["boxes"], "box", "boxes"), ", ".join(row["examples"])
        return f"{row['group'] or '(none)'}: {count}{': ' if row['boxes'] <= 3 else ', such as '}{examples}"
    labels = " ".join(f"{key}={value}" for key, value in row["labels"].items())
    others = " ".join(f"{key}={','.join(row[key])}" for key in ("more_tools", "lacks_tools") if key in row)
    facts = f"load {row['load']} sessions {row['sessions']} {row['directory']} {row['version']}"
    return " ".join(filter(None, (row["box"], labels, facts, others, row.get("away", ""))))
