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

from tools.kit.errors import InvalidPattern
from tools.search.engine import Bounds, Engine, Hit, Hits, Program, SearchQuery, split_lines
from tools.search.globs import read_glob
from tools.search.recheck import HitCollector
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


def search_by_grep(engine: Engine, query: SearchQuery, bounds: Bounds) -> Hits:
    """The same answer from `grep`. It gets the files of our own walk, or walks itself where it uses its defaults."""
    arguments = [engine.program, "-n", "-b", "-H", "-Z", "-I"]
    if query.uses_defaults:
        # -r and not -R, which follows links.
        arguments += ["-r", "-D", "skip", "-F" if query.is_fixed else "-E"]
        batches: Iterable[list[bytes]] = [[b"./"]]
    else:
        _check_pattern(query)
        arguments += [
            "-s",
            "-F" if query.is_fixed else _dialect(engine.program),
            "-m",
            "1" if query.is_by_file else str(bounds.hits + 1),
        ]
        files = _files(query, bounds.check)
        batches = iter(lambda: list(itertools.islice(files, _FILES_AT_ONCE)), [])
    arguments += ["-i"] if query.ignore_case else []
    asked = ["-e", query.pattern, "--"]
    around = ["-B", str(query.before), "-A", str(query.after), "--no-group-separator"] if query.has_context else []
    collector = HitCollector(query, bounds, lambda again, bounds: search_by_grep(engine, again, bounds).hits)
    is_cut = False
    for batch in [[b"-"]] if query.folder is None else batches:
        is_cut = _collect([*arguments, *around, *asked, *batch], query, bounds, collector)
        bounds.check()
        if is_cut:
            break
    collector.end_file()
    if not query.uses_defaults:
        _add_columns([*arguments, "-o", *asked], query, bounds, collector.hits)
    return Hits(collector.hits, is_cut)


def _collect(arguments: Sequence[str | bytes], query: SearchQuery, bounds: Bounds, collector: HitCollector) -> bool:
    """Collect the matches of one run. True if there are more than are wanted."""
    path = b""
    with _program(arguments, query) as program:
        for line in _lines(program.output(bounds), query):
            if query.admits is not None and not query.admits(line.path):
                continue
            if line.path != path:
                collector.end_file()
                path = line.path
            text = query.decode(line.data).rstrip("\r\n")
            if not line.is_match:
                collector.add_beside(line.number, text, line.offset, line.data)
            elif collector.is_full:
                return True
            else:
                hit = Hit(line.path, line.number, text, None, start=line.offset, data=line.data)
                collector.add_match(hit, line.offset, line.data)
    collector.end_file()
    return False


def _add_columns(arguments: Sequence[str], query: SearchQuery, bounds: Bounds, hits: list[Hit]) -> None:
    """Ask again where in its line each match begins. An empty match is not answered and has no column."""
    waiting = {(hit.path, hit.line): hit for hit in hits if hit.column is None}
    files = list(dict.fromkeys(b"./" + path for path, _ in waiting)) if query.folder is not None else [b"-"]
    if query.file is not None:
        os.lseek(query.file, 0, os.SEEK_SET)
    for start in range(0, len(files) if waiting else 0, _FILES_AT_ONCE):
        with _program([*arguments, *files[start : start + _FILES_AT_ONCE]], query) as program:
            for line in _lines(program.output(bounds), query):
                hit = waiting.pop((line.path, line.number), None)
                # The file may have changed between the two runs.
                if hit is not None and 0 <= line.offset - hit.start <= len(hit.data):
                    hit.column = len(query.decode(hit.data[: line.offset - hit.start])) + 1


def _program(arguments: Sequence[str | bytes], query: SearchQuery) -> Program:
    return Program(arguments, query.working_directory, query.file, fails_always=query.uses_defaults)


def _check_pattern(query: SearchQuery) -> None:
    """`grep` would take the lines of a pattern for so many patterns."""
    if query.is_multiline or "\n" in query.pattern or (r"\n" in query.pattern and not query.is_fixed):
        raise InvalidPattern(
            "the pattern is about several lines, and grep, which searches here because ripgrep is not installed, finds "
            "nothing across lines",
            hint="search for one of its lines, and read around it with fs_read_range",
        )


def _lines(pieces: Iterable[bytes], query: SearchQuery) -> Iterator[_Line]:
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
            name = b"" if query.folder is None else path.removeprefix(b"./")
            yield _Line(name, int(rest[:digits]), int(offset), data, sign == b":")


def _files(query: SearchQuery, check: Callable[[], None]) -> Iterator[bytes]:
    excluded = read_glob(query.excluded) if query.excluded is not None else None
    assert query.folder is not None, "there is no walk for one file"
    walk = Walk(
        query.base,
        query.glob,
        folder=query.folder,
        include_ignored=query.include_ignored,
        include_git=query.include_git,
        check=check,
    )
    for prefix, names, is_folder in walk:
        for path in () if is_folder else (prefix + name for name in names):
            if (excluded is not None and excluded.matches(path)) or (query.kind and not query.kind.matches(path)):
                continue
            encoded = os.fsencode(path)
            if query.admits is None or query.admits(encoded):
                # A file called "-" would be standard input.
                yield b"./" + encoded


@functools.cache
def _dialect(program: str) -> str:
    """The dialect nearest to ripgrep's. Tried once for each program, which takes 8 ms."""
    tried = subprocess.run([program, "-P", "-e", r"\d"], input=b"1\n", capture_output=True, check=False)
    return "-P" if tried.returncode == 0 else "-E"
