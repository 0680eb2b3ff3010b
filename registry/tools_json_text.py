"""The text of tools.json as one JSON object, read strictly: what we read, we must be able to save again."""

from __future__ import annotations

import json
from typing import Any

from registry.profiles import BadRegistry, Problem

_MOST_DEPTH = 64
_TOO_DEEP = Problem("", f"it is nested more than {_MOST_DEPTH} levels deep")


def load_document(text: str, origin: str = "tools.json") -> dict[str, Any]:
    """The JSON object in `text`, which came from `origin`. Raises BadRegistry, also for a key that occurs twice."""
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        repeated.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        where = f"at line {error.lineno}, column {error.colno}"
        raise BadRegistry([Problem("", f"no JSON: {error.msg} {where}")], origin) from None
    except ValueError as error:
        raise BadRegistry([Problem("", f"no JSON: {error}")], origin) from None
    except RecursionError:
        raise BadRegistry([_TOO_DEEP], origin) from None
    problems = [Problem("", f"the key {key!r} stands twice in one object") for key in repeated]
    if _is_deeper(document, _MOST_DEPTH):
        problems = [_TOO_DEEP]
    elif not _can_be_written(document):
        problems = [Problem("", "no JSON: half a surrogate pair in a text, or a number that is not finite")]
    elif not problems and not isinstance(document, dict):
        problems = [Problem("", "the file must hold one JSON object")]
    if problems:
        raise BadRegistry(problems, origin)
    assert isinstance(document, dict)
    return document


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    below = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)


def _can_be_written(document: Any) -> bool:
    """Whether a document that Python has read is one that others can read: what we read, we save again."""
    try:
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True
