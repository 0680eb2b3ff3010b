"""A walk through a folder in the order of path parts, in which ignore files are respected.

Symbolic links, pipes, sockets and devices are left out, as ripgrep does. Each folder is opened in the open folder above
it and never through a link, so nobody can lead the walk elsewhere by putting a link in the place of a folder.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.files.exact import Descent
from tools.search.globs import Glob
from tools.search.ignores import Ignores
from tools.search.listings import Listing, Listings

_CHECK_EVERY = 100

# Names that follow each other in one folder: files, or a single folder, before what is in it, and then the last is
# True. The first is the folder they are in, relative to the base, with a slash at its end; empty for the base itself.
Run = tuple[str, list[str], bool]
# Files that follow each other, then the folder that comes after them, if there is one.
_Step = tuple[list[str], str | None]
# A folder as a prefix of paths, the rules in it, and what is still to come of it.
_Level = tuple[str, Ignores | None, Iterator[_Step]]


class Walk:
    """Gives what matches the glob, in order. What cannot be read is skipped.

    `base` is the path of the open folder `folder`, with no symbolic link in it. The contents of folders on `device` may
    come from the cache in `listings`. `check` is called now and then.
    """

    def __init__(
        self,
        base: Path,
        glob: Glob | None = None,
        *,
        folder: int,
        include_ignored: bool = False,
        include_git: bool = True,
        is_recursive: bool = True,
        listings: Listings | None = None,
        device: int | None = None,
        check: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._root = os.fspath(base).rstrip("/") + "/"
        self._include_ignored, self._include_git, self._is_recursive = include_ignored, include_git, is_recursive
        # Whether ignore files have left anything out so far.
        self.has_left_out = False
        self._listings, self._device = listings or Listings(), device
        self._check = check
        self._only_folders = glob is not None and glob.only_folders
        # Where the end of a name decides, no path is matched.
        self._ending = (glob.suffix if glob is not None else None) or ""
        self._matches = None if glob is None or self._ending else glob.matches
        self._leads = None if glob is None or glob.folders is None else glob.folders.fullmatch

    def __iter__(self) -> Iterator[Run]:
        nothing = Ignores(self._check)
        above = nothing if self._include_ignored else nothing.above(self._root)
        try:
            listing = self._listings.of(self._root, ".", self._folder, self._device)
        except OSError:
            return
        with contextlib.closing(Descent(self._folder)) as descent:
            yield from self._runs(descent, [("", *self._contents("", listing, above if above.rules else None))])

    def _runs(self, descent: Descent, levels: list[_Level]) -> Iterator[Run]:
        matches, ending = self._matches, self._ending
        unchecked = 0
        while levels:
            prefix, rules, steps = levels[-1]
            for files, folder in steps:
                if self._only_folders:
                    files = []
                elif matches is not None:
                    files = [name for name in files if matches(prefix + name)]
                if files:
                    yield prefix, files, False
                if folder is None:
                    continue
                path = prefix + folder
                if folder.endswith(ending) and (matches is None or matches(path)):
                    yield prefix, [folder], True
                if self._is_recursive and (self._leads is None or self._leads(path)):
                    try:
                        place = f"{path}/"
                        listing = self._listings.of(self._root + place, folder, descent.place(), self._device)
                    except OSError:
                        continue
                    levels.append((place, *self._contents(place, listing, rules)))
                    descent.enter(folder)
                    break
            else:
                levels.pop()
                if levels:
                    descent.leave()
            unchecked += 1
            if unchecked == _CHECK_EVERY:
                self._check()
                unchecked = 0

    def _contents(self, prefix: str, listing: Listing, rules: Ignores | None) -> tuple[Ignores | None, Iterator[_Step]]:
        """The rules that hold in a folder, and what it holds, in order."""
        folder = self._root + prefix
        files, folders, ending = listing.files, listing.folders, self._ending
        if ending:
            files = [name for name in files if name.endswith(ending)]
        if not self._include_ignored:
            if listing.has_ignore_file:
                rules = (rules or Ignores(self._check)).inside(folder)
            if rules is not None:
                kept = [name for name in files if not rules.leave_out(folder, name, is_folder=False)]
                entered = [name for name in folders if not rules.leave_out(folder, name, is_folder=True)]
                ignored = len(files) - len(kept) + len(folders) - len(entered) - (".git" in folders)
                self.has_left_out = self.has_left_out or ignored > 0
                return rules, _steps(kept, entered)
        elif not self._include_git:
            folders = [name for name in folders if name != ".git"]
        return rules, _steps(files, folders)


def _steps(files: list[str], folders: list[str]) -> Iterator[_Step]:
    start = 0
    for folder in folders:
        end = bisect_left(files, folder, start)
        yield files[start:end], folder
        start = end
    yield files[start:], None
