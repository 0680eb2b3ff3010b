"""An editor of JSON with comments that changes one member and leaves every other byte as it was.

It reads what editors write into such files: comments, commas after the last member, a byte order mark, any line ending.
It knows texts, not files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_COMMENT_ON_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
# What is put before a member: a line end and the indentation, or one space.
_LEAD = re.compile(r"(?:\r?\n[ \t]*| )\Z")
_MOST_DEPTH = 200
_DEFAULT_INDENT = "  "


class NotJson(ValueError):
    """The text cannot be read. The message says where and why."""


class WrongShape(ValueError):
    """Something on the way to the member is not an object."""


class _Member(Struct, frozen=True):
    key: str
    start: int
    value: _Value
    # Where its comma is; None if it has none.
    comma: int | None


class _Value(Struct, frozen=True):
    start: int
    end: int
    # What it means in Python.
    meaning: Any
    # None if it is no object.
    members: tuple[_Member, ...] | None = None

    def member(self, key: str) -> _Member | None:
        """The member of that name; of several the last, which is the one that programs use."""
        return next((each for each in reversed(self.members or ()) if each.key == key), None)


def read(text: str) -> Any:
    """What the text means. Raises NotJson."""
    return _parse(text).meaning


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """The text with `value` at `path`; objects on the way that are missing are made. Raises NotJson, WrongShape."""
    if not text.strip("\ufeff \t\r\n"):
        return text + _write({path[0]: _nest(path[1:], value)}, "", _DEFAULT_INDENT, _line_end(text)) + "\n"
    found, missing = _walk(_parse(text), path)
    if not missing:
        member = found[-1]
        assert isinstance(member, _Member), "the whole path is there"
        if member.value.meaning == value and type(member.value.meaning) is type(value):
            return text
        written = _write(value, _line_indent(text, member.start), _unit(text), _line_end(text))
        return text[: member.value.start] + written + text[member.value.end :]
    parent = found[-1].value if isinstance(found[-1], _Member) else found[-1]
    return _append(text, parent, missing[0], _nest(missing[1:], value))


def remove_member(text: str, path: Sequence[str], keeps: Collection[tuple[str, ...]] = ()) -> str:
    """The text without the member at `path`, nor the objects on the way that are empty then and not in `keeps`.

    Raises NotJson, WrongShape.
    """
    while True:
        found, missing = _walk(_parse(text), path)
        if missing:
            break
        container = found[-2].value if isinstance(found[-2], _Member) else found[-2]
        member = found[-1]
        assert isinstance(member, _Member), "the whole path is there"
        text = _cut(text, container, member)
    parent = tuple(path[:-1])
    if parent and parent not in keeps and at(read(text), parent) == {}:
        return remove_member(text, parent, keeps)
    return text


def at(document: Any, path: Sequence[str]) -> Any:
    """What is at `path` of a value that was read; None if nothing is."""
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


def _walk(root: _Value, path: Sequence[str]) -> tuple[list[_Value | _Member], Sequence[str]]:
    """The root and the members on `path` as far as they exist, and the keys that are missing."""
    found: list[_Value | _Member] = [root]
    value = root
    for depth, key in enumerate(path):
        if value.members is None:
            name = ".".join(path[:depth]) or "the file"
            raise WrongShape(f"{name} holds something other than an object")
        member = value.member(key)
        if member is None:
            return found, path[depth:]
        found.append(member)
        value = member.value
    return found, ()


def _append(text: str, parent: _Value, key: str, value: Any) -> str:
    """Put a member at the end of an object, written as the members before it are."""
    assert parent.members is not None, "only an object has members"
    unit, line_end = _unit(text), _line_end(text)
    if not parent.members:
        outer = _line_indent(text, parent.start)
        inner = outer + unit
        written = f"{json.dumps(key, ensure_ascii=False)}: {_write(value, inner, unit, line_end)}"
        # What is between the braces stays behind ours, so that taking ours out gives it back.
        return _insert(text, parent.start + 1, f"{line_end}{inner}{written}{line_end}{outer}")
    last = parent.members[-1]
    is_spread = "\n" in text[parent.start : parent.end]
    indent = _line_indent(text, last.start)
    space = f"{line_end}{indent}" if is_spread else " "
    shown = _write(value, indent, unit, line_end) if is_spread else json.dumps(value, ensure_ascii=False)
    written = f"{space}{json.dumps(key, ensure_ascii=False)}: {shown}"
    if last.comma is not None:
        return _insert(text, _end_of_line(text, last.comma + 1, parent.end - 1), f"{written},")
    place = _end_of_line(text, last.value.end, parent.end - 1)
    return _insert(_insert(text, place, written), last.value.end, ",")


def _cut(text: str, parent: _Value, member: _Member) -> str:
    """Take a member out, with the white space before it and the comma that is superfluous without it."""
    assert parent.members is not None, "only an object has members"
    number = parent.members.index(member)
    start = member.start
    end = member.value.end if member.comma is None else member.comma + 1
    if number == 0 and len(parent.members) > 1:
        # What follows takes its place.
        end += len(text[end:]) - len(text[end:].lstrip(" \t\r\n"))
        return text[:start] + text[end:]
    space = _LEAD.search(text, parent.start, start)
    before = parent.start + 1 if number == 0 else _behind(parent.members[number - 1])
    if space is not None and not (text[end] not in "\r\n" and _ends_in_line_comment(text[before : space.start()])):
        start = space.start()
    if start == parent.start + 1:
        closing = _line_end(text) + _line_indent(text, parent.start)
        end += len(closing) if text.startswith(closing, end) and end + len(closing) < parent.end else 0
    text = text[:start] + text[end:]
    if member.comma is None and number:
        text = text[: before - 1] + text[before:]
    return text


def _behind(member: _Member) -> int:
    assert member.comma is not None, "a member that is followed by another has a comma"
    return member.comma + 1


def _ends_in_line_comment(space: str) -> bool:
    comments = _COMMENT.findall(space)
    return bool(comments) and comments[-1].startswith("//") and space.endswith(comments[-1])


def _end_of_line(text: str, start: int, end: int) -> int:
    """Behind the comments that follow on the same line: they are about what is before them."""
    place = start
    while (match := _COMMENT_ON_LINE.match(text, place, end)) is not None:
        place = match.end()
    return place


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _write(value: Any, indent: str, unit: str, line_end: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line_end + indent)


def _insert(text: str, place: int, new: str) -> str:
    return text[:place] + new + text[place:]


def _unit(text: str) -> str:
    """One step of the indentation that the file uses."""
    match = re.search(r"\{[ \t]*\r?\n([ \t]+)[\"/]", text)
    return match[1] if match is not None else _DEFAULT_INDENT


def _line_indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _parse(text: str) -> _Value:
    """The root of the text. Raises NotJson."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    value = _parse_value(text, start, 0)
    end = _skip(text, value.end)
    if end < len(text):
        raise _problem(text, end, "there is something behind the end")
    return value


def _parse_value(text: str, start: int, depth: int) -> _Value:
    if depth > _MOST_DEPTH:
        raise _problem(text, start, "it is nested too deeply")
    if text[start : start + 1] == "{":
        return _parse_object(text, start, depth)
    if text[start : start + 1] == "[":
        return _parse_array(text, start, depth)
    match = _STRING.match(text, start) or _SCALAR.match(text, start)
    if match is None:
        raise _problem(text, start, "a value is expected")
    try:
        return _Value(start, match.end(), json.loads(match[0]))
    except ValueError as error:
        raise _problem(text, start, str(error)) from None


def _parse_object(text: str, start: int, depth: int) -> _Value:
    members: list[_Member] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        match = _STRING.match(text, place)
        if match is None:
            raise _problem(text, place, 'a name in double quotes, or "}" is expected')
        try:
            key = json.loads(match[0])
        except ValueError as error:
            raise _problem(text, place, str(error)) from None
        colon = _skip(text, match.end())
        if text[colon : colon + 1] != ":":
            raise _problem(text, colon, '":" is expected')
        value = _parse_value(text, _skip(text, colon + 1), depth + 1)
        comma = _skip(text, value.end)
        has_comma = text[comma : comma + 1] == ","
        members.append(_Member(key, place, value, comma if has_comma else None))
        place = _skip(text, comma + 1) if has_comma else comma
        if not has_comma and text[place : place + 1] != "}":
            raise _problem(text, place, '"," or "}" is expected')
    return _Value(start, place + 1, {each.key: each.value.meaning for each in members}, tuple(members))


def _parse_array(text: str, start: int, depth: int) -> _Value:
    items: list[Any] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        value = _parse_value(text, place, depth + 1)
        items.append(value.meaning)
        place = _skip(text, value.end)
        if text[place : place + 1] == ",":
            place = _skip(text, place + 1)
        elif text[place : place + 1] != "]":
            raise _problem(text, place, '"," or "]" is expected')
    return _Value(start, place + 1, items)


def _skip(text: str, start: int) -> int:
    """Behind the white space and the comments that begin at `start`."""
    match = _SPACE.match(text, start)
    return start if match is None else match.end()


def _problem(text: str, place: int, message: str) -> NotJson:
    line = text.count("\n", 0, place) + 1
    return NotJson(f"line {line}, column {place - text.rfind(chr(10), 0, place)}: {message}")
