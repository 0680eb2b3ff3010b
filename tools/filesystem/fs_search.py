"""fs_search: files and folders by their names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from tools.context import ToolContext
from tools.files.paths import from_wire, on_one_line, to_wire
from tools.files.sources import open_files_below
from tools.kit.errors import NotADirectory, Timeout, from_os_error
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.kit.summaries import Item, folder_count, quantity, short_path
from tools.search.engine import TIME_LIMIT_S
from tools.search.globs import Glob, read_glob
from tools.search.walk import Walk


class Found(TypedDict):
    path: str
    type: Literal["file", "directory"]


@record
class Matches(Result):
    matches: list[Found]
    truncated: bool | None = None

    def render(self) -> str:
        count = len(self.matches)
        header = f"{count} match{'' if count == 1 else 'es'}"
        if self.truncated:
            header += " · there are more: narrow the glob or raise max_results"
        names = (f"{on_one_line(match['path'])}{'/' if match['type'] == 'directory' else ''}" for match in self.matches)
        return "\n".join([header, *names])

    def summary(self) -> str:
        if not self.matches:
            return "nothing of that name"
        folders = folder_count(self.matches)
        kinds = [(len(self.matches) - folders, "file"), (folders, "folder")]
        counts = " and ".join(quantity(number, noun) for number, noun in kinds if number)
        return f"{counts}{', and more' if self.truncated else ''}; the first is {short_path(self.matches[0]['path'])}"

    @property
    def list_field(self) -> str:
        return "matches"

    @classmethod
    def item(cls, entry: Found) -> Item:
        return Item(entry["path"], "folder" if entry["type"] == "directory" else "file")


@tool("filesystem", effect="read", title="Find files by name")
def fs_search(
    ctx: ToolContext,
    *,
    base: Annotated[str, Field(description="Folder to search in.", audited=True)],
    glob: Annotated[
        str, Field(description='Such as "*.py" or "src/**/test_*". Folders match too.', audited=True)
    ] = "**",
    max_results: Annotated[int, Field(minimum=1, maximum=1_000_000)] = 200,
    recursive: bool = True,
    sort: Annotated[Literal["path", "mtime"], Field(description="mtime: newest first.", audited=True)] = "path",
    ignored: Annotated[bool, Field(description="Include what .gitignore leaves out.")] = False,
) -> Matches:
    """Find files and folders by a glob. Symbolic links are not followed."""
    folder = ctx.paths.resolve(base)
    shown = to_wire(folder)
    try:
        if not folder.is_dir():
            folder.stat()
            raise NotADirectory(f"{shown} is a file, not a folder", hint="give the folder it is in")
    except OSError as error:
        raise from_os_error(error, shown) from error
    search = _Search(ctx, folder, read_glob(glob), recursive, ignored)
    if sort == "mtime":
        found = search.first(None)
        found.sort(key=lambda match: (-_mtime(match["path"]), match["path"]))
    else:
        # One more than is shown, to know whether there are more.
        found = search.first(max_results + 1)
    return Matches(found[:max_results], True if len(found) > max_results else None)


class _Search:
    """One question to the walk."""

    def __init__(self, ctx: ToolContext, folder: Path, glob: Glob, recursive: bool, include_ignored: bool) -> None:
        self._ctx = ctx
        self._admits = open_files_below(ctx.paths, folder)
        self._deadline = time.monotonic() + TIME_LIMIT_S
        self._base = str(folder).rstrip("/") + "/"
        self._walk = Walk(
            folder,
            glob,
            include_ignored=include_ignored,
            is_recursive=recursive,
            listings=ctx.listings,
            device=os.stat(folder).st_dev if ctx.paths.is_local(ctx.paths.real(folder)) else None,  # noqa: PTH116
            check=self._check,
        )

    def first(self, count: int | None) -> list[Found]:
        """The first matches in the order of paths, at least `count` if there are so many. Raises Timeout."""
        found: list[Found] = []
        admits = self._admits
        for prefix, names, is_folder in self._walk:
            if admits is not None:
                names = [name for name in names if admits(os.fsencode(prefix + name))]
            folder = self._base + prefix
            kind: Literal["file", "directory"] = "directory" if is_folder else "file"
            if _is_plain(folder + "".join(names)):
                found += [{"path": folder + name, "type": kind} for name in names]
            else:
                found += [{"path": to_wire(folder + name), "type": kind} for name in names]
            if count is not None and len(found) >= count:
                break
        return found

    def _check(self) -> None:
        self._ctx.check()
        if time.monotonic() > self._deadline:
            raise Timeout(
                f"the search took longer than {TIME_LIMIT_S:g} s", hint="search in a smaller folder, one at a time"
            )


def _is_plain(names: str) -> bool:
    return names.isascii() and "\\" not in names


def _mtime(path: str) -> float:
    try:
        return os.stat(from_wire(path)).st_mtime  # noqa: PTH116 - one name for one call
    except OSError:
        return 0.0
