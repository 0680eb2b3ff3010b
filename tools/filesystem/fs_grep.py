"""fs_grep: lines that match, in a file or in all files of a folder."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files.paths import on_one_line, to_wire
from tools.files.sources import Source, open_files_below, open_folder, open_source
from tools.kit.errors import InvalidPattern, IoError, Timeout, ToolError
from tools.kit.params import Field
from tools.kit.results import Body, Item, Result, ResultFacts, quantity, short_path
from tools.kit.spec import tool
from tools.search.engine import TIME_LIMIT_S, Bounds, EngineError, Hit, SearchQuery
from tools.search.globs import glob_below, read_glob
from tools.search.gnu_grep import limits_of
from tools.search.ripgrep import search

_TEXT_CHARS = 2_000
_LEAD_CHARS = 500
_PLAIN = "to search for it as plain text, pass fixed: true"
# With more matches the files are not counted, because that takes nearly as long as writing the matches.
_COUNTED_MATCHES = 20_000


class FoundLine(TypedDict):
    path: str
    line: int
    text: str
    # Missing where a match has no characters and `grep` searched.
    column: NotRequired[int]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class FoundLines(Result, frozen=True):
    matches: list[FoundLine]
    truncated: bool | None = None
    notes: list[str] | None = None

    def render(self) -> str:
        count = len(self.matches)
        header = f"{count} match{'' if count == 1 else 'es'}"
        if self.truncated:
            header += " · there are more: narrow the search or raise max_matches"
        header = " · ".join([header, *(self.notes or ())])
        lines = [header]
        path = None
        for match in self.matches:
            if match["path"] != path:
                path = match["path"]
                lines.append(on_one_line(path))
            number = match["line"]
            before, after = match.get("before", []), match.get("after", [])
            lines += [f"{number - len(before) + index}-\t{text}" for index, text in enumerate(before)]
            lines.append(f"{number}:\t{match['text']}")
            # A match may have several lines.
            last = number + match["text"].count("\n")
            lines += [f"{last + 1 + index}-\t{text}" for index, text in enumerate(after)]
        return "\n".join(lines)

    def summary(self) -> str:
        return matches_summary(self.matches, is_cut=bool(self.truncated))

    @property
    def facts(self) -> ResultFacts:
        more = "Raise max_matches, or narrow the pattern or the glob: there is more."
        return ResultFacts(rest_hint=more if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("matches", "list", cut=self._cut, line=_line)

    def _cut(self, most: int) -> FoundLines:
        return replace(self, matches=self.matches[:most], truncated=True)

    @classmethod
    def item(cls, entry: FoundLine) -> Item:
        has_context = "before" in entry or "after" in entry
        return Item(f"{entry['path']}:{entry['line']}", entry["text"].strip(), is_whole=not has_context)


def matches_summary(matches: Sequence[Mapping[str, Any]], *, is_cut: bool) -> str:
    """The number of matches and of files, and the file with the most matches. Each match has a `path`."""
    if not matches:
        return "no matches"
    found = f"{'the first ' if is_cut else ''}{quantity(len(matches), 'match', 'matches')}"
    if len(matches) > _COUNTED_MATCHES:
        return f"{found}, the first in {short_path(matches[0]['path'])}"
    counts = Counter(map(itemgetter("path"), matches))
    first, (most, number) = next(iter(counts)), counts.most_common(1)[0]
    if len(counts) == 1:
        return f"{found} in {short_path(first)}"
    where = f"most in {short_path(most)}" if number > 1 else f"the first {short_path(first)}"
    return f"{found} in {quantity(len(counts), 'file')}, {where}"


def _line(entry: FoundLine) -> str:
    around = [*entry.get("before", ()), entry["text"], *entry.get("after", ())]
    return f"{entry['path']}:{entry['line']}:{' '.join(around)}"


@tool(
    "filesystem",
    effect="read",
    title="Search in files",
    focus="allowed",
    known_as=("grep_search", "search_file_content", "search_in_files", "ripgrep", "rg"),
)
def fs_grep(
    ctx: ToolContext,
    *,
    base: Annotated[str, Field.of_path("Folder, file, ax:// or undo:// reference.")],
    pattern: Annotated[str, Field(description="Regex.", min_length=1, aliases=("query", "regex"))],
    glob: Annotated[
        str | None,
        Field(
            description='Such as "*.py" or "src/**/*.{ts,tsx}".',
            audited=True,
            aliases=("include", "file_pattern", "glob_pattern"),
        ),
    ] = None,
    max_matches: Annotated[
        int, Field(minimum=1, maximum=100_000, is_size=True, aliases=("max_results", "head_limit"))
    ] = 200,
    context: Annotated[
        int, Field(description="Lines around each match.", minimum=0, maximum=50, aliases=("context_lines",))
    ] = 0,
    ignore_case: Annotated[bool, Field(aliases=("case_insensitive", "-i"))] = False,
    fixed: Annotated[
        bool, Field(description="The pattern is plain text.", aliases=("fixed_string", "fixed_strings", "literal"))
    ] = False,
    ignored: Annotated[bool, Field(description="Search what .gitignore leaves out, too.")] = False,
) -> FoundLines:
    """Search for lines in files, sorted by path. Read around a match with fs_read_range."""
    for name, text in (("pattern", pattern), ("glob", glob or "")):
        if "\0" in text:
            raise InvalidPattern(f"{name} has a NUL character in it, which no line and no name can have")
    origin = ctx.source(base)
    shown, path = origin.shown, origin.path
    is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for a name that is too long
    is_exclusion = glob is not None and glob.startswith("!")
    named = None if glob is None else glob_below(glob.removeprefix("!"), shown) if is_folder else glob
    real = ctx.paths.real(path) if is_folder and not origin.is_kept else path
    # It is opened here, because its name may mean another by the time that the engine opens it.
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(open_folder(real, shown)) if is_folder else None
        file = None if is_folder else opened.enter_context(open_source(ctx.paths, origin)).descriptor
        query = SearchQuery(
            pattern=pattern,
            base=real,
            folder=folder,
            file=file,
            glob=read_glob(named) if named is not None and not is_exclusion else None,
            excluded=named if is_exclusion else None,
            ignore_case=ignore_case,
            is_fixed=fixed,
            context=context,
            include_ignored=ignored,
            admits=_admits(ctx, origin, real),
        )
        try:
            found = search(ctx.engine, query, Bounds(max_matches, time.monotonic() + TIME_LIMIT_S, ctx.check))
        except EngineError as error:
            raise search_error(error, limit_s=TIME_LIMIT_S, hint=None if fixed else _PLAIN) from error
    prefix = shown.rstrip("/")
    paths: dict[bytes, str] = {}
    matches: list[FoundLine] = []
    for hit in found.hits:
        full = paths.get(hit.path)
        if full is None:
            full = paths[hit.path] = f"{prefix}/{to_wire(os.fsdecode(hit.path))}" if hit.path else shown
        matches.append(_match(hit, full))
    return FoundLines(matches, True if found.is_cut else None, limits_of(ctx.engine))


def _admits(ctx: ToolContext, origin: Source, real: Path) -> Callable[[bytes], bool] | None:
    """Which files may be searched. For an old version of a folder, the rules are those of where it was."""
    if origin.place is None:
        return None
    return open_files_below(ctx.paths, origin.place, ctx.paths.real(origin.place) if origin.is_kept else real)


def search_error(error: EngineError, *, limit_s: float, hint: str | None) -> ToolError:
    """The error of a search that failed. `hint` is for a pattern that cannot be used."""
    if error.kind == "spawn":
        return IoError(f"the search engine cannot be started: {error.message}")
    if error.kind == "timeout":
        return Timeout(
            f"the search took longer than {limit_s:g} s",
            hint="search in a smaller folder, or narrow it with a glob",
        )
    # If ripgrep has tried both of its regex engines, the message of the first is about the usual syntax.
    _, *blocks = re.split(r"\n~{9,}\n", error.message)
    message = blocks[0] if blocks else error.message
    return InvalidPattern(
        message.removeprefix("rg: ").removeprefix("grep: "),
        hint=hint,
    )


def _match(hit: Hit, path: str) -> FoundLine:
    match: FoundLine = {"path": path, "line": hit.line, "text": _around(hit)}
    if hit.column is not None:
        match["column"] = hit.column
    if hit.before:
        match["before"] = [line[:_TEXT_CHARS] for line in hit.before]
    if hit.after:
        match["after"] = [line[:_TEXT_CHARS] for line in hit.after]
    return match


def _around(hit: Hit) -> str:
    """The line; of a long one, the part around the match."""
    text = hit.text
    if len(text) <= _TEXT_CHARS:
        return text
    start = max(min((hit.column or 1) - 1 - _LEAD_CHARS, len(text) - _TEXT_CHARS), 0)
    end = start + _TEXT_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
