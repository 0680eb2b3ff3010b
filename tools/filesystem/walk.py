"""A walk through a folder in the order of path parts, in which ignore files are respected.

Symbolic links are neither followed nor given, nor are pipes, sockets and devices: as ripgrep has it.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.filesystem.ignores import Ignores

_CHECK_EVERY = 100


class Run(NamedTuple):
    """Names that follow each other in one folder: files, or a single folder, before what is in it.

    `prefix` is the folder relative to the base, with a slash at its end; empty in the base itself.
    """

    prefix: str
    names: list[str]
    is_folder: bool


def walked(
    base: Path,
    *,
    include_ignored: bool,
    depth: int | None = None,
    ending: str = "",
    check: Callable[[], None],
) -> Iterator[Run]:
    """All files below `base` whose names end in `ending`, and all folders. What cannot be read is passed over."""
    root = os.fspath(base).rstrip("/") + "/"
    outer = None if include_ignored else Ignores.above(root)
    levels = [("", *_entered(root, outer, ending))]
    unchecked = 0
    while levels:
        prefix, ignores, steps = levels[-1]
        for files, folder in steps:
            if files:
                yield Run(prefix, files, is_folder=False)
            if folder is None:
                continue
            yield Run(prefix, [folder], is_folder=True)
            if depth is None or len(levels) < depth:
                inner = f"{prefix}{folder}/"
                levels.append((inner, *_entered(root + inner, ignores, ending)))
                break
        else:
            levels.pop()
        unchecked += 1
        if unchecked == _CHECK_EVERY:
            check()
            unchecked = 0


# Files that follow each other, then the folder that comes after them, if there is one.
_Step = tuple[list[str], str | None]


def _entered(folder: str, outer: Ignores | None, ending: str) -> tuple[Ignores | None, Iterator[_Step]]:
    """The rules that hold in a folder, and what it holds, in order."""
    try:
        with os.scandir(folder) as found:
            children = list(found)
    except OSError:
        return outer, iter(())
    files = [child.name for child in children if child.name.endswith(ending) and child.is_file(follow_symlinks=False)]
    folders = [child.name for child in children if child.is_dir(follow_symlinks=False)]
    ignores = outer
    if outer is not None:
        ignores = outer.entered(folder, [child.name for child in children])
        folders = [name for name in folders if not ignores.leave_out(folder, name, is_folder=True)]
        if ignores.rules:
            files = [name for name in files if not ignores.leave_out(folder, name, is_folder=False)]
    files.sort()
    folders.sort()
    return ignores, _steps(files, folders)


def _steps(files: list[str], folders: list[str]) -> Iterator[_Step]:
    start = 0
    for folder in folders:
        end = bisect_left(files, folder, start)
        yield files[start:end], folder
        start = end
    yield files[start:], None
