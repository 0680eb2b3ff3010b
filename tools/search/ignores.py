"""Which files the ignore files of a project leave out, as ripgrep decides it.

Those are `.gitignore` and `.git/info/exclude`, and `.ignore` and `.rgignore`, which have the last word: all that are in
the folder of a path or above it. Of each kind, the innermost file with a line that matches decides, and in a file the
last such line. Folders that are left out are not entered, so the folders above a path have been admitted before it.

pathspec is no help here: it decides about files, and asked about a folder its regex for `x/**` matches `x` itself.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from msgspec import Struct

from tools.files import disk
from tools.kit.errors import InvalidPattern
from tools.search.globs import path_pattern

# The later in this list, the less it counts.
_KINDS = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_WILD = re.compile(r"[*?\[\\]")
_TRAILING_SPACES = re.compile(r"(?<!\\) +$")


class _Line(Struct, frozen=True):
    """One pattern, for paths relative to the folder of its file."""

    pattern: re.Pattern[str]
    leaves_out: bool
    only_folders: bool


class _Rules(Struct, frozen=True):
    """One ignore file. `names`, `endings` and `others` are a quick test of a name; nearly every name fails it."""

    kind: str
    root: str
    lines: tuple[_Line, ...]
    names: frozenset[str]
    endings: tuple[str, ...]
    others: re.Pattern[str]

    def verdict(self, folder: str, name: str, is_folder: bool) -> bool | None:
        if name not in self.names and not name.endswith(self.endings) and self.others.match(name) is None:
            return None
        path = (folder + name)[len(self.root) :]
        for line in reversed(self.lines):
            if (is_folder or not line.only_folders) and line.pattern.fullmatch(path) is not None:
                return line.leaves_out
        return None


class Ignores(Struct, frozen=True):
    """All rules in force in one folder, in the order they are asked. Folders are absolute and end in a slash."""

    rules: tuple[_Rules, ...] = ()

    @classmethod
    def above(cls, folder: str) -> Self:
        """The rules that hold in `folder` because of the folders above it."""
        found: list[_Rules] = []
        while folder != "/":
            folder = folder.rstrip("/").rpartition("/")[0] + "/"
            found += _read(folder)
        return cls(_in_order(found))

    def inside(self, folder: str) -> Self:
        """The rules that hold in `folder`."""
        return type(self)(_in_order([*_read(folder), *self.rules]))

    def leave_out(self, folder: str, name: str, *, is_folder: bool) -> bool:
        if name == ".git":
            return True
        for rules in self.rules:
            verdict = rules.verdict(folder, name, is_folder)
            if verdict is not None:
                return verdict
        return False


def _in_order(rules: Iterable[_Rules]) -> tuple[_Rules, ...]:
    """By kind, and innermost first: that is how they come, and sorting keeps it."""
    return tuple(sorted(rules, key=lambda each: _KINDS.index(each.kind)))


def _read(folder: str) -> list[_Rules]:
    found: list[_Rules] = []
    for kind in _KINDS:
        try:
            text = disk.read_small_file(Path(folder + kind)).decode("utf-8", "surrogateescape")
        except OSError:
            continue
        found.append(_rules(kind, folder, text))
    return found


def _rules(kind: str, root: str, text: str) -> _Rules:
    lines: list[_Line] = []
    names: list[str] = []
    endings: list[str] = []
    others: list[str] = []
    for written in text.splitlines():
        body = _TRAILING_SPACES.sub("", written)
        if not body or body.startswith("#"):
            continue
        glob = body.removeprefix("!")
        only_folders = glob.endswith("/")
        parts = glob.removesuffix("/").split("/")
        if len(parts) == 1:
            parts.insert(0, "**")
        try:
            pattern = re.compile(path_pattern([part for part in parts if part], glob), re.DOTALL)
        except (InvalidPattern, re.error):
            continue
        lines.append(_Line(pattern, not body.startswith("!"), only_folders))
        last = parts[-1]
        if _WILD.search(last) is None:
            names.append(last)
        elif last.startswith("*") and _WILD.search(last[1:]) is None:
            endings.append(last[1:])
        elif "\\" in last or "[^" in last:
            # fnmatch may read this in another way than ignore files do: so the quick test lets every name pass.
            others.append("")
        else:
            others.append(fnmatch.translate(last))
    never = r"(?!)"
    return _Rules(
        kind, root, tuple(lines), frozenset(names), tuple(endings), re.compile("|".join(others) if others else never)
    )
