"""bash: a command in the root, its output whole or as far as a question needs it.

Only where the command starts is confined: the command itself can go anywhere that its user can.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import stat
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tools.context import ShellSession, ToolContext
from tools.files import utf8
from tools.kit.errors import Denied, Failed, ToolError
from tools.kit.focus import FocusQuestion, PruningMetadata
from tools.kit.params import Field, Issue, invalid_params
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.pruning.confined_root import ConfinedRoot
from tools.pruning.failures import failure, open_confined
from tools.pruning.read import MOST_OUTPUT_BYTES, OutputBytes
from tools.shell.shell_exec import command_summary

DEFAULT_TIMEOUT_MS = 30_000
TimeoutMs = Annotated[int, Field(description="End it after so long.", minimum=100, maximum=300_000)]
_GRACE_S = 1.0
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_MOST_VARIABLES = 200
_MOST_VALUE_CHARS = 4_000
# What makes a program load or run something before it does what it is for.
_LOADS_CODE = re.compile(r"(?:LD|DYLD)_.*|BASH_ENV|ENV|BASH_FUNC_.*")


@record
class BashOutput(Result):
    tool: str
    command: str
    cwd: str
    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    truncated: bool
    duration_ms: int
    pruning: PruningMetadata

    def as_object(self) -> dict[str, Any]:
        return {**Result.as_object(self), "pruning": self.pruning.as_object()}

    def render(self) -> str:
        facts = [f"exit {self.exit_code}", f"{self.duration_ms} ms"]
        if self.truncated:
            facts.append("cut")
        if self.pruning.note:
            facts.append(self.pruning.note)
        text = f"[{' · '.join(facts)}]\n{self.stdout}"
        if self.stderr:
            text += ("" if text.endswith("\n") else "\n") + f"[stderr]\n{self.stderr}"
        return text

    def summary(self) -> str:
        return command_summary(
            f"exit {self.exit_code}", self.duration_ms / 1000, self.stdout, self.stderr, has_failed=False
        )

    @property
    def pruning_metadata(self) -> PruningMetadata:
        return self.pruning

    @property
    def exit_status(self) -> int:
        return self.exit_code

    @property
    def is_text(self) -> bool:
        return True


@tool(
    "pruning",
    effect="execute",
    title="Run a command with a question",
    destructive=True,
    deadline_s=600,
    json_rpc_errors=True,
)
async def bash(
    ctx: ToolContext,
    *,
    command: Annotated[
        str, Field(description="Command line for bash -lc.", is_command=True, min_length=1, max_length=50_000)
    ],
    cwd: Annotated[
        str | None, Field(description="Folder inside the root to start in; default the root.", audited=True)
    ] = None,
    env: Annotated[dict[str, str] | None, Field(description="Further environment variables.")] = None,
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    max_output_bytes: OutputBytes = None,
    context_focus_question: FocusQuestion = None,
) -> BashOutput:
    """Run a command to its end; with a question, only the lines of its output that answer it. A command that fails
    is an error with its output."""
    began = time.perf_counter()
    root = ConfinedRoot(ctx.root)
    _check(root, command, cwd, env)
    limit = max_output_bytes or MOST_OUTPUT_BYTES
    question = context_focus_question
    try:
        ctx.check_command(command)
    except Denied as error:
        raise failure(ctx, "bash", "spawn_error", error.message_with_hint, question, rule=error.rule) from error
    async with _session(ctx, root, command, cwd, env, limit, question) as session:
        is_over = await session.wait_for_exit(timeout_ms / 1000)
        if not is_over and session.is_running:
            await session.stop(signal.SIGTERM, _GRACE_S)
        stdout, out_cut = _output(session, "stdout", limit)
        stderr, error_cut = _output(session, "stderr", limit)
        exit_code = session.exit_code
    if not is_over:
        message = f"the command did not end within {timeout_ms} ms, and was ended"
        raise failure(ctx, "bash", "timeout", message, question, timeout_ms=timeout_ms, stdout=stdout, stderr=stderr)
    assert exit_code is not None, "it is over"
    if exit_code != 0:
        raise failure(
            ctx,
            "bash",
            "nonzero_exit",
            f"the command ended with exit code {exit_code}",
            question,
            exit_code=exit_code,
            stdout=stdout,
            stderr=stderr,
        )
    pruned_is_stdout = bool(stdout)
    assert ctx.pruner is not None, "every host has a pruner"
    seen = await ctx.pruner.focus(
        stdout if pruned_is_stdout else stderr, question, tool="bash", call_id=ctx.call_id, owner=ctx.owner
    )
    result = BashOutput(
        tool="bash",
        command=command,
        cwd=root.absolute(cwd or "."),
        stdout=stdout,
        stderr=stderr,
        exit_code=exit_code,
        timed_out=False,
        truncated=out_cut or error_cut,
        duration_ms=round((time.perf_counter() - began) * 1000),
        pruning=seen.pruning,
    )
    return replace(result, stdout=seen.text) if pruned_is_stdout else replace(result, stderr=seen.text)


def _check(root: ConfinedRoot, command: str, cwd: str | None, env: dict[str, str] | None) -> None:
    issues: list[Issue] = []
    if "\0" in command:
        issues.append(Issue("command", "custom", "command has a NUL character in it, which no process can be given"))
    if cwd is not None:
        root.check("cwd", cwd, issues)
    variables = env or {}
    if len(variables) > _MOST_VARIABLES:
        issues.append(Issue("env", "too_big", f"env may have at most {_MOST_VARIABLES} variables"))
    for name, value in variables.items():
        where = f"env.{name}"
        if not _NAME.fullmatch(name):
            issues.append(Issue(where, "invalid_string", f"{name[:60]!r} must be capitals, digits and underscores"))
        if len(value) > _MOST_VALUE_CHARS:
            issues.append(Issue(where, "too_big", f"{where} may have at most {_MOST_VALUE_CHARS} characters"))
        if "\0" in value:
            issues.append(Issue(where, "custom", f"{where} has a NUL character in it"))
    if issues:
        raise invalid_params(issues)


@contextlib.asynccontextmanager
async def _session(
    ctx: ToolContext,
    root: ConfinedRoot,
    command: str,
    cwd: str | None,
    env: dict[str, str] | None,
    limit: int,
    question: str | None,
) -> AsyncIterator[ShellSession]:
    assert ctx.sessions is not None, "the daemon hands every call its sessions"

    def problem(message: str, rule: str | None = None) -> Failed:
        return failure(ctx, "bash", "invalid_cwd", message, question, rule=rule)

    with open_confined(root, cwd or ".", problem) as (descriptor, status):
        if not stat.S_ISDIR(status.st_mode):
            raise problem(f"{cwd} is a file, not a folder")
        try:
            ctx.paths.check(root.absolute(cwd or "."))
            ctx.paths.check_open(descriptor)
        except Denied as error:
            raise problem(error.message_with_hint, error.rule) from error
        try:
            # By its descriptor: the folder that was checked is the folder that it starts in.
            session = ctx.sessions.execute(
                command,
                Path(f"/proc/self/fd/{descriptor}"),
                connection=ctx.connection,
                # Of what is captured the first half is the beginning, and that is what is kept.
                captures={"stdout": 2 * limit, "stderr": 2 * limit},
                reads_stderr=True,
                shell=_shell(),
                environment=env,
                drops_variable=lambda name: _LOADS_CODE.fullmatch(name) is not None,
            )
        except (OSError, ToolError) as error:
            raise failure(ctx, "bash", "spawn_error", str(error), question) from error
    try:
        yield session
    except asyncio.CancelledError:
        session.abandon(_GRACE_S)
        raise
    session.release(keeps_output=False)


def _shell() -> tuple[str, ...]:
    found = shutil.which("bash")
    return (found, "-lc") if found else ("/bin/sh", "-c")


def _output(session: ShellSession, stream: Literal["stdout", "stderr"], limit: int) -> tuple[str, bool]:
    head, tail, missing = session.captured_output(stream)
    data = (head if missing else head + tail).encode()
    kept = data[: utf8.boundary(data, limit)]
    return kept.decode("utf-8", "replace"), bool(missing) or len(kept) < len(data)
