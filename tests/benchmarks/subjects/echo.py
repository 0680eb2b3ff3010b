"""The trivial tool. It is declared as every tool of ours that is over in microseconds: as instant."""

from __future__ import annotations

from typing import Annotated

from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import tool


class Echo(Result, frozen=True):
    text: str

    def render(self) -> str:
        return self.text


def _always(ctx: ToolContext, *, text: str) -> bool:
    return True


@tool("filesystem", effect="read", instant=_always)
def echo(ctx: ToolContext, *, text: Annotated[str, Field(description="What to say.")]) -> Echo:
    """Say what it is told."""
    return Echo(text)
