"""read: a text file, whole or as far as a question needs it."""

from __future__ import annotations

import stat
import time
from typing import Annotated, Literal

from tools.context import ToolContext
from tools.files import utf8
from tools.files.confined_root import ConfinedRoot
from tools.files.disk import read_up_to
from tools.kit.errors import NotAFile
from tools.kit.params import Field
from tools.kit.results import ASK_FOR_LESS, Body, Result, ResultFacts, line_count, quantity, short_path
from tools.kit.spec import tool
from tools.pruning.confined import confined, open_confined
from tools.pruning.engine import SourceType

MOST_OUTPUT_BYTES = 10 * 1024 * 1024
OutputBytes = Annotated[
    int | None,
    Field(description="Most bytes, before pruning.", minimum=1024, maximum=MOST_OUTPUT_BYTES, is_size=True),
]

_SUFFIXES: dict[SourceType, str] = {
    "code": """
    bash c cc clj cljs cpp cs cxx dart erl ex exs go groovy h hh hpp hs java jl js jsx kt kts lua mjs ml php pl py pyi
    rb rs scala sh swift ts tsx zig
    """,
    "docs": "adoc markdown md rst",
    "logs": "log",
}
_SOURCE_TYPES = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


class ReadText(Result, frozen=True):
    tool: str
    file_path: str
    encoding: str
    content: str
    truncated: bool
    bytes: int
    duration_ms: int

    def render(self) -> str:
        return f"{self.file_path} · {self.bytes} bytes{', the start of it' if self.truncated else ''}\n{self.content}"

    def summary(self) -> str:
        lines = quantity(line_count(self.content), "line")
        of = f"the first {lines} of" if self.truncated else f"{lines},"
        return f"{of} {self.bytes:,} bytes of {short_path(self.file_path)}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(rest_hint=ASK_FOR_LESS if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("content", source_type_of(self.file_path))


def _root(ctx: ToolContext, *, file_path: str, **_: object) -> ConfinedRoot:
    """The root, if the path does not leave it by its words alone. Raises InvalidParams."""
    return confined(ctx, [], file_path=file_path)


@tool("pruning", effect="read", title="Read a file with a question", focus="always", check=_root)
def read(
    ctx: ToolContext,
    *,
    file_path: Annotated[str, Field.of_path("File.", min_length=1)],
    encoding: Literal["utf-8"] = "utf-8",
    max_output_bytes: OutputBytes = None,
) -> ReadText:
    """Read a text file; with a question, only the lines that answer it."""
    began = time.perf_counter()
    limit = max_output_bytes or MOST_OUTPUT_BYTES
    root = _root(ctx, file_path=file_path)
    with open_confined(ctx, root, file_path) as (descriptor, status):
        if stat.S_ISDIR(status.st_mode):
            raise NotAFile(f"{file_path} is a folder")
        # A little beyond the limit, to know whether there is more.
        data = read_up_to(descriptor, limit + 1, status.st_size)
    is_cut = len(data) > limit
    kept = data[: utf8.boundary(data, limit)] if is_cut else data
    return ReadText(
        tool="read",
        file_path=file_path,
        encoding=encoding,
        content=kept.decode("utf-8", "replace"),
        truncated=is_cut,
        bytes=len(kept),
        duration_ms=round((time.perf_counter() - began) * 1000),
    )


def source_type_of(path: str) -> SourceType | None:
    """The source type of a path by its suffix; None if the suffix leaves doubt."""
    _, dot, suffix = path.rpartition(".")
    return _SOURCE_TYPES.get(suffix.lower()) if dot else None
