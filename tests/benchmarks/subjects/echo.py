"""The trivial tool, and the answer to a call of it that every program gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tools.context import ToolContext
from tools.params import Field
from tools.results import Result
from tools.spec import tool


@dataclass(frozen=True, slots=True)
class Echo(Result):
    text: str

    def render(self) -> str:
        return self.text


@tool("filesystem", effect="read")
async def echo(ctx: ToolContext, *, text: Annotated[str, Field(description="What to say.")]) -> Echo:
    """Say what it is told."""
    return Echo(text)
