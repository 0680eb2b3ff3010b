"""Small tools with one habit each, to see what the daemon makes of it."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from pathlib import Path
from typing import Annotated, Any

from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.results import Block, Body, Content, Result
from tools.kit.spec import tool


class Said(Result, frozen=True):
    said: str

    def render(self) -> str:
        return f"[said]\n{self.said}"


@tool("probes", effect="read")
def echo(ctx: ToolContext, *, text: Annotated[str, Field(description="What to say.")] = "") -> Said:
    """Say it."""
    return Said(text)


@tool("probes", effect="read")
async def wait(ctx: ToolContext, *, seconds: float = 3600.0, mark: str = "") -> Said:
    """Wait, and write into the file `mark` how that ended."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if mark:
            Path(mark).write_text("cancelled")
        raise
    return Said("waited")


@tool("probes", effect="read")
def loop(ctx: ToolContext, *, mark: str) -> Said:
    """Work in a thread until called off, and write that into the file `mark`."""
    Path(mark).write_text("running")
    idle = threading.Event()
    try:
        while True:
            ctx.check()
            idle.wait(0.01)
    finally:
        Path(mark).write_text("stopped")


@tool("probes", effect="read", deadline_s=0.2)
async def slow(ctx: ToolContext) -> Said:
    """Take longer than allowed."""
    await asyncio.sleep(3600)
    return Said("")


@tool("probes", effect="read")
def report(ctx: ToolContext, *, steps: int = 3) -> Said:
    """Report progress, then end."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
    return Said("done")


@tool("probes", effect="execute")
def explode(ctx: ToolContext) -> Said:
    """Fail in a way that nobody foresaw."""
    raise RuntimeError("the secret is 12345")


@tool("probes", effect="read")
async def tell(ctx: ToolContext, *, folder: str, steps: int = 2) -> Said:
    """Log step after step, each when a file with its number is in `folder`; being called off leaves a file too."""
    try:
        for step in range(1, steps + 1):
            while not Path(folder, str(step)).exists():
                await asyncio.sleep(0.01)
            ctx.log("warning", f"step {step}")
    except asyncio.CancelledError:
        Path(folder, "cancelled").touch()
        raise
    return Said("told")


class Foreign(Result, frozen=True):
    """A result that nobody has words for, as another server would send it."""

    value: dict[str, Any]

    def as_object(self) -> dict[str, Any]:
        return self.value

    def render(self) -> str:
        return json.dumps(self.value)


class Pieces(Result, frozen=True):
    pieces: tuple[Block, ...]

    def render(self) -> str:
        return f"[{len(self.pieces)} pieces]"

    @property
    def body(self) -> Body:
        return Body(content=Content(self.pieces))


@tool("mounted", effect="read")
def nested(ctx: ToolContext, *, depth: int = 30, width: int = 1, text: str = "leaf") -> Foreign:
    """Give objects and lists within each other, so many levels deep."""
    value: Any = text
    for level in range(depth - 1):
        value = {f"key {number}": value for number in range(width)} if level % 2 else [value] * width
    return Foreign({"nested": value, "depth": depth})


@tool("mounted", effect="read")
def rows(ctx: ToolContext, *, count: int, text: str = "", keys: int = 3) -> Foreign:
    """Give a list of objects, and another one beside it."""
    found = [{"id": f"row-{n}", "title": f"{text}{n}", **{f"k{m}": m for m in range(keys)}} for n in range(count)]
    return Foreign(
        {"rows": found, "others": [each["id"] for each in found[: count // 2]], "summary": "mine", "items": 7}
    )


@tool("mounted", effect="read")
def picture(ctx: ToolContext, *, size: int, count: int = 1, text: str = "") -> Pieces:
    """Give images, and a text between them."""
    image = {"type": "image", "data": base64.b64encode(bytes(size)).decode(), "mimeType": "image/png"}
    written = {"type": "text", "text": text}
    return Pieces((written,) if count == 0 else tuple(each for _ in range(count) for each in (image, written)))


@tool(
    "mounted",
    effect="read",
    schema={"type": "object", "properties": {"cursor": {"type": "string"}, "size": {"type": "integer"}}},
)
def leafing(ctx: ToolContext, **arguments: Any) -> Foreign:
    """Go on by a cursor of its own."""
    return Foreign({"cursor_given": arguments.get("cursor"), "text": "line\n" * arguments.get("size", 1)})
