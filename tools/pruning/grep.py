"""grep: lines that match, all of them or those that a question needs."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from tools.context import ToolContext
from tools.files import utf8
from tools.files.exact import path_of_open
from tools.files.sources import open_files_below
from tools.filesystem.fs_grep import search_error
from tools.filesystem.matches import IGNORED_SKIPPED, FoundFiles, FoundLines, Wanted, find, matches_summary
from tools.kit.errors import ToolError
from tools.kit.params import Field, Issue
from tools.kit.results import ASK_FOR_LESS, Body, Item, Result, ResultFacts
from tools.kit.spec import tool
from tools.pruning.bash import DEFAULT_TIMEOUT_MS, TimeoutMs
from tools.pruning.confined import ConfinedRoot, check_folder, confined, open_confined
from tools.pruning.read import MOST_OUTPUT_BYTES, OutputBytes
from tools.search.engine import Bounds, EngineError, Hit, SearchQuery
from tools.search.globs import glob_below, glob_of_type, read_glob
from tools.search.ripgrep import leaves_out, search

DEFAULT_MATCHES = 500
HiddenLines = Annotated[int | None, Field(minimum=0, maximum=1_000, is_hidden=True)]
_PLAIN = "to search for it as plain text, pass fixed_string: true"
_RENDERED = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?:(?P<column>\d+):)?(?P<text>.*)", re.DOTALL)


class PrunerMatch(TypedDict):
    path: str
    line: int
    column: int | None
    text: str


class GrepMatches(Result, frozen=True):
    tool: str
    pattern: str
    paths: list[str]
    matches: list[PrunerMatch]
    truncated: bool
    duration_ms: int
    ignored_skipped: bool | None = None

    def as_object(self) -> dict[str, Any]:
        return {**Result.as_object(self), "match_count": len(self.matches)}

    def render(self) -> str:
        facts = [f"{len(self.matches)} match{'' if len(self.matches) == 1 else 'es'}"]
        if self.truncated:
            facts.append("there are more")
        if self.ignored_skipped:
            facts.append(IGNORED_SKIPPED)
        return "\n".join([f"[{' · '.join(facts)}]", *map(render_match, self.matches)])

    def summary(self) -> str:
        return matches_summary(self.matches, is_cut=bool(self.truncated))

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(rest_hint=ASK_FOR_LESS if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("matches", "list", line=render_match, parse=_parse_match)

    @classmethod
    def item(cls, entry: PrunerMatch) -> Item:
        return Item(f"{entry['path']}:{entry['line']}", entry["text"].strip())


def _root(
    ctx: ToolContext,
    *,
    pattern: str,
    path: str | None = None,
    paths: list[str] | None = None,
    cwd: str | None = None,
    **_: object,
) -> ConfinedRoot:
    """The root, if nothing is wrong with the arguments by their words alone. Raises InvalidParams."""
    named = {f"paths.{index}": each for index, each in enumerate(paths or ())}
    is_ambiguous = path is not None and paths is not None
    return confined(ctx, [*_issues(pattern, is_ambiguous=is_ambiguous)], path=path, cwd=cwd, **named)


@tool("pruning", effect="read", title="Search with a question", deadline_s=600, focus="always", check=_root)
def grep(
    ctx: ToolContext,
    *,
    pattern: Annotated[str, Field(description="Regex.", min_length=1, max_length=10_000, aliases=("query", "regex"))],
    path: Annotated[str | None, Field.of_path("File or folder; default cwd.")] = None,
    paths: Annotated[
        list[str] | None, Field(description="Several, instead of path.", min_length=1, max_length=100)
    ] = None,
    cwd: Annotated[str | None, Field.of_path("Folder, without path.", ("workdir", "working_directory"))] = None,
    fixed_string: Annotated[
        bool, Field(description="The pattern is plain text.", aliases=("fixed", "literal"))
    ] = False,
    case_sensitive: bool = True,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    max_matches: Annotated[
        int, Field(minimum=1, maximum=5_000, is_size=True, aliases=("max_results", "head_limit"))
    ] = DEFAULT_MATCHES,
    max_output_bytes: OutputBytes = None,
    glob: Annotated[str | None, Field(audited=True, is_hidden=True)] = None,
    type_: Annotated[str | None, Field(audited=True, is_hidden=True)] = None,
    context: Annotated[int, Field(minimum=0, maximum=1_000, is_hidden=True)] = 0,
    before: HiddenLines = None,
    after: HiddenLines = None,
    files_only: Annotated[bool, Field(is_hidden=True)] = False,
    count: Annotated[bool, Field(is_hidden=True)] = False,
    multiline: Annotated[bool, Field(is_hidden=True)] = False,
    ignored: Annotated[bool, Field(is_hidden=True)] = False,
    skip: Annotated[int, Field(minimum=0, is_hidden=True)] = 0,
) -> GrepMatches | FoundLines | FoundFiles:
    """Search for lines in files; with a question, only the matches that answer it."""
    began = time.perf_counter()
    root = _root(ctx, pattern=pattern, path=path, paths=paths, cwd=cwd)
    grep_search = Search(
        ctx,
        root,
        pattern,
        fixed_string,
        case_sensitive,
        timeout_ms,
        max_matches,
        max_output_bytes or MOST_OUTPUT_BYTES,
    )
    wanted = paths or [path if path is not None else cwd or "."]
    options = GrepOptions(
        glob,
        type_,
        context if before is None else before,
        context if after is None else after,
        multiline,
        ignored,
        Wanted(max_matches, skip, files_only, count),
    )
    if options != GrepOptions(wanted=options.wanted._replace(skip=0, files_only=False, counts=False)):
        return grep_search.find(wanted, options)
    matches, is_cut = grep_search.run(wanted, cwd)
    return GrepMatches(
        tool="grep",
        pattern=pattern,
        paths=wanted,
        matches=matches,
        truncated=is_cut,
        duration_ms=round((time.perf_counter() - began) * 1000),
        ignored_skipped=grep_search.ignored_skipped or None,
    )


def render_match(match: PrunerMatch) -> str:
    """One line: `path:line:column:text`, or without the column where there is none."""
    column = "" if match["column"] is None else f"{match['column']}:"
    return f"{match['path']}:{match['line']}:{column}{match['text']}".replace("\n", " ")


def _parse_match(line: str) -> PrunerMatch | None:
    found = _RENDERED.fullmatch(line)
    if found is None:
        return None
    column = None if found["column"] is None else int(found["column"])
    return PrunerMatch(path=found["path"], line=int(found["line"]), column=column, text=found["text"])


def _issues(pattern: str, *, is_ambiguous: bool) -> Iterator[Issue]:
    if "\0" in pattern:
        yield Issue("pattern", "custom", "pattern has a NUL character in it, which no line can have")
    if is_ambiguous:
        yield Issue("", "custom", "path and paths exclude each other: pass one of them")


class GrepOptions(NamedTuple):
    """What the contract of the tool does not have, and models ask for from habit."""

    glob: str | None = None
    type: str | None = None
    before: int = 0
    after: int = 0
    is_multiline: bool = False
    include_ignored: bool = False
    wanted: Wanted = Wanted(0)


class Search(Struct, eq=False):
    """One search, in one place after another, within one time limit."""

    ctx: ToolContext
    root: ConfinedRoot
    pattern: str
    is_fixed: bool
    is_case_sensitive: bool
    timeout_ms: int
    most_matches: int
    bytes_left: int
    # Whether files that are ignored have matches, too.
    ignored_skipped: bool = False

    def run(self, paths: Sequence[str], cwd: str | None) -> tuple[list[PrunerMatch], bool]:
        """The matches, and whether there are more. Raises ToolError."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        matches: list[PrunerMatch] = []
        if cwd is not None:
            with open_confined(self.ctx, self.root, cwd) as (_, status):
                check_folder(cwd, status)
        for path in paths:
            with open_confined(self.ctx, self.root, path) as (descriptor, status):
                if self._add_matches(descriptor, stat.S_ISDIR(status.st_mode), path, deadline, matches):
                    return matches, True
        return matches, False

    def find(self, paths: Sequence[str], options: GrepOptions) -> FoundLines | FoundFiles:
        """The answer as `fs_grep` gives it. Raises ToolError."""
        excluded = options.glob.removeprefix("!") if options.glob is not None and options.glob[:1] == "!" else None
        with contextlib.ExitStack() as opened:
            places: list[tuple[SearchQuery, str]] = []
            for path in paths:
                descriptor, status = opened.enter_context(open_confined(self.ctx, self.root, path))
                shown = self.root.absolute(path)
                query = self._query(descriptor, stat.S_ISDIR(status.st_mode), shown)
                named = None
                if excluded is None and options.glob is not None:
                    named = read_glob(glob_below(options.glob, shown))
                query = replace(
                    query,
                    glob=named,
                    excluded=excluded,
                    kind=None if options.type is None else glob_of_type(options.type),
                    before=options.before,
                    after=options.after,
                    is_multiline=options.is_multiline,
                    include_ignored=options.include_ignored,
                    uses_defaults=False,
                )
                places.append((query, shown))
            try:
                return find(self.ctx, places, options.wanted, self.timeout_ms / 1000)
            except EngineError as error:
                raise self._error(error) from error

    def _error(self, error: EngineError) -> ToolError:
        hint = None if self.is_fixed else _PLAIN
        return search_error(error, limit_s=self.timeout_ms / 1000, hint=hint)

    def _query(self, descriptor: int, is_folder: bool, shown: str) -> SearchQuery:
        # By descriptor: so what was checked is what is searched, also if its name means something else by now.
        place = Path(shown)
        real = path_of_open(descriptor) or place
        return SearchQuery(
            pattern=self.pattern,
            base=real,
            folder=descriptor if is_folder else None,
            file=None if is_folder else descriptor,
            ignore_case=not self.is_case_sensitive,
            is_fixed=self.is_fixed,
            uses_defaults=True,
            admits=open_files_below(self.ctx.paths, place, real) if is_folder else None,
        )

    def _add_matches(
        self, descriptor: int, is_folder: bool, path: str, deadline: float, matches: list[PrunerMatch]
    ) -> bool:
        """Add the matches in a file or folder. True if there are more than may be given."""
        shown = self.root.absolute(path)
        query = self._query(descriptor, is_folder, shown)
        bounds = Bounds(self.most_matches - len(matches), deadline, self.ctx.check, self.bytes_left)
        try:
            found = search(self.ctx.engine, query, bounds)
            self.ignored_skipped = self.ignored_skipped or leaves_out(self.ctx.engine, query, found, bounds)
        except EngineError as error:
            raise self._error(error) from error
        for hit in found.hits:
            below = f"/{os.fsdecode(hit.path)}" if is_folder else ""
            full = f"{shown.rstrip('/') if is_folder else shown}{below}".encode("utf-8", "backslashreplace").decode()
            data = hit.text.encode("utf-8", "surrogatepass")
            if len(data) > self.bytes_left:
                text = data[: utf8.boundary(data, self.bytes_left)].decode("utf-8", "replace")
                matches.append(PrunerMatch(path=full, line=hit.line, column=self._column(hit), text=text))
                return True
            self.bytes_left -= len(data)
            matches.append(PrunerMatch(path=full, line=hit.line, column=self._column(hit), text=hit.text))
        return found.is_cut

    def _column(self, hit: Hit) -> int | None:
        if hit.column is not None or not self.is_fixed:
            return hit.column
        text, pattern = hit.text, self.pattern
        place = text.find(pattern) if self.is_case_sensitive else text.lower().find(pattern.lower())
        return place + 1 if place >= 0 else None
