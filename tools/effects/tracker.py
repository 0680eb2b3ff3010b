"""The daemon's side of the helper process: what is asked before a command, and after it.

The descriptor of the watches is shared with the helper. While their queue is empty, nothing has happened, and nobody
is asked: a command that changes nothing costs two system calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

import tools.effects
from tools.effects.effects import Effects, effects_of
from tools.effects.others import Others, OthersBefore, mark_shared
from tools.effects.project_root import project_root
from tools.files import disk
from tools.journal import trees
from tools.journal.journal import Journal
from tools.kit.log_events import event

if TYPE_CHECKING:
    from tools.sessions.manager import SessionManager

log = logging.getLogger(__name__)

_PROGRAM = Path(tools.effects.__file__).with_name("helper.py")
_MOST_MESSAGE_BYTES = 200_000
# A command waits so long for the first look at its project, and for contents that are being read: 50 ms with what is
# done around the wait.
_FIRST_S = 0.048
# The helper that is silent for so long hangs, unless it computes or waits for a disk. While it looks at files it says
# that it is at work; so much processor time without a word is an endless loop.
_SILENT_S = 0.1
_MOST_COMPUTING_S = 0.5
_MOST_DISK_S = 2.0
_MOST_S = 60.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# So long no helper is started after one has hung.
_REST_S = 300.0
_IDLE_S = 900.0
_HUNG = "the helper process did not answer, and was ended"
_READING = "reading the project ({} %)"
_NO_BYTES = bytes(4)
# Of each glob of a rule its expression, and whether it denies.
DeniedGlobs = list[list[tuple[str, bool]]]


class HelperGone(Exception):
    """The helper gives no answer any more; the text says why."""


class _Project(Struct, eq=False):
    """What the daemon knows of one project."""

    root: str
    key: int
    # The queue of events; None where there are no watches.
    queue: int | None = None
    is_ready: bool = False
    is_behind: bool = True
    percent: int = 0
    # Why it is not followed, and never will be by this helper.
    problem: str = ""
    is_told: bool = False
    running: dict[str, CommandWatch] = field(default_factory=dict)
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)
    # Held from a question whether something has happened until those are known that it is of: a command that begins
    # meanwhile would be in nobody's list.
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def has_events(self) -> bool:
        """Whether something may have happened since the last look."""
        if self.queue is None:
            return True
        return fcntl.ioctl(self.queue, termios.FIONREAD, _NO_BYTES) != _NO_BYTES


class CommandWatch(Struct, eq=False):
    """One command that runs."""

    id: str
    command: str
    project: _Project
    # Why nothing will be known of it.
    problem: str = ""
    # What others had done before it.
    others: OthersBefore | None = None
    # Whether the helper has looked at the project since it began.
    has_news: bool = False


class Seen(Struct, frozen=True):
    """What a command did, and the id that undoes it."""

    effects: Effects | None = None
    undo_id: str | None = None


NOTHING_SEEN = Seen()


class ChangeTracker:
    """Tells what commands did to files. Starts the helper at the first command, and ends it when it is idle."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        *,
        skipped: Sequence[Path] = (),
        denied: Callable[[], DeniedGlobs] = list,
        is_local: Callable[[Path], bool] = lambda path: True,
        sessions: SessionManager | None = None,
        has_watches: bool = True,
    ) -> None:
        """`folder` is for what the helper writes; `skipped` is never looked at; `denied` are the globs of the rules
        that hold for every caller; of `sessions` it is told which were at work beside a command."""
        # Another daemon of the same state folder has its own.
        self._folder = folder / str(os.getpid())
        self._journal = journal
        self._others = Others(journal.written, sessions)
        self._skipped = [str(each) for each in (folder, *skipped)]
        self._denied = denied
        self._is_local = is_local
        self._has_watches = has_watches
        self._projects: dict[str, _Project] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        # How often the helper has said that it is at work.
        self._words = 0
        self._rests_until = 0.0
        self._denied_in_use: DeniedGlobs = []
        self._used_at = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def helper_pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def follows(self, root: Path) -> _Project | None:
        """What is known of a project; None if it is not followed now."""
        return self._projects.get(str(root))

    async def begin(self, cwd: Path, command: str) -> CommandWatch | None:
        """Before a command starts. None if it runs in no project that may be followed."""
        if self._is_closed:
            return None
        root = project_root(cwd)
        if root is None or not self._is_local(root):
            return None
        self._used_at = time.monotonic()
        try:
            project = await self._project(str(root))
        except HelperGone as error:
            return CommandWatch("", command, _Project(str(root), 0), str(error))
        watch = CommandWatch(f"{os.getpid()}-{next(self._numbers)}", command, project, project.problem)
        watch.others = self._others.before(project.root)
        await self._catch_up(project)
        async with project.looking:
            watch.problem = watch.problem or await self._settle(project)
            project.running[watch.id] = watch
        return watch

    async def end(self, watch: CommandWatch | None, session_id: str | None = None) -> Seen:
        """After a command: what it did, and the id that undoes it. `session_id` is its own session."""
        if watch is None:
            return NOTHING_SEEN
        project = watch.project
        try:
            if watch.problem:
                return Seen(self._unknown(watch))
            folder = self._folder / f"entry-{watch.id}"
            message = {"command": watch.id, "folder": str(folder), "most_bytes": self._journal.most_bytes}
            async with project.looking:
                if not project.has_events and not watch.has_news:
                    return NOTHING_SEEN
                answer = await self._look(project, "end", **message)
                project.running.pop(watch.id, None)
            undo_id = None
            if "rows" in answer:
                assert watch.others is not None
                # After the answer: what others do until the helper has looked is theirs, too.
                written = self._others.since(watch.others, project.root, session_id)
                undo_id = await asyncio.to_thread(self._keep, folder, watch, answer, written)
            return Seen(effects_of(project.root, answer), undo_id)
        except HelperGone as error:
            watch.problem = watch.problem or str(error)
            return Seen(self._unknown(watch))
        except OSError as error:
            return Seen(Effects(unknown=f"the journal cannot be written: {(error.strerror or str(error)).lower()}"))
        finally:
            project.running.pop(watch.id, None)

    def _keep(self, folder: Path, watch: CommandWatch, answer: dict[str, Any], written: set[str] | None) -> str | None:
        if written is None or written:
            answer["shared"] = mark_shared(folder, written)
        return self._journal.keep_command(folder, watch.project.root, watch.command, answer)

    def drop(self, watch: CommandWatch | None) -> None:
        """Nobody waits for this command any more."""
        if watch is not None:
            watch.project.running.pop(watch.id, None)

    def close(self) -> None:
        self._is_closed = True
        self.end_helper("the daemon stops")

    def _unknown(self, watch: CommandWatch) -> Effects:
        project = watch.project
        is_known, project.is_told = project.is_told, bool(project.problem)
        text = watch.problem
        if text == _READING:
            text = _READING.format(project.percent) if not project.is_ready else "the project was still being read"
        return Effects(unknown=text, _is_known=is_known)

    async def _project(self, root: str) -> _Project:
        """The project, which the helper begins to read if it does not know it. Raises HelperGone."""
        denied = self._denied()
        if denied != self._denied_in_use and self._projects:
            # What was kept under other rules is thrown away.
            self.end_helper("the rules have changed")
        self._denied_in_use = denied
        found = self._projects.get(root)
        if found is None:
            until = asyncio.get_running_loop().time() + _FIRST_S
            self._start_helper()
            found = self._projects[root] = _Project(root, next(self._numbers))
            message = {
                "root": root,
                "project": found.key,
                "skipped": self._skipped,
                "denied": denied,
                "has_watches": self._has_watches,
            }
            answer = self._send("begin", message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await asyncio.shield(answer)
        return found

    async def _catch_up(self, project: _Project) -> None:
        """Give the helper a moment to read what earlier commands have written."""
        if project.is_ready and project.is_behind:
            project.caught_up.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_S):
                    await project.caught_up.wait()

    async def _settle(self, project: _Project) -> str:
        """Bring what is known of the project up to date before a command. Why it is not, if it is not."""
        if not project.is_ready:
            return project.problem or _READING
        try:
            if project.is_ready and project.has_events:
                await self._look(project, "settle")
        except HelperGone as error:
            return str(error)
        return "" if project.is_ready else "the project is not read any more"

    async def _look(self, project: _Project, do: str, **message: Any) -> dict[str, Any]:
        """Have the helper look at what has happened. Raises HelperGone, also where it cannot follow the project."""
        for each in project.running.values():
            each.has_news = True
        running = [each.id for each in project.running.values() if not each.problem]
        answer = await self._ask(do, {"project": project.key, "running": running, **message})
        if "problem" in answer:
            raise HelperGone(answer["problem"] or "the project is not read any more")
        return answer

    async def _ask(self, do: str, message: dict[str, Any]) -> dict[str, Any]:
        """Raises HelperGone; one that hangs is ended."""
        answer = self._send(do, message)
        began = said_at = time.monotonic()
        words, spent_before_s = self._words, self._status()[1]
        waits = 0
        while True:
            waits += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SILENT_S):
                    return await asyncio.shield(answer)
            self._receive()
            if answer.done():
                return answer.result()
            now, (state, spent_s) = time.monotonic(), self._status()
            if self._words > words:
                words, said_at, spent_before_s = self._words, now, spent_s
            computed_s = spent_s - spent_before_s
            is_at_work = (
                said_at == now
                or (state == "R" and computed_s < _MOST_COMPUTING_S)
                or (state == "D" and now - said_at < _MOST_DISK_S)
            )
            if not is_at_work or now - began > _MOST_S:
                break
        self._rests_until = time.monotonic() + _REST_S
        event(log, logging.WARNING, "effects.helper_hung", state=state, waits=waits, computed_s=round(computed_s, 2))
        self.end_helper(_HUNG)
        raise HelperGone(_HUNG)

    def _send(self, do: str, message: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Raises HelperGone."""
        if self._channel is None:
            raise HelperGone("the helper process has ended")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        # Nobody may be left to wait for it.
        answer.add_done_callback(lambda future: future.cancelled() or future.exception())
        try:
            self._channel.send(json.dumps({"n": number, "do": do, **message}).encode())
        except OSError as error:
            self.end_helper("the helper process has ended")
            raise HelperGone("the helper process has ended") from error
        self._asked[number] = answer
        return answer

    def _receive(self) -> None:
        """Take what the helper has sent."""
        while self._channel is not None:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, _MOST_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self.end_helper("the helper process has ended")
                return
            self._take(json.loads(data), descriptors)

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self._words += "at_work" in message
        answer = self._asked.pop(message.get("n", 0), None)
        if answer is not None and not answer.done():
            answer.set_result(message)
        if "project" not in message:
            return
        project = next((each for each in self._projects.values() if each.key == message["project"]), None)
        if project is None:
            for descriptor in descriptors:
                os.close(descriptor)
            return
        if "is_ready" in message:
            project.is_ready, project.queue = True, descriptors[0] if descriptors else None
        # In the order in which it was sent: an answer and the news behind it may arrive together.
        project.is_behind = message.get("is_behind", project.is_behind)
        if not project.is_behind:
            project.caught_up.set()
        project.percent = message.get("percent", project.percent)
        if "problem" in message:
            if project.is_ready or not message["problem"]:
                self._forget(project, message["problem"])
            else:
                # Decided once: it is not tried again at every command.
                project.problem = message["problem"]

    def _forget(self, project: _Project, why: str) -> None:
        """The helper does not follow it any more; the next command begins anew."""
        if self._projects.get(project.root) is project:
            del self._projects[project.root]
        project.is_ready = False
        for each in project.running.values():
            each.problem = each.problem or why or "the project is not read any more"
        project.caught_up.set()
        if project.queue is not None:
            os.close(project.queue)
            project.queue = None

    def _start_helper(self) -> None:
        """Raises HelperGone."""
        if self._channel is not None:
            return
        if time.monotonic() < self._rests_until:
            raise HelperGone("the helper process did not answer before")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            disk.private_folder(self._folder.parent)
            self._clear()
            disk.private_folder(self._folder)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), str(self._folder)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            self._rests_until = time.monotonic() + _REST_S
            raise HelperGone(f"no helper process could be started: {(error.strerror or str(error)).lower()}") from error
        ours.setblocking(False)
        self._channel = ours
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), self._receive)
        self._idle = loop.call_later(_IDLE_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        left_s = self._used_at + _IDLE_S - time.monotonic()
        if left_s <= 0 and not any(each.running for each in self._projects.values()):
            self.end_helper("it was idle")
        else:
            self._idle = asyncio.get_running_loop().call_later(max(left_s, 60.0), self._end_if_idle)

    def end_helper(self, why: str) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if self._channel is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._channel.close()
            self._channel = None
        for project in list(self._projects.values()):
            self._forget(project, why)
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(HelperGone(why))
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _status(self) -> tuple[str, float]:
        """What the helper does, in the letter of /proc (R computes, D waits for a disk), and its processor time."""
        try:
            with open(f"/proc/{self._process.pid if self._process else 0}/stat") as file:
                fields = file.read().rpartition(") ")[2].split()
        except OSError:
            return "", 0.0
        return fields[0], (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def _clear(self) -> None:
        """Remove what daemons have left that are gone."""
        for folder in self._folder.parent.iterdir():
            if folder == self._folder or not os.path.exists(f"/proc/{folder.name}"):
                trees.discard(folder)
