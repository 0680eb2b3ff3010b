"""fs_search: files and folders by their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from tools.context import ToolContext
from tools.errors import NotADirectory, from_os_error
from tools.filesystem.fs_grep import open_only
from tools.filesystem.globs import Glob, read_glob
from tools.filesystem.ripgrep import OutOfPatience, files
from tools.params import Field
from tools.paths import on_one_line, told
from tools.results import Result
from tools.spec import tool

# A walk in order stops at the cut and is the quicker one where there is much to find; it gets this long to show it.
_PATIENCE_S = 0.025
_IN_ORDER_RESULTS = 2_000


class Found(TypedDict):
    path: str
    type: Literal["file", "directory"]


@dataclass(frozen=True, slots=True)
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


@tool("filesystem", effect="read", title="Find files by name")
def fs_search(
    ctx: ToolContext,
    *,
    base: Annotated[str, Field(description="Folder to search in.")],
    glob: Annotated[str, Field(description='Such as "*.py" or "src/**/test_*". Folders match too.')] = "**",
    max_results: Annotated[int, Field(minimum=1, maximum=1_000_000)] = 200,
    recursive: bool = True,
    sort: Annotated[Literal["path", "mtime"], Field(description="mtime: newest first.")] = "path",
    ignored: Annotated[bool, Field(description="Include what .gitignore leaves out.")] = False,
) -> Matches:
    """Find files and folders by a glob. Symbolic links are not followed."""
    folder = ctx.paths.resolve(base)
    shown = told(folder)
    try:
        if not folder.is_dir():
            folder.stat()
            raise NotADirectory(f"{shown} is a file, not a folder", hint="give the folder it is in")
    except OSError as error:
        raise from_os_error(error, shown) from error
    search = _Search(ctx, folder, read_glob(glob), open_only(ctx, folder), recursive, ignored)
    if sort == "mtime":
        found = search.all()
        found.sort(key=lambda match: (-_modified(folder, match[0]), match[0].split(b"/")))
    elif max_results <= _IN_ORDER_RESULTS:
        found = search.first(max_results)
    else:
        found = search.all()
        found.sort(key=lambda match: match[0].split(b"/"))
    is_cut = len(found) > max_results
    prefix = shown.rstrip("/") + "/"
    matches: list[Found] = [
        {"path": prefix + _shown(path), "type": "directory" if is_folder else "file"}
        for path, is_folder in found[:max_results]
    ]
    return Matches(matches, True if is_cut else None)


class _Search:
    """One question to the engine, asked in one of two ways."""

    def __init__(
        self,
        ctx: ToolContext,
        folder: Path,
        glob: Glob,
        admits: Callable[[bytes], bool] | None,
        recursive: bool,
        include_ignored: bool,
    ) -> None:
        self._ctx, self._folder, self._glob, self._admits = ctx, folder, glob, admits
        self._depth = None if recursive else 1
        self._include_ignored = include_ignored

    def first(self, count: int) -> list[tuple[bytes, bool]]:
        """The first matches in the order of paths, one more than `count` if there are more."""
        try:
            return self._taken(count, patience_s=_PATIENCE_S)
        except OutOfPatience:
            found = self.all()
            found.sort(key=lambda match: match[0].split(b"/"))
            return found

    def _taken(self, count: int, patience_s: float | None) -> list[tuple[bytes, bool]]:
        found: list[tuple[bytes, bool]] = []
        folders: set[bytes] = set()
        for path in self._paths(in_order=True, patience_s=patience_s):
            found += self._new_folders(path, folders)
            if self._is_wanted(path):
                found.append((path, False))
            if len(found) > count:
                break
        return found

    def all(self) -> list[tuple[bytes, bool]]:
        found: list[tuple[bytes, bool]] = []
        folders: set[bytes] = set()
        for path in self._paths(in_order=False, patience_s=None):
            found += self._new_folders(path, folders)
            if self._is_wanted(path):
                found.append((path, False))
        return found

    def _is_wanted(self, path: bytes) -> bool:
        if self._glob.only_folders or not self._glob.matches(path):
            return False
        return self._admits is None or self._admits(path)

    def _new_folders(self, path: bytes, folders: set[bytes]) -> list[tuple[bytes, bool]]:
        """The folders on the way to a file that match and were not met before, the outermost first."""
        parent = path.rpartition(b"/")[0]
        if not parent or parent in folders:
            return []
        new: list[tuple[bytes, bool]] = []
        while parent and parent not in folders:
            folders.add(parent)
            if self._glob.matches(parent) and (self._admits is None or self._admits(parent)):
                new.append((parent, True))
            parent = parent.rpartition(b"/")[0]
        return new[::-1]

    def _paths(self, *, in_order: bool, patience_s: float | None) -> Iterator[bytes]:
        rest = b""
        for piece in files(
            self._ctx.engine,
            self._folder,
            names=None,
            depth=self._depth,
            include_ignored=self._include_ignored,
            in_order=in_order,
            check=self._ctx.check,
            patience_s=patience_s,
        ):
            *paths, tail = piece.split(b"\0")
            if paths:
                paths[0] = rest + paths[0]
                rest = tail
            else:
                rest += tail
            for path in paths:
                yield path[2:] if path.startswith(b"./") else path


def _shown(path: bytes) -> str:
    return told(os.fsdecode(path))


def _modified(folder: Path, path: bytes) -> float:
    try:
        return os.stat(os.path.join(os.fsencode(folder), path)).st_mtime  # noqa: PTH116, PTH118 - paths are bytes
    except OSError:
        return 0.0
