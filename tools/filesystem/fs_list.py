"""fs_list: what is in a folder, and below it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from urllib.parse import unquote_to_bytes

from tools.context import ToolContext
from tools.errors import NotADirectory, ToolError, from_os_error
from tools.params import Field
from tools.paths import told
from tools.results import Result
from tools.spec import tool

_ESCAPED = re.compile("[\udc80-\udcff]")
_CHECK_EVERY = 500
_REPORT_EVERY = 5_000


class Entry(TypedDict):
    path: str
    type: Literal["file", "directory"]
    size: NotRequired[int]
    modified: NotRequired[str]
    symlink: NotRequired[bool]
    special: NotRequired[Literal["fifo", "socket", "device"]]
    error: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Listing(Result):
    path: str
    entries: list[Entry]
    truncated: bool | None = None
    next: str | None = None

    def render(self) -> str:
        count = len(self.entries)
        header = f"{self.path} · {count} entr{'y' if count == 1 else 'ies'}"
        if self.next is not None:
            header += f" · more follow: call again with after={self.next!r}"
        prefix = self.path.rstrip("/") + "/"
        return "\n".join([header, *(_line(entry, prefix) for entry in self.entries)])


@tool("filesystem", effect="read", title="List a folder")
def fs_list(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="Folder to list; absolute, or relative to the working directory.")],
    recursive: Annotated[bool, Field(description="List what is in its folders too.")] = False,
    max_depth: Annotated[int, Field(description="How many levels down, if recursive.", minimum=1)] = 3,
    max_entries: Annotated[int, Field(description="Most entries to give.", minimum=1, maximum=5_000)] = 1_000,
    after: Annotated[str | None, Field(description="The `next` of an earlier answer, to go on from there.")] = None,
) -> Listing:
    """List files and folders, sorted by path. Symbolic links to folders are listed, not entered."""
    base = ctx.paths.resolve(path)
    shown = told(base)
    entries: list[Entry] = []
    last = b""
    try:
        for entry, at in _walk(os.fsencode(base), max_depth if recursive else 1, _place(after)):
            if len(entries) == max_entries:
                return Listing(path=shown, entries=entries, truncated=True, next=_cursor(last))
            entries.append(entry)
            last = at
            if len(entries) % _CHECK_EVERY == 0:
                ctx.check()
                if len(entries) % _REPORT_EVERY == 0:
                    ctx.progress(len(entries), None, f"{len(entries)} entries so far")
    except NotADirectoryError as error:
        raise _not_a_folder(base, shown) from error
    except OSError as error:
        raise from_os_error(error, shown) from error
    return Listing(path=shown, entries=entries)


def _not_a_folder(base: Path, shown: str) -> ToolError:
    try:
        base.stat()
    except OSError as error:
        return from_os_error(error, shown)
    return NotADirectory(f"{shown} is a file, not a folder", hint="read it with fs_read")


def _walk(folder: bytes, depth: int, after: tuple[bytes, ...]) -> Iterator[tuple[Entry, bytes]]:
    """Entries below `folder` in the order of their path components, beginning behind `after`; each with its place.

    Only the folders on the way to `after` are opened again, so a page costs no more than what it shows. The levels
    are kept in a list, because a tree can be deeper than Python lets functions call each other.
    """
    levels = [(_children(folder, after), after)]
    while levels:
        children, rest = levels[-1]
        child = next(children, None)
        if child is None:
            levels.pop()
            continue
        was_given = rest[:1] == (child.name,)
        entry, is_folder = _entry(child)
        if not was_given:
            yield entry, child.path[len(folder) :].lstrip(b"/")
        if is_folder and len(levels) < depth:
            below = rest[1:] if was_given else ()
            try:
                levels.append((_children(child.path, below), below))
            except OSError as error:
                # The folder itself is already listed; what it holds cannot be seen.
                entry["error"] = (error.strerror or "cannot be read").lower()


def _children(folder: bytes, after: tuple[bytes, ...]) -> Iterator[os.DirEntry[bytes]]:
    with os.scandir(folder) as found:
        return iter(sorted((child for child in found if (child.name,) >= after[:1]), key=lambda child: child.name))


def _cursor(place: bytes) -> str:
    """A place in the walk as text. Bytes that are not UTF-8, and the sign that marks them, are written as %XX."""
    text = place.replace(b"%", b"%25").decode("utf-8", "surrogateescape")
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def _place(cursor: str | None) -> tuple[bytes, ...]:
    return tuple(part for part in unquote_to_bytes(cursor or "").split(b"/") if part not in (b"", b"."))


def _entry(child: os.DirEntry[bytes]) -> tuple[Entry, bool]:
    """The entry, and whether a walk may go into it."""
    is_link = child.is_symlink()
    try:
        status = child.stat()
    except OSError:
        # A link that leads nowhere, or a file that went while we looked: tell what is left to tell.
        try:
            status = child.stat(follow_symlinks=False)
        except OSError as error:
            return {"path": told(os.fsdecode(child.path)), "type": "file", "error": str(error.strerror)}, False
    is_folder = stat.S_ISDIR(status.st_mode)
    entry: Entry = {"path": told(os.fsdecode(child.path)), "type": "directory" if is_folder else "file"}
    if not is_folder:
        entry["size"] = status.st_size
    entry["modified"] = _iso(status.st_mtime)
    if is_link:
        entry["symlink"] = True
    special = _special(status.st_mode)
    if special is not None:
        entry["special"] = special
    return entry, is_folder and not is_link


def _special(mode: int) -> Literal["fifo", "socket", "device"] | None:
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return None
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _line(entry: Entry, prefix: str) -> str:
    facts: list[Any] = ["folder" if entry["type"] == "directory" else entry.get("size", "?"), entry.get("modified", "")]
    notes = [entry.get("special"), "symlink" if entry.get("symlink") else None, entry.get("error")]
    name = entry["path"].removeprefix(prefix) + ("/" if entry["type"] == "directory" else "")
    return "\t".join([name, *(str(fact) for fact in facts), *(note for note in notes if note)])
