"""artifact_read: what did not fit into a result, part by part to its last byte."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import utf8
from tools.files.sources import Source, open_source
from tools.kit.errors import InvalidParams, OutOfRange
from tools.kit.params import Field
from tools.kit.results import ArtifactRange, Body, Result, ResultFacts, short_path
from tools.kit.spec import tool


class Part(Result, frozen=True):
    ref: str
    content: str
    offset: int
    size: int
    nextCursor: str | None = None  # noqa: N815 - the name that callers of compact responses know
    _data: bytes = b""

    def render(self) -> str:
        header = f"{self.ref} · {len(self._data)} of {self.size} bytes"
        if self.nextCursor is not None:
            header += f" · go on with cursor={self.nextCursor}"
        return f"{header}\n{self.content}"

    def summary(self) -> str:
        return f"bytes {self.offset:,} to {self._end:,} of {self.size:,} of {short_path(self.ref)}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(next_call=None if self.nextCursor is None else f"artifact_read cursor={self.nextCursor}")

    @property
    def body(self) -> Body:
        shown = ArtifactRange(self.ref, self.offset, self._end)
        return Body("content", cut=self._cut, is_asked=True, artifact_range=shown)

    def _cut(self, most: int) -> Part:
        end = utf8.boundary(self._data, most)
        end = self._data.rfind(b"\n", end // 2, end) + 1 or end
        data = self._data[:end]
        return replace(self, content=data.decode("utf-8", "replace"), nextCursor=str(self.offset + end), _data=data)

    @property
    def _end(self) -> int:
        return self.size if self.nextCursor is None else int(self.nextCursor)


@tool("artifacts", effect="read", title="Read an artifact")
def artifact_read(
    ctx: ToolContext,
    *,
    ref: Annotated[
        str,
        Field(description="An artifactRef, ax://…", audited=True, aliases=("artifact_ref", "uri", "path", "artifact")),
    ],
    cursor: Annotated[str | None, Field(description="The nextCursor of an earlier answer.")] = None,
    limit: Annotated[int, Field(description="Most bytes.", minimum=4, maximum=400_000, is_size=True)] = 100_000,
) -> Part:
    """Read what was too large for a result."""
    start = _offset(cursor)
    origin = Source(ctx.artifacts.path_of(ref), ref, None, is_kept=True)
    with open_source(ctx.paths, origin) as file:
        size = file.status.st_size
        if start > size:
            raise OutOfRange(f"cursor {start} is past the end: {ref} has {size} bytes")
        data = _data_at(file.descriptor, start, limit)
    end = start + len(data)
    return Part(ref, data.decode("utf-8", "replace"), start, size, str(end) if end < size else None, data)


def text_at(descriptor: int, start: int, limit: int) -> tuple[str, int]:
    """Text from an offset on, and the offset behind it, which is never inside a character."""
    data = _data_at(descriptor, start, limit)
    return data.decode("utf-8", "replace"), start + len(data)


def _data_at(descriptor: int, start: int, limit: int) -> bytes:
    data = os.pread(descriptor, limit + 1, start)
    return data[: utf8.boundary(data, limit)]


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise InvalidParams(
            f"cursor {cursor[:40]!r} is not one of ours: pass the nextCursor of an earlier answer",
            issues=[{"path": "arguments.cursor", "code": "custom", "message": "custom"}],
        )
    return int(cursor)
