"""fs_search: files and folders by their names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
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
from tools.search.globs import read_glob
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
    deadline = time.monotonic() + TIME_LIMIT_S

    def check() -> None:
        ctx.check()
        if time.monotonic() > deadline:
            raise Timeout(
                f"the search took longer than {TIME_LIMIT_S:g} s", hint="search in a smaller folder, one at a time"
            )

    walk = Walk(
        folder,
        read_glob(glob),
        include_ignored=ignored,
        is_recursive=recursive,
        listings=ctx.listings,
        device=os.stat(folder).st_dev if ctx.paths.is_local(ctx.paths.real(folder)) else None,  # noqa: PTH116
        check=check,
    )
    admits = open_files_below(ctx.paths, folder)
    # Of those in the order of paths one more than is shown, to know whether there are more.
    found = _first(walk, str(folder).rstrip("/") + "/", admits, None if sort == "mtime" else max_results + 1)
    if sort == "mtime":
        found.sort(key=lambda match: (-_mtime(match["path"]), match["path"]))
    return Matches(found[:max_results], True if len(found) > max_results else None)


def _first(walk: Walk, base: str, admits: Callable[[bytes], bool] | None, count: int | None) -> list[Found]:
    """The first matches in the order of paths, at least `count` if there are so many. Raises Timeout."""
    found: list[Found] = []
    for prefix, names, is_folder in walk:
        if admits is not None:
            names = [name for name in names if admits(os.fsencode(prefix + name))]
        folder = base + prefix
        kind: Literal["file", "directory"] = "directory" if is_folder else "file"
        together = folder + "".join(names)
        if together.isascii() and "\\" not in together:
            found += [{"path": folder + name, "type": kind} for name in names]
        else:
            found += [{"path": to_wire(folder + name), "type": kind} for name in names]
        if count is not None and len(found) >= count:
            break
    return found


def _mtime(path: str) -> float:
    try:
        return os.stat(from_wire(path)).st_mtime  # noqa: PTH116 - one name for one call
    except OSError:
        return 0.0
