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
from tools.filesystem.ripgrep import OutOfPatience, files, path_order
from tools.params import Field
from tools.paths import on_one_line, told
from tools.results import Result
from tools.spec import tool
from tools.summaries import Item, brief, counted, folders_in

# A walk in order stops at the cut and is the quicker one where there is much to find; it gets this long to show it.
_PATIENCE_S = 0.025
_IN_ORDER_RESULTS = 2_000
_PIECE_BYTES = 512 * 1024


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

    def summary(self) -> str:
        if not self.matches:
            return "nothing of that name"
        folders = folders_in(self.matches)
        kinds = [(len(self.matches) - folders, "file"), (folders, "folder")]
        told = " and ".join(counted(number, noun) for number, noun in kinds if number)
        return f"{told}{', and more' if self.truncated else ''}; the first is {brief(self.matches[0]['path'])}"

    @property
    def listed(self) -> str:
        return "matches"

    @classmethod
    def item(cls, entry: Found) -> Item:
        return Item(entry["path"], "folder" if entry["type"] == "directory" else "file")


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
        found.sort(key=lambda match: (-_modified(folder, match[0]), match[0]))
    else:
        found = search.first(max_results) if max_results <= _IN_ORDER_RESULTS else search.all()
    is_cut = len(found) > max_results
    prefix = shown.rstrip("/") + "/"
    matches: list[Found] = [
        {"path": prefix + path, "type": "directory" if is_folder else "file"} for path, is_folder in found[:max_results]
    ]
    if any(not match["path"].isascii() or "\\" in match["path"] for match in matches):
        for match, (path, _) in zip(matches, found, strict=False):
            match["path"] = prefix + told(path)
    return Matches(matches, True if is_cut else None)


class _Search:
    """One question to the engine, asked in one of two ways. A path is text with foreign bytes as lone surrogates."""

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

    def first(self, count: int) -> list[tuple[str, bool]]:
        """The first matches in the order of paths, at least one more than `count` if there are more."""
        found: list[tuple[str, bool]] = []
        met: set[str] = set()
        rest = b""
        try:
            for piece in self._listed(in_order=True, patience_s=_PATIENCE_S):
                *paths, rest = (rest + piece).split(b"\0")
                # The folders of a path come before it, and after all that came before.
                for path in map(os.fsdecode, paths):
                    found += [(folder, True) for folder in self._folders([path], met)]
                    found += [(each, False) for each in self._files([path])]
                if len(found) > count:
                    break
        except OutOfPatience:
            return self.all()
        return found

    def all(self) -> list[tuple[str, bool]]:
        """Every match, in the order of paths. What the engine has listed is looked through while it goes on."""
        names: list[str] = []
        folders: list[str] = []
        met: set[str] = set()
        is_ascii = True
        for listed in self._whole_paths():
            paths = listed.split("\0")
            names += self._files(paths)
            is_ascii = is_ascii and listed.isascii()
            # Where no path has the end of a name before a slash, no folder has it: the usual case, told at once.
            if self._glob.suffix is None or f"{self._glob.suffix}/" in listed:
                folders += self._folders(paths, met)
        # Part by part, as the engine sorts: a slash comes before every letter.
        if is_ascii and not folders:
            names = [name.replace("/", "\0") for name in names]
            names.sort()
            return [(name.replace("\0", "/"), False) for name in names]
        found = [(name, False) for name in names] + [(folder, True) for folder in folders]
        found.sort(key=lambda match: path_order(os.fsencode(match[0])))
        return found

    def _whole_paths(self) -> Iterator[str]:
        """All paths, in large pieces of whole ones, separated by NUL."""
        kept: list[bytes] = []
        size = 0
        for piece in self._listed(in_order=False, patience_s=None):
            kept.append(piece)
            size += len(piece)
            if size >= _PIECE_BYTES and (cut := piece.rfind(b"\0")) != -1:
                kept[-1] = piece[:cut]
                yield os.fsdecode(b"".join(kept))
                kept, size = [piece[cut + 1 :]], 0
        if last := b"".join(kept).removesuffix(b"\0"):
            yield os.fsdecode(last)

    def _files(self, paths: list[str]) -> list[str]:
        if self._glob.only_folders:
            return []
        suffix = self._glob.suffix
        if suffix is not None:
            found = [path[2:] for path in paths if path.endswith(suffix)]
        else:
            matches = self._glob.pattern.fullmatch
            found = [path[2:] for path in paths if matches(path, 2) is not None]
        return found if self._admits is None else [path for path in found if self._is_admitted(path)]

    def _folders(self, paths: list[str], met: set[str]) -> list[str]:
        """The folders on the way to files that match and were not met before, the outermost first."""
        found: list[str] = []
        for folder in {path[2:].rpartition("/")[0] for path in paths} - met:
            while folder and folder not in met:
                met.add(folder)
                if self._glob.matches(folder) and self._is_admitted(folder):
                    found.append(folder)
                folder = folder.rpartition("/")[0]
        return found[::-1]

    def _is_admitted(self, path: str) -> bool:
        return self._admits is None or self._admits(os.fsencode(path))

    def _listed(self, *, in_order: bool, patience_s: float | None) -> Iterator[bytes]:
        return files(
            self._ctx.engine,
            self._folder,
            names=None,
            depth=self._depth,
            include_ignored=self._include_ignored,
            in_order=in_order,
            check=self._ctx.check,
            patience_s=patience_s,
        )


def _modified(folder: Path, path: str) -> float:
    try:
        return os.stat(folder / path).st_mtime  # noqa: PTH116 - one name for one call
    except OSError:
        return 0.0
