"""What `serve` shows on a terminal while it runs: who connects, each call as it ends, and what is refused.

These are the lines of the audit log, one for each, shortened. They go through the log, whose thread writes them: a
terminal that is held (Ctrl-S) must not stop the daemon.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TextIO

from mcp_agent.cli.commands.audit import render_event
from mcp_agent.process.logs import TerminalText, event
from mcp_agent.process.printing import Style, paint
from tools.files.paths import on_one_line

log = logging.getLogger(__name__)

_LINE = "audit.line"
_STOPPING = "server.stopping"
# What these loggers say is on a line of the audit log, too.
_REPEATED = {
    "mcp_agent.calls.observers": logging.ERROR,
    "mcp_agent.security.guard": logging.ERROR,
    "mcp_agent.daemon": logging.WARNING,
}
_MOST_ARGUMENTS = 60


def show_line(facts: Mapping[str, Any]) -> None:
    """Show a line of the audit log. It is called on the event loop."""
    if facts.get("event") != "start":
        event(log, logging.INFO, _LINE, facts=facts)


def drop_repeated_lines() -> None:
    """Silence the log lines that say what the live lines say."""
    for name, level in _REPEATED.items():
        logging.getLogger(name).setLevel(level)


class LiveText(logging.Formatter):
    """Writes the lines of the audit log for somebody who watches, and every other log line as ever."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._other = TerminalText()

    def format(self, record: logging.LogRecord) -> str:
        data: Mapping[str, Any] = getattr(record, "data", None) or {}
        at = self._paint(datetime.fromtimestamp(record.created).strftime("%H:%M:%S"), "dim")
        match record.getMessage():
            case name if name == _LINE:
                return f"{at}  {self._render(data['facts'])}"
            case name if name == _STOPPING:
                count = data["sessions"]
                ended = "every stream ends" if not count else f"{count} session{'s' * (count > 1)} and every stream end"
                text = f"Stopping: {ended} now. Ctrl-C again ends it at once."
                return f"{at}  {self._paint(text, 'bold')}"
        return self._other.format(record)

    def _render(self, line: Mapping[str, Any]) -> str:
        match line.get("event"):
            case None:
                return self._render_call(line)
            case "connect":
                who = f"{line['program'] or 'a client'} {line['program_version']}".rstrip()
                given = f"token {line['client']}, profile {line['profile']}, results as {line['form']}"
                return f"{self._paint(who, 'cyan')} connected over {line['transport']} ({self._paint(given, 'plain')})"
            case "login_refused":
                return self._paint(render_event(dict(line)), "red")
            case _:
                return self._paint(render_event(dict(line)), "yellow")

    def _render_call(self, line: Mapping[str, Any]) -> str:
        outcome = "exit " + str(line["exit"]) if line.get("exit") else line["outcome"]
        style: Style = "green" if outcome == "ok" else "yellow" if line["outcome"] == "ok" else "red"
        arguments = " ".join(str(value) for value in line["args"].values())
        if len(arguments) > _MOST_ARGUMENTS:
            arguments = f"{arguments[: _MOST_ARGUMENTS - 1]}…"
        who = on_one_line(line["program"] or line["client"])
        figures = f"{_duration(line['ms'])}, {_size(line['bytes'])}"
        what = on_one_line(f"{line['tool']} {arguments}".rstrip())
        return (
            f"{self._paint(who, 'cyan')}  {self._paint(what, 'plain')}  {self._paint(outcome, style)}  "
            + self._paint(figures, "dim")
        )

    def _paint(self, text: str, style: Style) -> str:
        return paint(text.replace("\n", " "), style, self._stream)


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
