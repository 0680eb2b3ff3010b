"""JSON with comments: reads it, and changes it so that every other byte stays as it was.

It accepts comments (`//`, `/* */`), a comma after the last element, a byte order mark, and any line ending. It knows
texts, not files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

# A text without an end goes to the end of the file, so that no character is looked at twice.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
# A comma behind a bracket, a colon or a comma is a mistake, and stays for the parser to report.
_STRING_OR_COMMA = re.compile(rf"{_STRING}|[\[{{:,]\s*,|,(?=\s*[\]}}])", re.DOTALL)
_SCALAR = re.compile(rf"{_STRING}|[^\s,\]}}]+", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_COMMENT_ON_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
# What is put before an element: a line end and the indentation, or one space.
_LEAD = re.compile(r"(?:\r?\n[ \t]*| )\Z")
_DEFAULT_INDENT = "  "


class NotJson(ValueError):
    """The text cannot be read. The message says where and why."""


class WrongShape(ValueError):
    """Something on the way to the member is not an object."""


class _Value(Struct, frozen=True):
    start: int
    end: int
    # What it means in Python.
    meaning: Any
    # Those of an object or an array.
    elements: tuple[_Element, ...] = ()


class _Element(Struct, frozen=True):
    """A member of an object with its name, or an element of an array with its `id`."""

    key: Any
    start: int
    value: _Value
    # Where its comma is; None if it has none.
    comma: int | None


def loads(text: str, **hooks: Any) -> Any:
    """As `json.loads`, whose hooks and errors these are; the errors have the places in `text`."""
    try:
        return json.loads(text, **hooks)
    except json.JSONDecodeError:
        plain = _STRING_OR_COMMA.sub(lambda found: " " if found[0] == "," else found[0], _without_comments(text))
        return json.loads(plain, **hooks)


def read(text: str) -> Any:
    """What the text means. Raises NotJson."""
    try:
        return loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def rewrite(text: str, document: Any) -> str:
    """The text that means `document`. What is the same in both keeps every byte, with its comments.

    Elements of an array that have the same `id` are one and the same. Raises NotJson.
    """
    read(text)
    plain = _without_comments(text)
    try:
        return _change(text, _scan(plain, _skip(plain, 0)), document)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """The text with `value` at `path`; objects on the way that are missing are made. Raises NotJson, WrongShape."""
    if not text.strip("\ufeff \t\r\n"):
        return text + _write(_nest(path, value), "", _DEFAULT_INDENT, _line_end(text)) + "\n"
    document = read(text)
    _parent(document, path)[path[-1]] = value
    return rewrite(text, document)


def remove_member(text: str, path: Sequence[str], keeps: Collection[tuple[str, ...]] = ()) -> str:
    """The text without the member at `path`, nor the objects on the way that are empty then and not in `keeps`.

    Raises NotJson, WrongShape.
    """
    document = read(text)
    if path[-1] not in _parent(document, path):
        return text
    while path:
        parent = _parent(document, path)
        del parent[path[-1]]
        path = path[:-1]
        if parent or tuple(path) in keeps:
            break
    return rewrite(text, document)


def at(document: Any, path: Sequence[str]) -> Any:
    """The part of a value at `path`; None if there is none."""
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


def _parent(document: Any, path: Sequence[str]) -> dict[str, Any]:
    """The object that the member at `path` is in; what is missing is made in `document`. Raises WrongShape."""
    for depth in range(len(path)):
        if not isinstance(document, dict):
            raise WrongShape(f"{'.'.join(path[:depth]) or 'the file'} holds something other than an object")
        parent, document = document, document.setdefault(path[depth], {}) if depth < len(path) - 1 else None
    return parent


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _change(text: str, value: _Value, wanted: Any) -> str:
    """The text with `value` replaced by `wanted`. It works from the end, where no place has moved yet."""
    parts = _parts_in_place(value, wanted)
    if parts is None:
        if json.dumps(value.meaning) == json.dumps(wanted):
            return text
        written = _write(wanted, _line_indent(text, value.start), _unit(text), _line_end(text))
        return text[: value.start] + written + text[value.end :]
    elements = list(value.elements)
    by_key = {each.key: each for each in elements}
    added = {key: part for key, part in parts.items() if key not in by_key}
    if added:
        text = _append(text, value, added)
        if elements and elements[-1].comma is None:
            elements[-1] = replace(elements[-1], comma=elements[-1].value.end)
    for number in reversed(range(len(elements))):
        element = elements[number]
        if element.key not in parts:
            text = _cut(text, value, elements, number, is_alone=number == 0 and not added and len(elements) == 1)
            del elements[number]
        elif element.value is by_key[element.key].value:
            # Of several members of one name programs use the last.
            text = _change(text, element.value, parts[element.key])
    return text


def _parts_in_place(value: _Value, wanted: Any) -> Mapping[Any, Any] | None:
    """The parts of `wanted` by key, if they can take the places of those of `value`."""
    before, after = _parts(value.meaning), _parts(wanted)
    if before is None or after is None or type(value.meaning) is not type(wanted):
        return None
    kept = [key for key in before if key in after]
    return after if isinstance(wanted, dict) or [*after][: len(kept)] == kept else None


def _parts(meaning: Any) -> Mapping[Any, Any] | None:
    """The members of an object, or the elements of an array by `id`; None where they cannot be told apart."""
    if not isinstance(meaning, list):
        return meaning if isinstance(meaning, dict) else None
    if not all(isinstance(each, dict) and isinstance(each.get("id"), str) for each in meaning):
        return None
    parts = {each["id"]: each for each in meaning}
    return parts if len(parts) == len(meaning) else None


def _append(text: str, parent: _Value, added: Mapping[Any, Any]) -> str:
    """Put elements at the end of an object or an array, written as those before them are."""
    unit, line_end = _unit(text), _line_end(text)
    is_spread = not parent.elements or "\n" in text[parent.start : parent.end]
    outer = _line_indent(text, parent.elements[-1].start if parent.elements else parent.start)
    inner = outer if parent.elements else outer + unit
    lead = f"{line_end}{inner}" if is_spread else " "
    written: list[str] = []
    for key, value in added.items():
        shown = _write(value, inner, unit, line_end) if is_spread else json.dumps(value, ensure_ascii=False)
        name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(parent.meaning, dict) else ""
        written.append(f"{lead}{name}{shown}")
    new = ",".join(written)
    if not parent.elements:
        # What is between the brackets stays behind ours, so that taking ours out gives it back.
        return _insert(text, parent.start + 1, f"{new}{line_end}{outer}")
    last = parent.elements[-1]
    if last.comma is not None:
        return _insert(text, _end_of_line(text, last.comma + 1, parent.end - 1), f"{new},")
    place = _end_of_line(text, last.value.end, parent.end - 1)
    return _insert(_insert(text, place, new), last.value.end, ",")


def _cut(text: str, parent: _Value, elements: list[_Element], number: int, *, is_alone: bool) -> str:
    """Take an element out, with the white space before it and the comma that is superfluous without it."""
    element = elements[number]
    start = element.start
    end = element.value.end if element.comma is None else element.comma + 1
    if number == 0 and not is_alone:
        # What follows takes its place.
        return text[:start] + text[end:].lstrip(" \t\r\n")
    before = parent.start + 1
    if number:
        previous = elements[number - 1]
        assert previous.comma is not None, "an element that is followed by another has a comma"
        before = previous.comma + 1
        if element.comma is None:
            elements[number - 1] = replace(previous, comma=None)
    space = _LEAD.search(text, before, start)
    if space is not None and not (text[end] not in "\r\n" and _ends_in_line_comment(text[before : space.start()])):
        start = space.start()
    if start == parent.start + 1:
        closing = _line_end(text) + _line_indent(text, parent.start)
        end += len(closing) if text.startswith(closing, end) else 0
    text = text[:start] + text[end:]
    return text[: before - 1] + text[before:] if element.comma is None and number else text


def _ends_in_line_comment(space: str) -> bool:
    comments = _COMMENT.findall(space)
    return bool(comments) and comments[-1].startswith("//") and space.endswith(comments[-1])


def _end_of_line(text: str, start: int, end: int) -> int:
    """Behind the comments that follow on the same line: they are about what is before them."""
    place = start
    while (match := _COMMENT_ON_LINE.match(text, place, end)) is not None:
        place = match.end()
    return place


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


def _scan(plain: str, start: int) -> _Value:
    """The value at `start` of a text that can be read and has spaces for comments."""
    if plain[start] not in "{[":
        scalar = _token(plain, start)
        return _Value(start, start + len(scalar), json.loads(scalar))
    is_object = plain[start] == "{"
    elements: list[_Element] = []
    place = _skip(plain, start + 1)
    while plain[place] not in "}]":
        begin = place
        if is_object:
            name = _token(plain, place)
            place = _skip(plain, _skip(plain, place + len(name)) + 1)
        value = _scan(plain, place)
        key = json.loads(name) if is_object else value.meaning.get("id") if isinstance(value.meaning, dict) else None
        comma = _skip(plain, value.end)
        has_comma = plain[comma] == ","
        elements.append(_Element(key, begin, value, comma if has_comma else None))
        place = _skip(plain, comma + 1) if has_comma else comma
    values = [each.value.meaning for each in elements]
    meaning = dict(zip([each.key for each in elements], values, strict=True)) if is_object else values
    return _Value(start, place + 1, meaning, tuple(elements))


def _token(plain: str, start: int) -> str:
    """The text, number or word at `start`."""
    match = _SCALAR.match(plain, start)
    assert match is not None, "the text can be read"
    return match[0]


def _skip(plain: str, start: int) -> int:
    """Behind the white space that begins at `start`."""
    match = _SPACE.match(plain, start)
    assert match is not None, "no white space is white space, too"
    return match.end()


def _without_comments(text: str) -> str:
    """The same text with spaces for comments and the byte order mark: everything else keeps its place."""

    def blank(found: re.Match[str]) -> str:
        is_comment = found[0].startswith("//") or found[1]
        return re.sub(r"[^\r\n]", " ", found[0]) if is_comment else found[0]

    return _STRING_OR_COMMENT.sub(blank, f" {text[1:]}" if text.startswith("\ufeff") else text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
