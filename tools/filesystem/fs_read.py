"""fs_read: a text file from its start, up to a number of bytes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Annotated

from tools.context import ToolContext
from tools.errors import IsSpecial, NotAFile, from_os_error
from tools.params import Field
from tools.paths import told
from tools.results import Result
from tools.spec import tool
from tools.text import LOOK_AHEAD_BYTES, decode

_INSTANT_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class FileText(Result):
    path: str
    content: str
    truncated: bool | None
    size: int
    encoding: str | None = None

    def render(self) -> str:
        shown = f"the start of {self.size} bytes" if self.truncated else f"{self.size} bytes"
        return f"{self.path} · {shown}\n{self.content}"


def _is_instant(ctx: ToolContext, *, path: str, max_bytes: int) -> bool:
    if max_bytes > _INSTANT_BYTES:
        return False
    target = ctx.paths.resolve(path)
    try:
        return ctx.paths.is_local(target) and not target.is_symlink()
    except OSError:
        # What is wrong with it is said by the tool itself, in its own words.
        return False


@tool("filesystem", effect="read", title="Read a file", instant=_is_instant)
def fs_read(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="File to read; absolute, or relative to the working directory.")],
    max_bytes: Annotated[int, Field(description="Most bytes to read.", minimum=1, maximum=400_000)] = 131_072,
) -> FileText:
    """Read a text file from its start. `truncated` says that it is longer than `max_bytes`."""
    target = ctx.paths.resolve(path)
    shown = told(target)
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        # A socket or a device without a driver cannot be opened at all, and says so in its own words.
        _refuse_special(target, shown)
        raise from_os_error(error, shown) from error
    try:
        status = os.fstat(descriptor)
        _refuse(status.st_mode, shown)
        data = _read(descriptor, max_bytes + LOOK_AHEAD_BYTES, status.st_size)
    except OSError as error:
        raise from_os_error(error, shown) from error
    finally:
        os.close(descriptor)
    is_cut = len(data) > max_bytes
    # Files of /proc say that they are empty, and those of /sys that they are a page; then what was read counts.
    size = max(status.st_size, len(data)) if is_cut else len(data)
    decoded = decode(data[:max_bytes], name=shown, size=size, cut=is_cut, ahead=data[max_bytes:])
    return FileText(
        path=shown,
        content=decoded.text,
        truncated=True if is_cut else None,
        size=size,
        encoding=None if decoded.encoding == "utf-8" else decoded.encoding,
    )


def _read(descriptor: int, limit: int, expected: int) -> bytes:
    """Up to `limit` bytes. One read is enough for a file that has the size it says."""
    data = os.read(descriptor, limit)
    if len(data) == min(limit, expected) and data:
        return data
    parts = [data]
    missing = limit - len(data)
    while parts[-1] and missing:
        parts.append(os.read(descriptor, missing))
        missing -= len(parts[-1])
    return b"".join(parts)


def _refuse(mode: int, shown: str) -> None:
    if stat.S_ISDIR(mode):
        raise NotAFile(f"{shown} is a folder", hint="list it with fs_list")
    if not stat.S_ISREG(mode):
        raise IsSpecial(f"{shown} is a pipe, a socket or a device, and those are never opened")


def _refuse_special(target: os.PathLike[str], shown: str) -> None:
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116 - the same call as open's, without a Path in between
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        _refuse(mode, shown)
