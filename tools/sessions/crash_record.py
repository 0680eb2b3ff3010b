"""Records on disk which processes a daemon has started, so that the next daemon can clean up after a crash.

Each start of a daemon has its own folder under `sessions/` in the state folder. It holds the pid of the daemon, a line
for each process that it started, and the spools. An orderly end removes the folder, but for the sessions that the next
daemon is to know. At its start, a daemon looks for folders whose daemon no longer runs and ends their processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tools.files import disk
from tools.kit.log_events import event
from tools.sessions import kept_sessions, process_end, process_tree
from tools.sessions.process_tree import ProcessId

log = logging.getLogger(__name__)

_MOST_RECORD_BYTES = 256 * 1024
_GRACE_S = 1.0
_UNFINISHED_S = 60.0
_KEPT_S = 86_400.0


class _Owner(Struct, frozen=True):
    """The daemon that a folder belongs to, and the start of the machine that its pids are of."""

    pid: int
    started: int | None
    machine: str


class CrashRecord:
    """The folder of this start of the daemon. Created at the start, again if it is deleted, and removed by `close`.

    A folder that cannot be written takes nothing away from the caller: the process runs without a record, the log says
    so once, and the next process tries again. Until then a crash would leave its processes behind.
    """

    def __init__(self, folder: Path) -> None:
        self._parent = folder
        self.boot = secrets.token_hex(5)
        self.folder = folder / self.boot
        self._file: int | None = None
        self._size = 0
        self._alive: dict[int, int] = {}
        # The file lacks a line, or ends within one: it must be written again as a whole.
        self._is_stale = False
        self._is_failing = False

    def open(self) -> None:
        """Create the folder and write into it which process owns it. Does nothing while both exist."""
        owner = self.folder / "owner.json"
        if self._file is not None and os.path.exists(owner):  # noqa: PTH110 - half the time, before every command
            return
        with self._failing_once():
            self._close_file()
            if self.folder.is_dir():
                disk.replace_file(owner, _owner_facts(), sync=False)
            else:
                self._create_folder()
            self._rewrite()

    def add(self, pid: int) -> None:
        """Record a process that has just been started."""
        start_time = process_tree.start_time(pid)
        if start_time is None:
            return
        self._alive[pid] = start_time
        if self._file is None:
            return
        with self._failing_once():
            if self._is_stale or self._size > _MOST_RECORD_BYTES:
                self._rewrite()
            else:
                self._is_stale = True
                disk.write_all(self._file, line := b"%d %d\n" % (pid, start_time))
                self._size += len(line)
                self._is_stale = False

    def remove(self, pid: int) -> None:
        """Forget a process that has ended.

        Its line stays until the file is rewritten. That does no harm: a new process with the same pid has another start
        time.
        """
        self._alive.pop(pid, None)

    def close(self) -> None:
        """Remove the folder, save for sessions that are kept. Every process has been ended."""
        self._close_file()
        if kept_sessions.are_in(self.folder):
            (self.folder / "processes").unlink(missing_ok=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def clean_up(self) -> int:
        """End the processes of daemons that no longer run and remove their folders. Returns how many were ended."""
        ended = 0
        try:
            for folder in list(self._parent.iterdir()):
                if folder.name.startswith("."):
                    # A daemon died, or its disk was full, while it made its folder.
                    if folder.lstat().st_mtime < time.time() - _UNFINISHED_S:
                        shutil.rmtree(folder, ignore_errors=True)
                elif folder.is_dir() and not _is_in_use(folder):
                    ended += _end_processes(folder)
                    (folder / "processes").unlink(missing_ok=True)
                    # Those who keep no sessions themselves leave them to a daemon that may come.
                    if not (kept_sessions.are_in(folder) and folder.stat().st_mtime > time.time() - _KEPT_S):
                        shutil.rmtree(folder, ignore_errors=True)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            event(log, logging.WARNING, "sessions.not_cleaned_up", path=str(self._parent), message=str(error))
        return ended

    def earlier_folders(self) -> list[Path]:
        """The folders that daemons have left which no longer run, oldest first."""
        with contextlib.suppress(OSError):
            found = [each for each in self._parent.iterdir() if each.is_dir() and not each.name.startswith(".")]
            return sorted((each for each in found if not _is_in_use(each)), key=lambda each: each.stat().st_mtime)
        return []

    def _create_folder(self) -> None:
        # Hidden until owner.json is written: another daemon that starts now would take a folder without an owner for
        # that of a dead daemon and remove it.
        unfinished = self._parent / f".{self.boot}"
        try:
            disk.private_folder(unfinished)
            disk.replace_file(unfinished / "owner.json", _owner_facts(), sync=False)
            unfinished.rename(self.folder)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def _rewrite(self) -> None:
        """Write the lines of all processes that run, as a new file: the old one stays if the disk is full."""
        lines = b"".join(b"%d %d\n" % each for each in self._alive.items())
        path = self.folder / "processes"
        self._is_stale = True
        disk.replace_file(path, lines, sync=False)
        self._close_file()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._size = len(lines)
        self._is_stale = False

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextlib.contextmanager
    def _failing_once(self) -> Iterator[None]:
        """Log the first OSError of the block since it last worked, and raise none."""
        try:
            yield
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                event(log, logging.WARNING, "sessions.not_recorded", path=str(self.folder), message=str(error))
            self._is_failing = True


def _owner_facts() -> bytes:
    own = os.getpid()
    return msgspec.json.encode(_Owner(own, process_tree.start_time(own), _boot_id()))


def _is_in_use(folder: Path) -> bool:
    """Whether its daemon still runs. A zombie does not: the parent of the daemon may never reap it."""
    owner = _owner(folder)
    if owner is None or owner.machine != _boot_id() or owner.started is None:
        return False
    return process_tree.is_alive(ProcessId(owner.pid, owner.started))


def _end_processes(folder: Path) -> int:
    """End the processes of a daemon that no longer runs.

    Recorded pids count only if the machine has not been restarted since: after a restart they name other processes.
    """
    tag = process_tree.environment_entry(f"{folder.name}-")
    owner = _owner(folder)
    recorded = _processes(folder) if owner is not None and owner.machine == _boot_id() else set()

    def leaders() -> list[int]:
        return [member.pid for member in recorded if process_tree.start_time(member.pid) == member.start_time]

    count = process_end.end_blocking(process_tree.Tree(tag, leaders), _GRACE_S)
    if count:
        event(log, logging.WARNING, "sessions.cleaned_up", boot=folder.name, processes=count)
    return count


def _processes(folder: Path) -> set[ProcessId]:
    found = set()
    with contextlib.suppress(OSError):
        for line in disk.read_small_file(folder / "processes").decode("utf-8", "replace").splitlines():
            # A daemon that dies, or whose disk is full, may leave half a line.
            with contextlib.suppress(ValueError):
                pid, start_time = line.split()
                found.add(ProcessId(int(pid), int(start_time)))
    return found


def _owner(folder: Path) -> _Owner | None:
    try:
        return msgspec.json.decode(disk.read_small_file(folder / "owner.json"), type=_Owner)
    except (OSError, ValueError):
        return None


def _boot_id() -> str:
    """An id that changes with every start of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
