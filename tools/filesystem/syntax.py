"""Whether a change has broken the syntax of a file: one line on an error that was not there before.

Python, JSON and TOML, by parsers that are here anyway. Of a large file only what is around the change is parsed, so it
takes milliseconds; what cannot be judged so is taken for right.
"""

from __future__ import annotations

import ast
import re
import tomllib
import warnings
from collections.abc import Callable
from pathlib import PurePath

import orjson

from tools.files.diffs import common_ends

MOST_CHARS = 256 * 1024
# So much of a file is parsed at once.
_PARSED_CHARS = 10_000
# Python's parser may use up the stack of a thread at depths that nobody writes.
_MOST_DEPTH = 100
_RUN = re.compile(r"(?:[-+~]|\bnot\b|\blambda\s*:|\bawait\b|\*\*|\s){400,}")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_STRINGS = re.compile(
    r"#[^\n]*|(\"{3}|'{3})(?:[^\\]|\\.)*?(?:\1|\Z)|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?", re.DOTALL
)
# A line of Python that begins a statement of its own, and is seldom one of a text in quotes.
_BEGINS = re.compile(r"(?:async def|def|class|import|from|if|for|while|with|try)\b|@\w|[\w.]{1,80} ?[=(\[]")
# Not `\s`: it goes on over line ends, from each of them.
_COMMENT = re.compile(r"^[ \t]*(?://|/\*)", re.MULTILINE)


def new_error(name: str, before: str | None, after: str) -> str | None:
    """The first syntax error of a file that was right before, in a sentence; None if there is none, or nobody can
    tell."""
    check = _CHECKS.get(PurePath(name).suffix.lower())
    if check is None or len(after) > MOST_CHARS or not after.strip() or before == after:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = check(before, after)
    except (RecursionError, MemoryError, ValueError):
        return None
    return None if error is None else f"new syntax error in {error}"


def _python(before: str | None, after: str) -> str | None:
    return _compare(before, after, _python_error, lambda line: bool(_BEGINS.match(line)), _is_in_string)


def _toml(before: str | None, after: str) -> str | None:
    return _compare(before, after, _toml_error, lambda line: line.startswith("["), None)


def _json(before: str | None, after: str) -> str | None:
    error = _json_error(after)
    # Many programs allow comments in their own files.
    if error is None or _COMMENT.search(after) or (before is not None and before.strip() and _json_error(before)):
        return None
    return error


def _compare(
    before: str | None,
    after: str,
    error_of: Callable[[str, int], str | None],
    begins: Callable[[str], bool],
    is_inside: Callable[[str], bool] | None,
) -> str | None:
    """The error of what has changed, with as much around it as stands on its own."""
    old = None if before is None else before.split("\n")
    new = after.split("\n")
    first, end, tail = 0, len(new), 0
    if len(after) > _PARSED_CHARS:
        if old is None:
            return None
        head, tail = common_ends(old, new)
        first = next((at for at in range(min(head, len(new) - 1), -1, -1) if begins(new[at])), 0)
        first = min(first, head)
        end = next((at for at in range(len(new) - tail, len(new)) if begins(new[at])), len(new))
        tail = len(new) - end
    part = "\n".join(new[first:end])
    if len(part) > _PARSED_CHARS:
        return None
    error = error_of(part, first)
    if error is None:
        return None
    if old is not None and any(line.strip() for line in old):
        was = "\n".join(old[first : len(old) - tail])
        if len(was) > 4 * _PARSED_CHARS or error_of(was, first) is not None:
            return None
    return None if first and is_inside is not None and is_inside("\n".join(new[:first])) else error


def _is_in_string(text: str) -> bool:
    """Whether a text ends within a string of several lines."""
    for string in _STRINGS.finditer(text):
        if string[1] and string.end() == len(text):
            return len(string[0]) < 2 * len(string[1]) or not string[0].endswith(string[1])
    return False


def _python_error(text: str, first: int) -> str | None:
    if _RUN.search(text) or _depth(text) > _MOST_DEPTH:
        return None
    try:
        compile(text + "\n", "file", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        return f"line {first + (error.lineno or 1)}: {error.msg}"
    return None


def _depth(text: str) -> int:
    depth = most = 0
    for character in text:
        if character in _OPENING:
            depth += 1
            most = max(most, depth)
        elif character in _CLOSING:
            depth -= 1
    return most


def _toml_error(text: str, first: int) -> str | None:
    if _depth(text) > _MOST_DEPTH:
        return None
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = re.search(r" \(at line (\d+), column \d+\)$", message)
        line = int(at[1]) if at else text.count("\n") + 1
        return f"line {first + line}: {message[: at.start()] if at else message.removesuffix(' (at end of document)')}"
    return None


def _json_error(text: str) -> str | None:
    try:
        orjson.loads(text.removeprefix("\ufeff"))
    except orjson.JSONDecodeError as error:
        if "recursion" in error.msg.lower():
            return None
        return f"line {error.lineno}: {error.msg}"
    return None


_Check = Callable[[str | None, str], str | None]
_CHECKS: dict[str, _Check] = {
    **dict.fromkeys((".py", ".pyi"), _python),
    ".toml": _toml,
    ".json": _json,
}


def is_checked(name: str) -> bool:
    return PurePath(name).suffix.lower() in _CHECKS
