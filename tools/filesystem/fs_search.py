"""fs_search: files and folders by their names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Annotated, Literal, TypedDict

from tools.context import ToolContext
from tools.files.paths import from_wire, on_one_line, to_wire
from tools.files.sources import open_files_below, open_folder
from tools.filesystem.matches import IGNORED_SKIPPED
from tools.kit.errors import Timeout
from tools.kit.params import Field
from tools.kit.results import Body, Item, Result, ResultFacts, quantity, short_path
from tools.kit.spec import tool
from tools.search.engine import LOOK_S, TIME_LIMIT_S
from tools.search.globs import glob_below, read_glob
from tools.search.walk import Walk


class Found(TypedDict):
    path: str
    type: Literal["file", "directory"]


class FoundPaths(Result, frozen=True):
    matches: list[Found]
    truncated: bool | None = None
    ignored_skipped: bool | None = None
    notes: list[str] | None = None
    # Paths in the rendering are relative to it.
    _base: str = ""

    def render(self) -> str:
        header = f"{quantity(len(self.matches), 'match', 'matches')} below {on_one_line(self._base)}"
        if self.truncated:
            header += " · there are more: narrow the glob or raise max_results"
        header = " · ".join([header, *(self.notes or ())])
        start = f"{self._base.rstrip('/')}/"
        names = (
            f"{on_one_line(match['path'].removeprefix(start))}{'/' if match['type'] == 'directory' else ''}"
            for match in self.matches
        )
        return "\n".join([header, *names])

    def summary(self) -> str:
        if not self.matches:
            return "nothing of that name"
        folders = sum(match["type"] == "directory" for match in self.matches)
        kinds = [(len(self.matches) - folders, "file"), (folders, "folder")]
        counts = " and ".join(quantity(number, noun) for number, noun in kinds if number)
        return f"{counts}{', and more' if self.truncated else ''}; the first is {short_path(self.matches[0]['path'])}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(rest_hint="Raise max_results, or narrow the glob: there is more." if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("matches", "list")

    @classmethod
    def item(cls, entry: Found) -> Item:
        return Item(entry["path"], "folder" if entry["type"] == "directory" else "file")


@tool(
    "filesystem",
    effect="read",
    title="Find files by name",
    known_as=("glob", "find_files", "search_files", "file_search", "find"),
)
def fs_search(
    ctx: ToolContext,
    *,
    base: Annotated[str, Field.of_path("Folder to search in.")],
    glob: Annotated[
        str,
        Field(
            description='Such as "*.py" or "src/**/test_*". Folders match too.',
            audited=True,
            aliases=("pattern", "query", "name", "file_pattern", "glob_pattern"),
        ),
    ] = "**",
    max_results: Annotated[int, Field(minimum=1, maximum=1_000_000, is_size=True, aliases=("max_matches",))] = 200,
    recursive: bool = True,
    sort: Annotated[Literal["path", "mtime"], Field(description="mtime: newest first.", audited=True)] = "path",
    ignored: Annotated[bool, Field(description="Include what .gitignore leaves out.")] = False,
) -> FoundPaths:
    """Find files and folders by a glob. Symbolic links are not followed."""
    folder = ctx.paths.resolve(base)
    real = ctx.paths.real(folder)
    shown = to_wire(folder)
    wanted = read_glob(glob_below(glob, shown))
    admits = open_files_below(ctx.paths, folder, real)
    start = str(folder).rstrip("/") + "/"
    with open_folder(real, shown) as descriptor:

        def walk_for(limit_s: float, *, include_ignored: bool, include_git: bool = True) -> Walk:
            return Walk(
                real,
                wanted,
                folder=descriptor,
                include_ignored=include_ignored,
                include_git=include_git,
                is_recursive=recursive,
                listings=ctx.listings,
                device=os.fstat(descriptor).st_dev if ctx.paths.is_local(real) else None,
                check=_limit(ctx, limit_s),
            )

        walk = walk_for(TIME_LIMIT_S, include_ignored=ignored)
        # Of those in the order of paths one more than is shown, to know whether there are more.
        found = _first(walk, start, admits, None if sort == "mtime" else max_results + 1)
        is_skipped = False
        if walk.has_left_out and len(found) <= max_results:
            more = walk_for(LOOK_S, include_ignored=True, include_git=False)
            try:
                is_skipped = len(_first(more, start, admits, len(found) + 1)) > len(found)
            except Timeout:
                is_skipped = True
    if sort == "mtime":
        found.sort(key=lambda match: (-_mtime(match["path"]), match["path"]))
    return FoundPaths(
        found[:max_results],
        True if len(found) > max_results else None,
        is_skipped or None,
        [IGNORED_SKIPPED] if is_skipped else None,
        shown,
    )


def _limit(ctx: ToolContext, limit_s: float) -> Callable[[], None]:
    deadline = time.monotonic() + limit_s

    def check() -> None:
        ctx.check()
        if time.monotonic() > deadline:
            raise Timeout(
                f"the search took longer than {limit_s:g} s", hint="search in a smaller folder, one at a time"
            )

    return check


def _first(walk: Walk, base: str, admits: Callable[[bytes], bool] | None, count: int | None) -> list[Found]:
    """The first matches in the order of paths, at least `count` if there are so many. Raises Timeout."""
    found: list[Found] = []
    for prefix, names, is_folder in walk:
        if admits is not None:
            names = [name for name in names if admits(os.fsencode(prefix + name))]
        folder = base + prefix
        kind: Literal["file", "directory"] = "directory" if is_folder else "file"
        found += [{"path": to_wire(folder + name), "type": kind} for name in names]
        if count is not None and len(found) >= count:
            break
    return found


def _mtime(path: str) -> float:
    try:
        return os.stat(from_wire(path)).st_mtime  # noqa: PTH116 - one name for one call
    except OSError:
        return 0.0
