"""read: a text file, whole or as far as a question needs it."""

from __future__ import annotations

import stat
import time
from typing import Annotated, Literal

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import documents, utf8
from tools.files.disk import read_up_to
from tools.kit.errors import NotAFile, OutOfRange
from tools.kit.params import Field
from tools.kit.results import ASK_FOR_LESS, Body, Result, ResultFacts, ShownText, line_count, quantity, short_path
from tools.kit.spec import tool
from tools.pruning.confined import ConfinedRoot, confined, open_confined
from tools.pruning.engine import SourceType

MOST_OUTPUT_BYTES = 10 * 1024 * 1024
OutputBytes = Annotated[
    int | None,
    Field(minimum=1024, maximum=MOST_OUTPUT_BYTES, is_size=True),
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
    # Of some lines of a file, the first of them, the last, and how many the file has.
    start_line: int | None = None
    end_line: int | None = None
    total_lines: int | None = None

    def render(self) -> str:
        return f"{self._header}\n{self.content}"

    @property
    def _header(self) -> str:
        shown = f" lines {self.start_line}–{self.end_line} of {self.total_lines}" if self.start_line else ""
        return f"{self.file_path}{shown} · {self.bytes} bytes{', the start of it' if self.truncated else ''}"

    def summary(self) -> str:
        lines = quantity(line_count(self.content), "line")
        of = f"the first {lines} of" if self.truncated else f"{lines},"
        return f"{of} {self.bytes:,} bytes of {short_path(self.file_path)}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(rest_hint=ASK_FOR_LESS if self.truncated else "")

    @property
    def body(self) -> Body:
        shown = None
        if not self.truncated:
            first, is_whole = self.start_line or 1, self.start_line is None
            shown = ShownText(self._header, self.content, self.file_path, first, is_whole)
        return Body("content", source_type_of(self.file_path), shown=shown)


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
    start_line: Annotated[int | None, Field(is_hidden=True)] = None,
    end_line: Annotated[int | None, Field(is_hidden=True)] = None,
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
        if kind := documents.kind_of(file_path, data):
            data = ctx.documents.text(descriptor, kind, file_path, ctx.check).encode()
    is_cut = len(data) > limit
    kept = data[: utf8.boundary(data, limit)] if is_cut else data
    text = ReadText(
        tool="read",
        file_path=file_path,
        encoding=encoding,
        content=kept.decode("utf-8", "replace"),
        truncated=is_cut,
        bytes=len(kept),
        duration_ms=round((time.perf_counter() - began) * 1000),
    )
    return text if start_line is None and end_line is None else _some_lines(text, start_line or 1, end_line or -1)


def _some_lines(text: ReadText, first: int, last: int) -> ReadText:
    """Lines count from 1, and from -1 at the end. Raises OutOfRange."""
    lines = text.content.removesuffix("\n").split("\n")
    total = len(lines)
    first, last = (line if line > 0 else max(total + 1 + line, 1) for line in (first, last))
    if first > total or first > last:
        raise OutOfRange(
            f"there are no lines {first} to {last}: {text.file_path} has {total} lines", fields={"total_lines": total}
        )
    content = "\n".join(lines[first - 1 : last])
    size = len(content.encode("utf-8", "replace"))
    return replace(text, content=content, bytes=size, start_line=first, end_line=min(last, total), total_lines=total)


def source_type_of(path: str) -> SourceType | None:
    """The source type of a path by its suffix; None if the suffix leaves doubt."""
    _, dot, suffix = path.rpartition(".")
    return _SOURCE_TYPES.get(suffix.lower()) if dot else None
