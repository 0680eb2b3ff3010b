"""The answer of ripgrep from `grep`, for machines that have no ripgrep: without columns and lines around a match."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator

from tools.search.engine import Engine, Hit, Hits, Program, Question, plain
from tools.search.globs import read_glob
from tools.search.walk import Walk

_FILES_AT_ONCE = 400


def search_by_grep(engine: Engine, question: Question, limit: int, check: Callable[[], None], deadline: float) -> Hits:
    """The same answer from `grep`, fed with the files of our own walk, which is in order already."""
    is_folder = question.file is None
    arguments = [engine.program, "-n", "-H", "-Z", "-I", "-s"]
    arguments.append("-F" if question.is_fixed else _dialect(engine.program))
    if question.ignore_case:
        arguments.append("-i")
    arguments += ["-m", str(limit + 1), "-e", question.pattern, "--"]
    hits: list[Hit] = []
    for batch in _batches(_files(question, check)) if is_folder else [[b"-"]]:
        started = b""
        given = subprocess.DEVNULL if question.file is None else question.file
        with Program([*arguments, *batch], question.base if is_folder else None, given) as program:
            printed = b"".join(program.output(check, deadline))
        for line in printed.removesuffix(b"\n").split(b"\n"):
            path, is_whole, rest = (started + line).partition(b"\0")
            # A name may have a line end in it; what ends the name is NUL.
            started = b"" if is_whole else started + line + b"\n"
            number, _, text = rest.partition(b":")
            if not number.isdigit():
                continue
            if len(hits) == limit:
                return Hits(hits, is_cut=True)
            hits.append(Hit(path if is_folder else b"", int(number), plain(text).rstrip("\r\n"), 1, 0))
        check()
    return Hits(hits, is_cut=False)


def _files(question: Question, check: Callable[[], None]) -> Iterator[bytes]:
    excluded = read_glob(question.excluded) if question.excluded is not None else None
    walk = Walk(question.base, question.glob, include_ignored=question.include_ignored, check=check)
    for prefix, names, is_folder in walk:
        for path in () if is_folder else (prefix + name for name in names):
            if excluded is not None and excluded.matches(path):
                continue
            encoded = os.fsencode(path)
            if question.admits is None or question.admits(encoded):
                yield encoded


@functools.cache
def _dialect(program: str) -> str:
    """The dialect nearest to ripgrep's."""
    tried = subprocess.run([program, "-P", "-e", r"\d"], input=b"1\n", capture_output=True, check=False)
    return "-P" if tried.returncode == 0 else "-E"


def _batches(paths: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for path in paths:
        batch.append(b"./" + path if path.startswith(b"-") else path)
        if len(batch) == _FILES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
