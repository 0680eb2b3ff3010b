"""Records on disk which processes a daemon has started, so that the next daemon can clean up after a crash.

Each start of a daemon has its own folder under `sessions/` in the state folder. It holds the pid of the daemon, a line
for each process that it started, and the spools. An orderly end removes the folder. At its start, a daemon looks for
folders whose daemon no longer runs: it ends their processes and removes their spools.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
from pathlib import Path

import orjson

from mcp_agent.logs import event
from mcp_agent.sessions import process_tree
from mcp_agent.sessions.process_tree import Member

log = logging.getLogger(__name__)

_MOST_RECORD_BYTES = 256 * 1024
_GRACE_S = 1.0


class CrashRecord:
    """The folder of this start of the daemon. Created before the first process, removed by `close`."""

    def __init__(self, folder: Path) -> None:
        self._parent = folder
        self.boot = secrets.token_hex(5)
        self.folder = folder / self.boot
        self._file: int | None = None
        self._size = 0
        self._alive: dict[int, int] = {}

    def open(self) -> None:
        """Create the folder and write into it which process owns it. Does nothing the second time."""
        if self._file is not None:
            return
        # Hidden until owner.json is written: another daemon that starts now would take a folder without an owner for
        # that of a dead daemon and remove it.
        unfinished = self._parent / f".{self.boot}"
        unfinished.mkdir(mode=0o700, parents=True)
        own = os.getpid()
        owner = {"pid": own, "started": process_tree.start_time(own), "machine": _boot_id()}
        (unfinished / "owner.json").write_bytes(orjson.dumps(owner))
        unfinished.rename(self.folder)
        self._file = os.open(
            self.folder / "processes", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_TRUNC, 0o600
        )

    def add(self, pid: int) -> None:
        """Record a process that has just been started."""
        assert self._file is not None, "open() comes before the first process"
        start_time = process_tree.start_time(pid)
        if start_time is None:
            return
        self._alive[pid] = start_time
        if self._size > _MOST_RECORD_BYTES:
            self._rewrite()
        else:
            self._size += os.write(self._file, b"%d %d\n" % (pid, start_time))

    def remove(self, pid: int) -> None:
        """Forget a process that has ended.

        Its line stays until the file is rewritten. That does no harm: a new process with the same pid has another start
        time.
        """
        self._alive.pop(pid, None)

    def close(self) -> None:
        """Remove the folder. Every process has been ended, so nothing is left to clean up."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            shutil.rmtree(self.folder, ignore_errors=True)

    def clean_up(self) -> int:
        """End the processes of daemons that no longer run and remove their folders. Returns how many were ended."""
        if not self._parent.is_dir():
            return 0
        ended = 0
        for folder in self._parent.iterdir():
            if folder.is_dir() and not folder.name.startswith(".") and not _is_in_use(folder):
                ended += _end_processes(folder)
                shutil.rmtree(folder, ignore_errors=True)
        return ended

    def _rewrite(self) -> None:
        assert self._file is not None, "only an open record is rewritten"
        lines = b"".join(b"%d %d\n" % each for each in self._alive.items())
        os.ftruncate(self._file, 0)
        self._size = os.write(self._file, lines)


def _is_in_use(folder: Path) -> bool:
    owner = _owner(folder)
    pid = owner.get("pid")
    if owner.get("machine") != _boot_id() or not isinstance(pid, int):
        return False
    return process_tree.start_time(pid) == owner.get("started")


def _end_processes(folder: Path) -> int:
    """End the processes of a daemon that no longer runs.

    Recorded pids count only if the machine has not been restarted since: after a restart they name other processes.
    """
    tag = process_tree.environment_entry(f"{folder.name}-")
    recorded = _processes(folder) if _owner(folder).get("machine") == _boot_id() else set()

    def members() -> set[Member]:
        leaders = [member.pid for member in recorded if process_tree.start_time(member.pid) == member.start_time]
        return process_tree.find(tag, leaders)

    count = process_tree.end_blocking(members, _GRACE_S)
    if count:
        event(log, logging.WARNING, "sessions.cleaned_up", boot=folder.name, processes=count)
    return count


def _processes(folder: Path) -> set[Member]:
    found = set()
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "processes").read_text().splitlines():
            pid, start_time = line.split()
            found.add(Member(int(pid), int(start_time)))
    return found


def _owner(folder: Path) -> dict[str, object]:
    try:
        owner = orjson.loads((folder / "owner.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _boot_id() -> str:
    """An id that changes with every start of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
