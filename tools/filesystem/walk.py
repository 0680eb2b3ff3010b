"""A walk through a folder in the order of path parts, in which ignore files are respected.

Symbolic links are neither followed nor given, nor are pipes, sockets and devices: as ripgrep has it.

The process that walks the later half of a large tree begins by importing this module, and is late by as long as that
takes: so only the smallest modules are imported here, and the one for ignore files when the first of them is met.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from itertools import groupby

# As `typing` has it, without its price.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import TypedDict

    from tools.filesystem.globs import Glob
    from tools.filesystem.ignores import Ignores

    class Question(TypedDict):
        """What is looked for, in words that can be sent to another process.

        All names end in `ending`, and all paths fit `pattern`, if there is one. Folders that do not fit `folders` are
        not entered. `has_rules` says whether there are ignore files above the base.
        """

        base: str
        include_ignored: bool
        has_rules: bool
        ending: str
        pattern: str | None
        folders: str | None
        only_folders: bool

    # Files that follow each other, then the folder that comes after them, if there is one, and the place in it to begin
    # at. Before them the folder they are all in, at the end the rules that hold there.
    _Step = tuple[str, list[str], str | None, Sequence[str], Ignores | None]

_CHECK_EVERY = 100
_IGNORE_FILES = frozenset((".rgignore", ".ignore", ".gitignore", ".git"))
_NOWHERE = "(?!)"

# Names that follow each other in one folder: files, or a single folder, before what is in it, and then the last is
# True. The first is the folder they are in, relative to the base, with a slash at its end; empty for the base itself.
Run = tuple[str, list[str], bool]


def question(base: Path, glob: Glob | None, *, include_ignored: bool, is_recursive: bool = True) -> Question:
    suffix = None if glob is None else glob.suffix
    folders = None if glob is None or glob.folders is None else glob.folders.pattern
    root = os.fspath(base)
    return {
        "base": root,
        "include_ignored": include_ignored,
        "has_rules": not include_ignored and _above(root) is not None,
        "ending": suffix or "",
        "pattern": None if glob is None or suffix is not None else glob.pattern.pattern,
        "folders": folders if is_recursive else _NOWHERE,
        "only_folders": glob is not None and glob.only_folders,
    }


class Walk:
    """Gives what is asked for, in order. What cannot be read is passed over.

    With a `start`, a path below the base, the walk begins there. `check` is called every now and then.
    """

    def __init__(self, asked: Question, check: Callable[[], None], start: str = "") -> None:
        self._root = asked["base"].rstrip("/") + "/"
        self._check = check
        self._include_ignored = asked["include_ignored"]
        self._ending, self._only_folders = asked["ending"], asked["only_folders"]
        self._matches, self._enters = _test(asked["pattern"]), _test(asked["folders"])
        rules = _above(asked["base"]) if asked["has_rules"] else None
        # The next is the last.
        self._ahead = self._steps("", rules, start.split("/") if start else ())

    def __iter__(self) -> Iterator[Run]:
        ahead, ending, matches, enters = self._ahead, self._ending, self._matches, self._enters
        unchecked = 0
        while ahead:
            prefix, files, folder, start, rules = ahead.pop()
            if self._only_folders:
                files = []
            elif matches is not None:
                files = [name for name in files if matches(prefix + name)]
            if files:
                yield prefix, files, False
            if folder is not None:
                path = prefix + folder
                if not start and folder.endswith(ending) and (matches is None or matches(path)):
                    yield prefix, [folder], True
                if enters is None or enters(path):
                    ahead += self._steps(path + "/", rules, start)
            unchecked += 1
            if unchecked == _CHECK_EVERY:
                self._check()
                unchecked = 0

    def without_later_half(self) -> str | None:
        """Leave out the later half of what is ahead. Where that begins, for another walk; None if there is none.

        What is in a folder is not known before it is entered: so all that follow each other in one count the same.
        """
        left, count = 1.0, 0
        for _, steps in groupby(self._ahead, key=_prefix):
            size = sum(1 for _ in steps)
            # One more has been begun: its steps are those of the next group.
            share = left / (size + 1)
            wanted = min(size, int((left - 0.5) / share))
            count += wanted
            left -= wanted * share
            if wanted < size:
                break
        if count == 0:
            return None
        prefix, files, folder, *_ = self._ahead[count - 1]
        del self._ahead[:count]
        return f"{prefix}{files[0] if files else folder}"

    def _steps(self, prefix: str, rules: Ignores | None, start: Sequence[str]) -> list[_Step]:
        """What a folder holds, the first at the end."""
        folder = self._root + prefix
        ending = self._ending
        names: list[str] = []
        files: list[str] = []
        folders: list[str] = []
        try:
            with os.scandir(folder) as found:
                # One loop and no second look at anything: with 100,000 files this is where the time goes.
                for child in found:
                    name = child.name
                    names.append(name)
                    if name.endswith(ending) and child.is_file(follow_symlinks=False):
                        files.append(name)
                    elif child.is_dir(follow_symlinks=False):
                        folders.append(name)
        except OSError:
            return []
        if not self._include_ignored:
            # All ignore files begin with a dot, and one look at all names is quicker than one at each.
            if "/." in "/" + "/".join(names) and not _IGNORE_FILES.isdisjoint(names):
                rules = _entered(folder, rules)
            if rules is not None:
                files = [name for name in files if not rules.leave_out(folder, name, is_folder=False)]
                folders = [name for name in folders if not rules.leave_out(folder, name, is_folder=True)]
        first, *below = start or ("",)
        if first:
            files = [name for name in files if name >= first]
            folders = [name for name in folders if name >= first]
        files.sort()
        folders.sort(reverse=True)
        return _in_order(prefix, files, folders, rules, first, below)


def _test(pattern: str | None) -> Callable[[str], object] | None:
    if pattern is None:
        return None
    import re

    return re.compile(pattern, re.DOTALL).fullmatch


def _above(folder: str) -> Ignores | None:
    """The rules of the folders above, if there are any."""
    from tools.filesystem.ignores import Ignores

    rules = Ignores.above(folder.rstrip("/") + "/")
    return rules if rules.rules else None


def _entered(folder: str, rules: Ignores | None) -> Ignores:
    from tools.filesystem.ignores import Ignores

    return (rules or Ignores()).entered(folder)


def _in_order(
    prefix: str, files: list[str], folders: list[str], rules: Ignores | None, first: str, below: Sequence[str]
) -> list[_Step]:
    """The steps through a folder, the first at the end: of files in order and folders in the opposite one."""
    steps: list[_Step] = []
    end = len(files)
    later: str | None = None
    for name in (*folders, None):
        start = 0 if name is None else bisect_left(files, name, 0, end)
        if later is not None or start < end:
            steps.append((prefix, files[start:end], later, below if later == first else (), rules))
        end, later = start, name
    return steps


def _prefix(step: _Step) -> str:
    return step[0]
