"""fs_list: what is in a folder, and below it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tools.context import ToolContext
from tools.files.paths import from_wire, on_one_line, to_wire
from tools.kit.errors import Denied, InvalidPath, NotADirectory, ToolError, from_os_error
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.kit.summaries import Item, folder_count, quantity, short_path

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


@record
class Listing(Result):
    path: str
    entries: list[Entry]
    truncated: bool | None = None
    next: str | None = None

    def render(self) -> str:
        count = len(self.entries)
        header = f"{on_one_line(self.path)} · {count} entr{'y' if count == 1 else 'ies'}"
        if self.next is not None:
            header += f" · more follow: call again with after={on_one_line(self.next)!r}"
        prefix = self.path.rstrip("/") + "/"
        return "\n".join([header, *(_line(entry, prefix) for entry in self.entries)])

    def summary(self) -> str:
        folders = folder_count(self.entries)
        kinds = [(folders, "folder"), (len(self.entries) - folders, "file")]
        counts = " and ".join(quantity(number, noun) for number, noun in kinds if number) or "nothing"
        return f"{counts} in {short_path(self.path)}{', and more follow' if self.next is not None else ''}"

    @property
    def list_field(self) -> str:
        return "entries"

    @classmethod
    def item(cls, entry: Entry) -> Item:
        size = "folder" if entry["type"] == "directory" else f"{entry.get('size', 0):,} bytes"
        return Item(entry["path"], " · ".join([size, *_notes(entry), entry.get("modified", "")]))


@tool("filesystem", effect="read", title="List a folder")
def fs_list(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="Folder; absolute, or relative to the working directory.", audited=True)],
    recursive: Annotated[bool, Field(description="List what is in its folders too.")] = False,
    max_depth: Annotated[int, Field(description="Levels, if recursive.", minimum=1)] = 3,
    max_entries: Annotated[int, Field(minimum=1, maximum=1_000_000)] = 1_000,
    after: Annotated[str | None, Field(description="The `next` of an earlier answer, to go on.")] = None,
) -> Listing:
    """List files and folders, sorted by path. Symbolic links to folders are listed, not entered."""
    base = ctx.paths.resolve(path)
    shown = to_wire(base)
    walk = _Walk(ctx, max_entries, base)
    place = () if after is None else _place(after, base, ctx.paths.real(base))
    try:
        walk.enter(str(base), max_depth if recursive else 1, place)
    except NotADirectoryError as error:
        raise _not_a_folder(base, shown) from error
    except OSError as error:
        raise from_os_error(error, shown) from error
    entries = walk.entries
    if walk.is_full:
        # Absolute, so that it cannot be taken for a place in another folder.
        return Listing(path=shown, entries=entries, truncated=True, next=entries[-1]["path"])
    return Listing(path=shown, entries=entries)


def _place(after: str, base: Path, real: Path) -> tuple[str, ...]:
    """Where to go on, part by part. Raises InvalidPath for a place that is not in this folder."""
    path = Path(os.path.normpath(from_wire(after)))
    if path.is_absolute():
        folder = next((folder for folder in (base, real) if path.is_relative_to(folder)), None)
        parts = None if folder is None else path.relative_to(folder).parts
    else:
        parts = path.parts
        # A relative path, as people write it. If its first part is not here, it belongs to another list.
        if len(parts) > 1 and not os.path.lexists(base / parts[0]):
            parts = None
    if parts is None or ".." in parts:
        raise InvalidPath(
            f"after: {after[:200]} is not in {to_wire(base)}",
            hint="pass the `next` of an earlier answer for the same path",
        )
    return parts


def _not_a_folder(base: Path, shown: str) -> ToolError:
    try:
        base.stat()
    except OSError as error:
        return from_os_error(error, shown)
    return NotADirectory(f"{shown} is a file, not a folder", hint="read it with fs_read")


class _Walk:
    """Entries in the order of their path components, until there are enough."""

    def __init__(self, ctx: ToolContext, limit: int, base: Path) -> None:
        self._ctx, self._limit = ctx, limit
        self._why_closed = ctx.paths.denial_test(base)
        self._base_chars = len(str(base).rstrip("/")) + 1
        self._checked = 0
        self.entries: list[Entry] = []
        self.is_full = False

    def enter(self, folder: str, depth: int, after: tuple[str, ...]) -> None:
        """List `folder`, from behind `after` on. Raises OSError if it cannot be read.

        Only the folders on the way to `after` are opened again, so a page costs no more than what it shows. The
        levels are kept in a list, because a tree can be deeper than Python lets functions call each other.
        """
        entries, limit = self.entries, self._limit
        levels = [(*_children(folder, after), after)]
        while levels:
            children, prefix, rest = levels[-1]
            for child in children:
                was_given = rest[:1] == (child.name,)
                if not was_given and len(entries) >= limit:
                    self.is_full = True
                    return
                entry, is_folder = self._entry(child, prefix)
                if not was_given:
                    entries.append(entry)
                if is_folder and len(levels) < depth:
                    below = rest[1:] if was_given else ()
                    try:
                        levels.append((*_children(child.path, below), below))
                    except OSError as error:
                        # The folder itself is already listed; what it holds cannot be seen.
                        entry["error"] = (error.strerror or "cannot be read").lower()
                        continue
                    break
            else:
                levels.pop()
            if len(entries) - self._checked >= _CHECK_EVERY:
                self._look_up()

    def _look_up(self) -> None:
        count = len(self.entries)
        self._ctx.check()
        if count // _REPORT_EVERY > self._checked // _REPORT_EVERY:
            self._ctx.progress(count, None, f"{count} entries so far")
        self._checked = count

    def _entry(self, child: os.DirEntry[str], prefix: str) -> tuple[Entry, bool]:
        """The entry, and whether a walk may go into it."""
        name = child.name
        shown = prefix + (name if name.isascii() and "\\" not in name else to_wire(name))
        is_link = child.is_symlink()
        if self._why_closed is not None and (why := self._why_entry_closed(child, is_link)) is not None:
            is_folder = child.is_dir(follow_symlinks=False)
            return {"path": shown, "type": "directory" if is_folder else "file", "error": why}, False
        try:
            status = child.stat()
        except OSError:
            # A dangling link, or a file that was removed meanwhile: list it all the same.
            try:
                status = child.stat(follow_symlinks=False)
            except OSError as error:
                return {"path": shown, "type": "file", "error": str(error.strerror)}, False
        mode = status.st_mode
        modified = _time(int(status.st_mtime))
        if stat.S_ISREG(mode) and not is_link:
            return {"path": shown, "type": "file", "size": status.st_size, "modified": modified}, False
        if stat.S_ISDIR(mode):
            entry: Entry = {"path": shown, "type": "directory", "modified": modified}
        else:
            entry = {"path": shown, "type": "file", "size": status.st_size, "modified": modified}
        if is_link:
            entry["symlink"] = True
        special = _special(mode)
        if special is not None:
            entry["special"] = special
        return entry, stat.S_ISDIR(mode) and not is_link

    def _why_entry_closed(self, child: os.DirEntry[str], is_link: bool) -> str | None:
        """Why the entry, or what its link leads to, is closed to the caller; None if it is open."""
        assert self._why_closed is not None, "asked only where something may be closed"
        why = self._why_closed(child.path[self._base_chars :])
        if why is None and is_link:
            try:
                self._ctx.paths.real(Path(child.path))
            except Denied as error:
                return error.message
            except InvalidPath:
                return None
        return why


@lru_cache(maxsize=4096)
def _time(seconds: int) -> str:
    # Not datetime: a file can have a time in a year that datetime does not know.
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _children(folder: str, after: tuple[str, ...]) -> tuple[Iterator[os.DirEntry[str]], str]:
    """What is in a folder from `after` on, in order, and the prefix of each path."""
    with os.scandir(folder) as found:
        children = sorted(found, key=attrgetter("name"))
    if after:
        children = [child for child in children if child.name >= after[0]]
    return iter(children), to_wire(folder).rstrip("/") + "/"


def _special(mode: int) -> Literal["fifo", "socket", "device"] | None:
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return None
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _line(entry: Entry, prefix: str) -> str:
    facts: list[Any] = ["folder" if entry["type"] == "directory" else entry.get("size", "?"), entry.get("modified", "")]
    name = on_one_line(entry["path"].removeprefix(prefix)) + ("/" if entry["type"] == "directory" else "")
    return "\t".join([name, *(str(fact) for fact in facts), *_notes(entry)])


def _notes(entry: Entry) -> list[str]:
    notes = (entry.get("special"), "symlink" if entry.get("symlink") else None, entry.get("error"))
    return [note for note in notes if note]
