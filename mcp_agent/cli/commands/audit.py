"""`mcp-agent audit` prints the audit log. It reads the files itself, so it works without a running daemon."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from mcp_agent.cli.declaration import Argument, CommandReply, argument, command
from mcp_agent.cli.tables import moment
from mcp_agent.config import load
from mcp_agent.process.printing import Style, paint, progress, write_painted
from mcp_agent.storage.audit_reader import Line, LineFilter, Trail, parse_time
from registry.user_error import UsageError, UserError
from tools.files.paths import on_one_line

_SHOWN = 50
_SHOWN_BEFORE_FOLLOWING = 10
_MOST_CHARS = 100
# Of the columns of a call: time, caller, tool, outcome, duration, size, arguments.
_WIDTHS = ("19", "16", "20", "14", ">9", ">12", "")


def parse_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a whole number, 0 or more, not {text!r}")
    return int(text)


def which_lines(shown: int) -> tuple[Argument, ...]:
    """The flags of a command that prints a log, which shows so many lines if it is not told."""
    last = f"at most the last N lines; 0 is all (default: {shown}, or all since WHEN)"
    return (
        argument("-f", "--follow", action="store_true", help="keep printing new lines as they are written"),
        argument("--since", metavar="WHEN", help="only since this time: 30m, 2h, 7d, or a date such as 2026-11-16"),
        argument("-n", "--last", type=parse_count, metavar="N", help=last),
    )


@command(
    "audit",
    argument("--tool", metavar="NAME", completed="tools", help="only calls of this tool; may be a glob such as fs_*"),
    argument(
        "--caller",
        metavar="NAME",
        completed="tokens",
        help="only calls with the token of this name; may be a glob",
    ),
    argument("--outcome", metavar="CODE", help="only calls with this outcome: ok, DENIED, NOT_FOUND …"),
    argument("--rule", metavar="ID", help="only calls that this deny rule refused"),
    argument(
        "--event",
        metavar="KIND",
        help="only lines of this kind instead of calls: connect, policy, login_refused, token_created, undo …, or *",
    ),
    argument("--errors", action="store_true", help="only calls that failed"),
    *which_lines(_SHOWN),
    examples=("mcp-agent audit --since 2h --errors", "mcp-agent audit --follow --tool 'shell_*'"),
    streams=True,
)
def audit(options: Namespace) -> CommandReply:
    """Show who did what: every call, policy change and refused login.

    It reads the files itself, so it works without a running daemon. With `--json` the lines are as they are stored.
    """
    folder = load(vars(options)).audit_dir
    if not os.access(folder, os.R_OK | os.X_OK) and folder.exists():
        raise UserError(f"{folder} cannot be read: it belongs to another user")
    damaged = _DamagedLines(is_reported_at_once=options.follow)
    trail = Trail(folder, damaged)
    wanted = LineFilter(
        tool=options.tool,
        caller=options.caller,
        outcome=options.outcome,
        rule=options.rule,
        event=options.event,
        since=since(options.since),
        only_errors=options.errors,
    )
    nothing = f"no line in {folder} matches" if folder.exists() else f"there is no audit log in {folder}"
    print_lines(options, trail, wanted, _SHOWN_BEFORE_FOLLOWING if options.follow else _SHOWN, _write_line, nothing)
    damaged.report()
    return CommandReply(None)


def print_lines(
    options: Namespace, trail: Trail, wanted: LineFilter, shown: int, write: Callable[[Line], None], nothing: str
) -> None:
    """Print the lines that `which_lines` asks for, as JSON or with `write`, or say that there is `nothing`."""
    count = options.last if options.last is not None else 0 if options.since is not None else shown

    def print_line(line: Line) -> None:
        if options.json:
            print(orjson.dumps(line).decode())
        else:
            write(line)

    try:
        end = trail.end() if options.follow else None
        with progress("reading the log"):
            found = trail.last(count or None, wanted)
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if not found and not options.follow:
        print(nothing, file=sys.stderr)
    for line in found:
        print_line(line)
    sys.stdout.flush()
    if options.follow:
        # A line that was written while we searched is in both.
        known = {orjson.dumps(line) for line in found}
        for line in trail.follow(end, wanted):
            if orjson.dumps(line) not in known:
                print_line(line)
                sys.stdout.flush()


def since(text: str | None) -> datetime | None:
    """The moment that `--since` names. Raises UsageError."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise UsageError(f"--since takes 30m, 2h, 7d or a date such as 2026-11-16, not {text!r}") from None


class _DamagedLines:
    """Counts the damaged lines and reports the number: at the end, or at once with `--follow`, which has no end."""

    def __init__(self, *, is_reported_at_once: bool) -> None:
        self._is_reported_at_once = is_reported_at_once
        self._count = 0

    def __call__(self) -> None:
        self._count += 1
        if self._is_reported_at_once:
            self.report()
            self._count = 0

    def report(self) -> None:
        if self._count:
            lines = "1 line is" if self._count == 1 else f"{self._count} lines are"
            print(f"mcp-agent: {lines} damaged and skipped", file=sys.stderr, flush=True)


def _write_line(line: Line) -> None:
    """A line for people: time, caller, tool, outcome and arguments."""
    at = moment(line["ts"])
    fields = [at, render_event(line)] if "event" in line else [at, *_call_fields(line)]
    if not sys.stdout.isatty():
        print("\t".join(fields).rstrip())
        return
    style: Style = "plain"
    if line.get("outcome", "ok") != "ok" or line.get("event") in ("login_refused", "policy_rejected"):
        style = "red"
    elif line.get("event") == "policy":
        style = "yellow"
    # Lines may still come, so the columns have one width from the beginning.
    aligned = [f"{field:{width}}" for field, width in zip(fields, _WIDTHS, strict=False)] if len(fields) > 2 else fields
    write_painted(f"{paint('  '.join(aligned).rstrip(), style, sys.stdout)}\n", sys.stdout)


def _call_fields(line: Line) -> list[str]:
    facts = [f"{key}={_short(value)}" for key, value in (line.get("args") or {}).items()]
    if "rule" in line:
        facts.insert(0, f"rule {line['rule']}:")
    if line.get("exit"):
        facts.insert(0, f"exit {line['exit']}:")
    who = f"{line.get('client', '?')}/{line.get('transport', '?')}"
    took, size = f"{line.get('ms', 0):.0f} ms", f"{line.get('bytes', 0):,} B"
    fields = [who, line.get("tool", "?"), line.get("outcome", "?"), took, size, " ".join(facts)]
    return [on_one_line(str(field)) for field in fields]


def render_event(line: Line) -> str:
    """What a line says that is not a call, without its time."""
    return on_one_line(_EVENTS.get(line["event"], _render_other)(line))


def _render_policy(line: Line) -> str:
    changes = "; ".join(line.get("changes") or ["nothing that binds a caller"])
    widened = f"; it allows more: {'; '.join(line['widened'])}" if line.get("widened") else ""
    return f"POLICY changed by {line.get('by')}: {changes}{widened} ({line.get('old')} → {line.get('new')})"


def _render_rejection(line: Line) -> str:
    return f"POLICY refused, the last good one stays: {'; '.join(line.get('problems') or [])}"


def _render_login(line: Line) -> str:
    again = f", {line['count']} times" if line.get("count", 1) > 1 else ""
    reason = str(line.get("reason", "?")).replace("_", " ")
    return f"LOGIN refused: {reason}, from {line.get('address') or 'several addresses'} for {line.get('path')}{again}"


def _render_connection(line: Line) -> str:
    who = f"{line.get('program') or 'a client'} {line.get('program_version', '')}".rstrip()
    given = f"token {line.get('client')}, profile {line.get('profile')}, results as {line.get('form')}"
    return f"CONNECTED: {who} over {line.get('transport')}, MCP {line.get('protocol')}, {given}"


def _render_start(line: Line) -> str:
    policy = f"profile {line.get('profile')}, tools.json {line.get('policy')}"
    return f"START of mcp-agent {line.get('version')}, process {line.get('pid')}, {policy}"


def _render_terminal(line: Line) -> str:
    whose = f"token {line.get('client')}" + (f", user {line['claimed_user']}" if line.get("claimed_user") else "")
    return f"SHELL of a person closed: {whose}, {line.get('typed_bytes')} bytes typed, {line.get('shown_bytes')} shown"


def _render_site(line: Line) -> str:
    whose = f"token {line.get('client')}" + (f", user {line['claimed_user']}" if line.get("claimed_user") else "")
    return f"SITE on port {line.get('port')} of {line.get('session')} was shown: {whose}"


def _render_other(line: Line) -> str:
    return " ".join(f"{key}={_short(value)}" for key, value in line.items() if key not in ("ts", "seq", "boot"))


_EVENTS = {
    "policy": _render_policy,
    "policy_rejected": _render_rejection,
    "login_refused": _render_login,
    "connect": _render_connection,
    "start": _render_start,
    "terminal_closed": _render_terminal,
    "site_shown": _render_site,
}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"
