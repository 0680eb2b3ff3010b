"""Which files the ignore files of a project leave out, as ripgrep decides it.

Those are `.gitignore` and `.git/info/exclude`, and `.ignore` and `.rgignore`, which have the last word: all that are in
the folder of a path or above it. Of each kind, the innermost file with a line that matches decides, and in a file the
last such line. Folders that are left out are not entered, so the folders above a path have been admitted before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Self

from msgspec import Struct

from tools.files import disk
from tools.kit.errors import InvalidPattern
from tools.kit.path_patterns import name_pattern, path_pattern

# The later in this list, the less it counts.
_KINDS = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
_WILD = re.compile(r"[*?\[\\]")
_MOST_BYTES = 4 * 1024 * 1024
# Of one file; what is above counts.
_MOST_LINES = 10_000
# Longer than any path.
_MOST_LINE_CHARS = 4_096


class _Line:
    """One pattern, for paths relative to the folder of its file."""

    def __init__(self, source: str, *, leaves_out: bool, only_folders: bool) -> None:
        self._source = source
        self.leaves_out, self.only_folders = leaves_out, only_folders

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a name fits the line, because most lines of a long file are never asked."""
        return re.compile(self._source, re.DOTALL)


class _Rules(Struct, frozen=True):
    """One ignore file. `names`, `endings` and `others` are a quick test of a name; nearly every name fails it."""

    kind: str
    root: str
    lines: tuple[_Line, ...]
    names: frozenset[str]
    endings: tuple[str, ...]
    others: re.Pattern[str]

    def may_fit(self, name: str) -> bool:
        return name in self.names or name.endswith(self.endings) or self.others.fullmatch(name) is not None

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Whether the last line that fits leaves out an absolute path; None if no line fits."""
        relative = path[len(self.root) :]
        for line in reversed(self.lines):
            if (is_folder or not line.only_folders) and line.pattern.match(relative) is not None:
                return line.leaves_out
        return None


class Ignores(Struct, frozen=True):
    """All rules in force in one folder, in the order they are asked. Folders are absolute and end in a slash.

    `check` is called for every file of rules that is read or asked line by line: it ends a search that takes too long.
    """

    check: Callable[[], None]
    rules: tuple[_Rules, ...] = ()

    def above(self, folder: str) -> Self:
        """The rules that hold in `folder` because of the folders above it."""
        found: list[_Rules] = []
        while folder != "/":
            folder = folder.rstrip("/").rpartition("/")[0] + "/"
            found += self._read(folder)
        return type(self)(self.check, _in_order(found))

    def inside(self, folder: str) -> Self:
        """The rules that hold in `folder`."""
        return type(self)(self.check, _in_order([*self._read(folder), *self.rules]))

    def leave_out(self, folder: str, name: str, *, is_folder: bool) -> bool:
        if name == ".git":
            return True
        for rules in self.rules:
            if rules.may_fit(name):
                self.check()
                verdict = rules.verdict(folder + name, is_folder)
                if verdict is not None:
                    return verdict
        return False

    def _read(self, folder: str) -> list[_Rules]:
        found: list[_Rules] = []
        for kind in _KINDS:
            try:
                text = disk.read_small_file(folder + kind, _MOST_BYTES).decode("utf-8", "surrogateescape")
            except OSError:
                continue
            self.check()
            found.append(_rules(kind, folder, text))
        return found


def has_ignore_files(folder: Path) -> bool:
    """Whether there are ignore files of a project in a folder or above it."""
    return any((each / kind).exists() for each in (folder, *folder.parents) for kind in _KINDS[:-1])


def _in_order(rules: Iterable[_Rules]) -> tuple[_Rules, ...]:
    """By kind, and innermost first: that is how they come, and sorting keeps it."""
    return tuple(sorted(rules, key=lambda each: _KINDS.index(each.kind)))


def _rules(kind: str, root: str, text: str) -> _Rules:
    lines: list[_Line] = []
    names: set[str] = set()
    endings: set[str] = set()
    others: set[str] = set()
    for written in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        body = _trim(written)
        glob = body.removeprefix("!")
        parts = [part for part in glob.split("/") if part]
        if body.startswith("#") or not parts or len(body) > _MOST_LINE_CHARS:
            continue
        if "/" not in glob.removesuffix("/"):
            parts.insert(0, "**")
        last = parts[-1]
        try:
            source, name = path_pattern(parts), name_pattern(last)
        except InvalidPattern:
            continue
        lines.append(_Line(source, leaves_out=body == glob, only_folders=glob.endswith("/")))
        if _WILD.search(last) is None:
            names.add(last)
        elif last.startswith("*") and _WILD.search(last[1:]) is None:
            endings.add(last[1:])
        else:
            others.add(name)
    quick = re.compile("|".join(others) or r"(?!)", re.DOTALL)
    return _Rules(kind, root, tuple(lines), frozenset(names), tuple(endings), quick)


def _trim(line: str) -> str:
    """The line without the blanks at its end, but for one that has a backslash before it."""
    line = line.removesuffix("\r")
    trimmed = line.rstrip(" ")
    return trimmed + " " if trimmed.endswith("\\") and trimmed != line else trimmed
