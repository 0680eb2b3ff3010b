"""shell_exec: run a command to its end; a command that runs too long becomes a session."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec.structs import replace

from tools.context import ToolContext
from tools.effects.effects import Effects, effects_note
from tools.effects.watched import Watch, watched
from tools.kit.errors import InvalidParams
from tools.kit.params import COMMAND_ALIASES, CWD_ALIASES, Field
from tools.kit.results import Body, Result, ResultFacts, ShownText, last_line, line_count, line_cut, quantity
from tools.kit.spec import tool
from tools.sessions.manager import SessionManager
from tools.sessions.origin import EndedBy
from tools.sessions.session import Session
from tools.shell.command_progress import CommandProgress

DEFAULT_TIMEOUT_S = 600
GRACE_S = 1.0
CommandEnd = Literal["ended", "timed out", "session"]
TIMED_OUT = 124
_MOST_OUTPUT_BYTES = 1024 * 1024
_SESSION_PAGE_BYTES = 100_000
# The summary of longer output has its size, because counting the lines takes as long as writing them.
_COUNTED_CHARS = 2_000_000
_REASONS: dict[EndedBy, str] = {
    "timeout": "its timeout was over",
    "age": "it reached the age limit of sessions",
    "disconnect": "its client disconnected",
    "shutdown": "the daemon stopped",
}


class Executed(Result, frozen=True):
    """The result of a command. While it runs, there is a session id instead of an exit code."""

    exit_code: int | None
    stdout: str
    stderr: str | None
    signal: str | None = None
    ended_by: EndedBy | None = None
    timed_out: bool | None = None
    truncated: bool | None = None
    missing_bytes: int | None = None
    output_path: str | None = None
    artifactRef: str | None = None  # noqa: N815 - the name that it has in every result
    running: bool | None = None
    session_id: str | None = None
    next_offset: int | None = None
    duration_s: float | None = None
    effects: Effects | None = None
    undo_id: str | None = None
    # How many bytes of each stream are left out.
    _missing: tuple[int, int] = (0, 0)
    # How many lines the command printed to each stream, left out or not; None: nobody counted.
    _lines: tuple[int, int] | None = None

    def render(self) -> str:
        return f"{self._header}\n{self._printed}"

    @property
    def _header(self) -> str:
        facts = [f"exit {self.exit_code}"]
        if self.running:
            facts = [still_running(self.session_id, self.next_offset)]
        elif self.timed_out:
            facts = ["timed out, ended"]
        elif self.signal:
            facts = [f"exit {self.exit_code}, signal {self.signal}{reason(self.ended_by)}"]
        facts.append(f"{self.duration_s:g} s")
        if self.missing_bytes:
            facts.append(f"{self.missing_bytes} bytes left out; all of it in {self.artifactRef or self.output_path}")
        return f"[{' · '.join(facts)}]{effects_note(self.effects, self.undo_id)}"

    @property
    def _printed(self) -> str:
        gap = "" if self.stdout.endswith("\n") or not self.stdout else "\n"
        return f"{self.stdout}{gap}[stderr]\n{self.stderr}" if self.stderr else self.stdout

    @property
    def facts(self) -> ResultFacts:
        rest = ""
        if self.truncated and self.artifactRef is None:
            rest = f"All of it is in the file output_path{' so far' if self.running else ''}."
        has_succeeded = bool(self.running) or self.exit_code == 0
        return ResultFacts(
            exit_status=self.exit_code,
            change_id=self.undo_id,
            succeeded=has_succeeded,
            rest_hint=rest,
            artifact=self.artifactRef,
        )

    @property
    def body(self) -> Body:
        counts = zip(("stdout", "stderr"), self._lines or (), self._missing, strict=False)
        return Body(
            "stdout" if self.stdout or not self.stderr else "stderr",
            cut=self._cut,
            line_counts={name: lines for name, lines, missing in counts if missing},
            more_field="stderr" if self.stdout and self.stderr else "",
            shown=None if self.running or self.truncated else ShownText(self._header, self._printed),
        )

    def _cut(self, most: int) -> Executed:
        """Both ends of both streams. The error stream has up to half of the room, and what the other leaves."""
        error = self.stderr or ""
        error_room = min(len(error), max(most // 2, most - len(self.stdout)))
        out, out_missing = _keep_ends(self.stdout, most - error_room, self._missing[0])
        error, error_missing = _keep_ends(error, error_room, self._missing[1])
        return replace(
            self,
            stdout=out,
            stderr=None if self.stderr is None else error,
            truncated=True,
            missing_bytes=out_missing + error_missing or None,
            _missing=(out_missing, error_missing),
        )

    def summary(self) -> str:
        how = f"exit {self.exit_code}"
        if self.running:
            how = f"still running as session {self.session_id}"
        elif self.timed_out:
            how = "timed out"
        elif self.signal:
            how = f"ended by signal {self.signal}{reason(self.ended_by)}"
        missing = self.missing_bytes or 0
        return command_summary(how, self.duration_s, self.stdout, self.stderr or "", not self.facts.succeeded, missing)


@tool(
    "shell",
    effect="execute",
    title="Run a command",
    destructive=True,
    deadline_s=86_400,
    focus="allowed",
    known_as=(
        "run_command",
        "execute_command",
        "run_shell_command",
        "run_terminal_cmd",
        "run_in_terminal",
        "shell_run",
        "exec",
        "execute",
        "shell",
        "terminal",
        "sh",
    ),
)
async def shell_exec(
    ctx: ToolContext,
    *,
    command: Annotated[
        str, Field(description="Command line for sh -c.", is_command=True, min_length=1, aliases=COMMAND_ALIASES)
    ],
    cwd: Annotated[str | None, Field.of_path("Folder to run it in.", CWD_ALIASES)] = None,
    timeout_seconds: Annotated[
        float | None, Field(description="End it then (600; as a session, an hour).", minimum=0.01)
    ] = None,
    capture_stderr: bool = True,
    yield_ms: Annotated[
        int | None, Field(description="Still running then, it becomes a session; 0 waits to the end.", minimum=0)
    ] = None,
    max_output_bytes: Annotated[
        int,
        Field(
            description="Most bytes a stream; beyond, head and tail.",
            minimum=256,
            maximum=_MOST_OUTPUT_BYTES,
            is_size=True,
        ),
    ] = _MOST_OUTPUT_BYTES,
) -> Executed:
    """Run a command on the daemon's machine and return its output when it ends. stdin is empty. One that takes long
    goes on as a session: read it with shell_send_input. For servers and watchers use shell_start_session."""
    check_text("command", command)
    ctx.check_command(command)
    began = time.monotonic()
    folder = folder_for(ctx, cwd)
    async with watched(ctx.effects, folder, command) as watch:
        session = sessions(ctx).execute(
            command,
            folder,
            origin=ctx.origin,
            captures={"stdout": max_output_bytes, "stderr": max_output_bytes},
            reads_stderr=capture_stderr,
        )
        with ended_if_cancelled(session):
            yields_ms = ctx.yield_ms if yield_ms is None else yield_ms
            end = await wait_for_end(ctx, session, began, timeout_seconds, yields_ms)
            if end == "session":
                return replace(_session_result(ctx, session, began, timeout_seconds), **await watch.seen(session.id))
            return await finish(ctx, session, began, watch, reads_stderr=capture_stderr, timed_out=end == "timed out")


async def run_to_end(ctx: ToolContext, session: Session, began: float, watch: Watch, timeout_s: float) -> Executed:
    """The result of a command that never becomes a session. It is ended at its timeout, or if the call is cancelled."""
    with ended_if_cancelled(session):
        timed_out = await wait_for_end(ctx, session, began, timeout_s, 0) == "timed out"
        return await finish(ctx, session, began, watch, timed_out=timed_out)


@contextlib.contextmanager
def ended_if_cancelled(session: Session) -> Iterator[None]:
    """End the command of a call that is cancelled in the block."""
    try:
        yield
    except asyncio.CancelledError:
        session.abandon(GRACE_S)
        raise


async def finish(
    ctx: ToolContext,
    session: Session,
    began: float,
    watch: Watch,
    *,
    reads_stderr: bool = True,
    timed_out: bool = False,
) -> Executed:
    """The result of a command that has ended, which is forgotten then. What does not fit is kept as an artifact."""
    result = _result(session, began, reads_stderr, timed_out)
    if result.truncated:
        reference = await _keep_output(ctx, session)
        result = replace(result, output_path=session.output_path, artifactRef=reference)
    seen = await watch.seen(session.id)
    session.release(keeps_output=bool(result.truncated))
    return replace(result, **seen) if seen else result


def command_summary(
    how: str, duration_s: float | None, stdout: str, stderr: str, has_failed: bool, missing_bytes: int = 0
) -> str:
    """How a command ended, how long it took, how much it printed, and the line that most likely says why."""
    last = (last_line(stderr) if has_failed else "") or last_line(stdout) or last_line(stderr)
    facts = [how if duration_s is None else f"{how} in {duration_s:.3g} s", _amount(stdout, stderr, missing_bytes)]
    return ", ".join([*facts, f"last: {last}"] if last else facts)


def _amount(stdout: str, stderr: str, missing_bytes: int) -> str:
    size = len(stdout) + len(stderr) + missing_bytes
    if size > _COUNTED_CHARS or missing_bytes:
        # The number of lines in what was left out is not known.
        return f"{size / 1_000_000:.1f} MB"
    return quantity(line_count(stdout) + line_count(stderr), "line") if size else "no output"


def still_running(session_id: str | None, next_offset: int | None) -> str:
    """How to wait for the end of a command that became a session, in one call."""
    return f'still running as session {session_id}: wait with shell_send_input wait_for=["exit"] since={next_offset}'


def reason(ended_by: EndedBy | None) -> str:
    """Why the daemon ended a command, to follow its exit code; empty if it ended by itself."""
    return "" if ended_by is None else f" because {_REASONS[ended_by]}"


def sessions(ctx: ToolContext) -> SessionManager:
    assert ctx.sessions is not None, "the daemon hands every call its sessions"
    return ctx.sessions


def folder_for(ctx: ToolContext, cwd: str | None) -> Path:
    """The folder that a command is started in. Raises Denied, InvalidPath."""
    folder = ctx.paths.resolve(cwd or ".")
    ctx.paths.real(folder)
    return folder


def check_text(name: str, text: str) -> None:
    """Raise InvalidParams for what no command line and no environment can hold."""
    if "\0" in text:
        issue = {"path": f"arguments.{name}", "code": "invalid_string", "message": "invalid_string"}
        raise InvalidParams(f"{name} has a NUL character in it, which no process can be given", issues=[issue])


async def wait_for_end(
    ctx: ToolContext, session: Session, began: float, timeout_s: float | None, yield_ms: int
) -> CommandEnd:
    """Wait for the end of a command, which is ended at its timeout. After `yield_ms` it becomes a session instead."""
    progress = CommandProgress(ctx, session)
    limit_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    yields = yield_ms > 0
    while session.is_running:
        spent_s = time.monotonic() - began
        if spent_s >= limit_s:
            await session.stop(signal.SIGTERM, GRACE_S, "timeout")
            return "timed out"
        left_s = limit_s - spent_s
        if yields:
            if spent_s * 1000 >= yield_ms:
                if session.promote(None if timeout_s is None else left_s):
                    return "session"
                # No more sessions are allowed now: wait, and try again when one may have ended.
                left_s = min(left_s, 1.0)
            else:
                left_s = min(left_s, yield_ms / 1000 - spent_s)
        await progress.wait_for_exit(left_s)
    return "ended"


def _session_result(ctx: ToolContext, session: Session, began: float, timeout_s: float | None) -> Executed:
    text, _, end = session.text(max(0, session.end - _SESSION_PAGE_BYTES), _SESSION_PAGE_BYTES)
    session.set_read_position(ctx.origin, end)
    session.first_shown = end
    return Executed(
        exit_code=None,
        stdout=text,
        stderr=None,
        truncated=True if session.end > _SESSION_PAGE_BYTES else None,
        output_path=session.output_path,
        running=True,
        session_id=session.id,
        next_offset=end,
        duration_s=_elapsed_s(began),
    )


def _result(session: Session, began: float, reads_stderr: bool, timed_out: bool) -> Executed:
    out, out_missing = _join_ends(*session.captured_output("stdout"))
    error, error_missing = _join_ends(*session.captured_output("stderr"))
    missing = out_missing + error_missing
    return Executed(
        exit_code=TIMED_OUT if timed_out else session.exit_code,
        stdout=out,
        stderr=error if reads_stderr else None,
        signal=None if timed_out else session.signal,
        ended_by=None if timed_out else session.ended_by,
        timed_out=True if timed_out else None,
        truncated=True if missing else None,
        missing_bytes=missing or None,
        duration_s=_elapsed_s(began),
        _missing=(out_missing, error_missing),
        _lines=(session.captured_lines("stdout"), session.captured_lines("stderr")),
    )


async def _keep_output(ctx: ToolContext, session: Session) -> str | None:
    """Keep all of a command's output as an artifact. None if that fails; its output file is still there."""
    try:
        if (file := session.log.complete_file()) is not None:
            return await asyncio.to_thread(ctx.artifacts.keep_file, "shell", file)
        return await asyncio.to_thread(ctx.artifacts.keep, "shell", session.log.stored_output())
    except OSError as error:
        ctx.log("warning", f"the whole output could not be kept: {error.strerror or error}")
        return None


def _join_ends(head: str, tail: str, missing: int) -> tuple[str, int]:
    """Head and tail of a stream as one text, with a note between them if something is missing."""
    return (f"{head}{_note(missing)}{tail}" if missing else head + tail), missing


def _keep_ends(text: str, most: int, missing: int) -> tuple[str, int]:
    """The beginning and the end of a text, at lines where it has them; `missing` bytes have gone from it before."""
    if len(text) <= most:
        return text, missing
    head = line_cut(text, most // 2)
    tail = len(text) - (most - most // 2)
    tail = text.find("\n", tail, (tail + len(text)) // 2) + 1 or tail
    # The note of an earlier cut is no output.
    noted = len(_note(missing).encode()) if missing else 0
    return _join_ends(text[:head], text[tail:], missing + len(text[head:tail].encode("utf-8", "replace")) - noted)


def _note(missing: int) -> str:
    return f"\n[… {missing} bytes left out …]\n"


def _elapsed_s(began: float) -> float:
    return round(time.monotonic() - began, 3)
