"""Small tools with one habit each, to see what the daemon makes of it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tools.context import ToolContext
from tools.errors import Refused
from tools.params import Field
from tools.results import Result
from tools.spec import tool


@dataclass(frozen=True, slots=True)
class Said(Result):
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


@tool("probes", effect="read", json_rpc_errors=True)
def strict(ctx: ToolContext, *, file_path: str, max_output_bytes: int = 1) -> Said:
    """Answer arguments that do not fit with a JSON-RPC error."""
    return Said(file_path)


@tool("probes", effect="read")
def refuse(ctx: ToolContext) -> Said:
    """Answer with an error that a contract gives a number."""
    raise Refused(-32004, "there is nothing to recover")


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
