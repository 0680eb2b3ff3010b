"""bash: a command, its output whole or as far as a question needs it.

Where there is a root, only the folder in which the command starts is confined: the command itself can go anywhere that
its user can. A command that fails is a result with its exit code; to the letter of the contract it is an error.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec.structs import replace

from tools.context import ToolContext
from tools.effects.effects import Effects, effects_note
from tools.effects.watched import watched
from tools.files import utf8
from tools.kit.errors import IoError, ToolError
from tools.kit.params import COMMAND_ALIASES, CWD_ALIASES, Field, Issue
from tools.kit.results import ASK_FOR_LESS, Body, Result, ResultFacts, ShownText
from tools.kit.spec import tool
from tools.pruning.confined import ConfinedRoot, check_folder, confined, open_confined
from tools.pruning.read import MOST_OUTPUT_BYTES, OutputBytes
from tools.sessions.session import Session
from tools.shell.shell_exec import command_summary, ended_if_cancelled, sessions, still_running, wait_for_end

DEFAULT_TIMEOUT_MS = 30_000
TimeoutMs = Annotated[int, Field(minimum=100, maximum=300_000)]
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_MOST_VARIABLES = 200
_MOST_VALUE_CHARS = 4_000
# What makes a program load or run something before it does what it is for.
_LOADS_CODE = re.compile(r"(?:LD|DYLD)_.*|BASH_ENV|ENV|BASH_FUNC_.*")


class BashOutput(Result, frozen=True):
    tool: str
    command: str
    cwd: str
    stdout: str
    stderr: str
    # None while it runs: then it is a session.
    exit_code: int | None
    timed_out: bool
    truncated: bool
    duration_ms: int
    running: bool | None = None
    session_id: str | None = None
    next_offset: int | None = None
    output_path: str | None = None
    effects: Effects | None = None
    undo_id: str | None = None

    def render(self) -> str:
        return f"{self._header}\n{self._printed}"

    @property
    def _header(self) -> str:
        facts = [self._how, f"{self.duration_ms} ms"]
        if self.truncated:
            facts.append("cut")
        return f"[{' · '.join(facts)}]{effects_note(self.effects, self.undo_id)}"

    @property
    def _printed(self) -> str:
        gap = "" if self.stdout.endswith("\n") or not self.stdout else "\n"
        return f"{self.stdout}{gap}[stderr]\n{self.stderr}" if self.stderr else self.stdout

    def summary(self) -> str:
        return command_summary(
            self._how,
            self.duration_ms / 1000,
            self.stdout,
            self.stderr,
            has_failed=not self.facts.succeeded,
        )

    @property
    def _how(self) -> str:
        if self.running:
            return still_running(self.session_id, self.next_offset)
        return f"exit {self.exit_code}"

    @property
    def facts(self) -> ResultFacts:
        has_succeeded = bool(self.running) or (self.exit_code == 0 and not self.timed_out)
        rest = ASK_FOR_LESS if self.truncated else ""
        return ResultFacts(exit_status=self.exit_code, change_id=self.undo_id, succeeded=has_succeeded, rest_hint=rest)

    @property
    def body(self) -> Body:
        shown = None if self.running or self.truncated else ShownText(self._header, self._printed)
        if not self.stdout:
            return Body("stderr", shown=shown)
        return Body("stdout", more_field="stderr" if self.stderr else "", shown=shown)


def _root(
    ctx: ToolContext, *, command: str, cwd: str | None = None, env: dict[str, str] | None = None, **_: object
) -> ConfinedRoot:
    """The root, if nothing is wrong with the arguments by their words alone. Raises InvalidParams."""
    return confined(ctx, [*_issues(command, env or {})], cwd=cwd)


@tool(
    "pruning",
    effect="execute",
    title="Run a command with a question",
    destructive=True,
    deadline_s=600,
    focus="always",
    check=_root,
)
async def bash(
    ctx: ToolContext,
    *,
    command: Annotated[
        str,
        Field(
            description="Command line for bash -lc.",
            is_command=True,
            min_length=1,
            max_length=50_000,
            aliases=COMMAND_ALIASES,
        ),
    ],
    cwd: Annotated[str | None, Field.of_path("Folder to start in.", CWD_ALIASES)] = None,
    env: Annotated[dict[str, str] | None, Field(description="Added variables.")] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    max_output_bytes: OutputBytes = None,
    yield_ms: Annotated[int | None, Field(minimum=1, is_hidden=True)] = None,
) -> BashOutput:
    """Run a command to its end; with a question, only the lines of its output that answer it."""
    began = time.monotonic()
    root = _root(ctx, command=command, cwd=cwd, env=env)
    ctx.check_command(command)
    limit = max_output_bytes or MOST_OUTPUT_BYTES
    folder = Path(root.absolute(cwd or "."))
    async with watched(ctx.effects, folder, command) as watch:
        session = _start(ctx, root, command, cwd or ".", env, limit)
        with ended_if_cancelled(session):
            end = await wait_for_end(ctx, session, began, timeout_ms / 1000, yield_ms or ctx.yield_ms)
            seen = await watch.seen(session.id)
    stdout, stderr, is_cut = _output(session, limit)
    result = BashOutput(
        tool="bash",
        command=command,
        cwd=str(folder),
        stdout=stdout,
        stderr=stderr,
        exit_code=session.exit_code,
        timed_out=end == "timed out",
        truncated=is_cut,
        duration_ms=round((time.monotonic() - began) * 1000),
        **seen,
    )
    if end == "session":
        session.first_shown = session.end
        session.set_read_position(ctx.origin, session.first_shown)
        result = replace(result, exit_code=None, running=True, session_id=session.id, output_path=session.output_path)
        return replace(result, next_offset=session.first_shown)
    session.release(keeps_output=False)
    return result


def _issues(command: str, variables: Mapping[str, str]) -> Iterator[Issue]:
    if "\0" in command:
        yield Issue("command", "custom", "command has a NUL character in it, which no process can be given")
    if len(variables) > _MOST_VARIABLES:
        yield Issue("env", "too_big", f"env may have at most {_MOST_VARIABLES} variables")
    for name, value in variables.items():
        where = f"env.{name}"
        if not _NAME.fullmatch(name):
            yield Issue(where, "invalid_string", f"{name[:60]!r} must be capitals, digits and underscores")
        if len(value) > _MOST_VALUE_CHARS:
            yield Issue(where, "too_big", f"{where} may have at most {_MOST_VALUE_CHARS} characters")
        if "\0" in value:
            yield Issue(where, "custom", f"{where} has a NUL character in it")


def _start(
    ctx: ToolContext, root: ConfinedRoot, command: str, cwd: str, env: dict[str, str] | None, limit: int
) -> Session:
    with open_confined(ctx, root, cwd) as (descriptor, status):
        check_folder(cwd, status)
        try:
            # By its descriptor: the folder that was checked is the folder that it starts in.
            return sessions(ctx).execute(
                command,
                Path(f"/proc/self/fd/{descriptor}"),
                origin=ctx.origin,
                # Of what is captured the first half is the beginning, and that is what is kept.
                captures={"stdout": 2 * limit, "stderr": 2 * limit},
                reads_stderr=True,
                shell=_shell(),
                environment=env,
                drops_variable=lambda name: _LOADS_CODE.fullmatch(name) is not None,
            )
        except (OSError, ToolError) as error:
            raise IoError(str(error)) from error


def _shell() -> tuple[str, ...]:
    found = shutil.which("bash")
    return (found, "-lc") if found else ("/bin/sh", "-c")


def _output(session: Session, limit: int) -> tuple[str, str, bool]:
    """The beginnings of both streams, which together take no more than `limit` bytes, and whether one is cut.

    Each may have half of it, and what the other one does not need.
    """
    out, is_out_cut = _beginning(session, "stdout", limit)
    err, is_err_cut = _beginning(session, "stderr", limit)
    room = max(limit - len(err), limit // 2)
    kept_out = out[: utf8.boundary(out, room)]
    kept_err = err[: utf8.boundary(err, limit - len(kept_out))]
    is_cut = is_out_cut or is_err_cut or len(kept_out) + len(kept_err) < len(out) + len(err)
    return kept_out.decode("utf-8", "replace"), kept_err.decode("utf-8", "replace"), is_cut


def _beginning(session: Session, stream: Literal["stdout", "stderr"], limit: int) -> tuple[bytes, bool]:
    head, tail, missing = session.captured_output(stream)
    data = (head if missing else head + tail).encode()
    kept = data[: utf8.boundary(data, limit)]
    return kept, bool(missing) or len(kept) < len(data)
