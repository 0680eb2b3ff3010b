"""The operations of fs_patch: what each asks for, where it finds that in a text, and what it puts there."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct

from tools.filesystem.patch.regexes import find_all
from tools.kit.errors import InvalidParams, ToolError
from tools.kit.params import Derived, Field

_FOREIGN_GROUP = re.compile(r"\$(?:\d{1,2}|\{\w+\}|<\w+>)")

# What is written otherwise in a regular expression than in a text.
_REGEX_SIGN = re.compile(r"[\\.*+?|^$\[{(]")
_REGEX_TRIAL_S = 1.0

Type = Literal["replace_first", "replace_all", "insert_after", "insert_before"]


# How other programs ask for one change of a literal text: what is there, what comes in its place, and how often.
_OLD = ("old_string", "old_text", "old_str", "oldText", "oldString")
_NEW = ("new_string", "new_text", "new_str", "newText", "newString")
_ALL = ("replace_all", "replaceAll")
_COUNT = ("expected_replacements", "expected_count")


def one_edit(unknown: Mapping[str, Any]) -> Derived | None:
    """The list of operations for a call that asks for one change in the words of other programs."""
    used = [name for name in unknown if name in (*_OLD, *_NEW, *_ALL, *_COUNT)]
    if not {*used}.intersection(_OLD) or not {*used}.intersection(_NEW):
        return None
    return Derived({"operations": [{name: unknown[name] for name in used}]}, used)


def literal_replace(unknown: Mapping[str, Any]) -> Derived | None:
    """The operation that is meant by an old and a new text: a literal one, which must be there exactly once."""
    old, new, every, count = (
        next((name for name in names if name in unknown), None) for names in (_OLD, _NEW, _ALL, _COUNT)
    )
    if old is None or new is None:
        return None
    values: dict[str, Any] = {"type": "replace_first", "pattern": unknown[old], "replacement": unknown[new]}
    values["is_edit"] = True
    if every is not None and unknown[every] in (True, "true", "True"):
        values["type"], how = "replace_all", "replace_all"
    elif count is not None and unknown[count] not in (1, "1"):
        values["type"], values["expected_count"] = "replace_all", unknown[count]
        how = f"replace_all with expected_count {unknown[count]}"
    else:
        values["expected_count"], how = 1, "replace_first with expected_count 1"
    used = [name for name in (old, new, every, count) if name is not None]
    return Derived(values, used, f"{old} and {new} were taken as a literal {how}")


class Operation(Struct, frozen=True):
    """One change, as the caller asks for it."""

    type: Annotated[Type, Field(derive=literal_replace)]
    pattern: Annotated[str | None, Field(description="replace: text to find.")] = None
    replacement: Annotated[str | None, Field(description="replace: new text; \\1 is a group.")] = None
    match: Annotated[str | None, Field(description="insert: text in the line.")] = None
    insert: Annotated[str | None, Field(description="insert: new line or lines.")] = None
    regex: bool = False
    every: Annotated[bool, Field(description="At every matching line.")] = False
    expected_count: Annotated[int | None, Field(description="Fail unless so many match.")] = None
    # Whether it was asked for by an old and a new text.
    is_edit: Annotated[bool, Field(is_hidden=True)] = False


class Step(Struct, frozen=True):
    """An operation as it is carried out. `put` takes the place of `wanted`, or is a new line beside one that has it."""

    type: Type
    wanted: str
    put: str
    is_insert: bool
    takes_all: bool
    regex: bool
    expected_count: int | None
    # Whether a whole line that is replaced by nothing takes its ending with it.
    takes_ending: bool = False


class TextEdit(Struct, frozen=True):
    """What stands from `start` to `end` of a text, or of its view, becomes `text`."""

    start: int
    end: int
    text: str


def read_operations(operations: list[Operation]) -> list[Step]:
    """Raise InvalidParams with every operation that lacks what its type needs."""
    steps: list[Step] = []
    problems: list[tuple[str, str]] = []
    for index, operation in enumerate(operations):
        where = f"operations.{index}"
        is_insert = operation.type.startswith("insert")
        names = ("match", "insert") if is_insert else ("pattern", "replacement")
        wanted = (operation.match if is_insert and operation.match is not None else operation.pattern) or ""
        put = operation.insert if is_insert else operation.replacement
        if not wanted:
            message = f"{where}: {operation.type} needs {names[0]}, which must not be empty"
            problems.append((f"{where}.{names[0]}", message))
        if put is None:
            problems.append((f"{where}.{names[1]}", f"{where}: {operation.type} needs {names[1]}"))
        takes_all = operation.every if is_insert else operation.type == "replace_all"
        kind, count, takes_ending = operation.type, operation.expected_count, operation.is_edit and not put
        steps.append(Step(kind, wanted, put or "", is_insert, takes_all, operation.regex, count, takes_ending))
    if problems:
        issues = [
            {"path": f"arguments.{path}", "code": "invalid_type", "message": "invalid_type"} for path, _ in problems
        ]
        raise InvalidParams("; ".join(message for _, message in problems), issues=issues)
    return steps


class View(Struct, frozen=True):
    """A text as a pattern sees it: with plain line feeds, unless the pattern itself has carriage returns.

    `returns` has the place in the view of every line feed that lost one, to find the way back.
    """

    text: str
    shown: str
    returns: list[int]


def view_of(text: str, wanted: str) -> View:
    if "\r\n" not in text or "\r" in wanted or r"\r" in wanted:
        return View(text, text, [])
    returns = [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]
    return View(text, text.replace("\r\n", "\n"), returns)


def find_matches(step: Step, view: View, *, by_line: bool, deadline: float) -> list[TextEdit]:
    """Where in the view an operation matches, and what it puts there; for an insert, the lines in which it matches."""
    text, wanted = view.shown, step.wanted
    if step.regex:
        template = None if step.is_insert else step.put
        matches = find_all(text, wanted, template, expand_all=step.takes_all, by_line=by_line, deadline=deadline)
        found = [TextEdit(*match) for match in matches]
    else:
        found = []
        at = text.find(wanted)
        while at != -1:
            found.append(TextEdit(at, at + len(wanted), step.put))
            at = text.find(wanted, at + len(wanted))
    return _whole_lines(text, found) if step.is_insert else found


def matches_as_regex(step: Step, text: str) -> bool:
    """Whether a text that is not there would be there if it were read as a regular expression."""
    if step.regex or not _REGEX_SIGN.search(step.wanted):
        return False
    deadline = time.monotonic() + _REGEX_TRIAL_S
    try:
        return bool(find_all(text, step.wanted, None, expand_all=False, by_line=False, deadline=deadline))
    except ToolError:
        return False


def make_edits(step: Step, view: View, chosen: list[TextEdit]) -> list[TextEdit]:
    """What becomes of the text behind a view at the chosen places."""
    keeps_endings = "\r" in step.wanted or (step.regex and r"\r" in step.wanted)
    placed = place_edits(view, chosen, keeps_endings=keeps_endings or step.is_insert)
    return [_insertion(step, view.text, edit.start, edit.end) for edit in placed] if step.is_insert else placed


def place_edits(view: View, edits: Sequence[TextEdit], *, keeps_endings: bool = False) -> list[TextEdit]:
    """The edits of a view as those of its text; what they put there has the line endings of the place."""
    placed: list[TextEdit] = []
    for edit in edits:
        # In the text, a place lies behind every carriage return that the view has lost before it.
        start = edit.start + bisect_left(view.returns, edit.start)
        end = edit.end + bisect_left(view.returns, edit.end)
        put = edit.text if keeps_endings else _with_ending(edit.text, _ending_at(view.text, start))
        placed.append(TextEdit(start, end, put))
    return placed


def with_endings(text: str, edits: Sequence[TextEdit]) -> list[TextEdit]:
    """The edits, of which those that remove whole lines but for the last ending take that, too."""
    taken: list[TextEdit] = []
    for edit in edits:
        is_whole = (edit.start == 0 or text[edit.start - 1] == "\n") and text[edit.end - 1] != "\n"
        taken.append(TextEdit(edit.start, edit.end + (is_whole and text[edit.end : edit.end + 1] == "\n"), edit.text))
    return taken


def foreign_group(step: Step) -> str | None:
    """What other programs take for a group in the replacement of a regex, and this one for plain text."""
    if not step.regex or step.is_insert or "(" not in step.wanted:
        return None
    found = _FOREIGN_GROUP.search(step.put)
    return None if found is None else found[0]


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """The edits are in order and do not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += (text[at : edit.start], edit.text)
        at = edit.end
    pieces.append(text[at:])
    return "".join(pieces)


def _whole_lines(text: str, found: list[TextEdit]) -> list[TextEdit]:
    """The lines in which matches begin, each once, with their endings."""
    lines: list[TextEdit] = []
    for match in found:
        if lines and match.start < lines[-1].end:
            continue
        begin = text.rfind("\n", 0, match.start) + 1
        end = text.find("\n", match.start)
        lines.append(TextEdit(begin, len(text) if end == -1 else end + 1, ""))
    return lines


def _insertion(step: Step, text: str, start: int, end: int) -> TextEdit:
    """A line of its own before or after the line from `start` to `end`."""
    ending = _ending_at(text, start)
    line = _with_ending(step.put, ending)
    line = line if line.endswith(ending) else line + ending
    if step.type == "insert_before":
        return TextEdit(start, start, line)
    if end > start and text[end - 1] == "\n":
        return TextEdit(end, end, line)
    # The last line has no ending, and the file shall go on having none.
    return TextEdit(end, end, ending + line.removesuffix(ending))


def _ending_at(text: str, start: int) -> str:
    """The line ending in force around `start`: of that line, else of the line before, else a line feed."""
    at = text.find("\n", start)
    if at == -1:
        at = text.rfind("\n", 0, start)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _with_ending(text: str, ending: str) -> str:
    """`text` with every line ended by `ending`."""
    text = text.replace("\r\n", "\n")
    return text if ending == "\n" else text.replace("\n", ending)
