"""A walk through a folder in the order of names, with .gitignore respected, for machines without ripgrep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_IGNORE_FILE = b".gitignore"
Rules = tuple[tuple[bytes, "GitIgnoreSpec"], ...]


def walked(base: bytes, *, include_ignored: bool, depth: int | None) -> Iterator[bytes]:
    """Every file below `base`, relative to it. Links are neither followed nor given, as with ripgrep."""
    yield from _walked(base, b"", () if not include_ignored else None, depth)


def _walked(base: bytes, folder: bytes, rules: Rules | None, depth: int | None) -> Iterator[bytes]:
    try:
        with os.scandir(os.path.join(base, folder) if folder else base) as found:  # noqa: PTH118 - paths are bytes
            children = sorted(found, key=lambda child: child.name)
    except OSError:
        return
    if rules is not None and any(child.name == _IGNORE_FILE for child in children):
        rules = _with_file(base, folder, rules)
    for child in children:
        path = folder + b"/" + child.name if folder else child.name
        is_folder = child.is_dir(follow_symlinks=False)
        if rules is not None and (child.name == b".git" or _is_ignored(path, is_folder, rules)):
            continue
        if is_folder:
            if depth is None or depth > 1:
                yield from _walked(base, path, rules, None if depth is None else depth - 1)
        elif child.is_file(follow_symlinks=False):
            yield path


def _with_file(base: bytes, folder: bytes, rules: Rules) -> Rules:
    from pathspec import GitIgnoreSpec

    try:
        with open(os.path.join(base, folder, _IGNORE_FILE), encoding="utf-8", errors="replace") as file:  # noqa: PTH118
            return (*rules, (folder, GitIgnoreSpec.from_lines(file.read().splitlines())))
    except OSError:
        return rules


def _is_ignored(path: bytes, is_folder: bool, rules: Rules) -> bool:
    """The innermost file that has something to say decides."""
    for folder, spec in reversed(rules):
        relative = path[len(folder) + 1 :] if folder else path
        verdict = spec.check_file(os.fsdecode(relative) + ("/" if is_folder else "")).include
        if verdict is not None:
            return verdict
    return False
