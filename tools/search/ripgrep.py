"""Searching with ripgrep.

It can search in the order of paths, on one processor, or on all of them in no order. The first is tried for
a moment: it stops at the cut, and is enough where there is little to search or much to find. Then all processors
search, and the complete answer is sorted; one that is cut is asked for again in order.
"""

from __future__ import annotations

import base64
import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from tools.search.engine import Bounds, Engine, EngineError, Hit, Hits, Program, Question, share_context, split_lines
from tools.search.globs import Glob, has_single_characters, read_glob
from tools.search.gnu_grep import search_by_grep
from tools.search.proof import Evidence, verify_hits

_HEAD_START_S = 0.010
_TYPE = "mcpagent"


def search(engine: Engine, question: Question, bounds: Bounds) -> Hits:
    """The first lines that match, in the order of paths. Raises EngineError, TooLarge."""
    if engine.kind == "grep":
        return search_by_grep(engine, question, bounds)
    if question.folder is None:
        return _run(engine, question, bounds, in_order=False)
    try:
        head_start = replace(bounds, deadline=time.monotonic() + _HEAD_START_S)
        return _run(engine, question, head_start, in_order=True)
    except EngineError as error:
        if error.kind != "timeout":
            raise
    found = _run(engine, question, bounds, in_order=False)
    if found.is_cut:
        return _run(engine, question, bounds, in_order=True)
    found.hits.sort(key=lambda hit: (_path_order(hit.path), hit.line))
    return found


def _run(engine: Engine, question: Question, bounds: Bounds, *, in_order: bool) -> Hits:
    def again(file: int) -> list[Hit]:
        return search(engine, replace(question, folder=None, file=file), bounds).hits

    reader = _JsonReader(question, bounds, again)
    with _start(engine, question, in_order=in_order) as program:
        for line in split_lines(program.output(bounds), skips_long=question.uses_defaults):
            if reader.take(line):
                break
    return reader.finish()


def _start(engine: Engine, question: Question, *, in_order: bool) -> Program:
    """Start ripgrep on the file or in the folder of a question."""
    arguments = _arguments(engine, question, in_order=in_order)
    folder = question.working_directory
    rules = _rules(question.glob) if folder is not None and question.glob is not None else b""
    if not rules:
        return Program(arguments, folder, question.file, fails_always=question.uses_defaults)
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(rules)
        return Program([arguments[0], "--ignore-file", "/dev/stdin", *arguments[1:]], folder, reading)
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
    arguments = [engine.program, "--no-config", "--json"]
    if question.uses_defaults:
        arguments += ["--sort", "path"] if in_order else []
    else:
        arguments += ["--no-messages", "--engine", "auto"]
        if question.folder is not None:
            names = question.glob.names if question.glob is not None and "*" not in question.glob.names else None
            arguments += _walk_options(question.include_ignored, names, in_order)
        if "\n" in question.pattern or (r"\n" in question.pattern and not question.is_fixed):
            arguments.append("--multiline")
    if question.excluded is not None and question.folder is not None:
        arguments += ["--glob", f"!{question.excluded}"]
    if question.ignore_case:
        arguments.append("--ignore-case")
    if question.is_fixed:
        arguments.append("--fixed-strings")
    if question.context:
        arguments += ["--context", str(question.context)]
    return [*arguments, "-e", question.pattern, "--", "-" if question.folder is None else "./"]


class _JsonReader:
    """Collects matches out of `rg --json`, and the lines around them, until it has enough."""

    def __init__(self, question: Question, bounds: Bounds, again: Callable[[int], list[Hit]]) -> None:
        """`again` is the same search in one open file."""
        self._question, self._bounds, self._again = question, bounds, again
        self._is_folder = question.folder is not None
        # The engine leaves out what it takes such a glob for, and that may be less.
        is_doubtful = question.excluded is not None and has_single_characters(question.excluded)
        self._excluded = read_glob(question.excluded or "") if is_doubtful else None
        # Whether there may be matches that do not count.
        self._is_choosy = (
            question.admits is not None
            or self._excluded is not None
            or (question.glob is not None and not question.glob.is_by_name)
        )
        self._hits: list[Hit] = []
        self._line_bytes = 0
        self._around: dict[int, str] = {}
        # The hits in the file that is being read, and the lines that must be in it.
        self._file: list[Hit] = []
        self._evidence: list[Evidence] = []
        self._is_cut = False

    def take(self, line: bytes) -> bool:
        """Read one line. True when there is enough."""
        if line.startswith(b'{"type":"match"'):
            self._match(orjson.loads(line)["data"])
        elif line.startswith(b'{"type":"context"'):
            data = orjson.loads(line)["data"]
            self._around[data["line_number"]] = self._text(data["lines"])
            self._evidence.append((data["absolute_offset"], _bytes(data["lines"])))
        elif line.startswith(b'{"type":"end"'):
            self._end_file()
        return self._is_cut

    def finish(self) -> Hits:
        # What follows the last match is still wanted around it.
        self._end_file()
        return Hits(self._hits, self._is_cut)

    def _match(self, data: dict[str, Any]) -> None:
        path = _bytes(data["path"])[2:] if self._is_folder else b""
        if self._is_choosy and not self._counts(path):
            return
        limit_bytes = self._bounds.line_bytes
        if len(self._hits) + len(self._file) >= self._bounds.hits or (
            limit_bytes is not None and self._line_bytes >= limit_bytes
        ):
            self._is_cut = True
            return
        lines = data["lines"]
        hit = Hit(path, data["line_number"] or 1, self._text(lines), None)
        if data["submatches"]:
            start: int = data["submatches"][0]["start"]
            is_ascii = "text" in lines and hit.text.isascii()
            hit.column = (start if is_ascii else len(_bytes(lines)[:start].decode("utf-8", "replace"))) + 1
        self._file.append(hit)
        if self._is_folder:
            self._evidence.append((data["absolute_offset"], _bytes(lines)))
        if limit_bytes is not None:
            self._line_bytes += len(hit.text.encode("utf-8", "replace"))
        if self._question.context:
            self._around[hit.line] = hit.text

    def _counts(self, path: bytes) -> bool:
        """Whether a match in that file is one that was asked for."""
        question = self._question
        name = os.fsdecode(path)
        glob = None if question.glob is None or question.glob.is_by_name or not self._is_folder else question.glob
        if (glob is not None and not glob.matches(name)) or (self._excluded and self._excluded.matches(name)):
            return False
        return question.admits is None or question.admits(path)

    def _text(self, value: dict[str, str]) -> str:
        text = value.get("text")
        return (self._question.decode(base64.b64decode(value["bytes"])) if text is None else text).rstrip("\r\n")

    def _end_file(self) -> None:
        if self._question.context:
            share_context(self._file, self._around, self._question.context)
        if self._file and self._question.folder is not None:
            path = self._file[0].path
            self._hits += verify_hits(self._question.folder, path, self._file, self._evidence, self._again)
        else:
            self._hits += self._file
        self._file, self._around, self._evidence = [], {}, []


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])
