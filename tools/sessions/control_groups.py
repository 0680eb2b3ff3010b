"""A control group for each command, where the system lets the daemon manage its own group (cgroup v2, delegated).

systemd does so with `Delegate=yes`, and marks the folder of the group. A process cannot leave its group by forking or
by clearing its environment, so the group finds what has escaped every other search, and ends it in one step. Without
such a group nothing here does anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from tools.sessions.spawn import SHELL

_MARKS = ("user.delegate", "trusted.delegate")
_JOIN = 'echo $$ 2>/dev/null > "$0/cgroup.procs"; exec "$@"'


class ControlGroups:
    """The groups of this daemon's commands, each named by its session."""

    def __init__(self, folder: Path | None, boot: str) -> None:
        """`folder` is the group of the daemon; None if it may not manage it."""
        self._folder = folder
        self._prefix = f"mcp-agent-{boot}-"

    def joining(self, name: str, argv: Sequence[str]) -> Sequence[str]:
        """A command line that enters a new group and then becomes `argv`: so it forks nothing outside the group."""
        if self._folder is None:
            return argv
        group = self._group(name)
        try:
            group.mkdir()
        except OSError:
            return argv
        return (*SHELL, _JOIN, str(group), *argv)

    def processes(self, name: str) -> list[int]:
        """The processes that are in the group now."""
        if self._folder is None:
            return []
        try:
            return [int(line) for line in (self._group(name) / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def kill(self, name: str) -> None:
        """Kill all that is in the group, and what it forks meanwhile."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._group(name) / "cgroup.kill").write_text("1")

    def remove(self, name: str) -> None:
        """Remove the group if it is empty."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._group(name).rmdir()

    def names(self) -> list[str]:
        """The names of all existing groups."""
        if self._folder is None:
            return []
        return [path.name.removeprefix(self._prefix) for path in self._folder.glob(f"{self._prefix}*")]

    def _group(self, name: str) -> Path:
        assert self._folder is not None, "only a delegated group has groups in it"
        return self._folder / f"{self._prefix}{name}"


def delegated_group() -> Path | None:
    """The folder of our own control group, if we may manage it."""
    try:
        own = next(line[3:] for line in _lines("/proc/self/cgroup") if line.startswith("0::"))
        mounted = next(line for line in _lines("/proc/self/mountinfo") if " - cgroup2 " in line).split()
        folder = Path(mounted[4]) / Path(own).relative_to(mounted[3])
    except (OSError, StopIteration, ValueError):
        return None
    return folder if any(_attribute(folder, name) == b"1" for name in _MARKS) else None


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _attribute(folder: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(folder, name)
    except (OSError, AttributeError):
        return None
