"""What others may have done in a project while a command ran: the tools of this daemon, and sessions.

The events of inotify name nobody. Our own tools say what they write. Of a session it is known whether any of its
processes has run at all: one that only waits has changed nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.journal.command_rows import CommandRow, read_rows, write_rows

if TYPE_CHECKING:
    from tools.journal.written_paths import WrittenPaths
    from tools.sessions.manager import SessionManager
    from tools.sessions.session import Session


# A result names so many.
_MOST_PATHS = 20


class OthersBefore(NamedTuple):
    """What is noted before a command."""

    mark: int
    # The sessions that there are, and what those in the project have done.
    known: frozenset[str]
    runs: Mapping[str, object]


class Others:
    """Everybody who may write into a project of this daemon, but for the command itself."""

    def __init__(self, written: WrittenPaths, sessions: SessionManager | None) -> None:
        self._written = written
        self._sessions = sessions

    def before(self, root: str) -> OthersBefore:
        there = self._all()
        runs = {each.id: self._runs(each) for each in there if each.is_running and _is_in(each.cwd, root)}
        return OthersBefore(self._written.mark, frozenset(each.id for each in there), runs)

    def since(self, before: OthersBefore, root: str, own: str | None) -> set[str] | None:
        """The paths that others have written, relative to the project; None if it may be any. `own` is the session of
        the command itself."""
        there = {each.id: each for each in self._all() if each.id != own}
        is_new = any(each.id not in before.known and _is_in(each.cwd, root) for each in there.values())
        if is_new or any(
            each not in there or not there[each].is_running or self._runs(there[each]) != runs
            for each, runs in before.runs.items()
            if each != own
        ):
            return None
        written = self._written.since(before.mark)
        return None if written is None else {path for each in written if (path := _inside(each, root)) is not None}

    def _all(self) -> list[Session]:
        return [] if self._sessions is None else self._sessions.all

    def _runs(self, session: Session) -> object:
        assert self._sessions is not None
        try:
            return self._sessions.runs(session)
        except OSError:
            # It may have done anything: this is equal to nothing.
            return object()


def mark_shared(folder: Path, written: set[str] | None) -> list[str]:
    """Mark what others have written, in the rows of a command that are in `folder`. Gives the first of all shared
    paths."""
    found = read_rows(folder)
    shared = found.shared | {row.path for row in found.rows if written is None or _is_of(row, written)}
    if shared != found.shared:
        write_rows(folder, found._replace(shared=shared))
    return sorted(shared)[:_MOST_PATHS]


def _is_of(row: CommandRow, written: set[str]) -> bool:
    """Whether a row is of a path that was written: itself, below it, or a folder above that came or went."""
    is_there_always = row.before is not None and row.after is not None
    for path in written:
        if not path or row.path == path or row.path.startswith(f"{path}/"):
            return True
        if not is_there_always and path.startswith(f"{row.path}/"):
            return True
    return False


def _is_in(folder: Path, root: str) -> bool:
    return _inside(str(folder), root) is not None


def _inside(path: str, root: str) -> str | None:
    """A path relative to the project; None if it is not in it."""
    parent, name = os.path.split(path)
    whole = os.path.join(os.path.realpath(parent), name)
    if whole == root or os.path.realpath(path) == root:
        return ""
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else None
