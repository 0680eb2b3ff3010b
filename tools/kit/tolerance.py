"""Arguments that do not fit their schema, and can have only one meaning: that meaning is taken.

Another name for an argument is taken in silence; a note says where a value was changed. It is asked only when a call
does not fit, or when a path begins oddly, so any other call pays nothing. A call to which the letter of a contract
applies never comes here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tools.kit.params import Choice, ListOf, Parameter, Parameters, RecordOf, Scalar, StringMap

# Some clients add it to every call, to show to a person.
_STRAY = "description"
_NUMBER = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?")
_BOOLEANS = {"true": True, "false": False}
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTES = "\"'`"
_HOME = re.compile(r"\$(?:HOME\b|\{HOME\})")
# How a path begins that `plain_path` may change: with a quote, with $HOME, or like a file URL.
ODD_STARTS = frozenset(f"{_QUOTES}$f")
_SHOWN_CHARS = 60


class Notes(NamedTuple):
    """What was taken for what: values that were changed, and arguments by another name, which go without saying."""

    changes: list[str]
    names: list[str]


def mend(parameters: Parameters, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Notes]:
    """The arguments as they are meant, as far as that is certain."""
    notes = Notes([], [])
    return _mend_object(parameters, arguments, "", notes), notes


def plain_path(path: str) -> str:
    """The path that is meant by a file URL, by a path in quotes, or by one that begins with $HOME."""
    if len(path) > 2 and path[0] in _QUOTES and path[-1] == path[0]:
        path = path[1:-1]
    if path[:6].lower() == "file:/":
        from urllib.parse import unquote, urlsplit

        url = urlsplit(path)
        if url.netloc in ("", "localhost"):
            path = unquote(url.path)
    if found := _HOME.match(path):
        path = os.path.expanduser("~") + path[found.end() :]  # noqa: PTH111 - Path.home raises where there is none
    return path


def show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _mend_object(parameters: Parameters, arguments: Mapping[str, Any], path: str, notes: Notes) -> dict[str, Any]:
    known = {name: value for name, value in arguments.items() if name in parameters.by_name}
    unknown = {name: value for name, value in arguments.items() if name not in known}
    for name, parameter in parameters.by_name.items():
        derive = parameter.field.derive
        if unknown and derive is not None and known.get(name) is None and (made := derive(unknown)) is not None:
            known.update(made.values)
            notes.names.extend([made.note] if made.note else [])
            unknown = {each: value for each, value in unknown.items() if each not in made.used}
    for name, value in unknown.items():
        target = _meaning(parameters, name)
        if target is not None and (known.get(target) is None or known[target] == value):
            known[target] = value
            notes.names.append(f"{path}{name} was taken as {target}")
        elif name != _STRAY:
            known[name] = value
    for name, value in known.items():
        if value is not None and (declared := parameters.by_name.get(name)) is not None:
            known[name] = _mend_value(declared, value, f"{path}{name}", notes)
    return known


def _meaning(parameters: Parameters, name: str) -> str | None:
    """The parameter that is meant by another name: in another spelling, or by an alias."""
    snake = _CAPITAL.sub("_", name).replace("-", "_").lower()
    for each in (name, snake):
        if each in parameters.by_name:
            return each
        if each in parameters.aliases:
            return parameters.aliases[each]
    return None


def _mend_value(parameter: Parameter, value: Any, path: str, notes: Notes) -> Any:
    kind = parameter.kind
    match kind, value:
        case Scalar(), str():
            return _mend_text(kind, value, path, notes)
        case Choice(), str():
            same = [option for option in kind.options if option.lower() == value.strip().lower()]
            if value not in kind.options and same:
                notes.changes.append(f"{path}: {show(value)!r} was taken as {same[0]}")
                return same[0]
        case ListOf(), str() | dict():
            return _mend_list(kind, value, path, notes)
        case ListOf(), list():
            return [_mend_value(kind.element, each, f"{path}.{index}", notes) for index, each in enumerate(value)]
        case ((RecordOf() | StringMap()), str()):
            read = _from_json(value)
            if isinstance(read, dict):
                notes.changes.append(f"{path} was a string and was read as JSON")
                return _mend_value(parameter, read, path, notes)
        case RecordOf(), dict():
            return _mend_object(kind.parameters, value, f"{path}.", notes)
    return value


def _mend_text(kind: Scalar, value: str, path: str, notes: Notes) -> Any:
    """A number or a boolean in a string."""
    text = value.strip()
    taken: Any = value
    if kind.type is bool:
        taken = _BOOLEANS.get(text.lower(), value)
    elif kind.type in (int, float) and _NUMBER.fullmatch(text):
        taken = float(text) if "." in text else int(text)
    if taken is not value:
        notes.changes.append(f"{path}: {show(value)!r} was taken as {json.dumps(taken)}")
    return taken


def _mend_list(kind: ListOf, value: str | dict[str, Any], path: str, notes: Notes) -> Any:
    """A list in a string, or its only element without brackets."""
    read = _from_json(value) if isinstance(value, str) else value
    if isinstance(value, str) and isinstance(read, list | dict):
        notes.changes.append(f"{path} was a string and was read as JSON")
    is_element = isinstance(read, dict) if isinstance(kind.element.kind, RecordOf) else isinstance(read, str)
    if is_element:
        notes.changes.append(f"{path} was taken as a list of one")
        read = [read]
    if not isinstance(read, list):
        return value
    return [_mend_value(kind.element, each, f"{path}.{index}", notes) for index, each in enumerate(read)]


def _from_json(text: str) -> Any:
    """The list or object in a string; the string itself if there is none."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
