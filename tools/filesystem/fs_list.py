"""fs_list: what is in a folder, and below it."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import disk
from tools.files.exact import LOOK_FLAGS, Descent
from tools.files.paths import from_wire, on_one_line, to_wire
from tools.files.sources import open_folder
from tools.kit.errors import InvalidPath, TooLarge, ToolError
from tools.kit.params import Field
from tools.kit.results import Body, Item, Result, ResultFacts, quantity, short_path
from tools.kit.spec import tool

_CHECK_EVERY = 500
# So many entries are sorted by time at most.
_MOST_SORTED = 100_000


class ListedEntry(TypedDict):
    path: str
    type: Literal["file", "directory"]
    size: NotRequired[int]
    modified: NotRequired[str]
    symlink: NotRequired[bool]
    special: NotRequired[Literal["fifo", "socket", "device"]]
    error: NotRequired[str]


class FolderListing(Result, frozen=True):
    path: str
    entries: list[ListedEntry]
    truncated: bool | None = None
    next: str | None = None
    _has_times: bool = False
    # Of how many these are the newest.
    _newest_of: int | None = None

    def render(self) -> str:
        count = len(self.entries)
        header = f"{on_one_line(self.path)} · {count} entr{'y' if count == 1 else 'ies'}"
        if self._newest_of is not None and self._newest_of > count:
            header += f" · the newest of {self._newest_of}"
        if self.next is not None:
            header += f" · more follow: call again with after={on_one_line(self.next)!r}"
        prefix = self.path.rstrip("/") + "/"
        return "\n".join([header, *(_line(entry, prefix, self._has_times) for entry in self.entries)])

    def summary(self) -> str:
        folders = sum(entry["type"] == "directory" for entry in self.entries)
        kinds = [(folders, "folder"), (len(self.entries) - folders, "file")]
        counts = " and ".join(quantity(number, noun) for number, noun in kinds if number) or "nothing"
        return f"{counts} in {short_path(self.path)}{', and more follow' if self.next is not None else ''}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(next_call=None if self.next is None else "fs_list, after: next")

    @property
    def body(self) -> Body:
        return Body("entries", "list", cut=self._cut)

    def _cut(self, most: int) -> FolderListing | None:
        entries = self.entries[:most]
        place = entries[-1]["path"] if entries and self._newest_of is None else None
        return replace(self, entries=entries, truncated=True, next=place) if entries else None

    @classmethod
    def item(cls, entry: ListedEntry) -> Item:
        size = "folder" if entry["type"] == "directory" else f"{entry.get('size', 0):,} bytes"
        return Item(entry["path"], " · ".join([size, *_notes(entry), entry.get("modified", "")]))


@tool(
    "filesystem",
    effect="read",
    title="List a folder",
    known_as=("list_directory", "list_dir", "list_files", "directory_tree", "ls"),
)
def fs_list(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("Folder; absolute or relative.")],
    recursive: Annotated[bool, Field(description="List what is in its folders too.")] = False,
    max_depth: Annotated[int, Field(description="Levels, if recursive.", minimum=1)] = 3,
    max_entries: Annotated[int, Field(minimum=1, maximum=1_000_000, is_size=True)] = 1_000,
    after: Annotated[str | None, Field(description="The `next` of an earlier answer.")] = None,
    details: Annotated[bool, Field(description="With times.")] = False,
    sort: Annotated[Literal["path", "mtime"], Field(is_hidden=True)] = "path",
) -> FolderListing:
    """List files and folders, sorted by path. Symbolic links to folders are listed, not entered."""
    base = ctx.paths.resolve(path)
    shown = to_wire(base)
    real = ctx.paths.real(base)
    place = () if after is None else _place(after, base, real)
    opened = open_folder(real, shown, hint="read it with fs_read")
    with opened as descriptor, contextlib.closing(Descent(descriptor)) as descent:
        most = max_entries if sort == "path" else _MOST_SORTED
        walk = _Walk(ctx, most, descent, ctx.paths.denial_test(base, real))
        walk.enter(shown.rstrip("/") + "/", max_depth if recursive else 1, place)
    entries = walk.entries
    if sort == "mtime":
        if walk.is_full:
            raise TooLarge(f"{shown} has more than {_MOST_SORTED:,} entries to sort", hint="name a folder in it")
        newest = sorted(entries, key=lambda entry: entry.get("modified", ""), reverse=True)[:max_entries]
        is_cut = True if len(newest) < len(entries) else None
        return FolderListing(shown, newest, is_cut, _has_times=True, _newest_of=len(entries))
    if walk.is_full:
        # Absolute, so that it cannot be taken for a place in another folder.
        return FolderListing(path=shown, entries=entries, truncated=True, next=entries[-1]["path"], _has_times=details)
    return FolderListing(path=shown, entries=entries, _has_times=details)


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


class _Walk:
    """Entries in the order of their path components, until there are enough."""

    def __init__(
        self, ctx: ToolContext, limit: int, descent: Descent, why_closed: Callable[[str], str | None] | None
    ) -> None:
        self._ctx, self._limit, self._descent, self._why_closed = ctx, limit, descent, why_closed
        self._checked = 0
        self.entries: list[ListedEntry] = []
        self.is_full = False

    def enter(self, shown: str, depth: int, after: tuple[str, ...]) -> None:
        """List the folder where the descent begins, from behind `after` on. Raises OSError if it cannot be read.

        Only the folders on the path to `after` are opened again, so a page costs as much as its own entries. The levels
        are kept in a list, because a tree can be deeper than Python lets functions call each other.
        """
        entries, limit = self.entries, self._limit
        levels = [(self._names(".", after), shown, "", after)]
        while levels:
            names, prefix, relative, rest = levels[-1]
            for name in names:
                was_given = rest[:1] == (name,)
                if not was_given and len(entries) >= limit:
                    self.is_full = True
                    return
                entry, is_folder = self._entry(name, prefix, relative)
                if not was_given:
                    entries.append(entry)
                if is_folder and len(levels) < depth:
                    below = rest[1:] if was_given else ()
                    try:
                        inner = self._names(name, below)
                    except OSError as error:
                        # The folder itself is already listed; what it holds cannot be seen.
                        entry["error"] = (error.strerror or "cannot be read").lower()
                        continue
                    levels.append((inner, f"{entry['path']}/", f"{relative}{name}/", below))
                    self._descent.enter(name)
                    break
            else:
                levels.pop()
                if levels:
                    self._descent.leave()
            if len(entries) - self._checked >= _CHECK_EVERY:
                self._look_up()

    def _names(self, folder: str, after: tuple[str, ...]) -> Iterator[str]:
        """The names in a folder of where the descent is, from `after` on, in order. Raises OSError."""
        descriptor = os.open(folder, disk.FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self._descent.place())
        try:
            names = sorted(os.listdir(descriptor))  # noqa: PTH208 - of a descriptor
        finally:
            os.close(descriptor)
        return iter(names[bisect_left(names, after[0]) :] if after else names)

    def _look_up(self) -> None:
        self._ctx.check()
        self._checked = len(self.entries)

    def _entry(self, name: str, prefix: str, relative: str) -> tuple[ListedEntry, bool]:
        """The entry, and whether a walk may go into it."""
        shown = prefix + (name if name.isascii() and "\\" not in name else to_wire(name))
        try:
            status = os.stat(name, dir_fd=self._descent.place(), follow_symlinks=False)
        except OSError as error:
            return {"path": shown, "type": "file", "error": (error.strerror or "cannot be read").lower()}, False
        mode = status.st_mode
        why = None if self._why_closed is None else self._why_closed(relative + name)
        is_link = stat.S_ISLNK(mode)
        if is_link and why is None:
            status, why = self._target(name, status, shown)
            mode = status.st_mode
        if why is not None:
            return {"path": shown, "type": "directory" if stat.S_ISDIR(mode) else "file", "error": why}, False
        modified = _time(int(status.st_mtime))
        if stat.S_ISDIR(mode):
            entry: ListedEntry = {"path": shown, "type": "directory", "modified": modified}
        else:
            entry = {"path": shown, "type": "file", "size": status.st_size, "modified": modified}
        if is_link:
            entry["symlink"] = True
        special = _special(mode)
        if special is not None:
            entry["special"] = special
        return entry, stat.S_ISDIR(mode) and not is_link

    def _target(self, name: str, link: os.stat_result, shown: str) -> tuple[os.stat_result, str | None]:
        """The status of what a link leads to, of the link itself if that is nothing; and why it is closed, if it is."""
        try:
            descriptor = os.open(name, LOOK_FLAGS, dir_fd=self._descent.place())
        except OSError:
            return link, None
        try:
            self._ctx.paths.check_open(descriptor, from_wire(shown))
            return os.fstat(descriptor), None
        except ToolError as error:
            return link, error.message
        finally:
            os.close(descriptor)


def _time(seconds: int) -> str:
    # Not datetime: a file can have a time in a year that datetime does not know.
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _special(mode: int) -> Literal["fifo", "socket", "device"] | None:
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return None
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _line(entry: ListedEntry, prefix: str, has_time: bool) -> str:
    """A folder ends in a slash; of a file the size is told."""
    name = on_one_line(entry["path"].removeprefix(prefix)) + ("/" if entry["type"] == "directory" else "")
    size = [str(entry["size"])] if "size" in entry else []
    return "\t".join([name, *size, *([entry.get("modified", "")] if has_time else ()), *_notes(entry)])


def _notes(entry: ListedEntry) -> list[str]:
    notes = (entry.get("special"), "symlink" if entry.get("symlink") else None, entry.get("error"))
    return [note for note in notes if note]
