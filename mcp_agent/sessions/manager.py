"""All sessions of a daemon: started within their limits, ended with everything they started, kept for an hour.

One-shot commands are sessions that clients do not hear of; one that runs for long is published and becomes one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_agent.logs import event
from mcp_agent.security import auth_tokens
from mcp_agent.sessions import process_tree
from mcp_agent.sessions.crash_record import CrashRecord
from mcp_agent.sessions.output_log import OutputLog, Stream
from mcp_agent.sessions.process import SHELL, Terminal, spawn
from mcp_agent.sessions.process_tree import Member
from mcp_agent.sessions.session import HeadTailBuffer, OutputListener, Session
from tools.kit.errors import SessionLimit, SessionNotFound, from_os_error
from tools.kit.records import record

log = logging.getLogger(__name__)

_SET_CHILD_SUBREAPER = 36
_ORPHANS_EVERY_S = 5.0
_RECORD_AFTER_S = 0.05
_MOST_FINISHED = 200
_MOST_KEPT_BYTES = 1024 * 1024 * 1024
_NO_PAGER = {"PAGER": "cat", "GIT_PAGER": "cat"}


@record
class Limits:
    """How many sessions, how old, how much of their output, and how long a process has to end by itself."""

    sessions: int = 10
    age_s: float = 3_600.0
    keep_s: float = 3_600.0
    spool_bytes: int = 64 * 1024 * 1024
    # Of a command of a call, so much is kept whole: as much as an artifact may have.
    call_bytes: int = 100_000_000
    grace_s: float = 5.0
    stop_on_disconnect: bool = False


class SessionManager:
    """Makes sessions and owns them, and the tasks that end them."""

    def __init__(self, hub: OutputListener, record: CrashRecord, limits: Limits) -> None:
        self.limits = limits
        self.is_closed = False
        self.started_count = 0
        self._hub = hub
        self._record = record
        self._sessions: dict[str, Session] = {}
        # What is over and can still be read, oldest first: sessions, and commands whose output a result points to.
        self._finished: dict[Session, None] = {}
        self._calls: set[Session] = set()
        self._environment: dict[bytes, bytes] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timers: dict[Session, asyncio.TimerHandle] = {}
        self._orphan_zombies: set[Member] = set()
        self._orphan_timer: asyncio.TimerHandle | None = None

    @property
    def live(self) -> list[Session]:
        """The published sessions that run, oldest first."""
        return [session for session in self._sessions.values() if session.is_running]

    @property
    def all(self) -> list[Session]:
        """Every published session that can still be read."""
        return list(self._sessions.values())

    def clean_up(self) -> None:
        """End what an earlier daemon left behind when it was killed."""
        self._record.clean_up()

    def start(
        self,
        command: str,
        cwd: Path,
        *,
        connection: str,
        environment: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
        reads_stderr: bool = True,
    ) -> Session:
        """A new session that every client hears of. Raises SessionLimit, or what the system says of `cwd`."""
        self._check_limit()
        session = self._session(command, cwd, connection)
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
        connection: str,
        captures: Mapping[Stream, int],
        reads_stderr: bool,
        shell: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> Session:
        """A command of one call, its output collected up to so many bytes a stream. `release` it when it is over."""
        session = self._session(command, cwd, connection)
        session.captures = {stream: HeadTailBuffer(most) for stream, most in captures.items()}
        self._spawn(
            session,
            environment or {},
            None,
            reads_stderr,
            has_input=False,
            shell=shell or SHELL,
            drops_variable=drops_variable,
        )
        self._calls.add(session)
        # Most commands are over before that, and looking at a process that has just begun takes a third of its life.
        self._timers[session] = _loop().call_later(_RECORD_AFTER_S, self._add_to_record, session)
        return session

    def promote(self, session: Session, ends_in_s: float | None) -> bool:
        """Turn a command of a call into a session. False if there are as many as there may be."""
        if self.is_closed or len(self.live) >= self.limits.sessions:
            return False
        self._calls.discard(session)
        self._cancel_timer(session)
        self._add_to_record(session)
        session.captures = {}
        self._publish(session, ends_in_s)
        return True

    def release(self, session: Session, *, keeps_output: bool) -> None:
        """A call is done with its command: forget it, but leave its output in the file if that is asked."""
        self._calls.discard(session)
        self._cancel_timer(session)
        session.captures = {}
        if session.child.has_closed_output:
            session.close()
        else:
            # Something it started still holds the pipe. It is read on, or it would die of a closed one.
            session.child.on_output = lambda stream, data: True
        if keeps_output and session.log.spool is not None:
            session.log.seal()
            self._keep(session)
        else:
            session.log.remove()

    def find(self, session_id: str) -> Session:
        """The session of that id. Raises SessionNotFound, which lists the live ones."""
        session = self._sessions.get(session_id)
        if session is None:
            live = [f"{each.id} ({each.command[:60]})" for each in self.live]
            listed = f"live sessions: {', '.join(live)}" if live else "no session is running; start one"
            raise SessionNotFound(f"there is no session {session_id[:60]!r}", hint=listed)
        return session

    async def stop(self, session: Session, number: int, grace_s: float | None = None) -> bool:
        """End a session and all that it started, and wait for that. True if it had to be killed after its grace."""
        async with session.stop_lock:
            child = session.child
            child.keeps_zombie = True
            tag = process_tree.environment_entry(self._tag(session) + "\0")

            def members() -> set[Member]:
                return process_tree.find(tag, () if child.is_reaped else (child.pid,))

            try:
                grace = self.limits.grace_s if grace_s is None else grace_s
                escalated = await process_tree.end(members, number, grace)
                # Its end is heard even if a client has not caught up with its output.
                child.resume()
                await session.wait_for_exit(2.0)
            finally:
                child.reap()
            session.close()
        return escalated

    def abandon(self, session: Session, grace_s: float) -> None:
        """End a command that nobody waits for any more."""
        self._run_in_background(self._stop_and_release(session, grace_s))

    def on_disconnect(self, connection: str) -> None:
        """A client is gone: its sessions go too, if that is how it is set."""
        if self.limits.stop_on_disconnect and connection:
            for session in self.live:
                if session.connection == connection:
                    self._run_in_background(self.stop(session, signal.SIGTERM))

    async def end_all(self, grace_s: float | None = None) -> None:
        """End every process of this daemon. Exits are told; nothing can be started any more."""
        self.is_closed = True
        every = list({*self._sessions.values(), *self._calls, *self._timers})
        leaders = [session.child for session in every if not session.child.is_reaped]
        for child in leaders:
            child.keeps_zombie = True
        if every or self._environment is not None:
            tag = process_tree.environment_entry(f"{self._record.boot}-")

            def members() -> set[Member]:
                return process_tree.find(tag, [child.pid for child in leaders])

            grace = self.limits.grace_s if grace_s is None else grace_s
            await process_tree.end(members, signal.SIGTERM, grace)
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
        """Let go of descriptors and files. Every process has been ended."""
        self.is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        if self._orphan_timer is not None:
            self._orphan_timer.cancel()
        for session in [*self._sessions.values(), *self._calls]:
            with contextlib.suppress(RuntimeError):
                # Without a running loop there is nothing to listen on any more.
                session.close()
        self._record.close()

    def _check_limit(self) -> None:
        live = self.live
        if self.is_closed:
            raise SessionLimit("the daemon is stopping and starts nothing any more")
        if len(live) >= self.limits.sessions:
            oldest = ", ".join(f"{each.id} ({each.command[:40]})" for each in live)
            raise SessionLimit(
                f"{len(live)} sessions are running and there may be {self.limits.sessions}",
                hint=f"stop one with shell_stop_session: {oldest}",
            )

    def _session(self, command: str, cwd: Path, connection: str) -> Session:
        if self._environment is None:
            self._prepare()
        session_id = f"s{secrets.token_hex(4)}"
        path = self._record.folder / f"{session_id}.log"
        output = OutputLog(session_id, path, self.limits.spool_bytes, self.limits.call_bytes)
        return Session(session_id, command, cwd, output, self._hub, connection, self)

    def _spawn(
        self,
        session: Session,
        environment: Mapping[str, str],
        terminal: Terminal | None,
        reads_stderr: bool,
        *,
        has_input: bool,
        shell: Sequence[str] = SHELL,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> None:
        assert self._environment is not None, "prepared with the session"
        ours = self._environment
        if drops_variable is not None:
            ours = {name: value for name, value in ours.items() if not drops_variable(os.fsdecode(name))}
        try:
            session.child = spawn(
                session.command,
                session.cwd,
                {**ours, **_encode(environment), **_encode({process_tree.TAG: self._tag(session)})},
                shell=shell,
                on_output=session.on_output,
                on_exit=session.on_exit,
                on_output_closed=session.on_output_closed,
                terminal=terminal,
                has_input=has_input,
                reads_stderr=reads_stderr,
            )
        except OSError as error:
            if error.filename is None:
                raise
            raise from_os_error(error, os.fsdecode(error.filename)) from error

    def _publish(self, session: Session, ends_in_s: float | None = None) -> None:
        self._sessions[session.id] = session
        self.started_count += 1
        session.publish()
        left_s = max(0.0, self.limits.age_s - session.age_s)
        if ends_in_s is not None:
            left_s = min(left_s, ends_in_s)
        session.expiry = _loop().call_later(left_s, self._expire, session)
        event(log, logging.INFO, "session.opened", session=session.id, pid=session.pid)

    def on_exit(self, session: Session) -> None:
        """A session's leader has ended: its hour of being readable begins."""
        self._record.remove(session.pid)
        if not session.is_published:
            return
        event(log, logging.INFO, "session.closed", session=session.id, exit_code=session.exit_code)
        if session.expiry is not None:
            session.expiry.cancel()
        self._keep(session)

    def _keep(self, session: Session) -> None:
        """Its output can be read for an hour, or until what is newer needs the room."""
        self._timers[session] = _loop().call_later(self.limits.keep_s, self._forget, session)
        self._finished[session] = None
        kept = sum(each.log.kept_bytes for each in self._finished)
        for oldest in list(self._finished)[:-1]:
            if len(self._finished) <= _MOST_FINISHED and kept <= _MOST_KEPT_BYTES:
                break
            kept -= oldest.log.kept_bytes
            self._forget(oldest)

    def _expire(self, session: Session) -> None:
        event(log, logging.INFO, "session.expired", session=session.id, age_s=round(session.age_s))
        self._run_in_background(self.stop(session, signal.SIGTERM))

    def _forget(self, session: Session) -> None:
        """Its hour is over: nothing of it stays, nor of what it left running."""
        self._cancel_timer(session)
        self._finished.pop(session, None)
        if self._sessions.pop(session.id, None) is not None:
            self._hub.drop_log(session.log)
            if not session.child.has_closed_output:
                self._run_in_background(self.stop(session, signal.SIGTERM))
        session.log.remove()

    def _add_to_record(self, session: Session) -> None:
        """Put a process on record, for the daemon that comes after a crash of this one."""
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

    def _prepare(self) -> None:
        """Before the first process: a folder for its output, an environment without secrets, a claim on orphans."""
        self._record.open()
        secrets_of_ours = (auth_tokens.VARIABLE,)
        kept = {name: value for name, value in os.environ.items() if name not in secrets_of_ours}
        self._environment = _encode({**kept, **_NO_PAGER})
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._orphan_timer = _loop().call_later(_ORPHANS_EVERY_S, self._reap_orphans)

    def _reap_orphans(self) -> None:
        """Bury dead processes that came to us when their parents died.

        One that stays dead from one look to the next has no other owner: who started it would have buried it.
        """
        self._orphan_timer = _loop().call_later(_ORPHANS_EVERY_S, self._reap_orphans)
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:
            return
        own = {session.pid for session in (*self._sessions.values(), *self._calls)}
        dead = {member for member in process_tree.orphan_zombies(os.getsid(0)) if member.pid not in own}
        for member in dead & self._orphan_zombies:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(member.pid, os.WNOHANG)
        self._orphan_zombies = dead


def _encode(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    """Encoded once and not at each start, where it takes a tenth of the time."""
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
