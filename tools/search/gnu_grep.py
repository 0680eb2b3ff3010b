"""The answer of ripgrep from `grep`, for machines that have no ripgrep.

`grep` tells where a line begins, and with `-o` where the text that matches begins: a column is the difference, so the
files with matches are searched twice.
"""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tools.kit.errors import InvalidPattern
from tools.search.engine import Bounds, Engine, Hit, Hits, Program, Question, share_context, split_lines
from tools.search.globs import read_glob
from tools.search.proof import Evidence, verify_hits
from tools.search.walk import Walk

_FILES_AT_ONCE = 400


class _Line(NamedTuple):
    """A line that `grep -n -b` prints: one that matches, or with `-C` one beside it.

    `offset` is its place in the file, in bytes; with `-o` it is the place of the match.
    """

    path: bytes
    number: int
    offset: int
    data: bytes
    is_match: bool


def limits_of(engine: Engine) -> list[str] | None:
    """What to say of an answer if it is `grep` that searched."""
    if engine.kind != "grep":
        return None
    limits = "no match across lines, and files that are not UTF-8 may be left out"
    dialect = "" if _dialect(engine.program) == "-P" else r"; a regex has no \d, \w+? and the like (POSIX extended)"
    return [f"searched with grep, because ripgrep is not installed: {limits}{dialect}"]


def search_by_grep(engine: Engine, question: Question, bounds: Bounds) -> Hits:
    """The same answer from `grep`. It gets the files of our own walk, or walks itself where it uses its defaults."""
    arguments = [engine.program, "-n", "-b", "-H", "-Z", "-I"]
    if question.uses_defaults:
        # -r and not -R, which follows links.
        arguments += ["-r", "-D", "skip", "-F" if question.is_fixed else "-E"]
        batches: Iterable[list[bytes]] = [[b"./"]]
    else:
        _check_pattern(question)
        arguments += ["-s", "-F" if question.is_fixed else _dialect(engine.program), "-m", str(bounds.hits + 1)]
        files = _files(question, bounds.check)
        batches = iter(lambda: list(itertools.islice(files, _FILES_AT_ONCE)), [])
    arguments += ["-i"] if question.ignore_case else []
    asked = ["-e", question.pattern, "--"]
    around = ["-C", str(question.context), "--no-group-separator"] if question.context else []
    collected = _HitsByFile(engine, question, bounds)
    is_cut = False
    for batch in [[b"-"]] if question.folder is None else batches:
        is_cut = _collect([*arguments, *around, *asked, *batch], question, bounds, collected)
        bounds.check()
        if is_cut:
            break
    hits = collected.finish()
    if not question.uses_defaults:
        _add_columns([*arguments, "-o", *asked], question, bounds, hits)
    return Hits(hits, is_cut)


def _collect(arguments: Sequence[str | bytes], question: Question, bounds: Bounds, collected: _HitsByFile) -> bool:
    """Collect the matches of one run. True if there are more than are wanted."""
    with _program(arguments, question) as program:
        for line in _lines(program.output(bounds), question):
            if question.admits is not None and not question.admits(line.path):
                continue
            if line.is_match and collected.is_full:
                return True
            collected.add(line)
    return False


class _HitsByFile:
    """Collects matches, and the lines around them. When those of a file are complete, they are verified."""

    def __init__(self, engine: Engine, question: Question, bounds: Bounds) -> None:
        self._engine, self._question, self._bounds = engine, question, bounds
        self._hits: list[Hit] = []
        self._path = b""
        self._file: list[Hit] = []
        self._texts: dict[int, str] = {}
        self._evidence: list[Evidence] = []
        self._line_bytes = 0

    @property
    def is_full(self) -> bool:
        limit_bytes = self._bounds.line_bytes
        count = len(self._hits) + len(self._file)
        return count >= self._bounds.hits or (limit_bytes is not None and self._line_bytes >= limit_bytes)

    def add(self, line: _Line) -> None:
        if line.path != self._path:
            self.finish()
            self._path = line.path
        text = self._texts[line.number] = self._question.decode(line.data).rstrip("\r\n")
        self._evidence.append((line.offset, line.data))
        if line.is_match:
            self._file.append(Hit(line.path, line.number, text, None, start=line.offset, data=line.data))
            self._line_bytes += len(line.data)

    def finish(self) -> list[Hit]:
        """All hits, when there are no more in the last file."""
        folder = self._question.folder
        share_context(self._file, self._texts, self._question.context)
        if self._file and folder is not None:
            self._hits += verify_hits(folder, self._path, self._file, self._evidence, self._search_again)
        else:
            self._hits += self._file
        self._file, self._texts, self._evidence = [], {}, []
        return self._hits

    def _search_again(self, file: int) -> list[Hit]:
        return search_by_grep(self._engine, replace(self._question, folder=None, file=file), self._bounds).hits


def _add_columns(arguments: Sequence[str], question: Question, bounds: Bounds, hits: list[Hit]) -> None:
    """Ask again where in its line each match begins. An empty match is not answered and has no column."""
    waiting = {(hit.path, hit.line): hit for hit in hits if hit.column is None}
    files = list(dict.fromkeys(b"./" + path for path, _ in waiting)) if question.folder is not None else [b"-"]
    if question.file is not None:
        os.lseek(question.file, 0, os.SEEK_SET)
    for start in range(0, len(files) if waiting else 0, _FILES_AT_ONCE):
        with _program([*arguments, *files[start : start + _FILES_AT_ONCE]], question) as program:
            for line in _lines(program.output(bounds), question):
                hit = waiting.pop((line.path, line.number), None)
                # The file may have changed between the two runs.
                if hit is not None and 0 <= line.offset - hit.start <= len(hit.data):
                    hit.column = len(question.decode(hit.data[: line.offset - hit.start])) + 1


def _program(arguments: Sequence[str | bytes], question: Question) -> Program:
    return Program(arguments, question.working_directory, question.file, fails_always=question.uses_defaults)


def _check_pattern(question: Question) -> None:
    """`grep` would take the lines of a pattern for so many patterns."""
    if "\n" in question.pattern or (r"\n" in question.pattern and not question.is_fixed):
        raise InvalidPattern(
            "the pattern has a line end in it, and grep, which searches here because ripgrep is not installed, finds "
            "nothing across lines",
            hint="search for one of its lines, and read around it with fs_read_range",
        )


def _lines(pieces: Iterable[bytes], question: Question) -> Iterator[_Line]:
    """The lines that `grep -n -b -H -Z` prints, with paths that are relative to the folder."""
    started = b""
    for line in split_lines(pieces, skips_long=True):
        path, is_whole, rest = (started + line).partition(b"\0")
        # NUL ends the name, because a name may have a line end in it.
        started = b"" if is_whole else started + line + b"\n"
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        sign = rest[digits : digits + 1]
        offset, _, data = rest[digits + 1 :].partition(sign or b":")
        if digits and offset.isdigit() and sign in (b":", b"-"):
            name = b"" if question.folder is None else path.removeprefix(b"./")
            yield _Line(name, int(rest[:digits]), int(offset), data, sign == b":")


def _files(question: Question, check: Callable[[], None]) -> Iterator[bytes]:
    excluded = read_glob(question.excluded) if question.excluded is not None else None
    assert question.folder is not None, "there is no walk for one file"
    walk = Walk(
        question.base, question.glob, folder=question.folder, include_ignored=question.include_ignored, check=check
    )
    for prefix, names, is_folder in walk:
        for path in () if is_folder else (prefix + name for name in names):
            if excluded is not None and excluded.matches(path):
                continue
            encoded = os.fsencode(path)
            if question.admits is None or question.admits(encoded):
                # A file called "-" would be standard input.
                yield b"./" + encoded


@functools.cache
def _dialect(program: str) -> str:
    """The dialect nearest to ripgrep's."""
    tried = subprocess.run([program, "-P", "-e", r"\d"], input=b"1\n", capture_output=True, check=False)
    return "-P" if tried.returncode == 0 else "-E"
