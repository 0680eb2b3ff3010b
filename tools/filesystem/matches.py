"""The answers of a search in files: lines, the files that have them, or how many each file has."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, NotRequired, TypedDict

from msgspec.structs import replace

from tools.context import ToolContext
from tools.files.paths import on_one_line, to_wire
from tools.kit.results import Body, Item, Result, ResultFacts, quantity, short_path
from tools.search.engine import Bounds, Hit, SearchQuery
from tools.search.gnu_grep import limits_of
from tools.search.ripgrep import leaves_out, search

_TEXT_CHARS = 2_000
_LEAD_CHARS = 500
# With more matches the files are not counted, because that takes nearly as long as writing the matches.
_COUNTED_MATCHES = 20_000
# The most lines that are counted; a larger number is not exact.
_MOST_COUNTED = 100_000
_NARROW = "narrow the search or raise max_matches"
IGNORED_SKIPPED = "ignored files were left out: pass ignored: true"
_REST = "Raise max_matches, or narrow the pattern or the glob: there is more."


class FoundLine(TypedDict):
    path: str
    line: int
    text: str
    # Missing where a match has no characters and `grep` searched.
    column: NotRequired[int]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


class FoundFile(TypedDict):
    path: str
    # How many lines match, where that was asked.
    count: NotRequired[int]


class FoundLines(Result, frozen=True):
    matches: list[FoundLine]
    truncated: bool | None = None
    ignored_skipped: bool | None = None
    notes: list[str] | None = None
    # The folder that was searched; paths in the rendering are relative to it. Empty where that was not one folder.
    _base: str = ""

    def render(self) -> str:
        lines = [_header(quantity(len(self.matches), "match", "matches"), self)]
        path = None
        for match in self.matches:
            if match["path"] != path:
                path = match["path"]
                lines.append(_below(path, self._base))
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
        return ResultFacts(rest_hint=_REST if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("matches", "list", line=_line)

    @classmethod
    def item(cls, entry: FoundLine) -> Item:
        has_context = "before" in entry or "after" in entry
        return Item(f"{entry['path']}:{entry['line']}", entry["text"].strip(), is_whole=not has_context)


class FoundFiles(Result, frozen=True):
    files: list[FoundFile]
    truncated: bool | None = None
    ignored_skipped: bool | None = None
    notes: list[str] | None = None
    _base: str = ""

    def render(self) -> str:
        lines = [_header(quantity(len(self.files), "file"), self)]
        for file in self.files:
            count = f":{file['count']}" if "count" in file else ""
            lines.append(f"{_below(file['path'], self._base)}{count}")
        return "\n".join(lines)

    def summary(self) -> str:
        if not self.files:
            return "no matches"
        found = f"{'the first ' if self.truncated else ''}{quantity(len(self.files), 'file')}"
        return f"{found} with matches, the first {short_path(self.files[0]['path'])}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(rest_hint=_REST if self.truncated else "")

    @property
    def body(self) -> Body:
        return Body("files", "list")

    @classmethod
    def item(cls, entry: FoundFile) -> Item:
        return Item(entry["path"], quantity(entry["count"], "match", "matches") if "count" in entry else "file")


class Wanted(NamedTuple):
    """What of the matches is given: at most so many lines or files, behind those that are skipped."""

    most: int
    skip: int = 0
    files_only: bool = False
    counts: bool = False

    @property
    def end(self) -> int:
        return self.skip + self.most


def find(
    ctx: ToolContext, places: Iterable[tuple[SearchQuery, str]], wanted: Wanted, limit_s: float
) -> FoundLines | FoundFiles:
    """Search one place after another. Each has its query, and the path that it is shown by. Raises EngineError."""
    deadline = time.monotonic() + limit_s
    most = _MOST_COUNTED if wanted.counts else wanted.end
    matches: list[FoundLine] = []
    is_cut, base, notes = False, None, list(limits_of(ctx.engine) or ())
    ignored_skipped = None
    for query, shown in places:
        if is_cut:
            break
        query = replace(query, is_by_file=wanted.files_only)
        # One more, because none may be left.
        bounds = Bounds(max(most - len(matches), 1), deadline, ctx.check)
        found = search(ctx.engine, query, bounds)
        ignored_skipped = ignored_skipped or leaves_out(ctx.engine, query, found, bounds) or None
        is_cut = found.is_cut or len(matches) + len(found.hits) > most
        base = (shown if query.folder is not None else "") if base is None else ""
        prefix = shown.rstrip("/")
        paths: dict[bytes, str] = {}
        for hit in found.hits:
            full = paths.get(hit.path)
            if full is None:
                full = paths[hit.path] = f"{prefix}/{to_wire(os.fsdecode(hit.path))}" if hit.path else shown
            matches.append(_match(hit, full))
    if wanted.skip:
        notes.append(f"without the first {wanted.skip}")
    # One path is shorter whole, and a caller that found nothing knows the place that it has named.
    if matches[0]["path"] == matches[-1]["path"] if matches else base != to_wire(ctx.paths.working_directory):
        base = ""
    if ignored_skipped:
        notes.append(IGNORED_SKIPPED)
    if not (wanted.files_only or wanted.counts):
        shown_lines = matches[wanted.skip : wanted.end]
        return FoundLines(shown_lines, is_cut or None, ignored_skipped, notes or None, base or "")
    counts = Counter(map(itemgetter("path"), matches))
    files: list[FoundFile] = [
        {"path": path, "count": count} if wanted.counts else {"path": path} for path, count in counts.items()
    ]
    is_cut = is_cut or len(files) > wanted.end
    return FoundFiles(files[wanted.skip : wanted.end], is_cut or None, ignored_skipped, notes or None, base or "")


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


def _header(count: str, found: FoundLines | FoundFiles) -> str:
    below = f" below {on_one_line(found._base)}" if found._base else ""
    more = [f"there are more: {_NARROW}"] if found.truncated else []
    return " · ".join([f"{count}{below}", *more, *(found.notes or ())])


def _below(path: str, base: str) -> str:
    return on_one_line(path.removeprefix(f"{base.rstrip('/')}/") if base else path)


def _line(entry: FoundLine) -> str:
    around = [*entry.get("before", ()), entry["text"], *entry.get("after", ())]
    return f"{entry['path']}:{entry['line']}:{' '.join(around)}"


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
