"""The operations of fs_patch: what each asks for, where it finds that in a text, and what it puts there."""

from __future__ import annotations

from bisect import bisect_left
from typing import Annotated, Literal

from tools.files.text import Encoding, ending_at, with_endings
from tools.filesystem.patch.edits import Edit
from tools.filesystem.patch.regexes import find_all
from tools.kit.errors import InvalidParams
from tools.kit.params import Field
from tools.kit.records import record

Type = Literal["replace_first", "replace_all", "insert_after", "insert_before"]
# From where to where in a text, and what takes its place.
Span = tuple[int, int, str]


@record
class Operation:
    """One change, as the caller asks for it."""

    type: Type
    pattern: Annotated[str | None, Field(description="replace: text to find.")] = None
    replacement: Annotated[str | None, Field(description="replace: new text; \\1 is a group.")] = None
    match: Annotated[str | None, Field(description="insert: text in the line to insert at.")] = None
    insert: Annotated[str | None, Field(description="insert: new line or lines.")] = None
    regex: Annotated[bool, Field(description="The text to find is a regex.")] = False
    every: Annotated[bool, Field(description="insert: at every matching line, not the first.")] = False
    expected_count: Annotated[int | None, Field(description="Fail unless there are this many matches.")] = None

    @property
    def is_insert(self) -> bool:
        return self.type.startswith("insert")

    @property
    def wanted(self) -> str:
        return (self.match if self.is_insert and self.match is not None else self.pattern) or ""

    @property
    def put(self) -> str:
        return (self.insert if self.is_insert else self.replacement) or ""

    @property
    def takes_all(self) -> bool:
        return self.every if self.is_insert else self.type == "replace_all"


def check_operations(operations: list[Operation]) -> None:
    """Raise InvalidParams with every operation that lacks what its type needs."""
    problems: list[tuple[str, str]] = []
    for index, operation in enumerate(operations):
        where = f"operations.{index}"
        name, value = ("match", operation.wanted) if operation.is_insert else ("pattern", operation.wanted)
        if not value:
            problems.append((f"{where}.{name}", f"{where}: {operation.type} needs {name}, which must not be empty"))
        put = operation.insert if operation.is_insert else operation.replacement
        if put is None:
            name = "insert" if operation.is_insert else "replacement"
            problems.append((f"{where}.{name}", f"{where}: {operation.type} needs {name}"))
    if problems:
        issues = [
            {"path": f"arguments.{path}", "code": "invalid_type", "message": "invalid_type"} for path, _ in problems
        ]
        raise InvalidParams("; ".join(message for _, message in problems), issues=issues)


def needle(operation: Operation, encoding: Encoding) -> bytes | None:
    """The bytes without which an operation has nothing to do in a piece; None if that cannot be told."""
    if operation.regex or not encoding.is_bytewise:
        return None
    try:
        return encoding.encode(operation.wanted)
    except UnicodeEncodeError:
        return None


@record
class View:
    """A text as a pattern sees it: with plain line feeds, unless the pattern itself speaks of carriage returns.

    `returns` has the place in the view of every line feed that lost one, to find the way back.
    """

    text: str
    shown: str
    returns: list[int]

    def place(self, at: int) -> int:
        """Where in the text that place of the view is."""
        return at + bisect_left(self.returns, at)


def viewed(text: str, wanted: str) -> View:
    if "\r\n" not in text or "\r" in wanted or r"\r" in wanted:
        return View(text, text, [])
    returns: list[int] = []
    at = text.find("\r\n")
    while at != -1:
        returns.append(at - len(returns))
        at = text.find("\r\n", at + 2)
    return View(text, text.replace("\r\n", "\n"), returns)


def spans(operation: Operation, view: View, *, by_line: bool, deadline: float) -> list[Span]:
    """Where in the view an operation matches; for an insert, the lines in which it does."""
    if operation.regex:
        matches = find_all(
            view.shown,
            operation.wanted,
            None if operation.is_insert else operation.put,
            expand_all=operation.takes_all,
            by_line=by_line,
            deadline=deadline,
        )
        found = [(match.start, match.end, match.replacement) for match in matches]
    else:
        wanted = operation.wanted
        found = [(start, start + len(wanted), operation.put) for start in _places(view.shown, wanted)]
    return _line_spans(view.shown, found) if operation.is_insert else found


def edits(operation: Operation, view: View, chosen: list[Span]) -> list[Edit]:
    """What becomes of the text behind a view at the chosen places."""
    keeps_endings = "\r" in operation.wanted or (operation.regex and r"\r" in operation.wanted)
    made: list[Edit] = []
    for start, end, put in chosen:
        first, last = view.place(start), view.place(end)
        if operation.is_insert:
            made.append(_insertion(operation, view.text, first, last))
        else:
            ending = ending_at(view.text, first)
            made.append(Edit(first, last, put if keeps_endings else with_endings(put, ending)))
    return made


def _places(text: str, wanted: str) -> list[int]:
    places: list[int] = []
    at = text.find(wanted)
    while at != -1:
        places.append(at)
        at = text.find(wanted, at + len(wanted))
    return places


def _line_spans(text: str, found: list[Span]) -> list[Span]:
    """The lines in which matches begin, each once, with their endings."""
    lines: list[Span] = []
    for start, _, _ in found:
        if lines and start < lines[-1][1]:
            continue
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start)
        lines.append((begin, len(text) if end == -1 else end + 1, ""))
    return lines


def _insertion(operation: Operation, text: str, start: int, end: int) -> Edit:
    """A line of its own before or after the line from `start` to `end`."""
    ending = ending_at(text, start)
    line = with_endings(operation.put, ending)
    line = line if line.endswith(ending) else line + ending
    if operation.type == "insert_before":
        return Edit(start, start, line)
    if end > start and text[end - 1] == "\n":
        return Edit(end, end, line)
    # The last line has no ending, and the file shall go on having none.
    return Edit(end, end, ending + line.removesuffix(ending))
