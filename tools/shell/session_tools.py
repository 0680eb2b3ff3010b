"""The three session tools: start a command that keeps running, write to it, end it with everything it started."""

from __future__ import annotations

import signal
from typing import Annotated

from tools.context import TextRoom, ToolContext
from tools.effects.effects import Effects, effects_note
from tools.effects.watched import watched
from tools.kit.errors import InvalidParams, SessionEnded
from tools.kit.params import COMMAND_ALIASES, CWD_ALIASES, INPUT_ALIASES, SESSION_ALIASES, Field
from tools.kit.results import Body, Result, ResultFacts, last_line, quantity
from tools.kit.spec import tool
from tools.sessions.origin import EndedBy
from tools.sessions.session import Session
from tools.shell.shell_exec import check_text, folder_for, reason, sessions
from tools.shell.waits import read_awaited, wait_until

# So long a new session is given to print something.
_FIRST_OUTPUT_S = 0.3
# The longest wait, and what is done before and after it.
_DEADLINE_S = 660
# So much fits a message, whatever its characters are.
_MOST_BYTES = 70_000
# Less is not tried, however little room there is.
_LEAST_BYTES = 256


class Started(Result, frozen=True):
    """A session, with what it printed at once."""

    session_id: str
    pid: int
    output_path: str | None
    output: str
    next_offset: int
    more: bool | None = None
    running: bool = True
    exit_code: int | None = None
    # What of `wait_for` ended the wait, and how long it could be.
    came: str | None = None
    wait_ms: int | None = None
    effects: Effects | None = None
    undo_id: str | None = None
    _is_late: bool = False

    def render(self) -> str:
        facts = [f"pid {self.pid}" if self.running else f"ended, exit {self.exit_code}", *_wait(self)]
        note = effects_note(self.effects, self.undo_id)
        return f"[session {self.session_id} · {' · '.join(facts)}{_goes_on(self)}]{note}\n{self.output}".rstrip("\n")

    def summary(self) -> str:
        how = "" if self.running else f", ended with exit {self.exit_code}"
        return f"session {self.session_id} started, pid {self.pid}{how}"

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(exit_status=self.exit_code, change_id=self.undo_id, next_call=_next_call(self))

    @property
    def body(self) -> Body:
        return Body("output")


class Sent(Result, frozen=True):
    """What was written and, after a wait, what the session has printed since the caller last looked."""

    session_id: str
    bytes_written: int
    output: str | None = None
    offset: int | None = None
    next_offset: int | None = None
    more: bool | None = None
    lost_bytes: int | None = None
    matched: bool | None = None
    came: str | None = None
    wait_ms: int | None = None
    running: bool | None = None
    exit_code: int | None = None
    signal: str | None = None
    ended_by: EndedBy | None = None
    output_path: str | None = None
    effects: Effects | None = None
    undo_id: str | None = None
    _is_late: bool = False

    def render(self) -> str:
        facts = [f"{quantity(self.bytes_written, 'byte')} written"] if self.bytes_written or self.output is None else []
        if self.running is not None:
            facts.append("running" if self.running else f"exit {self.exit_code}{reason(self.ended_by)}")
        facts += _wait(self)
        if self.output is None:
            return f"[{' · '.join(facts)}]"
        lost = f", {self.lost_bytes} bytes before it are lost" if self.lost_bytes else ""
        note = effects_note(self.effects, self.undo_id)
        return f"[{' · '.join(facts)} · from byte {self.offset}{lost}{_goes_on(self)}]{note}\n{self.output}"

    def summary(self) -> str:
        facts = [f"session {self.session_id}"]
        if self.running is not None:
            facts.append("runs" if self.running else f"ended with exit {self.exit_code}{reason(self.ended_by)}")
        facts.append(f"{quantity(self.bytes_written, 'byte')} written" if self.bytes_written else "nothing written")
        if self.output is not None and self.offset is not None and self.next_offset is not None:
            facts.append(f"{quantity(self.next_offset - self.offset, 'byte')} printed")
            facts += [f"last: {last}"] if (last := last_line(self.output)) else []
        return ", ".join(facts)

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(exit_status=self.exit_code, change_id=self.undo_id, next_call=_next_call(self))

    @property
    def body(self) -> Body:
        return Body("output")


def _goes_on(result: Started | Sent) -> str:
    """How to go on reading, for the header of a rendering; nothing where all has been read and no more can come."""
    if result.more:
        return f", more follow: go on with since={result.next_offset} · all of it in {result.output_path}"
    return f" · next since={result.next_offset}" if result.running else ""


def _wait(result: Started | Sent) -> list[str]:
    """What was waited for and has come, or that it has not; nothing where the output or the exit says it."""
    if result._is_late:
        return [f"not yet, after {(result.wait_ms or 0) / 1000:g} s"]
    return [f"{result.came} came"] if result.came else []


def _named(came: str | None) -> str | None:
    """What came, unless other fields say it."""
    return None if came in ("exit", "until", "pause") else came


def _next_call(result: Started | Sent) -> str | None:
    return f"shell_send_input since={result.next_offset}" if result.more else None


class Stopped(Result, frozen=True):
    session_id: str
    stopped: bool
    exit_code: int | None
    signal: str | None = None
    ended_by: EndedBy | None = None
    escalated: bool | None = None
    already_ended: bool | None = None
    left: tuple[str, ...] | None = None

    def render(self) -> str:
        # The exit code of a signal says nothing more.
        how = f"signal {self.signal}" if self.signal else f"exit {self.exit_code}"
        return f"[session {self.session_id} {self._state} · {' · '.join([how, *self._notes])}]"

    def summary(self) -> str:
        how = f"signal {self.signal}" if self.signal else f"exit {self.exit_code}"
        return f"session {self.session_id} {', '.join([self._state, how, *self._notes])}"

    @property
    def _state(self) -> str:
        return "stopped" if self.stopped else "not stopped"

    @property
    def _notes(self) -> list[str]:
        notes = []
        if self.already_ended:
            notes.append(f"it had ended before{reason(self.ended_by)}")
        elif self.escalated:
            notes.append("killed after its grace period")
        if self.left:
            notes.append(f"still alive: {'; '.join(self.left)}")
        return notes

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(exit_status=self.exit_code, succeeded=self.stopped)


_LISTS = ("shell_list_sessions", "shell_list", "list_sessions", "shell_sessions", "list_processes", "shell_status")
_WHERE_SESSIONS_ARE_LISTED = (
    "there is no tool for it: sessions are listed as resources, session://<id>, and shell_send_input with an unknown "
    "session_id answers with those that run"
)


@tool(
    "shell",
    effect="execute",
    title="Start a session",
    destructive=True,
    deadline_s=_DEADLINE_S,
    known_as=("start_process", "start_session", "shell_start"),
)
async def shell_start_session(
    ctx: ToolContext,
    *,
    command: Annotated[
        str, Field(description="Command line for sh -c.", is_command=True, min_length=1, aliases=COMMAND_ALIASES)
    ],
    cwd: Annotated[str | None, Field.of_path("Folder to run it in.", CWD_ALIASES)] = None,
    env: Annotated[dict[str, str] | None, Field(description="Added variables.")] = None,
    capture_stderr: bool = True,
    pty: Annotated[bool, Field(description="Give it a terminal.")] = False,
    cols: Annotated[int, Field(minimum=1, maximum=1_000)] = 120,
    rows: Annotated[int, Field(minimum=1, maximum=1_000)] = 40,
    wait_ms: Annotated[int | None, Field(minimum=0, is_hidden=True)] = None,
    until: Annotated[str | None, Field(is_hidden=True)] = None,
    wait_for: Annotated[list[str] | None, Field(is_hidden=True)] = None,
) -> Started:
    """Start a command that keeps running, such as a server, a log or a REPL. Read it with shell_send_input, and wait as
    there."""
    check_text("command", command)
    ctx.check_command(command)
    for name, value in (env or {}).items():
        check_text("env", name + value)
        if not name or "=" in name:
            issue = {"path": f"arguments.env.{name}", "code": "invalid_string", "message": "invalid_string"}
            raise InvalidParams(f"{name!r} cannot be the name of an environment variable", issues=[issue])
    folder = folder_for(ctx, cwd)
    awaited = read_awaited(ctx, folder, until, wait_for)
    limit_ms = ctx.most_wait_ms if wait_ms is None else min(wait_ms, ctx.most_wait_ms)
    async with watched(ctx.effects, folder, command) as watch:
        session = sessions(ctx).start(
            command,
            folder,
            origin=ctx.origin,
            environment=env,
            terminal=(cols, rows) if pty else None,
            reads_stderr=capture_stderr,
        )
        came = await wait_until(ctx, session, limit_ms / 1000 if awaited or wait_ms else _FIRST_OUTPUT_S, awaited)
        seen = await watch.seen(session.id)
    text, _, end = _read(session, 0, ctx.text_room)
    session.set_read_position(ctx.origin, end)
    session.first_shown = end
    return Started(
        session_id=session.id,
        pid=session.pid,
        output_path=session.output_path,
        output=text,
        next_offset=end,
        more=True if end < session.end else None,
        running=session.is_running,
        exit_code=session.exit_code,
        came=_named(came),
        wait_ms=limit_ms if awaited or wait_ms else None,
        _is_late=bool(awaited) and came is None,
        **seen,
    )


def _typed(ctx: ToolContext, *, session_id: str, input: str, **_: object) -> str:
    """The whole line so far, because a command may be sent in pieces; empty for a call that only reads."""
    session = sessions(ctx).find(session_id)
    return session.unfinished_line + input if input else ""


@tool(
    "shell",
    effect="execute",
    title="Send input, read output",
    typed=_typed,
    focus="allowed",
    deadline_s=_DEADLINE_S,
    known_as=(
        "read_output",
        "send_input",
        "write_stdin",
        "read_process_output",
        "interact_with_process",
        "shell_read",
        "shell_read_session",
        "shell_read_output",
        "shell_get_output",
        "bash_output",
    ),
    hints=dict.fromkeys(_LISTS, _WHERE_SESSIONS_ARE_LISTED),
)
async def shell_send_input(
    ctx: ToolContext,
    *,
    session_id: Annotated[str, Field(audited=True, aliases=SESSION_ALIASES)],
    input: Annotated[
        str,
        Field(
            description=r"Text for stdin, with its \n; may be empty. On a pty \u0003 is Ctrl-C.",
            aliases=INPUT_ALIASES,
        ),
    ],
    wait_ms: Annotated[
        int | None, Field(description="Wait at most so long for output and a pause in it, or the exit.", minimum=0)
    ] = None,
    until: Annotated[str | None, Field(description="Wait for this regex in it instead of a pause.")] = None,
    wait_for: Annotated[
        list[str] | None,
        Field(description='Or for any of "exit", "port:80", "file:PATH", "quiet:5" (s), "session:ID".'),
    ] = None,
    since: Annotated[
        int | None, Field(description="Offset to read from; negative from the end. Default: what is new to you.")
    ] = None,
    eof: Annotated[bool, Field(description="Close stdin after it.")] = False,
    max_output_bytes: Annotated[int, Field(minimum=256, is_hidden=True)] = _MOST_BYTES,
) -> Sent:
    """Write to a session's stdin and, with wait_ms, return what it printed. Empty input only reads, also after the
    end."""
    session = sessions(ctx).find(session_id)
    awaited = read_awaited(ctx, session.cwd, until, wait_for)
    if input and not session.takes_input:
        ended = f"ended with exit code {session.exit_code}{reason(session.ended_by)}"
        how = ended if not session.is_running else "has closed its stdin"
        raise SessionEnded(f"session {session_id} {how}", hint="empty input with wait_ms still reads its output")
    if input:
        ctx.check_command(_typed(ctx, session_id=session_id, input=input))
    position = session.read_position(ctx.origin)
    offset = position if since is None else session.log.absolute(since)
    is_first = since is None and not input and position == session.first_shown
    new_from = session.end if input else offset
    typed = input if input and session.echoes_input else ""
    is_waited_for = bool(wait_ms) or bool(awaited)
    async with watched(ctx.effects if is_waited_for else None, session.cwd, session.command) as watch:
        written = await session.write(input.encode("utf-8", "surrogatepass")) if input else 0
        if eof:
            session.close_input()
        if wait_ms is None:
            if (input or eof) and not awaited:
                return Sent(session_id=session_id, bytes_written=written)
            wait_ms = ctx.most_wait_ms if awaited else 0
        wait_ms = min(wait_ms, ctx.most_wait_ms)
        came = await wait_until(
            ctx,
            session,
            wait_ms / 1000,
            awaited,
            new_from=new_from,
            # What the caller waits for may have been in the output that it was given at the start.
            search_from=0 if is_first else offset,
            typed=typed,
        )
        seen = await watch.seen(session.id)
    text, begins, end = _read(session, offset, ctx.text_room, max_output_bytes)
    session.set_read_position(ctx.origin, end)
    has_more = end < session.end
    return Sent(
        session_id=session_id,
        bytes_written=written,
        output=text,
        offset=begins,
        next_offset=end,
        more=True if has_more else None,
        output_path=session.output_path if has_more else None,
        lost_bytes=begins - offset or None,
        matched=None if until is None else came == "until",
        came=_named(came),
        wait_ms=wait_ms,
        _is_late=bool(awaited) and came is None,
        running=session.is_running,
        exit_code=session.exit_code,
        signal=session.signal,
        ended_by=session.ended_by if not session.is_running else None,
        **seen,
    )


@tool(
    "shell",
    effect="execute",
    title="Stop a session",
    destructive=True,
    idempotent=True,
    known_as=(
        "stop_session",
        "kill_session",
        "stop_process",
        "kill_process",
        "kill_shell",
        "shell_kill",
        "shell_kill_session",
    ),
)
async def shell_stop_session(
    ctx: ToolContext,
    *,
    session_id: Annotated[str, Field(audited=True, aliases=SESSION_ALIASES)],
    signal: Annotated[str, Field(description="Signal by name or number.", audited=True, takes_numbers=True)] = "TERM",
) -> Stopped:
    """End a session and every process it started; after five seconds they are killed."""
    number = signal_number(signal)
    session = sessions(ctx).find(session_id)
    had_ended = not session.is_running
    ending = await session.stop(number)
    return Stopped(
        session_id=session_id,
        stopped=not session.is_running and not ending.left,
        exit_code=session.exit_code,
        signal=session.signal,
        ended_by=session.ended_by,
        escalated=True if ending.escalated else None,
        already_ended=True if had_ended else None,
        left=ending.left or None,
    )


def _read(session: Session, offset: int, room: TextRoom | None, most_bytes: int = _MOST_BYTES) -> tuple[str, int, int]:
    """As much output as the result has room for: the read position must not move past what is sent."""
    most = min(room.most_bytes if room else _MOST_BYTES, _MOST_BYTES, most_bytes)
    while True:
        text, begins, end = session.text(offset, most)
        if room is None or most <= _LEAST_BYTES or room.holds(text):
            return text, begins, end
        most = most * 3 // 4


def signal_number(text: str) -> int:
    """The signal of that name or number. Raises InvalidParams."""
    name = text.strip().upper().removeprefix("SIG")
    for each in signal.Signals:
        if name in (each.name.removeprefix("SIG"), str(each.value)):
            return each.value
    issue = {"path": "arguments.signal", "code": "invalid_enum_value", "message": "invalid_enum_value"}
    raise InvalidParams(f"there is no signal {text[:40]!r}; use TERM, INT, HUP, KILL or a number", issues=[issue])
