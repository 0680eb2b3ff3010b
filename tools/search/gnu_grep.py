"""The answer of ripgrep from `grep`, for machines that have no ripgrep: without columns and lines around a match."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator

from tools.search.engine import Bounds, Engine, Hit, Hits, Program, Question, split_lines
from tools.search.globs import read_glob
from tools.search.walk import Walk

_FILES_AT_ONCE = 400


def search_by_grep(engine: Engine, question: Question, bounds: Bounds) -> Hits:
    """The same answer from `grep`. It gets the files of our own walk, or walks itself where it uses its defaults."""
    is_folder = question.file is None
    arguments = [engine.program, "-n", "-H", "-Z", "-I"]
    if question.uses_defaults:
        # -r and not -R, which follows links.
        arguments += ["-r", "-D", "skip", "-F" if question.is_fixed else "-E"]
        batches: Iterable[list[bytes]] = [[b"./"]]
    else:
        arguments += ["-s", "-F" if question.is_fixed else _dialect(engine.program), "-m", str(bounds.hits + 1)]
        files = _files(question, bounds.check)
        batches = iter(lambda: list(itertools.islice(files, _FILES_AT_ONCE)), [])
    arguments += ["-i"] if question.ignore_case else []
    arguments += ["-e", question.pattern, "--"]
    hits: list[Hit] = []
    line_bytes = 0
    for batch in batches if is_folder else [[b"-"]]:
        folder = question.base if is_folder else None
        with Program([*arguments, *batch], folder, question.file, fails_always=question.uses_defaults) as program:
            for path, number, data in _matches(program.output(bounds)):
                name = path.removeprefix(b"./") if is_folder else b""
                if question.admits is not None and not question.admits(name):
                    continue
                if len(hits) == bounds.hits or (bounds.line_bytes is not None and line_bytes >= bounds.line_bytes):
                    return Hits(hits, is_cut=True)
                hits.append(Hit(name, number, question.decode(data).rstrip("\r\n"), None))
                line_bytes += len(data)
        bounds.check()
    return Hits(hits, is_cut=False)


def _matches(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """The path, the line number and the line of every match that `grep -n -H -Z` prints."""
    started = b""
    for line in split_lines(pieces, skips_long=True):
        path, is_whole, rest = (started + line).partition(b"\0")
        # NUL ends the name, because a name may have a line end in it.
        started = b"" if is_whole else started + line + b"\n"
        number, _, data = rest.partition(b":")
        if number.isdigit():
            yield path, int(number), data


def _files(question: Question, check: Callable[[], None]) -> Iterator[bytes]:
    excluded = read_glob(question.excluded) if question.excluded is not None else None
    walk = Walk(question.base, question.glob, include_ignored=question.include_ignored, check=check)
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
