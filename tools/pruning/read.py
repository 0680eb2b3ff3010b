"""read: a text file, whole or as far as a question needs it."""

from __future__ import annotations

import os
import stat
import time
from typing import Annotated, Literal

from tools.context import ToolContext
from tools.files import utf8
from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import InvalidPath, NotAFile, from_os_error
from tools.kit.params import Field, Issue, invalid_params
from tools.kit.results import ASK_FOR_LESS, Body, Facts, Result, line_count, quantity, short_path
from tools.kit.spec import tool
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
    def facts(self) -> Facts:
        return Facts(rest_hint=ASK_FOR_LESS if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("content", source_type_of(self.file_path))


@tool("pruning", effect="read", title="Read a file with a question", focus="always")
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
    data = _data(ctx, file_path, limit)
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


def _data(ctx: ToolContext, path: str, limit: int) -> bytes:
    """The file as far as the limit, and a little beyond where it is longer."""
    root = ConfinedRoot(ctx.root, ctx.paths.working_directory)
    issues: list[Issue] = []
    place = root.check("file_path", path, issues)
    if place is None:
        raise invalid_params(issues)
    try:
        with root.open(path) as (descriptor, status):
            if stat.S_ISDIR(status.st_mode):
                raise NotAFile(f"{path} is a folder")
            ctx.paths.check(place)
            ctx.paths.check_open(descriptor)
            parts: list[bytes] = []
            missing = limit + 4
            while missing > 0 and (data := os.read(descriptor, missing)):
                parts.append(data)
                missing -= len(data)
    except (OutsideRoot, NotThere) as error:
        raise InvalidPath(str(error)) from error
    except OSError as error:
        raise from_os_error(error, path) from error
    return b"".join(parts)
