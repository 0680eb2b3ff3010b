"""fs_read: a text file from its start, up to a number of bytes."""

from __future__ import annotations

import os
import stat
from typing import Annotated

from tools.context import ToolContext
from tools.files.revisions import HASHED_BYTES, rev_of_status
from tools.files.sources import is_artifact, is_reference, open_source
from tools.files.text import LOOK_AHEAD_BYTES, UTF_8, decode, refuse_later_binary
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import ArtifactRange, Result
from tools.kit.spec import tool
from tools.kit.summaries import line_count, quantity, short_path

_INSTANT_BYTES = 128 * 1024


@record
class FileText(Result):
    path: str
    content: str
    truncated: bool | None
    size: int
    next_line: int | None = None
    encoding: str | None = None
    rev: str | None = None

    def render(self) -> str:
        shown = f"{self.size} bytes"
        if self.truncated:
            shown = f"the start of {self.size} bytes; go on with fs_read_range from line {self.next_line}"
        notes = [note for note in (self.encoding, f"rev {self.rev}" if self.rev else None) if note]
        return f"{' · '.join([self.path, shown, *notes])}\n{self.content}"

    def summary(self) -> str:
        lines = quantity(line_count(self.content), "line")
        how_many = f"the first {lines} of" if self.truncated else f"{lines},"
        return f"{how_many} {self.size:,} bytes of {short_path(self.path)}"

    @property
    def text_field(self) -> str | None:
        return "content" if is_artifact(self.path) else None

    @property
    def artifact_range(self) -> ArtifactRange | None:
        if not is_artifact(self.path) or self.encoding is not None:
            return None
        return ArtifactRange(self.path, 0, len(self.content.encode()))

    @property
    def is_text(self) -> bool:
        return True


def _is_instant(ctx: ToolContext, *, path: str, max_bytes: int) -> bool:
    if max_bytes > _INSTANT_BYTES or is_reference(path):
        return False
    target = ctx.paths.resolve(path)
    if not ctx.paths.is_local(target):
        return False
    try:
        status = os.lstat(target)
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size <= _INSTANT_BYTES


@tool("filesystem", effect="read", title="Read a file", focus="content", instant=_is_instant)
def fs_read(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="File, ax:// or undo:// reference.", audited=True)],
    max_bytes: Annotated[int, Field(minimum=1, maximum=16_777_216)] = 131_072,
) -> FileText:
    """Read a text file from its start, up to max_bytes. Give its `rev` back as if_rev when you change the file."""
    origin = ctx.source(path)
    with open_source(ctx.paths, origin) as file:
        descriptor, status = file.descriptor, file.status
        # A file whose revision is a hash of its content is read whole, even if less of it is shown.
        is_hashed = status.st_size <= HASHED_BYTES
        data = _read(descriptor, max(max_bytes, HASHED_BYTES if is_hashed else 0) + LOOK_AHEAD_BYTES, status.st_size)
        shown = data[:max_bytes] if len(data) > max_bytes else data
        is_cut = len(data) > max_bytes
        # The size of files in /proc is 0, and in /sys one page, whatever they hold: then what was read counts.
        size = max(status.st_size, len(data)) if is_cut else len(data)
        ahead = data[max_bytes : max_bytes + LOOK_AHEAD_BYTES] if is_cut else b""
        decoded = decode(shown, name=origin.shown, size=size, cut=is_cut, ahead=ahead)
        if is_cut:
            refuse_later_binary(descriptor, len(shown), size, decoded.encoding, origin.shown)
    rev = None
    if not origin.is_kept:
        rev = ctx.revs.of_bytes(data) if is_hashed and len(data) <= HASHED_BYTES else rev_of_status(status)
    return FileText(
        path=origin.shown,
        content=decoded.text,
        truncated=True if is_cut else None,
        size=size,
        next_line=decoded.text.count("\n") + 1 if is_cut else None,
        encoding=None if decoded.encoding is UTF_8 else decoded.encoding.name,
        rev=rev,
    )


def _read(descriptor: int, limit: int, expected: int) -> bytes:
    """Up to `limit` bytes. One read is enough for a file that has the size it says."""
    data = os.read(descriptor, min(limit, expected + 1))
    if len(data) == min(limit, expected) and data:
        return data
    parts = [data]
    missing = limit - len(data)
    while parts[-1] and missing:
        parts.append(os.read(descriptor, missing))
        missing -= len(parts[-1])
    return b"".join(parts)
