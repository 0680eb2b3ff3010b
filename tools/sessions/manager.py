"""Starts and ends all sessions of a daemon, within their limits. What they printed is kept for an hour after the end.

The command of one call (`shell_exec`, `bash`) is a session too, but clients get no events about it. If it runs for too
long, it is promoted: from then on it is a session like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from tools.kit.errors import IoError, SessionLimit, SessionNotFound
from tools.kit.log_events import event
from tools.sessions import kept_sessions, process_end, process_tree
from tools.sessions.control_groups import ControlGroups, delegated_group
from tools.sessions.crash_record import CrashRecord
from tools.sessions.kept_sessions import KeptSession
from tools.sessions.origin import EndedBy, Ending, Origin
from tools.sessions.output_log import OutputLog, Stream
from tools.sessions.process import Child, OnOutput, Status, Terminal
from tools.sessions.process_tree import Tree
from tools.sessions.program import OwnProgram
from tools.sessions.session import HeadTailBuffer, OutputListener, Session
from tools.sessions.spawn import SHELL, ChildEnvironment, spawn, spawn_error
from tools.sessions.subreaper import Subreaper

log = logging.getLogger(__name__)

_RECORD_AFTER_S = 0.05
_MOST_FINISHED = 200
_MOST_NAMED = 60
_MOST_KEPT_BYTES = 1024 * 1024 * 1024


class SessionLimits(Struct, frozen=True):
    """The limits of sessions. `grace_s` is the time between SIGTERM and SIGKILL."""

    sessions: int = 10
    age_s: float = 3_600.0
    keep_s: float = 3_600.0
    spool_bytes: int = 64 * 1024 * 1024
    # The output of a call's command is complete up to this size, which is the largest size of an artifact.
    call_bytes: int = 100_000_000
    grace_s: float = 5.0
    stop_on_disconnect: bool = False
    # Behind the id of every session: the name of the box, in a fleet.
    id_suffix: str = ""


class SessionManager:
    """Creates sessions and owns them, together with the tasks that end them."""

    def __init__(self, hub: OutputListener, record: CrashRecord, limits: SessionLimits, *, secret: str) -> None:
        """`secret` is the environment variable that no child gets."""
        self.limits = limits
        self.is_closed = False
        # Whether sessions can be read after a restart: not by those that serve one client, whose sessions end with it.
        self.keeps_past_end = False
        self.started_count = 0
        self._hub = hub
        self._secret = secret
        self._record = record
        self._sessions: dict[str, Session] = {}
        # Ended sessions that can still be read, oldest first. Also commands whose result names their output file.
        self._finished: dict[Session, None] = {}
        self._calls: set[Session] = set()
        self._trees: WeakKeyDictionary[Session, Tree] = WeakKeyDictionary()
        # Are told of the command of a call that has ended, while its output is still there.
        self.on_release: list[Callable[[Session], None]] = []
        # There from the first process on.
        self._environment: ChildEnvironment | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timers: dict[Session, asyncio.TimerHandle] = {}
        self._programs: list[OwnProgram] = []
        # What earlier daemons have kept, each with its folder; of some, the conversation is yet to be told.
        self._kept: dict[str, tuple[Path, KeptSession]] = {}
        self._untold: dict[str, None] = {}
        self._subreaper = Subreaper(self._own_children)
        self._groups = ControlGroups(None, record.boot)

    @property
    def live(self) -> list[Session]:
        """The published sessions that are running, oldest first."""
        return [session for session in self._sessions.values() if session.is_running]

    @property
    def all(self) -> list[Session]:
        """Every published session that can still be read."""
        return list(self._sessions.values())

    def forget_finished(self) -> list[str]:
        """Delete the output of every session that has ended. Returns their ids."""
        ids = [session.id for session in self._finished]
        for session in list(self._finished):
            self._forget(session)
        return ids

    @property
    def calls(self) -> list[Session]:
        """The commands of calls that are under way."""
        return list(self._calls)

    @property
    def tag_prefix(self) -> str:
        """What the tag of every process of this daemon begins with, before the id of its session."""
        return f"{self._record.boot}-"

    def clean_up(self) -> None:
        """End the processes that earlier daemons left behind when they crashed, and begin our own record.

        With its folder there, the next daemon finds our processes by their tag, whatever becomes of the disk.
        """
        self._record.clean_up()
        self._record.open()
        if self.keeps_past_end:
            self._take_up_kept()
        if problem := process_tree.why_nothing_starts():
            event(log, logging.WARNING, "sessions.impossible", message=problem)

    def start(
        self,
        command: str,
        cwd: Path,
        *,
        origin: Origin,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        reads_stderr: bool = True,
    ) -> Session:
        """Start a session; every client gets its events. Raises SessionLimit, or a ToolError about `cwd`."""
        self._check_limit()
        session = self._session(command, cwd, origin)
        session.log.start_spool()
        session.has_terminal = terminal is not None
        try:
            self._spawn(
                session, environment or {}, Terminal(*terminal) if terminal else None, reads_stderr, has_input=True
            )
        except Exception:
            session.log.remove()
            raise
        self._add_to_record(session)
        self._publish(session)
        return session

    def execute(
        self,
        command: str,
        cwd: Path,
        *,
        origin: Origin,
        captures: Mapping[Stream, int],
        reads_stderr: bool,
        shell: Sequence[str] | None = None,
        argv: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> Session:
        """Start the command of one call. The caller must call `release`, `promote` or `abandon` afterwards.

        `captures` has the size of the head and tail buffer of each stream, in bytes.
        """
        # After `end_all` nobody would look for it, and the record that would find it after a crash is gone.
        self._check_open()
        session = self._session(command, cwd, origin)
        session.captures = {stream: HeadTailBuffer(most) for stream, most in captures.items()}
        self._spawn(
            session,
            environment or {},
            None,
            reads_stderr,
            has_input=False,
            argv=argv or (*(shell or SHELL), command),
            drops_variable=drops_variable,
        )
        self._calls.add(session)
        # Most commands end sooner. To read the start time of every process would make a short command a third slower.
        self._timers[session] = _loop().call_later(_RECORD_AFTER_S, self._add_to_record, session)
        return session

    def promote(self, session: Session, ends_in_s: float | None) -> bool:
        """Make the command of a call a session that outlives the call. False if the limit of sessions is reached."""
        if self.is_closed or len(self.live) >= self.limits.sessions:
            return False
        self._calls.discard(session)
        self._cancel_timer(session)
        self._add_to_record(session)
        session.captures = {}
        session.is_promoted = True
        self._publish(session, ends_in_s)
        return True

    def release(self, session: Session, *, keeps_output: bool) -> None:
        """Forget the command of a call. With `keeps_output` its output file stays for an hour."""
        self._calls.discard(session)
        self._cancel_timer(session)
        session.captures = {}
        for notify_released in self.on_release:
            notify_released(session)
        if session.child.has_closed_output:
            session.close()
        else:
            # A process that the command started still has the pipe open. We read on and drop what we read: with a
            # closed pipe that process would be killed by SIGPIPE.
            session.child.on_output = lambda stream, data: True
        if keeps_output and session.log.spool is not None:
            session.log.seal()
            self._keep(session)
        else:
            session.log.remove()

    def news(self, origin: Origin, session_id: str) -> list[str]:
        """What a conversation has yet to be told of its sessions; its call is about `session_id`.

        A session that ended with an earlier daemon; and a command that became a session, once, unless the conversation
        has named it: its client may have stopped listening before the answer came.
        """
        found = []
        if self._untold:
            names = set(kept_sessions.hashed(origin.names))
            for each in list(self._untold):
                folder, kept = self._kept[each]
                if not names.isdisjoint(kept.conversations):
                    del self._untold[each]
                    self._keep_facts(folder, replace(kept, is_told=True))
                    found.append(f"session {_session_label(each, kept.command)} ended; its output: {folder / each}.log")
            if found:
                found[0] = f"the daemon was restarted; {found[0]}"
        for session in self._sessions.values():
            if session.is_promoted and not session.is_known and not set(origin.names).isdisjoint(session.origin.names):
                session.is_known = True
                if session.is_running and session.id != session_id:
                    found.append(
                        f"session {_session_label(session.id, session.command)} still runs, since an earlier call"
                    )
        return found

    def runs(self, session: Session) -> object:
        """How long each process of a session has run. Two that are equal: none of them has done anything between."""
        tree = self._trees.get(session)
        if tree is None:
            child, tag = session.child, process_tree.environment_entry(self._tag(session) + "\0")
            tree = self._trees[session] = Tree(tag, lambda: [] if child.is_reaped else [child.pid])
        return process_tree.runs(tree.look())

    def find(self, session_id: str) -> Session:
        """The session with that id. Raises SessionNotFound with a list of the running sessions."""
        session = self._sessions.get(session_id)
        if session is None:
            live = [f"{each.id} ({each.command[:60]})" for each in self.live]
            listed = f"live sessions: {', '.join(live)}" if live else "no session is running; start one"
            raise SessionNotFound(f"there is no session {session_id[:60]!r}", hint=listed)
        return session

    async def stop(
        self, session: Session, number: int, grace_s: float | None = None, ended_by: EndedBy | None = None
    ) -> Ending:
        """End a session with every process it started, and wait."""
        async with session.stop_lock:
            child = session.child
            child.keeps_zombie = True
            if session.is_running:
                session.ended_by = ended_by
            tag = process_tree.environment_entry(self._tag(session) + "\0")
            tree = Tree(tag, lambda: [*([] if child.is_reaped else [child.pid]), *self._groups.processes(session.id)])
            try:
                grace = self.limits.grace_s if grace_s is None else grace_s
                ending = await process_end.end(tree, number, grace, lambda: self._groups.kill(session.id))
                # Backpressure of a slow client must not delay the exit.
                child.resume()
                await session.wait_for_exit(2.0)
            finally:
                child.reap()
            session.close()
            self._groups.remove(session.id)
        if ending.left:
            event(log, logging.WARNING, "session.processes_left", session=session.id, processes=list(ending.left))
        return ending

    def abandon(self, session: Session, grace_s: float) -> None:
        """End the command of a call that was cancelled, in the background."""
        self._run_in_background(self._stop_and_release(session, grace_s))

    def start_program(
        self,
        name: str,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        *,
        on_output: OnOutput,
        on_exit: Callable[[Status], None],
        terminal: Terminal | None = None,
    ) -> OwnProgram:
        """Start a program of the daemon itself. The caller ends it; `end_all` ends it, too. Raises OSError."""
        if self.is_closed:
            raise OSError("the daemon is stopping and starts no more programs")
        if problem := process_tree.why_nothing_starts():
            raise OSError(problem)
        self._record.open()
        tag = f"{self._record.boot}-{name}"
        program: OwnProgram

        def end(status: Status) -> None:
            self._record.remove(program.child.pid)
            self._programs.remove(program)
            program.has_ended.set()
            on_exit(status)

        child = spawn(
            argv,
            cwd,
            self._prepare().of_program(tag, environment, has_terminal=terminal is not None),
            on_output=on_output,
            on_exit=end,
            on_output_closed=lambda: None,
            terminal=terminal,
            has_input=True,
        )
        program = OwnProgram(child, tag)
        self._programs.append(program)
        self._record.add(child.pid)
        return program

    def processes(self) -> list[int]:
        """Every running process that was started for a client, or descends from one. Reads /proc."""
        tag = process_tree.environment_entry(f"{self._record.boot}-")
        return [member.pid for member in process_tree.find(tag)]

    def on_disconnect(self, connection: str) -> None:
        """Stop the sessions that a connection has started, if `stop_on_disconnect` is set."""
        for session in self._sessions.values():
            session.on_disconnect(connection)
        if self.limits.stop_on_disconnect and connection:
            for session in self.live:
                if session.origin.connection == connection:
                    self._run_in_background(self.stop(session, signal.SIGTERM, ended_by="disconnect"))

    async def end_all(self, grace_s: float | None = None) -> None:
        """End every process of this daemon. Clients still get the exit events; no new process can be started."""
        self.is_closed = True
        for program in self._programs:
            program.child.hang_up()
        every = list({*self._sessions.values(), *self._calls, *self._timers})
        leaders = [session.child for session in every if not session.child.is_reaped]
        for child in leaders:
            child.keeps_zombie = True
        for session in every:
            if session.is_running and session.ended_by is None:
                session.ended_by = "shutdown"
        if every or self._programs or self._environment is not None:
            tree = Tree(
                process_tree.environment_entry(self.tag_prefix),
                lambda: [
                    *(child.pid for child in leaders if not child.is_reaped),
                    *(pid for name in self._groups.names() for pid in self._groups.processes(name)),
                ],
            )
            grace = self.limits.grace_s if grace_s is None else grace_s
            ending = await process_end.end(tree, signal.SIGTERM, grace, self._kill_groups)
            for name in self._groups.names():
                self._groups.remove(name)
            if ending.left:
                event(log, logging.WARNING, "sessions.processes_left", processes=list(ending.left))
        for session in every:
            session.child.resume()
            await session.wait_for_exit(1.0)
        for child in leaders:
            child.reap()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def close(self) -> None:
        """Close descriptors and remove files, save for what is kept for the next start. Call it after `end_all`."""
        self.is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._subreaper.stop()
        for session in [*self._sessions.values(), *self._calls]:
            with contextlib.suppress(RuntimeError):
                # If the event loop has stopped already, no descriptor is registered with it.
                session.close()
        for session in self._finished:
            if session.is_published and self.keeps_past_end:
                session.log.seal()
            else:
                session.log.remove()
        self._record.close()

    def _kill_groups(self) -> None:
        for name in self._groups.names():
            self._groups.kill(name)

    def _own_children(self) -> set[int]:
        """The processes that we wait for ourselves."""
        sessions = {session.pid for session in (*self._sessions.values(), *self._calls)}
        return sessions | {program.child.pid for program in self._programs}

    def _check_limit(self) -> None:
        self._check_open()
        live = self.live
        if len(live) >= self.limits.sessions:
            oldest = ", ".join(f"{each.id} ({each.command[:40]})" for each in live)
            raise SessionLimit(
                f"{len(live)} sessions are running and there may be {self.limits.sessions}",
                hint=f"stop one with shell_stop_session: {oldest}",
            )

    def _check_open(self) -> None:
        if self.is_closed:
            raise SessionLimit("the daemon is stopping and starts no more commands")
        if problem := process_tree.why_nothing_starts():
            raise IoError(problem)

    def _session(self, command: str, cwd: Path, origin: Origin) -> Session:
        self._record.open()
        session_id = f"s{secrets.token_hex(4)}{self.limits.id_suffix}"
        path = self._record.folder / f"{session_id}.log"
        output = OutputLog(session_id, path, self.limits.spool_bytes, self.limits.call_bytes)
        return Session(session_id, command, cwd, output, self._hub, origin, self)

    def _spawn(
        self,
        session: Session,
        environment: Mapping[str, str],
        terminal: Terminal | None,
        reads_stderr: bool,
        *,
        has_input: bool,
        argv: Sequence[str] | None = None,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> None:
        tag, has_terminal = self._tag(session), terminal is not None
        children = self._prepare()
        try:
            session.child = spawn(
                self._groups.joining(session.id, argv or (*SHELL, session.command)),
                session.cwd,
                children.of_command(tag, environment, has_terminal=has_terminal, drops_variable=drops_variable),
                on_output=session.on_output,
                on_exit=session.on_exit,
                on_output_closed=session.on_output_closed,
                terminal=terminal,
                has_input=has_input,
                reads_stderr=reads_stderr,
            )
        except OSError as error:
            self._groups.remove(session.id)
            raise spawn_error(error, session.command, session.cwd) from error

    def _publish(self, session: Session, ends_in_s: float | None = None) -> None:
        self._sessions[session.id] = session
        self.started_count += 1
        session.publish()
        self._note(session)
        left_s = max(0.0, self.limits.age_s - session.age_s)
        ended_by: EndedBy = "age"
        if ends_in_s is not None and ends_in_s < left_s:
            left_s, ended_by = ends_in_s, "timeout"
        session.expiry = _loop().call_later(left_s, self._expire, session, ended_by)
        event(log, logging.INFO, "session.opened", session=session.id, pid=session.pid)

    def on_exit(self, session: Session) -> None:
        """Keep the output of a published session that has just ended, for `keep_s`."""
        self._record.remove(session.pid)
        self._groups.remove(session.id)
        if not session.is_published:
            return
        self._note(session)
        event(log, logging.INFO, "session.closed", session=session.id, exit_code=session.exit_code)
        if session.expiry is not None:
            session.expiry.cancel()
        self._keep(session)

    def _note(self, session: Session) -> None:
        """Put on record what the next start is to know of a session."""
        if self.keeps_past_end and session.log.spool is not None:
            facts = KeptSession(
                session.id,
                session.command,
                str(session.cwd),
                session.pid,
                session.started_at,
                session.origin.token,
                kept_sessions.hashed(session.origin.names),
                session.ended_at,
                session.exit_code,
                session.signal,
                session.ended_by,
            )
            self._keep_facts(session.log.path.parent, facts)

    def _keep_facts(self, folder: Path, facts: KeptSession) -> None:
        try:
            facts.write(folder)
        except OSError as error:
            event(log, logging.WARNING, "session.not_kept", session=facts.id, message=str(error))

    def _take_up_kept(self) -> None:
        """Let the sessions of earlier daemons be read until their time is over."""
        for folder in self._record.earlier_folders():
            taken = [self._take_up(folder, kept) for kept in kept_sessions.read(folder)]
            if not any(taken):
                shutil.rmtree(folder, ignore_errors=True)

    def _take_up(self, folder: Path, kept: KeptSession) -> bool:
        """False for one whose time is over, or whose output is gone."""
        if kept.ended_at is None:
            kept = replace(kept, ended_at=time.time(), exit_code=Status.unknown().exit_code, ended_by="shutdown")
            self._keep_facts(folder, kept)
        left_s = (kept.ended_at or 0.0) + self.limits.keep_s - time.time()
        try:
            output = OutputLog.reopen(kept.id, folder / f"{kept.id}.log")
        except OSError:
            left_s = 0.0
        if left_s <= 0:
            return False
        session = Session(kept.id, kept.command, Path(kept.cwd), output, self._hub, Origin(kept.token), self)
        session.status = Status(kept.exit_code or 0, kept.signal)
        session.child = Child.ended(kept.pid, session.status)
        session.started_at, session.ended_at, session.ended_by = kept.started_at, kept.ended_at, kept.ended_by
        self._sessions[kept.id] = session
        self._kept[kept.id] = folder, kept
        if kept.ended_by == "shutdown" and not kept.is_told:
            self._untold[kept.id] = None
        session.publish()
        self._hub.notify_exit(output, session.status.exit_code, kept.signal, kept.ended_by)
        self._keep(session, left_s)
        return True

    def _keep(self, session: Session, keep_s: float | None = None) -> None:
        """Let the output be read for `keep_s`; evict the oldest sessions while there are too many or too large ones."""
        keep_s = self.limits.keep_s if keep_s is None else keep_s
        self._timers[session] = _loop().call_later(keep_s, self._forget, session)
        self._finished[session] = None
        kept = sum(each.log.kept_bytes for each in self._finished)
        for oldest in list(self._finished)[:-1]:
            if len(self._finished) <= _MOST_FINISHED and kept <= _MOST_KEPT_BYTES:
                break
            kept -= oldest.log.kept_bytes
            self._forget(oldest)

    def _expire(self, session: Session, ended_by: EndedBy) -> None:
        event(log, logging.INFO, "session.expired", session=session.id, age_s=round(session.age_s), ended_by=ended_by)
        self._run_in_background(self.stop(session, signal.SIGTERM, ended_by=ended_by))

    def _forget(self, session: Session) -> None:
        """Remove an ended session, its output, and any process that it left running."""
        self._cancel_timer(session)
        self._finished.pop(session, None)
        if self._sessions.pop(session.id, None) is not None:
            self._untold.pop(session.id, None)
            self._kept.pop(session.id, None)
            kept_sessions.remove(session.log.path.parent, session.id)
            self._hub.drop_log(session.log)
            if not session.child.has_closed_output:
                self._run_in_background(self.stop(session, signal.SIGTERM))
        session.log.remove()

    def _add_to_record(self, session: Session) -> None:
        """Write the process to the crash record."""
        if session.is_running:
            self._record.add(session.pid)

    def _cancel_timer(self, session: Session) -> None:
        timer = self._timers.pop(session, None)
        if timer is not None:
            timer.cancel()

    async def _stop_and_release(self, session: Session, grace_s: float) -> None:
        await self.stop(session, signal.SIGTERM, grace_s)
        self.release(session, keeps_output=False)

    def _run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tag(self, session: Session) -> str:
        return f"{self._record.boot}-{session.id}"

    def _prepare(self) -> ChildEnvironment:
        """The environment of every process. Before the first one, become a subreaper and find our control group."""
        if self._environment is None:
            self._environment = ChildEnvironment(self._secret)
            self._groups = ControlGroups(delegated_group(), self._record.boot)
            self._subreaper.start()
        return self._environment


def _session_label(session_id: str, command: str) -> str:
    line = " ".join(command.split())
    return f"{session_id} ({line if len(line) <= _MOST_NAMED else line[: _MOST_NAMED - 1] + '…'})"


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
