"""Tasks: a text, a question, and the lines that the answer needs. The format is in README.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from msgspec import Struct
from msgspec.structs import asdict

from tools.pruning.engine import SourceType

_NEIGHBOURS = 2


class BadTask(Exception):
    """A line of a task file is not a task; the message says which and why."""


class Task(Struct, frozen=True):
    """Line numbers begin at 1."""

    id: str
    source_type: SourceType
    query: str
    text: str
    changed_lines: list[int]
    gold_lines: list[int]


def make_task(
    name: str,
    source_type: SourceType,
    query: str,
    text: str,
    changed_lines: Iterable[int],
    gold_lines: Iterable[int] | None = None,
) -> Task:
    """A task whose gold lines are found if they are not given."""
    changed = sorted(set(changed_lines))
    gold = sorted(set(gold_lines)) if gold_lines else _gold_lines(text.split("\n"), changed)
    return Task(name, source_type, query, text, changed, gold)


def read_tasks(paths: Iterable[Path]) -> list[Task]:
    """Read task files, compressed or not. Raises BadTask at the first line that is none."""
    return [task for path in paths for task in _read_file(path)]


def write_tasks(path: Path, tasks: Iterable[Task]) -> int:
    """Write a task file, compressed if its name ends in `.gz`; the number of tasks."""
    lines = [json.dumps(asdict(task), ensure_ascii=False) + "\n" for task in tasks]
    data = "".join(lines).encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return len(lines)


def _read_file(path: Path) -> Iterator[Task]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _parse(line)
            except (ValueError, KeyError, TypeError) as error:
                raise BadTask(f"{path} line {number} is not a task: {error!r}") from error


def _parse(line: str) -> Task:
    given = json.loads(line)
    if given["source_type"] not in get_args(SourceType):
        raise ValueError(f"source_type {given['source_type']}")
    total = len(given["text"].split("\n"))
    if not given["changed_lines"] or not all(1 <= number <= total for number in given["changed_lines"]):
        raise ValueError(f"changed_lines must be from 1 to {total}, and at least one")
    return make_task(
        given["id"],
        given["source_type"],
        given["query"],
        given["text"],
        given["changed_lines"],
        given.get("gold_lines"),
    )


def _gold_lines(lines: list[str], changed: list[int]) -> list[int]:
    gold: set[int] = set()
    for number in changed:
        first, last = max(number - _NEIGHBOURS, 1), min(number + _NEIGHBOURS, len(lines))
        gold.update(near for near in range(first, last + 1) if lines[near - 1].strip() or near == number)
        gold.update(_enclosing(lines, number))
    return sorted(gold)


def _enclosing(lines: list[str], number: int) -> list[int]:
    """The nearest line above that is indented less, if there is one."""
    indent = _indent(lines[number - 1])
    above = range(number - 1, 0, -1)
    return [line for line in above if lines[line - 1].strip() and _indent(lines[line - 1]) < indent][:1]


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
