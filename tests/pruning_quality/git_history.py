"""Make tasks from a git repository: a commit's message is the question, and the lines it changes are needed.

A commit that changes much says little about single lines, so only small changes to files of a middle size are taken.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.pruning_quality.tasks import Task, make_task
from tools.pruning.read import source_type_of

_FEWEST_LINES, _MOST_LINES = 120, 3_000
_MOST_CHANGED = 30
_SHORTEST_MESSAGE = 15
_MOST_PER_FILE = 3
_MOST_FILES = 5
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)


def mine(repository: Path, limit: int) -> Iterator[Task]:
    """Tasks from the newest commits to the oldest, at most `limit`."""
    taken: Counter[str] = Counter()
    for commit in _git(repository, "rev-list", "--no-merges", "--min-parents=1", "HEAD").split():
        message = _git(repository, "log", "-1", "--format=%B", commit).strip()
        paths = _git(repository, "diff", "--name-only", "--diff-filter=M", "-z", f"{commit}^", commit).split("\0")[:-1]
        if len(message) < _SHORTEST_MESSAGE or len(paths) > _MOST_FILES:
            continue
        for path in paths:
            task = _task(repository, commit, path, message) if taken[path] < _MOST_PER_FILE else None
            if task is not None:
                taken[path] += 1
                yield task
                if taken.total() >= limit:
                    return


def _task(repository: Path, commit: str, path: str, message: str) -> Task | None:
    kind = source_type_of(path)
    if kind is None or kind == "logs":
        return None
    try:
        text = _git(repository, "show", f"{commit}^:{path}")
    except UnicodeDecodeError:
        return None
    total = text.count("\n") + 1
    changed = _changed_lines(_git(repository, "diff", "--unified=0", f"{commit}^", commit, "--", path), total)
    if not (_FEWEST_LINES <= total <= _MOST_LINES and 0 < len(changed) <= _MOST_CHANGED):
        return None
    return make_task(f"{repository.resolve().name}-{commit[:10]}-{path}", kind, message, text, changed)


def _changed_lines(diff: str, total: int) -> list[int]:
    """The lines that a diff removes or replaces; where it only adds, the lines on either side."""
    changed: set[int] = set()
    for match in _HUNK.finditer(diff):
        first, count = int(match[1]), int(match[2] or 1)
        changed.update(range(first, first + count) if count else (first, first + 1))
    return sorted(number for number in changed if 1 <= number <= total)


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), "-c", "core.quotepath=false", *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8")
