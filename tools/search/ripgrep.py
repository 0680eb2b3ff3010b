"""Searching with ripgrep.

It can search in the order of paths, on one processor, or on all of them in no order. The first is tried for
a moment: it stops at the cut, and is enough where there is little to search or much to find. Then all processors
search, and the complete answer is sorted; one that is cut is asked for again in order.
"""

from __future__ import annotations

import base64
import functools
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from tools.kit.errors import TooLarge
from tools.search.engine import TIME_LIMIT_S, Engine, Hit, Hits, Program, Question, plain
from tools.search.globs import Glob, has_single_characters, read_glob
from tools.search.gnu_grep import search_by_grep

_HEAD_START_S = 0.010
_MOST_LINE_BYTES = 64 * 1024 * 1024
_TYPE = "mcpagent"
_MATCH_MARK = b'{"type":"match"'


def search(engine: Engine, question: Question, limit: int, check: Callable[[], None]) -> Hits:
    """The first `limit` lines that match, in the order of paths. Raises InvalidPattern, Timeout."""
    deadline = time.monotonic() + TIME_LIMIT_S
    if engine.kind == "grep":
        return search_by_grep(engine, question, limit, check, deadline)
    reader = functools.partial(_JsonReader, question, limit)
    if question.file is not None:
        with Program(_arguments(engine, question, in_order=False), None, question.file) as program:
            return _read_whole(_lines(program.output(check, deadline)), reader())
    start = functools.partial(_started, engine, question)
    with start(in_order=True) as program:
        # Where little is to be searched, or much is found at once, this is all it takes.
        lines = _lines(program.output(check, deadline, tick_ms=1))
        found = _read(lines, reader(), give_up=time.monotonic() + _HEAD_START_S)
    if found is not None:
        return found
    with start(in_order=False) as program:
        found = _all_or_cut(program.output(check, deadline), reader(), limit)
    if not found.is_cut:
        found.hits.sort(key=lambda hit: (_path_order(hit.path), hit.line))
        return found
    with start(in_order=True) as program:
        return _read_whole(_lines(program.output(check, deadline)), reader())


def _started(engine: Engine, question: Question, *, in_order: bool) -> Program:
    """The engine at work in the folder of a question, or where in it the glob leads."""
    arguments = _arguments(engine, question, in_order=in_order)
    rules = b"" if question.glob is None else _rules(question.glob)
    if not rules:
        return Program(arguments, question.base)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(rules)
        return Program([arguments[0], "--ignore-file", "/dev/stdin", *arguments[1:]], question.base, reading)
    finally:
        os.close(reading)


def _rules(glob: Glob) -> bytes:
    """Rules that keep the engine out of folders in which no match can be: so many that any pipe holds them.

    They are an ignore file, because a glob or a path that names a folder would also bring back what .gitignore
    leaves out.
    """
    rules, above = b"", ""
    for name in glob.lead:
        rule = f"{above}/*\n!{above}/{name}/\n".encode("utf-8", "surrogateescape")
        if len(rules) + len(rule) > select.PIPE_BUF:
            break
        rules += rule
        above += f"/{name}"
    return rules


def _path_order(path: bytes) -> bytes:
    """A key that sorts paths part by part, as the engine does: a slash comes before every letter."""
    return path.replace(b"/", b"\0")


def _walk_options(include_ignored: bool, names: Sequence[str] | None, in_order: bool) -> list[str]:
    options = ["--hidden"]
    options += ["--no-ignore"] if include_ignored else ["--no-require-git", "--no-ignore-global", "--glob", "!.git"]
    # A type and not a glob: a glob that includes would also bring back what .gitignore leaves out.
    for name in names or ():
        options += ["--type-add", f"{_TYPE}:{name}"]
    if names:
        options += ["--type", _TYPE]
    return options + (["--sort", "path"] if in_order else [])


def _arguments(engine: Engine, question: Question, *, in_order: bool) -> list[str]:
    arguments = [engine.program, "--no-config", "--no-messages", "--json", "--engine", "auto"]
    if question.file is None:
        names = question.glob.names if question.glob is not None and "*" not in question.glob.names else None
        arguments += _walk_options(question.include_ignored, names, in_order)
        if question.excluded is not None:
            arguments += ["--glob", f"!{question.excluded}"]
    if question.ignore_case:
        arguments.append("--ignore-case")
    if question.is_fixed:
        arguments.append("--fixed-strings")
    if "\n" in question.pattern or (r"\n" in question.pattern and not question.is_fixed):
        arguments.append("--multiline")
    if question.context:
        arguments += ["--context", str(question.context)]
    return [*arguments, "-e", question.pattern, "--", "./" if question.file is None else "-"]


def _all_or_cut(pieces: Iterable[bytes], reader: _JsonReader, limit: int) -> Hits:
    """Every match, in no order; or that there are more than `limit`, and then none."""
    if reader.is_choosy:
        return _read_whole(_lines(pieces), reader)
    # An answer that will be asked for again is not worth reading: so it is only counted at first.
    kept: list[bytes] = []
    count = 0
    for piece in pieces:
        kept.append(piece)
        count += piece.count(_MATCH_MARK)
        if count > limit:
            return Hits([], is_cut=True)
    return _read_whole(_lines(kept), reader)


def _read_whole(lines: Iterable[bytes], reader: _JsonReader) -> Hits:
    found = _read(lines, reader, give_up=None)
    assert found is not None, "without a time to give up, all is read"
    return found


def _read(lines: Iterable[bytes], reader: _JsonReader, *, give_up: float | None) -> Hits | None:
    """What the reader makes of the lines, or None when it is time to give up."""
    for line in lines:
        if reader.take(line):
            break
        if give_up is not None and time.monotonic() > give_up:
            return None
    return reader.finished()


class _JsonReader:
    """Collects matches out of `rg --json`, and the lines around them."""

    def __init__(self, question: Question, limit: int) -> None:
        self._question, self._limit, self._is_folder = question, limit, question.file is None
        # The engine leaves out what it takes such a glob for, and that may be less.
        is_doubtful = question.excluded is not None and has_single_characters(question.excluded)
        self._excluded = read_glob(question.excluded or "") if is_doubtful else None
        self._hits: list[Hit] = []
        self._around: dict[int, str] = {}
        self._file: list[Hit] = []
        self._is_cut = False

    @property
    def is_choosy(self) -> bool:
        """Whether there may be matches that do not count."""
        glob = self._question.glob
        is_by_name = glob is None or glob.is_by_name
        return self._question.admits is not None or self._excluded is not None or not is_by_name

    def take(self, line: bytes) -> bool:
        """Whether there is enough."""
        if line.startswith(_MATCH_MARK):
            return self._match(orjson.loads(line)["data"])
        if line.startswith(b'{"type":"context"'):
            data = orjson.loads(line)["data"]
            self._around[data["line_number"]] = _text(data["lines"]).rstrip("\r\n")
        elif line.startswith(b'{"type":"end"'):
            self._end_file()
        return False

    def finished(self) -> Hits:
        self._end_file()
        return Hits(self._hits, self._is_cut)

    def _match(self, data: dict[str, Any]) -> bool:
        path = _bytes(data["path"])[2:] if self._is_folder else b""
        question = self._question
        if (
            self._is_folder
            and question.glob is not None
            and not question.glob.is_by_name
            and not question.glob.matches(os.fsdecode(path))
        ):
            return False
        if self._excluded is not None and self._excluded.matches(os.fsdecode(path)):
            return False
        if question.admits is not None and not question.admits(path):
            return False
        if len(self._hits) >= self._limit:
            self._is_cut = True
            # What follows the last match is still wanted around it.
            return True
        lines = data["lines"]
        text = _text(lines)
        submatch = data["submatches"][0] if data["submatches"] else {"start": 0, "end": 0}
        if "text" in lines and text.isascii():
            column, length = submatch["start"] + 1, submatch["end"] - submatch["start"]
        else:
            raw = _bytes(lines)
            column = len(raw[: submatch["start"]].decode("utf-8", "replace")) + 1
            length = len(raw[submatch["start"] : submatch["end"]].decode("utf-8", "replace"))
        hit = Hit(path, data["line_number"] or 1, text.rstrip("\r\n"), column, length)
        self._hits.append(hit)
        if question.context:
            self._file.append(hit)
            self._around[hit.line] = hit.text
        return False

    def _end_file(self) -> None:
        span = self._question.context
        for hit in self._file:
            last = hit.line + hit.text.count("\n")
            hit.before = [self._around[n] for n in range(hit.line - span, hit.line) if n in self._around]
            hit.after = [self._around[n] for n in range(last + 1, last + span + 1) if n in self._around]
        self._file, self._around = [], {}


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines; an empty one where a piece has not brought any."""
    rest = b""
    for piece in pieces:
        *lines, tail = piece.split(b"\n")
        if lines:
            lines[0] = rest + lines[0]
            rest = tail
            yield from lines
        else:
            rest += tail
            if len(rest) > _MOST_LINE_BYTES:
                raise TooLarge(
                    f"a line that matches is longer than {_MOST_LINE_BYTES} bytes", hint="leave that file out by a glob"
                )
            yield b""
    if rest:
        yield rest


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])


def _text(value: dict[str, str]) -> str:
    text = value.get("text")
    return text if text is not None else plain(base64.b64decode(value["bytes"]))
