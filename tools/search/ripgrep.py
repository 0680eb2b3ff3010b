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
from collections.abc import Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from tools.search.engine import (
    LOOK_S,
    Bounds,
    Engine,
    EngineError,
    Hit,
    Hits,
    Program,
    SearchQuery,
    split_lines,
)
from tools.search.globs import Glob, has_single_characters, read_glob
from tools.search.gnu_grep import search_by_grep
from tools.search.ignores import has_ignore_files
from tools.search.recheck import HitCollector

_HEAD_START_S = 0.010
_TYPE = "mcpagent"


def search(engine: Engine, query: SearchQuery, bounds: Bounds) -> Hits:
    """The first lines that match, in the order of paths. Raises EngineError, TooLarge."""
    if engine.kind == "grep":
        return search_by_grep(engine, query, bounds)
    if query.folder is None:
        return _run(engine, query, bounds, in_order=False)
    try:
        head_start = replace(bounds, deadline=time.monotonic() + _HEAD_START_S)
        return _run(engine, query, head_start, in_order=True)
    except EngineError as error:
        if error.kind != "timeout":
            raise
    found = _run(engine, query, bounds, in_order=False)
    if found.is_cut:
        return _run(engine, query, bounds, in_order=True)
    found.hits.sort(key=lambda hit: (_path_order(hit.path), hit.line))
    return found


def leaves_out(engine: Engine, query: SearchQuery, found: Hits, bounds: Bounds) -> bool:
    """Whether there are more matches than `found` in files that ignore files leave out: by searching once more."""
    if query.folder is None or query.include_ignored or found.is_cut:
        return False
    has_rules = has_ignore_files(query.base)
    if found.hits and not has_rules:
        return False
    more = replace(query, include_ignored=True, include_git=False, before=0, after=0)
    bounds = replace(bounds, hits=max(len(found.hits), 1), deadline=min(bounds.deadline, time.monotonic() + LOOK_S))
    try:
        if engine.kind == "grep":
            again = search_by_grep(engine, more, bounds)
        else:
            again = _run(engine, more, bounds, in_order=False)
    except EngineError as error:
        return error.kind == "timeout" and has_rules
    return again.is_cut or len(again.hits) > len(found.hits)


def _run(engine: Engine, query: SearchQuery, bounds: Bounds, *, in_order: bool) -> Hits:
    collector = HitCollector(query, bounds, lambda again, bounds: search(engine, again, bounds).hits)
    reader = _JsonReader(query, collector)
    with _start(engine, query, in_order=in_order) as program:
        for line in split_lines(program.output(bounds), skips_long=query.uses_defaults):
            if reader.take(line):
                break
    # What follows the last match is still wanted around it.
    collector.end_file()
    return Hits(collector.hits, reader.is_cut)


def _start(engine: Engine, query: SearchQuery, *, in_order: bool) -> Program:
    """Start ripgrep on the file or in the folder of a query."""
    arguments = _arguments(engine, query, in_order=in_order)
    folder = query.working_directory
    rules = _rules(query.glob) if folder is not None and query.glob is not None else b""
    if not rules:
        return Program(arguments, folder, query.file, fails_always=query.uses_defaults)
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


def _walk_options(query: SearchQuery, names: Sequence[str] | None, in_order: bool) -> list[str]:
    options = ["--hidden", *(["--no-ignore"] if query.include_ignored else ["--no-require-git", "--no-ignore-global"])]
    options += [] if query.include_ignored and query.include_git else ["--glob", "!.git"]
    # A type and not a glob: a glob that includes would also bring back what .gitignore leaves out.
    for name in names or ():
        options += ["--type-add", f"{_TYPE}:{name}"]
    if names:
        options += ["--type", _TYPE]
    return options + (["--sort", "path"] if in_order else [])


def _arguments(engine: Engine, query: SearchQuery, *, in_order: bool) -> list[str]:
    arguments = [engine.program, "--no-config", "--json"]
    if query.uses_defaults:
        arguments += ["--sort", "path"] if in_order else []
        arguments += ["--no-ignore"] if query.include_ignored else []
    else:
        arguments += ["--no-messages", "--engine", "auto"]
        if query.folder is not None:
            named = query.kind or query.glob
            names = named.names if named is not None and "*" not in named.names else None
            arguments += _walk_options(query, names, in_order)
        if query.is_multiline:
            arguments += ["--multiline", "--multiline-dotall"]
        elif "\n" in query.pattern or (r"\n" in query.pattern and not query.is_fixed):
            arguments.append("--multiline")
    if query.excluded is not None and query.folder is not None:
        arguments += ["--glob", f"!{query.excluded}"]
    if query.ignore_case:
        arguments.append("--ignore-case")
    if query.is_fixed:
        arguments.append("--fixed-strings")
    if query.has_context:
        arguments += ["--before-context", str(query.before), "--after-context", str(query.after)]
    if query.is_by_file:
        arguments += ["--max-count", "1"]
    return [*arguments, "-e", query.pattern, "--", "-" if query.folder is None else "./"]


class _JsonReader:
    """Reads the matches of `rg --json`, and the lines around them, until there are enough."""

    def __init__(self, query: SearchQuery, collector: HitCollector) -> None:
        self._query, self._collector = query, collector
        self._is_folder = query.folder is not None
        # The engine leaves out what it takes such a glob for, and that may be less.
        is_doubtful = query.excluded is not None and has_single_characters(query.excluded)
        self._excluded = read_glob(query.excluded or "") if is_doubtful else None
        # Whether there may be matches that do not count.
        self._is_choosy = (
            query.admits is not None
            or self._excluded is not None
            or (query.glob is not None and (query.kind is not None or not query.glob.is_by_name))
        )
        self.is_cut = False

    def take(self, line: bytes) -> bool:
        """Read one line. True when there is enough."""
        if line.startswith(b'{"type":"match"'):
            self._match(orjson.loads(line)["data"])
        elif line.startswith(b'{"type":"context"'):
            data = orjson.loads(line)["data"]
            lines = data["lines"]
            self._collector.add_beside(data["line_number"], self._text(lines), data["absolute_offset"], _bytes(lines))
        elif line.startswith(b'{"type":"end"'):
            self._collector.end_file()
        return self.is_cut

    def _match(self, data: dict[str, Any]) -> None:
        path = _bytes(data["path"])[2:] if self._is_folder else b""
        if self._is_choosy and not self._counts(path):
            return
        if self._collector.is_full:
            self.is_cut = True
            return
        lines = data["lines"]
        hit = Hit(path, data["line_number"] or 1, self._text(lines), None)
        if data["submatches"]:
            start: int = data["submatches"][0]["start"]
            is_ascii = "text" in lines and hit.text.isascii()
            hit.column = (start if is_ascii else len(_bytes(lines)[:start].decode("utf-8", "replace"))) + 1
        self._collector.add_match(hit, data["absolute_offset"], _bytes(lines))

    def _counts(self, path: bytes) -> bool:
        """Whether a match in that file is one that was asked for."""
        query = self._query
        name = os.fsdecode(path)
        glob = query.glob if self._is_folder else None
        if (glob is not None and not glob.matches(name)) or (self._excluded and self._excluded.matches(name)):
            return False
        return query.admits is None or query.admits(path)

    def _text(self, value: dict[str, str]) -> str:
        text = value.get("text")
        return (self._query.decode(base64.b64decode(value["bytes"])) if text is None else text).rstrip("\r\n")


def _bytes(value: dict[str, str]) -> bytes:
    text = value.get("text")
    return text.encode() if text is not None else base64.b64decode(value["bytes"])
