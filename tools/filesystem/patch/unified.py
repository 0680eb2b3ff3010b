"""Unified diffs, as `diff -u` and git write them, and as models do: there the counts of lines are often wrong."""

from __future__ import annotations

import re
from typing import NamedTuple

from tools.filesystem.patch.hunks import FileChange, Hunk, malformed

_RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{1,3})')
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_GIT_NAMES = re.compile(r'diff --git ("(?:[^"\\]|\\.)*"|\S+|.+?) ("(?:[^"\\]|\\.)*"|\S+|.+)')
_MODE = re.compile(r"(?:old|new|new file|deleted file) mode (\d{6})")
_PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/", "1/", "2/")
_NULL = "/dev/null"
_NO_ENDING = "\\"


class _Header(NamedTuple):
    """What is said of a file before its hunks. None for a side that is not there."""

    old: str | None
    new: str | None
    kind: str = "update"
    mode: str | None = None


def parse_unified(text: str, path: str | None = None) -> list[FileChange]:
    """The files of a diff; `path` is that of hunks before any header. Raises InvalidParams."""
    reader = _Reader(text.split("\n"))
    changes: list[FileChange] = []
    while reader.at < len(reader.lines):
        line = reader.line
        if line.startswith("diff --git ") or reader.begins_file:
            changes.append(reader.read_file())
        elif line.startswith("@@"):
            if path is None or changes:
                raise malformed(reader.at + 1, "a hunk before the names of its file")
            changes.append(FileChange("update", path, hunks=reader.read_hunks()))
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise malformed(reader.at + 1, "binary files cannot be patched")
        else:
            reader.at += 1
    if not changes:
        raise malformed(1, "it changes no file: begin with *** Begin Patch, --- or diff --git")
    return changes


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def line(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    @property
    def begins_file(self) -> bool:
        following = self.lines[self.at + 1 : self.at + 2]
        return self.line.startswith("--- ") and bool(following) and following[0].startswith("+++ ")

    def read_file(self) -> FileChange:
        start = self.at
        is_git = self.line.startswith("diff --git ")
        header = self._read_git_header() if is_git else _Header("", "")
        old, new = header.old, header.new
        if self.begins_file:
            old, new = _name(self.line[4:]), _name(self.lines[self.at + 1][4:])
            old, new = _without_prefixes(old, new)
            self.at += 2
        hunks = self.read_hunks()
        if header.kind == "add":
            old = None
        elif header.kind == "delete":
            new = None
        if header.kind in ("rename", "copy"):
            old, new = header.old, header.new
        elif old and new:
            # Two names without a rename: the old one is that of a copy that was made for the diff.
            old = new
        path = old or new
        if not path:
            raise malformed(start + 1, "it names no file")
        if not hunks and not is_git:
            raise malformed(start + 1, f"{path} has no hunk")
        change = FileChange("copy" if header.kind == "copy" else "update", path, hunks=hunks)
        if old is None:
            change.kind = "add"
        elif new is None:
            change.kind = "delete"
        elif new != old:
            change.to = new
        if header.mode is not None and header.mode != "100644" and change.kind != "delete":
            change.notes.append(f"mode {header.mode} was left aside")
        return change

    def _read_git_header(self) -> _Header:
        names = _GIT_NAMES.fullmatch(self.line)
        pair = _without_prefixes(_name(names[1]), _name(names[2])) if names else ("", "")
        header = _Header(*pair)
        self.at += 1
        while self.at < len(self.lines):
            line = self.line
            if mode := _MODE.fullmatch(line):
                kind = {"new file": "add", "deleted file": "delete"}.get(line.partition(" mode")[0], header.kind)
                header = header._replace(kind=kind, mode=None if line.startswith("old") else mode[1])
            elif line.startswith(("rename from ", "copy from ")):
                header = header._replace(kind=line.split()[0], old=_name(line.partition(" from ")[2]))
            elif line.startswith(("rename to ", "copy to ")):
                header = header._replace(kind=line.split()[0], new=_name(line.partition(" to ")[2]))
            elif line.startswith(("GIT binary patch", "Binary files ")):
                raise malformed(self.at + 1, "binary files cannot be patched")
            elif not line.startswith(("similarity index ", "dissimilarity index ", "index ")):
                break
            self.at += 1
        return header

    def read_hunks(self) -> list[Hunk]:
        hunks: list[Hunk] = []
        while self.line.startswith("@@"):
            hunks.append(self._read_hunk())
        return hunks

    def _read_hunk(self) -> Hunk:
        found = _RANGE.match(self.line)
        if found is None:
            raise malformed(self.at + 1, "a hunk begins with @@ -line,count +line,count @@")
        counts = [int(found[group]) if found[group] is not None else 1 for group in (2, 4)]
        self.at += 1
        end = self._end_by_counts(*counts)
        if end is None:
            end = self._end_by_signs()
        hunk = Hunk(line=int(found[1]))
        sign = ""
        for line in self.lines[self.at : end]:
            if line.startswith(_NO_ENDING):
                # It is about the line before it: one that goes had no ending, or one that comes has none.
                hunk.ends = {"-": True, "+": False}.get(sign)
                continue
            sign = line[:1] or " "
            hunk.old += [line[1:]] if sign != "+" else []
            hunk.new += [line[1:]] if sign != "-" else []
        if not hunk.old and not hunk.new:
            raise malformed(self.at, "a hunk without lines")
        self.at = end
        return hunk

    def _end_by_counts(self, old: int, new: int) -> int | None:
        """The line behind a hunk of so many lines; None if the counts cannot be right."""
        at = self.at
        while old > 0 or new > 0:
            if at >= len(self.lines):
                return None
            sign = self.lines[at][:1] or " "
            if sign not in " +-\\" or (not self.lines[at] and at == len(self.lines) - 1):
                return None
            old -= sign in " -"
            new -= sign in " +"
            at += 1
        if old or new:
            return None
        if at < len(self.lines) and self.lines[at].startswith(_NO_ENDING):
            at += 1
        following = self.lines[at] if at < len(self.lines) else ""
        # A line like that of a hunk belongs to it, unless it is the end of a mail or the next file.
        is_over = not following.startswith((" ", "+", "-")) or following.startswith(("--- ", "-- "))
        return at if is_over else None

    def _end_by_signs(self) -> int:
        at = self.at
        while at < len(self.lines):
            line = self.lines[at]
            is_file = line.startswith("--- ") and self.lines[at + 1 : at + 2] and self.lines[at + 1].startswith("+++ ")
            if (line[:1] or " ") not in " +-\\" or is_file:
                break
            at += 1
        # Empty lines at the end separate it from what follows.
        while at > self.at and not self.lines[at - 1]:
            at -= 1
        return at


def _name(text: str) -> str | None:
    """A name as a diff has it: without the time behind it, and without quotes. None for /dev/null."""
    name = text.rstrip("\r").partition("\t")[0].strip() if not text.startswith('"') else text.strip()
    if name.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', name)
        raw = (end[0] if end else name)[1:-1].encode()
        name = _QUOTED.sub(lambda m: _LETTERS.get(m[1]) or _octal(m[1]), raw).decode("utf-8", "surrogateescape")
    return None if name == _NULL else name


def _octal(digits: bytes) -> bytes:
    return bytes([int(digits, 8) & 0xFF]) if digits.isdigit() else digits


def _without_prefixes(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Names without the a/ and b/ that git puts before them."""
    given = [name for name in (old, new) if name is not None]
    if all(name.startswith(_PREFIXES) for name in given):
        return old and old[2:], new and new[2:]
    return old, new
